"""Where scores that intervene get their codes from.

They take either ``(encode_fn, dataset)``, where

* ``encode_fn(images) -> [B, D]`` codes (or a `Posterior`, of which the mean is taken),
* ``dataset`` has ``images(indices)``, ``index_of(factors)`` and ``factor_sizes``,

or arrays ``(codes, factors)``. Arrays that hold every combination of factor values
exactly once are a look-up table of the same kind; other arrays are sampled
conditionally: the rows of a batch are drawn, with replacement, from those that have the
drawn value.

All draws are made first; each distinct image is encoded once, in batches of
``encode_batch``, instead of one small batch for each vote.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from disentangle_jax.metrics._inputs import check_arrays, check_codes
from disentangle_jax.types import Posterior


@dataclasses.dataclass(frozen=True)
class Source:
    """Where codes of given factor values come from.

    Attributes:
      sizes: number of values of each factor.
      lookup: indices ``[...]`` of factor tuples ``[..., K]``; None for conditional
        sampling.
      codes_of: codes ``[n, D]`` of n distinct indices.
      labels: ``[N, K]`` for conditional sampling, else None.
      settings: what to report.
    """

    sizes: tuple[int, ...]
    lookup: Callable[[np.ndarray], np.ndarray] | None
    codes_of: Callable[[np.ndarray], np.ndarray]
    labels: np.ndarray | None
    settings: dict[str, Any]

    def codes(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distinct codes ``[U, D]`` and where each of the indices is among them."""
        distinct, place = np.unique(indices, return_inverse=True)
        return self.codes_of(distinct), place.reshape(indices.shape)


def _encode(
    function: str, encode_fn: Callable, dataset: Any, indices: np.ndarray, batch: int
) -> np.ndarray:
    parts = []
    for start in range(0, len(indices), batch):
        chunk = indices[start : start + batch]
        # A full last batch, so that a compiled encoder sees one shape only.
        padded = np.resize(chunk, batch) if len(indices) > batch else chunk
        out = encode_fn(dataset.images(padded))
        out = out.mean if isinstance(out, Posterior) else out
        parts.append(check_codes(function, "encode_fn", out)[: len(chunk)])
    return np.concatenate(parts)


def source_of(function: str, first: Any, second: Any, encode_batch: int) -> Source:
    """The source of ``(encode_fn, dataset)`` or of arrays ``(codes, factors)``."""
    if not callable(first):
        arrays = check_arrays(function, first, second)
        settings = arrays.settings()
        full = len(arrays.codes) == np.prod(arrays.sizes, dtype=np.float64)
        if full:
            place = np.ravel_multi_index(tuple(arrays.labels.T), arrays.sizes)
            full = len(np.unique(place)) == len(place)
        if not full:
            return Source(
                arrays.sizes, None, lambda rows: arrays.codes[rows], arrays.labels,
                settings | {"sampling": "conditional, from the arrays"},
            )  # fmt: skip
        table = arrays.codes[np.argsort(place)]
        return Source(
            arrays.sizes,
            lambda f: np.ravel_multi_index(tuple(np.moveaxis(f, -1, 0)), arrays.sizes),
            lambda rows: table[rows],
            None,
            settings | {"sampling": "full grid of the arrays"},
        )
    for name in ("images", "index_of", "factor_sizes"):
        if not hasattr(second, name):
            raise TypeError(
                f"{function}: `dataset` must have images(indices), index_of(factors) "
                f"and factor_sizes, got {type(second).__name__} without `{name}`. "
                "Pass (codes, factors) arrays instead."
            )

    def lookup(factors: np.ndarray) -> np.ndarray:
        flat = np.asarray(second.index_of(factors.reshape(-1, factors.shape[-1])))
        return flat.reshape(factors.shape[:-1])

    return Source(
        tuple(int(s) for s in second.factor_sizes),
        lookup,
        lambda rows: _encode(function, first, second, rows, encode_batch),
        None,
        {"sampling": "dataset", "encode_batch": encode_batch},
    )


def draw_factors(
    rs: np.random.RandomState, sizes: tuple[int, ...], n: int
) -> np.ndarray:
    """``[n, K]`` factor values, in disentanglement_lib's order of draws."""
    return np.stack([rs.randint(size, size=n) for size in sizes], axis=1)


class Conditional:
    """Draws rows of arrays that share one label."""

    def __init__(self, labels: np.ndarray):
        self.order = np.argsort(labels, kind="stable")
        self.values, self.first, self.count = np.unique(
            labels[self.order], return_index=True, return_counts=True
        )

    def rows(self, rs: np.random.RandomState, value: np.ndarray, n: int) -> np.ndarray:
        """``[len(value), n]`` rows whose label is ``self.values[value]``."""
        offset = rs.random_sample((len(value), n)) * self.count[value][:, None]
        return self.order[self.first[value][:, None] + offset.astype(np.int64)]
