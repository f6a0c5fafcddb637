"""What every score takes and returns: checked arrays in, a `Score` out."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import jax
import numpy as np

from disentangle_jax.types import check_groups

# Anything `np.asarray` understands: NumPy, JAX, torch (also with gradients), lists.
ArrayLike = Any

# Equal-width bins of a continuous factor, where a score needs classes.
FACTOR_BINS = 20


class Score(dict[str, float]):
    """The values of one score, by key; the first key is the headline.

    ``float(score)`` is the headline. The recipe travels with the value:

    Attributes:
      settings: every setting that was used, defaults included.
      intervals: ``{key: (low, high)}``, bootstrap intervals if they were requested.
      resampled: ``{key: [R]}``, the values of the resamples behind the intervals.
      matrices: arrays the values were computed from (such as the importance matrix),
        for plots.
    """

    def __init__(
        self,
        values: Mapping[str, SupportsFloat],
        settings: dict[str, Any],
        *,
        matrices: dict[str, np.ndarray] | None = None,
    ):
        super().__init__({key: float(value) for key, value in values.items()})
        self.settings = settings
        self.intervals: dict[str, tuple[float, float]] = {}
        self.resampled: dict[str, np.ndarray] = {}
        self.matrices = matrices or {}

    def __float__(self) -> float:
        return next(iter(self.values()))


@dataclasses.dataclass(frozen=True)
class Rows:
    """Checked test rows, with the columns and labels of the training rows.

    Attributes:
      codes: ``[M, D]``, of the dtype of the training rows.
      factors: ``[M, K]`` factor values as given.
      labels: ``[M, K]`` int32.
    """

    codes: np.ndarray
    factors: np.ndarray
    labels: np.ndarray


@dataclasses.dataclass(frozen=True)
class Arrays:
    """Checked codes and factors.

    Attributes:
      codes: ``[N, D]``, float32 or float64 as given (integers become float64).
      factors: ``[N, K]`` factor values as given; constant factors are left out.
      labels: ``[N, K]`` int32, the rank of each value among the values of its factor;
        for a continuous factor its bin.
      sizes: number of labels of each factor, over train and test.
      groups: sizes of the latent variables, which add up to D.
      left_out: the columns of the input's factors that were constant.
      continuous: the columns of `factors` that are continuous; see `is_continuous`.
      factor_bins: number of bins of continuous factors; None where `labels` are ranks.
      test: the test rows, or None.
    """

    codes: np.ndarray
    factors: np.ndarray
    labels: np.ndarray
    sizes: tuple[int, ...]
    groups: tuple[int, ...]
    left_out: tuple[int, ...]
    continuous: tuple[int, ...] = ()
    factor_bins: int | None = None
    test: Rows | None = None

    def binned(self, bins: int) -> "Arrays":
        """Returns the arrays with each continuous factor in equal-width bins.

        The bins lie between the smallest and the largest value of the training rows;
        test values beyond them belong to the outermost bins.
        """
        if not self.continuous:
            return self
        columns, sizes = list(self.continuous), list(self.sizes)
        for k in columns:
            sizes[k] = bins

        def labels(old: np.ndarray, values: np.ndarray) -> np.ndarray:
            new, like = old.copy(), self.factors[:, columns]
            new[:, columns] = equal_width_labels(values[:, columns], bins, like)
            return new

        test = self.test
        if test is not None:
            new = labels(test.labels, test.factors)
            test = dataclasses.replace(test, labels=new)
        return dataclasses.replace(
            self,
            labels=labels(self.labels, self.factors),
            test=test,
            sizes=tuple(sizes),
            factor_bins=bins,
        )

    def in_bins(self, bins: int) -> "Arrays":
        """Returns the arrays with every factor, scaled to [0, 1], in `bins` bins."""
        test = self.test
        if test is not None:
            labels = unit_interval_labels(test.factors, bins, self.factors)
            test = dataclasses.replace(test, labels=labels)
        return dataclasses.replace(
            self,
            labels=unit_interval_labels(self.factors, bins),
            test=test,
            sizes=(bins,) * self.factors.shape[1],
            factor_bins=bins,
        )

    def of_factors(self, columns: Sequence[int]) -> "Arrays":
        """Returns the arrays with only these columns of the factors."""
        columns, test = list(columns), self.test
        if test is not None:
            test = Rows(test.codes, test.factors[:, columns], test.labels[:, columns])
        return dataclasses.replace(
            self,
            factors=self.factors[:, columns],
            labels=self.labels[:, columns],
            sizes=tuple(self.sizes[k] for k in columns),
            continuous=tuple(i for i, k in enumerate(columns) if k in self.continuous),
            test=test,
        )

    def held_out(self, seed: int) -> tuple["Arrays", Rows]:
        """Returns the arrays with a random fifth as test rows, and these rows."""
        order = np.random.default_rng(seed).permutation(len(self.codes))
        test, train = np.split(order, [max(1, len(order) // 5)])
        rows = Rows(self.codes[test], self.factors[test], self.labels[test])
        arrays = dataclasses.replace(
            self,
            codes=self.codes[train],
            factors=self.factors[train],
            labels=self.labels[train],
            test=rows,
        )
        return arrays, rows

    def settings(self, **more: Any) -> dict[str, Any]:
        """Returns the settings of a score: a summary of the arrays, and `more`.

        ``continuous_as`` states how the score treats continuous factors; it is left
        out where there are none.
        """
        out: dict[str, Any] = {"samples": len(self.codes)}
        if self.test is not None:
            out["samples_test"] = len(self.test.codes)
        if any(size > 1 for size in self.groups):
            out["groups"] = self.groups
        if self.left_out:
            out["constant_factors_left_out"] = self.left_out
        if not self.continuous:
            more.pop("continuous_as", None)
        elif self.factor_bins is not None:
            given = self.factors.shape[1] + len(self.left_out)
            kept = np.delete(np.arange(given), self.left_out)
            out["continuous_factors"] = tuple(kept[list(self.continuous)].tolist())
            out["continuous_as"] = f"{self.factor_bins} bins"
        return out | more


def unit_interval(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Returns columns scaled as those of `like` to [0, 1]; constant ones become 0.

    Computed as scikit-learn's ``minmax_scale`` does, in the dtype of floating values.
    """
    dtype = like.dtype if np.issubdtype(like.dtype, np.floating) else np.float64
    low, width = like.min(axis=0).astype(dtype), np.ptp(like, axis=0)
    scale = 1 / np.where(width > 0, width, 1).astype(dtype)
    return (values.astype(dtype) * scale - low * scale).astype(np.float64)


