"""Evaluator of posteriors: total correlation, and codes that are kept.

The large study (Locatello et al., "Challenging Common Assumptions in the Unsupervised
Learning of Disentangled Representations") reports these numbers for every model and
compares codes across models.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from disentangle_jax import metrics
from disentangle_jax.evaluation.examples import Seen
from disentangle_jax.evaluation.protocol import Evaluated, Number, define
from disentangle_jax.evaluation.sections import Section
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.training import Run

_KEPT_CODES = 1000


@define(
    name="posterior",
    scores={
        "tc_mean": "total correlation of a Gaussian fitted to mean codes, nats",
        "tc_sampled": "total correlation of a Gaussian fitted to sampled codes, nats",
        "downstream_logistic": Number(
            "accuracy of logistic regression from codes to factors (1 is best)",
            "higher",
            1.0,
        ),
    },
)
class PosteriorScores:
    """Scores of the posterior, on the test images that scores are fitted on.

    ``tc_mean`` and ``tc_sampled`` are those of the study's Fig. 1. Accuracies of a
    logistic regression are reported as ``downstream_logistic.…`` for the numbers of
    labels in the config's ``study.logistic_labels``, in addition to the boosted trees
    of ``downstream``.

    Arrays: ``codes`` ``[n, D]``, float16 mean codes of at most 1,000 images, the same
    images for all models of a dataset.
    """

    def __init__(self, run: Run):
        study = run.config.get("study", {})
        labels = tuple(study.get("logistic_labels", ()))
        self._labels = labels if run.test_set.factor_sizes else ()
        self._seed = run.config.eval.seed

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        mean, spread, _ = seen.posterior
        codes, codes_test = seen.split(np.asarray(mean))
        arrays = {"codes": codes[:_KEPT_CODES].astype(np.float16)}
        values = {}
        log_var = None if spread is None else seen.split(np.asarray(spread))[0]
        dependence = metrics.unsupervised(codes, log_var=log_var, seed=self._seed)
        values["tc_mean"] = dependence["gaussian_total_correlation"]
        if log_var is not None:
            values["tc_sampled"] = dependence["sampled_gaussian_total_correlation"]
        scores = {name: metrics.Score({name: v}, {}) for name, v in values.items()}
        if self._labels:
            factors, factors_test = seen.split(seen.factors)
            scores["downstream_logistic"] = metrics.downstream(
                codes,
                factors,
                codes_test=codes_test,
                factors_test=factors_test,
                model="logistic",
                train_sizes=self._labels,
                seed=self._seed,
            )
        return Evaluated(scores, arrays=arrays)

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[Section]:
        """Yields nothing: the table of scores shows all numbers."""
        return iter(())
