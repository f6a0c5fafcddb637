"""Estimators that fit all factors (and latents) in one call.

Each computes the optimum that scikit-learn's estimator of the same kind converges to,
so that scores agree with the published definitions; the boosted trees differ only in
their search for a split.
"""

from disentangle_jax.metrics.estimators.boosting import BoostedTrees as BoostedTrees
from disentangle_jax.metrics.estimators.boosting import boosted_trees as boosted_trees
from disentangle_jax.metrics.estimators.coordinate_descent import lasso as lasso
from disentangle_jax.metrics.estimators.logistic import (
    logistic_regression as logistic_regression,
)
from disentangle_jax.metrics.estimators.logistic import logits as logits
from disentangle_jax.metrics.estimators.svm import linear_svm as linear_svm