def unit_interval_labels(
    values: np.ndarray, bins: int, like: np.ndarray | None = None
) -> np.ndarray:
    """Returns labels 0 … bins−1 of ``[N, D]`` values scaled to [0, 1] per column.

    The bins of the ubisoft library. They differ from `equal_width_labels` by rounding,
    which decides about the values on an edge, of which integers have many.
    """
    scaled = unit_interval(values, values if like is None else like)
    edges = np.linspace(0, 1, bins + 1)[:-1]
    labels = np.searchsorted(edges, scaled, side="right") - 1
    return np.maximum(labels, 0).astype(np.int32)


def equal_width_labels(
    values: np.ndarray, bins: int, like: np.ndarray | None = None
) -> np.ndarray:
    """Returns labels 0 … bins−1 of ``[N, D]`` values, equal-width bins per column.

    The edges are those of ``np.histogram`` of `like` (the values themselves by
    default) in its dtype; the maximum belongs to the last bin, values beyond the edges
    to the outermost bins, and a constant column falls into a single bin.
    """
    like = values if like is None else like
    labels = np.empty(values.shape, np.int32)
    for d, column in enumerate(values.T):
        edges = _edges(like[:, d], bins)[:-1]
        labels[:, d] = np.searchsorted(edges, column, side="right") - 1
    return np.maximum(labels, 0)


def _edges(column: np.ndarray, bins: int) -> np.ndarray:
    """Returns the edges of ``np.histogram``, some of which may be equal.

    NumPy refuses a column with fewer numbers between its extremes than bins, as that
    of a latent that only rounding changes.
    """
    low, high = column.min(), column.max()
    if low == high:
        low, high = low - 0.5, high + 0.5
    dtype = column.dtype if np.issubdtype(column.dtype, np.floating) else np.float64
    return np.linspace(low, high, bins + 1, dtype=dtype)


def is_continuous(column: np.ndarray) -> bool:
    """Returns whether a factor ``[N]`` is continuous rather than a label.

    It is if it has more than 20 values and they are either fractions, more than 100 of
    them or fewer than five rows per value, or whole numbers with fewer than two rows
    per value. A score of classes would find each of its classes about once.
    """
    values = np.unique(column)
    rows_per_value = len(column) / len(values)
    if len(values) <= 20:
        return False
    if np.array_equal(values, np.round(values)):
        return rows_per_value < 2
    return len(values) > 100 or rows_per_value < 5


