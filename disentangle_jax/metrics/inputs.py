"""What every score takes and returns: checked arrays in, a `Score` out."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from disentangle_jax.types import check_groups

# Anything `np.asarray` understands: NumPy, JAX, torch (also with gradients), lists.
ArrayLike = Any


class Score(dict):
    """The values of one score, a ``dict[str, float]`` whose first key is the headline.

    ``float(score)`` is the headline. The recipe travels with the value:

    Attributes:
      settings: every setting that was used, defaults included.
      intervals: ``{key: (low, high)}``, bootstrap intervals if they were requested.
      matrices: arrays the values were computed from (such as the importance matrix),
        for plots.
    """

    def __init__(
        self,
        values: dict[str, float],
        settings: dict[str, Any],
        *,
        matrices: dict[str, np.ndarray] | None = None,
    ):
        super().__init__({key: float(value) for key, value in values.items()})
        self.settings = settings
        self.intervals: dict[str, tuple[float, float]] = {}
        self.matrices = matrices or {}

    def __float__(self) -> float:
        return next(iter(self.values()))


@dataclasses.dataclass(frozen=True)
class Arrays:
    """Checked codes and factors.

    Attributes:
      codes: ``[N, D]``, float32 or float64 as given (integers become float64).
      factors: ``[N, K]`` factor values as given; constant factors are left out.
      labels: ``[N, K]`` int32, the rank of each value among the values of its factor.
      sizes: number of values of each factor, over train and test.
      groups: sizes of the latent variables, which add up to D.
      left_out: the columns of the input's factors that were constant.
      codes_test, factors_test, labels_test: the same for the test rows, or None.
    """

    codes: np.ndarray
    factors: np.ndarray
    labels: np.ndarray
    sizes: tuple[int, ...]
    groups: tuple[int, ...]
    left_out: tuple[int, ...]
    codes_test: np.ndarray | None = None
    factors_test: np.ndarray | None = None
    labels_test: np.ndarray | None = None

    def settings(self, **more: Any) -> dict[str, Any]:
        """Returns the settings of a score: a summary of the arrays, and `more`."""
        out = {"samples": len(self.codes)}
        if self.codes_test is not None:
            out["samples_test"] = len(self.codes_test)
        if any(size > 1 for size in self.groups):
            out["groups"] = self.groups
        if self.left_out:
            out["constant_factors_left_out"] = self.left_out
        return out | more


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


def check_arrays(
    function: str,
    codes: ArrayLike,
    factors: ArrayLike,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
) -> Arrays:
    """Checks the arguments that all scores share.

    A factor that is constant over train and test is left out: no code can hold
    information about it, and every score would divide by its zero entropy.
    """
    codes = check_codes(function, "codes", codes)
    factors = _check_factors(function, "factors", factors, len(codes))
    if len(codes) < 2:
        raise ValueError(f"{function}: `codes` must have at least two rows, got 1.")
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
    return Arrays(
        codes=codes,
        factors=factors[:, varies],
        labels=labels[:n],
        sizes=tuple(int(c.max()) + 1 for c in columns),
        groups=check_groups(function, groups, codes.shape[1]),
        left_out=tuple(int(k) for k in np.flatnonzero(~varies)),
        codes_test=codes_test,
        factors_test=None if codes_test is None else factors_test[:, varies],
        labels_test=None if codes_test is None else labels[n:],
    )


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
