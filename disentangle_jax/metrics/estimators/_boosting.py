"""Histogram gradient-boosted trees with softmax loss, all factors in one program.

The learner of scikit-learn's ``GradientBoostingClassifier`` (Friedman 2001: depth 3,
100 rounds, learning rate 0.1, one tree for each class and round, Newton leaves), but
for one thing: a split falls between quantile bins instead of between any two values.
Codes with no more distinct values than bins are split exactly as there.

A scatter is slow on every XLA backend, so nothing is scattered. ``below[d, b, n]`` says
whether row n lies in bin b or lower of latent d; one matrix product of it with the
residuals of *all* trees of a round gives the left-hand sums of every possible split,
and its rows are also the membership masks of the children. A level costs one product
for the left children (the right ones follow by subtraction), a round 7 columns for each
class.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class BoostedTrees(NamedTuple):
    """A fit of all factors.

    Attributes:
      importance: ``[D, K]`` impurity decrease of each latent; columns sum to 1 (to 0
        where no tree ever split).
      logits: ``[N, sum(sizes)]`` of the training rows, factor after factor.
      logits_test: ``[M, sum(sizes)]`` of the test rows.
    """

    importance: np.ndarray
    logits: np.ndarray
    logits_test: np.ndarray


def bin_edges(codes: np.ndarray, bins: int) -> np.ndarray:
    """Split thresholds ``[D, B - 1]`` of codes ``[N, D]``, padded with infinity.

    Midpoints between neighbouring distinct values: all of them where there are at most
    ``bins`` values, else those nearest to the quantiles.
    """
    rows = []
    for column in np.asarray(codes, np.float64).T:
        values, counts = np.unique(column, return_counts=True)
        middle = 0.5 * (values[1:] + values[:-1])
        if len(values) > bins:
            below = np.cumsum(counts)[:-1]
            targets = np.arange(1, bins) * (len(column) / bins)
            after = np.clip(np.searchsorted(below, targets), 1, len(below) - 1)
            near = after - (targets - below[after - 1] < below[after] - targets)
            middle = middle[np.unique(near)]
        rows.append(middle)
    width = max(1, *(len(row) for row in rows))
    edges = np.full((len(rows), width), np.inf)
    for d, row in enumerate(rows):
        edges[d, : len(row)] = row
    return edges


def _below(codes: np.ndarray, edges: np.ndarray) -> jax.Array:
    """``[1 + D * (B - 1), N]`` float32: 1 where a row lies on the left of a threshold.

    The first threshold has every row on its left: the "split" of a node that cannot be
    split.
    """
    bins = [np.searchsorted(e, c) for c, e in zip(codes.astype(np.float64).T, edges)]
    bins = jnp.asarray(np.stack(bins).astype(np.int32))
    thresholds = jnp.arange(edges.shape[1])
    below = bins[:, None, :] <= thresholds[None, :, None]
    below = below.astype(jnp.float32).reshape(edges.size, len(codes))
    return jnp.concatenate([jnp.ones((1, len(codes))), below], axis=0)


def _softmax(logits: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Softmax of ``[sum(sizes), N]`` within each factor."""
    parts = jnp.split(logits, np.cumsum(sizes)[:-1], axis=0)
    return jnp.concatenate([jax.nn.softmax(part, axis=0) for part in parts], axis=0)


class _Splits(NamedTuple):
    """The best split of each node: arrays ``[P, C]`` (nodes, classes)."""

    row: jax.Array  # its row of `below`
    gain: jax.Array  # decrease of the sum of squared residuals
    left: jax.Array  # sum of residuals on the left
    right: jax.Array


def _best_splits(
    sums: jax.Array, counts: jax.Array, total: jax.Array, size: jax.Array
) -> _Splits:
    """Chooses splits from left-hand sums and counts ``[T, P, C]`` of T thresholds.

    ``total`` and ``size`` are ``[P, C]``. A node that cannot be split takes the first
    threshold, which sends all to the left at no gain.
    """
    rest = size[None] - counts
    valid = (counts > 0.5) & (rest > 0.5)
    n_left = jnp.where(valid, counts, 1.0)
    n_right = jnp.where(valid, rest, 1.0)
    gap = sums / n_left - (total[None] - sums) / n_right
    gain = gap**2 * n_left * n_right / jnp.maximum(size[None], 1.0)
    gain = jnp.where(valid, gain, 0.0)
    row = jnp.argmax(gain, axis=0)
    best = jnp.take_along_axis(gain, row[None], axis=0)[0]
    left = jnp.take_along_axis(sums, row[None], axis=0)[0]
    return _Splits(row, best, left, total - left)


def _tree_values(
    below: jax.Array, rows: list[jax.Array], leaves: jax.Array
) -> jax.Array:
    """Values ``[C, N]`` of trees; rows of splits by level, leaves ``[8, C]``."""
    masks = [[below[r] for r in level] for level in rows]
    value = [jnp.broadcast_to(leaf[:, None], masks[0][0].shape) for leaf in leaves]
    for level in reversed(masks):
        value = [
            jnp.where(mask > 0.5, value[2 * i], value[2 * i + 1])
            for i, mask in enumerate(level)
        ]
    return value[0]


