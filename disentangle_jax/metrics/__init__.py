"""Every disentanglement score, on anyone's arrays.

    from disentangle_jax import metrics

    scores = metrics.evaluate(codes, factors, codes_test=…, factors_test=…)
    print(scores)                               # a table
    scores["dci"]["disentanglement"]            # a float
    scores["dci"].settings                      # how it was computed

``codes`` is ``[N, D]`` and ``factors`` ``[N, K]``; NumPy, JAX and torch arrays and
nested lists are taken. Each score is a function ``score(codes, factors, *,
codes_test=None, factors_test=None, …, seed=0)`` that returns a `Score`: a dict of
floats whose first key is the headline. All can be called alike: a score without a test
part, or without randomness, takes ``codes_test`` and ``seed`` and has no use for them.
Defaults are those of the large study of Locatello et al. (2019).

`fid`, `kid` and `precision_recall` compare two sets of images instead. Topic models
have `top_words`, `npmi`, `perplexity`, `latent_information`, `group_correlation` and
`planted_correlation`, which are no `Score` of codes and factors.

Degenerate input: NaN and infinite values are refused; a constant factor is left out
(the settings say which); a dead latent is kept and has the answer that each score's
docstring states.
"""

from disentangle_jax.metrics._dci import dci
from disentangle_jax.metrics._discrete import (
    category_information,
    class_information,
    matching_accuracy,
    pruned_latents,
)
from disentangle_jax.metrics._downstream import downstream
from disentangle_jax.metrics._evaluate import Evaluation, evaluate, table
from disentangle_jax.metrics._explicitness import explicitness
from disentangle_jax.metrics._factor_importance import factor_importance
from disentangle_jax.metrics._fairness import fairness
from disentangle_jax.metrics._fid import (
    FeatureStatistics,
    check_inception_weights,
    feature_statistics,
    fid,
    inception_features,
    kid,
    precision_recall,
)
from disentangle_jax.metrics._flatness import flatness
from disentangle_jax.metrics._info_mec import info_mec
from disentangle_jax.metrics._inputs import Score
from disentangle_jax.metrics._interventional import (
    beta_vae_score,
    factor_vae_score,
    z_max_var,
)
from disentangle_jax.metrics._irs import irs
from disentangle_jax.metrics._lanes import evaluate_lanes
from disentangle_jax.metrics._mcc import mcc
from disentangle_jax.metrics._med import med
from disentangle_jax.metrics._mig import dcimig, jemmig, mig, mig_sup, modularity
from disentangle_jax.metrics._ordering import ordering
from disentangle_jax.metrics._reconstruction import reconstruction
from disentangle_jax.metrics._registry import Entry, info, names
from disentangle_jax.metrics._relations import (
    assign_components,
    cluster_accuracy,
    component_factors,
    outlier_rejection,
    relation_accuracy,
)
from disentangle_jax.metrics._rmig import rmig
from disentangle_jax.metrics._sap import sap
from disentangle_jax.metrics._topics import (
    group_correlation,
    latent_information,
    npmi,
    perplexity,
    planted_correlation,
    top_words,
)
from disentangle_jax.metrics._udr import udr
from disentangle_jax.metrics._unsupervised import unsupervised

__all__ = [
    "Entry",
    "Evaluation",
    "FeatureStatistics",
    "Score",
    "assign_components",
    "beta_vae_score",
    "category_information",
    "check_inception_weights",
    "class_information",
    "cluster_accuracy",
    "component_factors",
    "dci",
    "dcimig",
    "downstream",
    "evaluate",
    "evaluate_lanes",
    "explicitness",
    "factor_importance",
    "factor_vae_score",
    "fairness",
    "feature_statistics",
    "fid",
    "flatness",
    "group_correlation",
    "inception_features",
    "info",
    "info_mec",
    "irs",
    "jemmig",
    "kid",
    "latent_information",
    "matching_accuracy",
    "mcc",
    "med",
    "mig",
    "mig_sup",
    "modularity",
    "names",
    "ordering",
    "npmi",
    "outlier_rejection",
    "perplexity",
    "planted_correlation",
    "precision_recall",
    "pruned_latents",
    "reconstruction",
    "relation_accuracy",
    "rmig",
    "sap",
    "table",
    "top_words",
    "udr",
    "unsupervised",
    "z_max_var",
]
