"""Disentanglement scores of any codes and factors.

    from disentangle_jax import metrics

    scores = metrics.evaluate(codes, factors, codes_test=…, factors_test=…)
    print(scores)                               # a table
    scores["dci"]["disentanglement"]            # a float
    scores["dci"].settings                      # how it was computed

Each score is a function that returns a `Score`: a dict of floats whose first key is the
headline. `names` lists the scores and `describe` returns what is known about one. The
defaults are those of the large study of Locatello et al. (2019). Arguments that mean
the same in every score:

* codes: ``[N, D]``, factors: ``[N, K]``; NumPy, JAX and torch arrays and nested lists.
  Most scores treat factor values as labels. A column with many different values is a
  continuous factor: it is predicted by a regression (`dci`, `sap`), correlated (`mcc`),
  or divided into equal-width bins (every other score); ``settings["continuous_as"]``
  says which. A column of whole numbers is a label as long as the values recur;
* codes_test, factors_test: ``[M, D]`` and ``[M, K]`` held-out rows, on which accuracies
  are measured. Scores without a test part accept and ignore them;
* groups: sizes of contiguous multi-dimensional latent variables (tokens), which add up
  to D; None for one dimension each. `explicitness`, `dci_es` and `fairness` use the
  code as a whole and take none;
* seed: seed of every random choice. Scores without randomness accept and ignore it.

`fid`, `kid` and `precision_recall` compare images instead. `top_words`, `npmi`,
`perplexity`, `latent_information`, `group_correlation` and `planted_correlation`
evaluate topic models.

Degenerate input: NaN and infinite values are refused; a constant factor is left out
(the settings list it); a dead latent is kept, and each score's docstring states its
effect.

A score of your own is a function in any installed module::

    # my_package/scores.py
    @metrics.define(keys={"spread": "mean distance of the codes (lower is better)"})
    def spread(codes, factors, *, codes_test=None, factors_test=None, seed=0):
        return metrics.Score({"spread": …}, {"samples": len(codes)})

    metrics.evaluate(codes, factors, scores=("mig", "my_package.scores:spread"))
"""

from disentangle_jax.metrics.agreement import mcc as mcc
from disentangle_jax.metrics.agreement import udr as udr
from disentangle_jax.metrics.attributes import tad as tad
from disentangle_jax.metrics.comparison import Comparison as Comparison
from disentangle_jax.metrics.comparison import compare as compare
from disentangle_jax.metrics.dependence import unsupervised as unsupervised
from disentangle_jax.metrics.descriptions import ScoreDescription as ScoreDescription
from disentangle_jax.metrics.descriptions import conventions as conventions
from disentangle_jax.metrics.descriptions import define as define
from disentangle_jax.metrics.descriptions import describe as describe
from disentangle_jax.metrics.descriptions import names as names
from disentangle_jax.metrics.discrete import (
    category_information as category_information,
)
from disentangle_jax.metrics.discrete import class_information as class_information
from disentangle_jax.metrics.discrete import matching_accuracy as matching_accuracy
from disentangle_jax.metrics.discrete import pruned_latents as pruned_latents
from disentangle_jax.metrics.evaluation import Evaluation as Evaluation
from disentangle_jax.metrics.evaluation import check_scores as check_scores
from disentangle_jax.metrics.evaluation import evaluate as evaluate
from disentangle_jax.metrics.evaluation import table as table
from disentangle_jax.metrics.images import FeatureStatistics as FeatureStatistics
from disentangle_jax.metrics.images import (
    check_inception_weights as check_inception_weights,
)
from disentangle_jax.metrics.images import feature_statistics as feature_statistics
from disentangle_jax.metrics.images import fid as fid
from disentangle_jax.metrics.images import inception_features as inception_features
from disentangle_jax.metrics.images import kid as kid
from disentangle_jax.metrics.images import precision_recall as precision_recall
from disentangle_jax.metrics.importance import dci as dci
from disentangle_jax.metrics.importance import med as med
from disentangle_jax.metrics.information_gaps import dcimig as dcimig
from disentangle_jax.metrics.information_gaps import jemmig as jemmig
from disentangle_jax.metrics.information_gaps import mig as mig
from disentangle_jax.metrics.information_gaps import mig_sup as mig_sup
from disentangle_jax.metrics.information_gaps import modularity as modularity
from disentangle_jax.metrics.information_gaps import rmig as rmig
from disentangle_jax.metrics.inputs import Score as Score
from disentangle_jax.metrics.interventions import beta_vae_score as beta_vae_score
from disentangle_jax.metrics.interventions import factor_vae_score as factor_vae_score
from disentangle_jax.metrics.interventions import z_max_var as z_max_var
from disentangle_jax.metrics.lanes import evaluate_lanes as evaluate_lanes
from disentangle_jax.metrics.latent_order import ordering as ordering
from disentangle_jax.metrics.loss_capacity import dci_es as dci_es
from disentangle_jax.metrics.normalised_information import info_mec as info_mec
from disentangle_jax.metrics.perceived_distances import (
    factor_importance as factor_importance,
)
from disentangle_jax.metrics.predictability import explicitness as explicitness
from disentangle_jax.metrics.predictability import sap as sap
from disentangle_jax.metrics.reconstructions import reconstruction as reconstruction
from disentangle_jax.metrics.relations import assign_components as assign_components
from disentangle_jax.metrics.relations import cluster_accuracy as cluster_accuracy
from disentangle_jax.metrics.relations import component_factors as component_factors
from disentangle_jax.metrics.relations import outlier_rejection as outlier_rejection
from disentangle_jax.metrics.relations import relation_accuracy as relation_accuracy
from disentangle_jax.metrics.robustness import irs as irs
from disentangle_jax.metrics.tasks import downstream as downstream
from disentangle_jax.metrics.tasks import fairness as fairness
from disentangle_jax.metrics.tokens import first_components as first_components
from disentangle_jax.metrics.topics import group_correlation as group_correlation
from disentangle_jax.metrics.topics import latent_information as latent_information
from disentangle_jax.metrics.topics import npmi as npmi
from disentangle_jax.metrics.topics import perplexity as perplexity
from disentangle_jax.metrics.topics import planted_correlation as planted_correlation
from disentangle_jax.metrics.topics import top_words as top_words
from disentangle_jax.metrics.traversals import flatness as flatness
