"""Where interventional scores get codes for given factor values.

They take either ``(encode_fn, dataset)``, where

* ``encode_fn(images) -> [B, D]`` codes (or a `Posterior`, whose mean is used),
* ``dataset`` has ``images(indices)``, ``index_of(factors)`` and ``factor_sizes``
  (and ``copies``, where several images show one combination, one after the other),

or arrays ``(codes, factors)``. Arrays that hold every combination of factor values
exactly once (a full grid) are a look-up table of the same kind. Other arrays are
sampled conditionally: the rows of a batch are drawn from those with the required value
(of a continuous factor: the same of 20 equal-width bins), each once before any is drawn
again. With ``factor_bins`` all arrays are, with that many bins of every factor.

All draws are made first; then each distinct image is encoded once, in batches of
``encode_batch``, instead of one small batch per vote.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from disentangle_jax.batching import in_batches
from disentangle_jax.metrics.inputs import FACTOR_BINS, check_arrays, check_codes
from disentangle_jax.types import Posterior


@dataclasses.dataclass(frozen=True)
class Source:
    """Codes by factor values.

    Attributes:
      sizes: number of values of each factor.
      lookup: function from factor values ``[..., K]``, and a ``RandomState`` that
        chooses among copies (None for the first), to indices ``[...]``; None for
        conditional sampling.
      codes_of: function from n distinct indices to their codes ``[n, D]``.
      labels: ``[N, K]`` for conditional sampling; without it there are no rows.
      settings: settings to report.
    """

    sizes: tuple[int, ...]
    lookup: Callable[..., np.ndarray] | None
    codes_of: Callable[[np.ndarray], np.ndarray]
    labels: np.ndarray
    settings: dict[str, Any]

    def codes(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns distinct codes ``[U, D]`` and the place of each index among them."""
        distinct, place = np.unique(indices, return_inverse=True)
        return self.codes_of(distinct), place.reshape(indices.shape)


def check_dataset(function: str, dataset: Any, hint: str = "") -> None:
    """Raises a TypeError if `dataset` lacks what the scores use of a dataset."""
    for name in ("images", "index_of", "factor_sizes"):
        if not hasattr(dataset, name):
            raise TypeError(
                f"{function}: `dataset` must have images(indices), index_of(factors) "
                f"and factor_sizes, got {type(dataset).__name__} without `{name}`."
                f"{hint}"
            )


def source_of(
    function: str,
    first: Any,
    second: Any,
    encode_batch: int,
    factor_bins: int | None = None,
) -> Source:
    """Returns the source of ``(encode_fn, dataset)`` or of ``(codes, factors)``."""
    if not callable(first):
        return _source_of_arrays(function, first, second, factor_bins)
    check_dataset(function, second, " Pass (codes, factors) arrays instead.")

    copies = getattr(second, "copies", 1)

    def lookup(
        factors: np.ndarray, rs: np.random.RandomState | None = None
    ) -> np.ndarray:
        flat = np.asarray(second.index_of(factors.reshape(-1, factors.shape[-1])))
        if copies > 1 and rs is not None:
            flat = flat + rs.randint(copies, size=len(flat))
        return flat.reshape(factors.shape[:-1])

    def encode(indices: np.ndarray) -> np.ndarray:
        out = first(second.images(indices))
        out = out.mean if isinstance(out, Posterior) else out
        return check_codes(function, "encode_fn", out)

    sizes = tuple(int(s) for s in second.factor_sizes)
    return Source(
        sizes,
        lookup,
        lambda rows: in_batches(encode, rows, min(encode_batch, len(rows))),
        np.empty((0, len(sizes)), np.int32),
        {"sampling": "dataset", "encode_batch": encode_batch},
    )


def _source_of_arrays(
    function: str, codes: Any, factors: Any, factor_bins: int | None
) -> Source:
    arrays = check_arrays(function, codes, factors, factor_bins=None)
    if factor_bins is not None and factor_bins < 1:
        raise ValueError(
            f"{function}: the number of bins must be positive, got {factor_bins}."
        )
    full = len(arrays.codes) == np.prod(arrays.sizes, dtype=np.float64)
    if full and factor_bins is None:
        place = np.ravel_multi_index(tuple(arrays.labels.T), arrays.sizes)
        full = len(np.unique(place)) == len(place)
    if not full or factor_bins is not None:
        if factor_bins is None:
            arrays = arrays.binned(FACTOR_BINS)
        else:
            arrays = arrays.in_bins(factor_bins)
        return Source(
            arrays.sizes, None, lambda rows: arrays.codes[rows], arrays.labels,
            arrays.settings(sampling="conditional, from the arrays"),
        )  # fmt: skip
    table = arrays.codes[np.argsort(place)]
    return Source(
        arrays.sizes,
        lambda f, rs=None: np.ravel_multi_index(
            tuple(np.moveaxis(f, -1, 0)), arrays.sizes
        ),
        lambda rows: table[rows],
        np.empty((0, len(arrays.sizes)), np.int32),
        arrays.settings(sampling="full grid of the arrays"),
    )


def draw_factors(
    rs: np.random.RandomState, sizes: tuple[int, ...], n: int
) -> np.ndarray:
    """Returns factor values ``[n, K]``, in disentanglement_lib's order of draws."""
    return np.stack([rs.randint(size, size=n) for size in sizes], axis=1)


class Conditional:
    """Draws rows of arrays that share one label.

    Attributes:
      distinct: number of different labels.
      shared: the labels that several rows have; all labels where none has.
    """

    def __init__(self, labels: np.ndarray):
        order = np.argsort(labels, kind="stable")
        _, first = np.unique(labels[order], return_index=True)
        self._members = np.split(order, first[1:])
        counts = np.array([len(members) for members in self._members])
        self.distinct = len(counts)
        self.shared = np.flatnonzero(counts > min(1, counts.max() - 1))

    def rows(
        self, rs: np.random.RandomState, label: np.ndarray, n: int, *, unit: int = 1
    ) -> np.ndarray:
        """Returns rows ``[len(label), n]``, each with the label of its place.

        The rows with a label are dealt in a random order, and again in another once all
        were. `unit` rows in succession are dealt in one such pass, so that they differ.
        """
        out = np.empty((len(label), n), np.int64)
        for value in np.unique(label):
            own, members = np.flatnonzero(label == value), self._members[value]
            dealt = max(len(members) - len(members) % unit, 1)
            passes = -(-len(own) * n // dealt)
            order = rs.random_sample((passes, len(members))).argsort(axis=1)[:, :dealt]
            out[own] = members[order.ravel()[: len(own) * n]].reshape(-1, n)
        return out
