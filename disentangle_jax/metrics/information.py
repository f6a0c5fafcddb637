"""Contingency tables and plug-in mutual information of codes and factors.

A code is turned into labels first (`quantise`): a latent variable of one dimension
falls into equal-width bins between its minimum and maximum; a variable of several
dimensions (``groups=``) is quantised as one vector by k-means, with ``bins`` cells per
dimension. One product of one-hot matrices then yields all tables of codes against
factors; it is exact in float32 (counts below 2^24) and fast on CPU and accelerator.
Entropies are computed in float64.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.metrics.inputs import (
    Arrays,
    equal_width_labels,
    unit_interval_labels,
)

# The heat map of ``matrices["mi"]``, for the descriptions of the scores that return it.
HEAT_MAP = {
    "mi": (
        "Mutual information of each latent and each factor",
        "In nats. In disentangled codes each column has one dark cell; a row with "
        "several dark cells mixes factors.",
    )
}


@functools.partial(jax.jit, static_argnames="steps")
def _lloyd(points: jax.Array, centres: jax.Array, *, steps: int) -> jax.Array:
    """Returns k-means labels ``[N]`` after a fixed number of Lloyd steps."""

    def nearest(centres: jax.Array) -> jax.Array:
        distance = jnp.sum(centres**2, axis=1)[None, :] - 2.0 * points @ centres.T
        return jnp.argmin(distance, axis=1)

    def step(centres: jax.Array, _: None) -> tuple[jax.Array, None]:
        member = jax.nn.one_hot(nearest(centres), len(centres), dtype=points.dtype)
        count = member.sum(axis=0)[:, None]
        mean = (member.T @ points) / jnp.maximum(count, 1.0)
        return jnp.where(count > 0, mean, centres), None

    return nearest(jax.lax.scan(step, centres, None, length=steps)[0])


def _vector_labels(block: np.ndarray, cells: int, seed: int) -> np.ndarray:
    """Returns k-means labels of ``[N, d]``; k-means++ start, 25 Lloyd steps.

    Deterministic in the multiset of rows: the start is drawn over the distinct rows in
    lexicographic order.
    """
    points = np.asarray(block, np.float32) - block.mean(axis=0, dtype=np.float64)
    points = points.astype(np.float32)
    rows = np.unique(points, axis=0)
    if len(rows) <= cells:
        return np.unique(points, axis=0, return_inverse=True)[1].reshape(-1)
    rng = np.random.default_rng(seed)
    centres = [rows[rng.integers(len(rows))]]
    distance = np.full(len(rows), np.inf)
    for _ in range(cells - 1):
        distance = np.minimum(distance, ((rows - centres[-1]) ** 2).sum(axis=1))
        centres.append(rows[rng.choice(len(rows), p=distance / distance.sum())])
    return np.asarray(_lloyd(jnp.asarray(points), jnp.stack(centres), steps=25))


def quantise(
    codes: np.ndarray,
    groups: tuple[int, ...],
    bins: int,
    seed: int = 0,
    *,
    binned: Callable[[np.ndarray, int], np.ndarray] = equal_width_labels,
) -> tuple[np.ndarray, int]:
    """Turns codes ``[N, D]`` into labels ``[N, G]``, one column per latent variable.

    `binned` returns the labels of variables of one dimension.

    Returns:
      The labels and the number of cells (all labels are below it).
    """
    labels, start = [], 0
    for size in groups:
        block = codes[:, start : start + size]
        if size == 1:
            labels.append(binned(block, bins)[:, 0])
        else:
            labels.append(_vector_labels(block, bins * size, seed))
        start += size
    return np.stack(labels, axis=1).astype(np.int32), bins * max(groups)


@functools.partial(jax.jit, static_argnames=("cells", "sizes"))
def contingency(
    labels: jax.Array,
    factors: jax.Array,
    weights: jax.Array | None = None,
    *,
    cells: int,
    sizes: tuple[int, ...],
) -> jax.Array:
    """Returns all tables of code label against factor label, by one matrix product.

    Args:
      labels: ``[N, G]`` integers below ``cells``.
      factors: ``[N, K]`` integers below ``sizes``.
      weights: ``[N]`` how often each row counts (bootstrap); None counts each once.
      cells: number of code labels.
      sizes: number of values of each factor.

    Returns:
      ``[G, cells, sum(sizes)]`` float32 counts, factor after factor along the last
      axis; exact below 2^24.
    """
    rows, groups = labels.shape
    left = jax.nn.one_hot(labels, cells, dtype=jnp.float32).reshape(rows, -1)
    right = jnp.concatenate(
        [jax.nn.one_hot(factors[:, k], s, dtype=jnp.float32) for k, s in
         enumerate(sizes)],
        axis=1,
    )  # fmt: skip
    if weights is not None:
        right = right * weights.astype(jnp.float32)[:, None]
    table = jnp.dot(left.T, right, precision=jax.lax.Precision.HIGHEST)
    return table.reshape(groups, cells, sum(sizes))


def _entropy(counts: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    """Returns the plug-in entropy in nats of tables of counts, along `axis`."""
    total = counts.sum(axis=axis, keepdims=True)
    p = counts / total
    return -np.sum(p * np.log(np.where(p > 0, p, 1.0)), axis=axis)


def label_entropies(labels: np.ndarray) -> np.ndarray:
    """Returns the plug-in entropies ``[K]`` in nats of label columns ``[N, K]``."""
    return np.array([_entropy(np.bincount(column), -1) for column in labels.T])


class Information:
    """Entropies and mutual informations in nats, float64, of codes and factors.

    Attributes:
      mi: ``[..., G, K]`` plug-in mutual information.
      code_entropy: ``[..., G]``.
      factor_entropy: ``[..., K]``.
      joint_entropy: ``[..., G, K]``.
    """

    def __init__(self, tables: np.ndarray, sizes: tuple[int, ...]):
        """Takes the `tables` of `contingency`, perhaps with more leading axes."""
        tables = np.asarray(tables, np.float64)
        stops = np.cumsum(sizes)
        parts = [tables[..., b - s : b] for s, b in zip(sizes, stops)]
        self.joint_entropy = np.stack([_entropy(t, (-2, -1)) for t in parts], axis=-1)
        self.code_entropy = _entropy(parts[0].sum(axis=-1), -1)
        factor = [_entropy(t[..., 0, :, :].sum(axis=-2), -1) for t in parts]
        self.factor_entropy = np.stack(factor, axis=-1)
        mi = (
            self.code_entropy[..., :, None]
            + self.factor_entropy[..., None, :]
            - self.joint_entropy
        )
        # A dead code has no information. Rounding must not add any: modularity looks
        # for the factor with the largest information.
        dead = (self.code_entropy <= 0.0)[..., :, None]
        self.mi = np.where(dead | (mi < np.finfo(np.float64).eps), 0.0, mi)


def factor_labels(
    arrays: Arrays, bins: int, bin_factors: bool
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Returns the labels of the factors, or `bins` bins of each, and their sizes."""
    if not bin_factors:
        return arrays.labels, arrays.sizes
    labels = unit_interval_labels(arrays.factors, bins)
    return labels, (bins,) * labels.shape[1]


def information(
    arrays: Arrays, *, bins: int, bin_factors: bool, seed: int
) -> tuple[Information, int]:
    """Returns the `Information` of checked arrays and the number of cells of a code."""
    binned = unit_interval_labels if bin_factors else equal_width_labels
    labels, cells = quantise(arrays.codes, arrays.groups, bins, seed, binned=binned)
    factors, sizes = factor_labels(arrays, bins, bin_factors)
    tables = contingency(labels, factors, cells=cells, sizes=sizes)
    return Information(tables, sizes), cells


def top_two(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the two largest values along an axis; the second of one is 0."""
    ordered = np.sort(values, axis=axis)
    first = np.take(ordered, -1, axis=axis)
    if values.shape[axis] == 1:
        return first, np.zeros_like(first)
    return first, np.take(ordered, -2, axis=axis)
