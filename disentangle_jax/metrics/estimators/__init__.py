"""Estimators that fit all factors (and latents) in one compiled call.

Each is the optimum that scikit-learn's estimator of the same kind converges to, so that
scores agree with the published definitions; the boosted trees differ only in how they
search for a split.
"""

from disentangle_jax.metrics.estimators._boosting import BoostedTrees, boosted_trees
from disentangle_jax.metrics.estimators._lasso import lasso
from disentangle_jax.metrics.estimators._logistic import logistic_regression, logits
from disentangle_jax.metrics.estimators._svm import linear_svm

__all__ = [
    "BoostedTrees",
    "boosted_trees",
    "lasso",
    "linear_svm",
    "logistic_regression",
    "logits",
]
