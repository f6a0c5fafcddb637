"""Bootstrap intervals of scores, by `vmap` over resamples of the rows.

Rows are drawn with replacement and the score is computed again: scores of tables and
covariances resample the training rows, accuracies resample the scored rows while the
fitted classifier stays; other models can be fitted again to each resample. The function
``interval`` of a score's description takes the score and a `Bootstrap` and returns the
values of the resamples.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.metrics.information import (
    Information,
    contingency,
    factor_labels,
    quantise,
)
from disentangle_jax.metrics.inputs import Arrays, Score, as_key

# Resamples in memory at once; more would only use more memory.
_AT_ONCE = 8


@functools.partial(jax.jit, static_argnames=("resamples", "rows"))
def _bootstrap_weights(key: jax.Array, *, resamples: int, rows: int) -> jax.Array:
    """Returns how often each row occurs in each resample, ``[R, N]`` float32."""

    def one(key: jax.Array) -> jax.Array:
        return jnp.bincount(jax.random.randint(key, (rows,), 0, rows), length=rows)

    keys = jax.random.split(key, resamples)
    return jax.lax.map(one, keys, batch_size=_AT_ONCE).astype(jnp.float32)


class NoInterval(Exception):
    """The score was computed with options for which there is no bootstrap."""


class Bootstrap:
    """R resamples of the rows of codes and factors.

    Attributes:
      arrays: the codes and factors.
      weights: function of a number of rows N that returns how often each row occurs in
        each resample, ``[R, N]`` float32.
      information: function ``(bins, grouped, bin_factors)`` that returns the
        `Information` of each resample, with the bins of all rows, and the number of
        cells of a code.
    """

    def __init__(self, arrays: Arrays, *, resamples: int, seed: int):
        self.arrays = arrays
        self._seed = seed
        self.weights = functools.cache(
            lambda rows: _bootstrap_weights(
                as_key("evaluate", seed), resamples=resamples, rows=rows
            )
        )
        self.information = functools.cache(self._information)

    def _information(
        self, bins: int, grouped: bool, bin_factors: bool
    ) -> tuple[Information, int]:
        codes = self.arrays.codes
        factors, sizes = factor_labels(self.arrays.binned(bins), bins, bin_factors)
        groups = self.arrays.groups if grouped else (1,) * codes.shape[1]
        labels, cells = quantise(codes, groups, bins, self._seed)
        z, y = jnp.asarray(labels), jnp.asarray(factors)
        tables = jax.lax.map(
            lambda w: contingency(z, y, w, cells=cells, sizes=sizes),
            self.weights(len(codes)),
            batch_size=_AT_ONCE,
        )
        return Information(np.asarray(tables), sizes), cells

    def accuracy(self, score: Score) -> np.ndarray:
        """Returns ``[R, …]`` means of ``score.matrices["correct"]`` ``[N, …]``.

        Raises:
          NoInterval: the score did not classify rows.
        """
        if "correct" not in score.matrices:
            raise NoInterval
        correct = score.matrices["correct"]
        flat = jnp.asarray(correct.reshape(len(correct), -1), jnp.float32)
        share = self.weights(len(correct)) @ flat / len(correct)
        return np.asarray(share, np.float64).reshape(-1, *correct.shape[1:])

    def add_intervals(
        self, score: Score, interval: Callable | None, level: float = 0.95
    ) -> None:
        """Sets ``score.intervals`` if the score has a bootstrap and a value.

        An interval holds the central `level` of the resampled values, shifted so that
        their mean is the score. The shift removes the bias that resampling adds to
        plug-in estimates of information.
        """
        if interval is None or np.isnan(float(score)):
            return
        try:
            resampled = interval(score, self)
        except NoInterval:
            return
        self._set_intervals(score, resampled, level)

    def add_refitted_intervals(
        self,
        score: Score,
        compute: Callable[[np.ndarray, np.ndarray], Score],
        codes: np.ndarray,
        factors: np.ndarray,
        level: float = 0.95,
    ) -> None:
        """Sets the intervals that `add_intervals` leaves out, by computing anew.

        Args:
          score: the score of all rows.
          compute: function of codes and factors that returns the score.
          codes, factors: all rows, as `compute` takes them; a resample has its rows in
            ascending order, with repetitions.
          level: as in `add_intervals`.
        """
        keys = [key for key in score if key not in score.intervals]
        if not keys or np.isnan(float(score)):
            return
        weights = np.asarray(self.weights(len(codes)), int)
        drawn = [np.repeat(np.arange(len(codes)), counts) for counts in weights]
        try:
            found = [compute(codes[rows], factors[rows]) for rows in drawn]
        except ValueError:  # A resample may lack what the score needs.
            return
        resampled = {key: np.array([f[key] for f in found]) for key in keys}
        self._set_intervals(score, resampled, level)

    def _set_intervals(
        self, score: Score, resampled: dict[str, np.ndarray], level: float
    ) -> None:
        tail = 100.0 * (1.0 - level) / 2.0
        for key, drawn in resampled.items():
            drawn = score[key] + drawn - drawn.mean()
            low, high = np.percentile(drawn, [tail, 100.0 - tail])
            score.intervals[key] = (float(low), float(high))
            score.resampled[key] = drawn


@dataclasses.dataclass(frozen=True)
class OfInformation:
    """The interval of a score that is a function of an `Information`.

    Attributes:
      key: key of the score that has the interval.
      value: function ``(information, cells) -> [...]`` that computes the score for
        each leading index (resample, lane); ``cells`` is the number of cells of a code.
    """

    key: str
    value: Callable[[Information, int], np.ndarray]

    def __call__(self, score: Score, bootstrap: Bootstrap) -> dict[str, np.ndarray]:
        settings = score.settings
        if "bins" not in settings or settings.get("normaliser", "factor") != "factor":
            raise NoInterval
        found = bootstrap.information(
            settings["bins"], "groups" in settings, settings.get("bin_factors", False)
        )
        return {self.key: self.value(*found)}