@functools.partial(jax.jit, static_argnames=("sizes", "rounds"))
def _boost(
    below: jax.Array,
    below_test: jax.Array,
    labels: jax.Array,
    learning_rate: float,
    *,
    sizes: tuple[int, ...],
    rounds: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    n = below.shape[1]
    target = jnp.concatenate(
        [jax.nn.one_hot(labels[:, k], s, dtype=jnp.float32, axis=0) for k, s in
         enumerate(sizes)],
        axis=0,
    )  # fmt: skip
    prior = target.mean(axis=1)
    start = jnp.log(jnp.maximum(prior, 1e-12))[:, None]
    # The Newton factor (K − 1) / K counts the classes that occur.
    present = [(p > 0).sum() for p in jnp.split(prior, np.cumsum(sizes)[:-1])]
    shrink = jnp.concatenate(
        [jnp.full(s, 1.0) * (p - 1) / p for p, s in zip(present, sizes)]
    )
    counts_root = below.sum(axis=1)[:, None, None]
    product = functools.partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)

    def sums_of(columns: list[jax.Array]) -> jax.Array:
        """``[T, P, C]`` left-hand sums of columns ``[C, N]``."""
        stacked = jnp.concatenate(columns, axis=0)
        return product(below, stacked.T).reshape(-1, len(columns), len(target))

    def one_round(carry: tuple, _: None) -> tuple[tuple, None]:
        logits, logits_test, importance = carry
        p = _softmax(logits, sizes)
        residual = target - p
        curvature = p * (1.0 - p)

        total = residual.sum(axis=1)[None]
        size = jnp.full(total.shape, float(n))
        sums = sums_of([residual])
        counts = jnp.broadcast_to(counts_root, sums.shape)
        rows, gains = [], jnp.zeros_like(importance)
        members = [jnp.ones_like(residual)]
        for level in range(3):
            split = _best_splits(sums, counts, total, size)
            rows.append(list(split.row))
            for row, gain in zip(split.row, split.gain):
                gains = gains.at[row, jnp.arange(len(target))].add(gain)
            masks = [below[row] for row in split.row]
            lefts = [m * mask for m, mask in zip(members, masks)]
            rights = [m - left for m, left in zip(members, lefts)]
            members = [m for pair in zip(lefts, rights) for m in pair]
            if level == 2:
                break
            total = jnp.stack([split.left, split.right], axis=1)
            total = total.reshape(-1, len(target))
            nodes = len(lefts)
            left = sums_of([m * residual for m in lefts] + lefts)
            left_sums, left_counts = left[:, :nodes], left[:, nodes:]
            sums = jnp.stack([left_sums, sums - left_sums], axis=2)
            counts = jnp.stack([left_counts, counts - left_counts], axis=2)
            sums = sums.reshape(-1, 2 * nodes, len(target))
            counts = counts.reshape(sums.shape)
            size_left = jnp.stack([m.sum(axis=1) for m in lefts])
            size = jnp.stack([size_left, size - size_left], axis=1)
            size = size.reshape(-1, len(target))
        # Summed over the rows of the leaf itself: differences of histogram sums carry
        # the rounding of the whole data, which a small curvature would blow up.
        total = jnp.stack([(m * residual).sum(axis=1) for m in members])
        bend = jnp.stack([(m * curvature).sum(axis=1) for m in members])
        leaves = shrink[None] * total / jnp.maximum(bend, 1e-30)
        leaves = learning_rate * jnp.where(bend > 1e-30, leaves, 0.0)
        logits = logits + _tree_values(below, rows, leaves)
        logits_test = logits_test + _tree_values(below_test, rows, leaves)
        return (logits, logits_test, importance + gains), None

    carry = (
        jnp.broadcast_to(start, target.shape),
        jnp.broadcast_to(start, (len(target), below_test.shape[1])),
        jnp.zeros((below.shape[0], len(target))),
    )
    (logits, logits_test, importance), _ = jax.lax.scan(
        one_round, carry, None, length=rounds
    )
    return logits, logits_test, importance


def boosted_trees(
    codes: np.ndarray,
    labels: np.ndarray,
    sizes: tuple[int, ...],
    codes_test: np.ndarray | None = None,
    *,
    bins: int = 64,
    rounds: int = 100,
    learning_rate: float = 0.1,
) -> BoostedTrees:
    """Fits gradient-boosted trees for all factors at once.

    Args:
      codes: ``[N, D]`` features.
      labels: ``[N, K]`` integers below ``sizes``.
      sizes: number of classes of each factor.
      codes_test: ``[M, D]`` rows to predict, or None.
      bins: quantile bins of a feature.
      rounds: boosting rounds, each with one tree of depth 3 for every class.
      learning_rate: shrinkage of every leaf.
    """
    edges = bin_edges(codes, bins)
    if codes_test is None:
        codes_test = codes[:0]
    logits, logits_test, gains = _boost(
        _below(codes, edges), _below(codes_test, edges), jnp.asarray(labels),
        learning_rate, sizes=tuple(sizes), rounds=rounds,
    )  # fmt: skip
    latents = codes.shape[1]
    gains = (
        np.asarray(gains, np.float64)[1:].reshape(latents, -1, sum(sizes)).sum(axis=1)
    )
    starts = np.cumsum((0, *sizes[:-1]))
    gains = np.add.reduceat(gains, starts, axis=1)
    total = gains.sum(axis=0, keepdims=True)
    importance = np.where(total > 0, gains / np.where(total > 0, total, 1.0), 0.0)
    return BoostedTrees(importance, np.asarray(logits).T, np.asarray(logits_test).T)
