"""The examples that evaluate a model, and what evaluators share about them."""

import functools
from collections.abc import Sequence

import numpy as np

from disentangle_jax import metrics
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.training import Run
from disentangle_jax.types import Posterior

_MEAN_IMAGES = 2000


class Examples:
    """The examples that evaluate all models of one run, drawn by ``eval.seed``.

    Attributes:
      indices: ``[N]`` random test examples, ``eval.num_train + eval.num_test`` of them,
        or all if there are fewer.
      num_train: the first `num_train` fit what a score has to fit, the others test it.
        If there are fewer examples, both parts keep their ratio.
      bank: ``[M]`` random training examples, ``eval.hybrid_bank`` or all of them, whose
        codes hybrid samples recombine.
      mean: training examples that the mean image is computed from.
    """

    def __init__(self, run: Run):
        settings = run.config.eval
        rng = np.random.default_rng(settings.seed)
        wanted = settings.num_train + settings.num_test
        indices = rng.permutation(run.test_set.indices)
        self.num_train = settings.num_train
        if len(indices) < wanted:
            self.num_train = len(indices) * settings.num_train // wanted
        self.indices = indices[:wanted]
        self.bank = bank_indices(run, rng)
        self.mean = rng.choice(run.train_set.indices, _MEAN_IMAGES)


def single_dimensions(
    groups: Sequence[int], discrete: Sequence[int]
) -> tuple[int, ...]:
    """Returns `groups` with continuous variables split into single dimensions.

    Args:
      groups: sizes of the latent variables.
      discrete: sizes of the last of them, which are discrete and stay whole.
    """
    return (1,) * (sum(groups) - sum(discrete)) + tuple(discrete)


def hybrid_groups(run: Run) -> tuple[int, ...]:
    """Returns the sizes of what hybrid samples recombine, ``eval.hybrid_parts``."""
    groups = run.method.latent_groups
    if run.config.eval.hybrid_parts == "dimensions":
        return single_dimensions(groups, run.method.discrete)
    return groups


def bank_indices(run: Run, rng: np.random.Generator) -> np.ndarray:
    """Returns ``eval.hybrid_bank`` random training examples, or all if fewer."""
    known = run.train_set.indices
    count = min(run.config.eval.hybrid_bank, len(known))
    return rng.choice(known, count, replace=False)


def training_codes(model: Trained, rng: np.random.Generator) -> np.ndarray:
    """Returns the codes ``[N, D]`` of ``eval.hybrid_bank`` random training examples."""
    return model.codes(model.run.train_set, bank_indices(model.run, rng))


class Seen:
    """What evaluators share about one model; computed when first asked for.

    Progress is shown under `label`, unless it is empty.

    Attributes:
      examples: the test and training examples.
      indices: ``[N]`` the test examples.
      num_train: how many of them fit what a score has to fit.
    """

    def __init__(self, model: Trained, examples: Examples, label: str = "encoding"):
        self._model, self._label = model, label
        self.examples = examples
        self.indices = examples.indices
        self.num_train = examples.num_train

    def images(self, count: int | None = None) -> np.ndarray:
        """Returns the first `count` test examples, or all."""
        return self._model.run.test_set.images(self.indices[:count])

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows ``[N, …]`` that fit scores and those that test them."""
        return rows[: self.num_train], rows[self.num_train :]

    def scores(
        self, codes: np.ndarray, names: Sequence[str]
    ) -> dict[str, dict[str, float | None]]:
        """Returns scores of codes ``[N, D]`` of the test examples; None for NaN."""
        fitted, tested = self.split(np.asarray(codes, np.float64))
        factors, factors_test = self.split(self.factors)
        found = metrics.evaluate(
            fitted,
            factors,
            scores=tuple(names),
            codes_test=tested,
            factors_test=factors_test,
            seed=self._model.run.config.eval.seed,
        )
        return {
            name: {key: None if np.isnan(v) else float(v) for key, v in score.items()}
            for name, score in found.items()
        }

    @functools.cached_property
    def _encoded(self) -> tuple[Posterior, dict[str, np.ndarray]]:
        model = self._model
        return model.apply(
            model.networks.encode, model.run.test_set, self.indices, label=self._label
        )

    @property
    def posterior(self) -> Posterior:
        """Posteriors of the test examples; ``log_var`` or ``logits`` may be None."""
        return self._encoded[0]

    @property
    def codes(self) -> np.ndarray:
        """``[N, D]`` codes (posterior means) of the test examples."""
        return np.asarray(self.posterior.mean)

    @property
    def errors(self) -> dict[str, np.ndarray]:
        """Reconstruction errors ``[N]`` of the test examples, by name."""
        return self._encoded[1]

    @functools.cached_property
    def factors(self) -> np.ndarray:
        """``[N, K]`` factors of the test examples."""
        return self._model.run.test_set.factors(self.indices)

    @functools.cached_property
    def bank(self) -> np.ndarray:
        """``[M, D]`` codes of training examples, which hybrid samples recombine."""
        return self._model.codes(self._model.run.train_set, self.examples.bank)