def to_numpy(function: str, argument: str, value: ArrayLike) -> np.ndarray:
    """Returns a finite float or integer NumPy array, or raises."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{function}: `{argument}` must be an array without a mask, got a masked "
            "array, whose masked values would be taken as numbers. Remove those rows."
        )
    if hasattr(value, "detach"):  # a torch tensor, perhaps with gradients
        value = value.detach().cpu()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{function}: `{argument}` must be an array, got {type(value).__name__}."
        ) from error
    if array.dtype == bool:
        array = array.astype(np.int64)
    if array.dtype.name == "bfloat16" or array.dtype == np.float16:
        array = array.astype(np.float32)
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise TypeError(
            f"{function}: `{argument}` must hold numbers, got dtype {array.dtype}."
        )
    if not np.isfinite(array).all():
        raise ValueError(
            f"{function}: `{argument}` must be finite, got "
            f"{int((~np.isfinite(array)).sum())} NaN or infinite values. "
            "Remove those rows, or check whether the model diverged."
        )
    return array


def check_codes(function: str, argument: str, codes: ArrayLike) -> np.ndarray:
    """Returns codes ``[N, D]`` as float32 or float64."""
    codes = to_numpy(function, argument, codes)
    if codes.ndim != 2 or 0 in codes.shape:
        raise ValueError(
            f"{function}: `{argument}` must have shape [N, D], got {codes.shape}."
        )
    if codes.dtype not in (np.float32, np.float64):
        codes = codes.astype(np.float64)
    return codes


def check_log_var(function: str, log_var: ArrayLike, codes: np.ndarray) -> np.ndarray:
    """Returns posterior log-variances, which must have the shape of the codes."""
    log_var = check_codes(function, "log_var", log_var)
    if log_var.shape != codes.shape:
        raise ValueError(
            f"{function}: `log_var` must have the shape {codes.shape} of `codes`, "
            f"got {log_var.shape}."
        )
    return log_var


def _check_factors(
    function: str, argument: str, factors: ArrayLike, rows: int
) -> np.ndarray:
    factors = to_numpy(function, argument, factors)
    if factors.ndim == 1:
        factors = factors[:, None]
    if factors.ndim != 2 or factors.shape[1] == 0:
        raise ValueError(
            f"{function}: `{argument}` must have shape [N, K], got {factors.shape}."
        )
    if len(factors) != rows:
        raise ValueError(
            f"{function}: `{argument}` must have as many rows as its codes, "
            f"got {len(factors)} and {rows}."
        )
    return factors


def codes_alone(codes: np.ndarray) -> Arrays:
    """Returns the arrays of checked codes ``[N, D]`` without factors."""
    nothing = np.zeros((len(codes), 0), np.int32)
    return Arrays(codes, nothing, nothing, (), (1,) * codes.shape[1], ())


def check_arrays(
    function: str,
    codes: ArrayLike,
    factors: ArrayLike,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    *,
    factor_bins: int | None = FACTOR_BINS,
) -> Arrays:
    """Checks the arguments that all scores share.

    A factor that is constant over train and test is left out: no code can hold
    information about it, and every score would divide by its zero entropy. The labels
    of a continuous factor are `factor_bins` bins; None keeps the rank of each value.
    """
    codes = check_codes(function, "codes", codes)
    if len(codes) < 2:
        raise ValueError(f"{function}: `codes` must have at least two rows, got 1.")
    factors = _check_factors(function, "factors", factors, len(codes))
    if (codes_test is None) != (factors_test is None):
        raise ValueError(
            f"{function}: `codes_test` and `factors_test` must be given together."
        )
    every = factors
    if codes_test is not None:
        codes_test = check_codes(function, "codes_test", codes_test)
        factors_test = _check_factors(
            function, "factors_test", factors_test, len(codes_test)
        )
        for name, test, train in (
            ("codes_test", codes_test, codes),
            ("factors_test", factors_test, factors),
        ):
            if test.shape[1] != train.shape[1]:
                raise ValueError(
                    f"{function}: `{name}` must have {train.shape[1]} columns as in "
                    f"train, got {test.shape[1]}."
                )
        codes_test = codes_test.astype(codes.dtype)
        every = np.concatenate([factors, factors_test])
    varies = (every != every[:1]).any(axis=0)
    if not varies.any():
        raise ValueError(
            f"{function}: `factors` must have a column with at least two values, "
            "got constant columns only."
        )
    columns = [np.unique(c, return_inverse=True)[1] for c in every.T[varies]]
    labels = np.stack(columns, axis=1).astype(np.int32)
    n = len(codes)
    test_rows = None
    if codes_test is not None and factors_test is not None:
        test_rows = Rows(codes_test, factors_test[:, varies], labels[n:])
    kept = factors[:, varies]
    arrays = Arrays(
        codes=codes,
        factors=kept,
        labels=labels[:n],
        sizes=tuple(int(c.max()) + 1 for c in columns),
        groups=check_groups(function, groups, codes.shape[1]),
        left_out=tuple(int(k) for k in np.flatnonzero(~varies)),
        continuous=tuple(k for k, c in enumerate(kept.T) if is_continuous(c)),
        test=test_rows,
    )
    return arrays if factor_bins is None else arrays.binned(factor_bins)


def standardised(codes: np.ndarray, like: np.ndarray | None = None) -> np.ndarray:
    """Returns codes scaled so that the columns of `like` have mean 0 and variance 1.

    `like` defaults to the codes themselves. A constant column becomes 0; rounding must
    not turn it into noise of unit variance.
    """
    like = codes if like is None else like
    mean = like.mean(axis=0, dtype=np.float64)
    std = like.std(axis=0, dtype=np.float64)
    return (codes - mean) / np.where(std > 1e-12 * np.abs(mean), std, np.inf)


def as_key(function: str, seed: int | jax.Array) -> jax.Array:
    """Returns a typed PRNG key for an integer seed or a key."""
    if isinstance(seed, jax.Array) and jax.dtypes.issubdtype(
        seed.dtype, jax.dtypes.prng_key
    ):
        return seed
    if not isinstance(seed, int | np.integer):
        raise TypeError(f"{function}: `seed` must be an integer, got {seed!r}.")
    return jax.random.key(int(seed))
