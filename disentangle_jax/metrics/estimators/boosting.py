"""Gradient-boosted trees with softmax loss, all factors in one program.

The learner of scikit-learn's ``GradientBoostingClassifier`` (Friedman 2001: depth 3,
100 rounds, learning rate 0.1, one tree per class and round, Newton leaves). Only the
search for a split differs: scikit-learn tries all thresholds; this code tries the
boundaries of quantile bins first, then every threshold within the two bins next to the
best boundary (for the two latents with the best boundaries; refining only one would
favour it). Codes with no more distinct values than bins are split exactly as in
scikit-learn.

A scatter is slow on every XLA backend, so nothing is scattered. ``below[t, n]`` is
whether row n lies on the left of boundary t (of all latents); one matrix product of it
with the residuals of *all* trees of a round gives the left-hand sums of every boundary.
A level costs one product for the left children (the right ones follow by subtraction),
a round 7 columns per class.
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
        if no tree has a split).
      logits: ``[N, sum(sizes)]`` of the training rows, factor after factor.
      logits_test: ``[M, sum(sizes)]`` of the test rows.
    """

    importance: np.ndarray
    logits: np.ndarray
    logits_test: np.ndarray


def bin_edges(codes: np.ndarray, bins: int) -> np.ndarray:
    """Returns split thresholds ``[D, B - 1]`` of codes, padded with infinity.

    They are midpoints between neighbouring distinct values: all of them if there are at
    most `bins` values, else those nearest to the quantiles.
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


class _Codes(NamedTuple):
    """Sorted and binned codes, and the T boundaries of all latents.

    The first boundary is additional: it has every row on its left, for nodes that
    cannot be split. A cut at position j of a latent sends the rows of rank 0 … j left.
    """

    below: jax.Array  # [T, N] float32: 1 on the left of a boundary
    order: jax.Array  # [D, N] rows of each latent by value
    rank: jax.Array  # [D, N] position of each row in that order
    rank_test: jax.Array  # [D, M] smallest cut that has the test row on its left
    distinct: jax.Array  # [D, N] whether a cut at this position separates two values
    latent: jax.Array  # [T] latent of a boundary
    cut: jax.Array  # [T] its position
    start: jax.Array  # [T] first position of the two bins next to it
    stop: jax.Array  # [T] position after them; `start` if nothing is to be refined


def _prepare(
    codes: np.ndarray, codes_test: np.ndarray, edges: np.ndarray, bins: int
) -> tuple[_Codes, int]:
    """Returns sorted and binned codes, and the width of the widest pair of bins.

    The width is rounded up to whole blocks of prefix sums.
    """
    n, latents = codes.shape
    width = edges.shape[1]
    codes, codes_test = codes.astype(np.float64), codes_test.astype(np.float64)
    order = np.argsort(codes, axis=0, kind="stable").T
    rank = np.argsort(order, axis=1)
    rank_test = np.empty((latents, len(codes_test)), np.int64)
    distinct = np.zeros((latents, n), bool)
    below, cut, start, stop = [np.ones((1, n), bool)], [[n - 1]], [[0]], [[0]]
    for d in range(latents):
        values = codes[order[d], d]
        distinct[d, :-1] = values[1:] > values[:-1]
        middle = 0.5 * (values[1:] + values[:-1])
        rank_test[d] = np.searchsorted(middle, codes_test[:, d], side="left")
        count = np.searchsorted(values, edges[d], side="right")
        below.append(rank[d][None, :] < count[:, None])
        first = np.concatenate([[0], count[:-1]])
        last = np.concatenate([count[1:], [n]])
        # Nothing is to be refined if every threshold is a boundary. Bins that one value
        # fills are too wide to search.
        exact = distinct[d].sum() <= np.isfinite(edges[d]).sum()
        wide = last - first > 4 * n // bins
        cut.append(count - 1)
        start.append(first)
        stop.append(np.where(exact | wide | (count == n), first, last))
    start, stop = np.concatenate(start), np.concatenate(stop)
    prepared = _Codes(
        below=jnp.asarray(np.concatenate(below), jnp.float32),
        order=jnp.asarray(order, jnp.int32),
        rank=jnp.asarray(rank, jnp.int32),
        rank_test=jnp.asarray(rank_test, jnp.int32),
        distinct=jnp.asarray(distinct),
        latent=jnp.asarray(
            np.concatenate([[0], np.repeat(np.arange(latents), width)]), jnp.int32
        ),
        cut=jnp.asarray(np.concatenate(cut), jnp.int32),
        start=jnp.asarray(start, jnp.int32),
        stop=jnp.asarray(stop, jnp.int32),
    )
    widest = int((stop - start).max())
    return prepared, -(-widest // _BLOCK) * _BLOCK


def _softmax(logits: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """Returns the softmax of ``[sum(sizes), N]`` within each factor."""
    parts = jnp.split(logits, np.cumsum(sizes)[:-1], axis=0)
    return jnp.concatenate([jax.nn.softmax(part, axis=0) for part in parts], axis=0)


# Length of the blocks of prefix sums.
_BLOCK = 32

# Latents whose best boundary is refined, best first. More have little effect.
_REFINED = 2

# Relative difference of gains below which splits count as equally good; float32 sums
# cannot resolve smaller ones.
_TIE = 1e-4


class _Nodes(NamedTuple):
    """P nodes of C trees, before they are split."""

    sums: jax.Array  # [T, P, C] sums of residuals on the left of each boundary
    counts: jax.Array  # [T, P, C] rows on the left of each boundary
    total: jax.Array  # [P, C] sums of residuals
    size: jax.Array  # [P, C] rows
    members: list[jax.Array]  # P masks [C, N]


class _Splits(NamedTuple):
    """The best split of each node: arrays ``[P, C]`` (nodes, classes)."""

    latent: jax.Array
    cut: jax.Array  # position in the order of the latent
    credit: jax.Array  # [D, P, C] decrease of the sum of squared residuals, by latent
    left: jax.Array  # sum of residuals on the left
    right: jax.Array


def _gain(
    sums: jax.Array, counts: jax.Array, total: jax.Array, size: jax.Array
) -> jax.Array:
    """Returns the decrease of the sum of squared residuals, 0 if a side is empty."""
    rest = size - counts
    valid = (counts > 0.5) & (rest > 0.5)
    n_left = jnp.where(valid, counts, 1.0)
    n_right = jnp.where(valid, rest, 1.0)
    gap = sums / n_left - (total - sums) / n_right
    return jnp.where(valid, gap**2 * n_left * n_right / jnp.maximum(size, 1.0), 0.0)


def _best_splits(
    codes: _Codes, nodes: _Nodes, residual: jax.Array, window: int
) -> _Splits:
    """Returns the best splits of the nodes.

    A node that cannot be split takes the first boundary, which sends all rows to the
    left without gain. Latents that split equally well (many do in small nodes) share
    the credit, where scikit-learn picks one at random.

    Args:
      codes: the prepared codes.
      nodes: the nodes.
      residual: ``[C, N]``.
      window: largest number of thresholds next to a boundary; 0 for no refinement.
    """
    sums, total = nodes.sums, nodes.total
    latents = len(codes.order)
    gain = _gain(sums, nodes.counts, total[None], nodes.size[None])
    row = jnp.argmax(gain, axis=0)
    best = jnp.take_along_axis(gain, row[None], axis=0)[0]
    left = jnp.take_along_axis(sums, row[None], axis=0)[0]
    latent, cut = codes.latent[row], codes.cut[row]
    by_latent = gain[1:].reshape(latents, -1, *row.shape)
    rows = by_latent.argmax(axis=1)
    rows = 1 + rows + by_latent.shape[1] * jnp.arange(latents)[:, None, None]
    by_latent = by_latent.max(axis=1)
    if window:
        promising = jnp.argsort(-by_latent, axis=0)[: min(_REFINED, latents)]
        for which in promising:
            row = jnp.take_along_axis(rows, which[None], axis=0)[0]
            fine, fine_cut, fine_left = _refine(codes, nodes, row, residual, window)
            better = fine > best
            own = jnp.arange(latents)[:, None, None] == which[None]
            by_latent = jnp.where(own, jnp.maximum(fine[None], by_latent), by_latent)
            best = jnp.where(better, fine, best)
            latent = jnp.where(better, which, latent)
            cut = jnp.where(better, fine_cut, cut)
            left = jnp.where(better, fine_left, left)
    tied = (by_latent >= (1.0 - _TIE) * best[None]).astype(gain.dtype)
    credit = best[None] * tied / tied.sum(axis=0, keepdims=True)
    return _Splits(latent, cut, credit, left, total - left)


def _prefix_sums(values: jax.Array) -> jax.Array:
    """Returns inclusive sums along the last axis, whose length `_BLOCK` divides."""
    blocks = values.reshape(*values.shape[:-1], -1, _BLOCK)
    place = jnp.arange(max(blocks.shape[-2:]))
    triangle = (place[:, None] <= place[None, :]).astype(values.dtype)
    within = _product(blocks, triangle[:_BLOCK, :_BLOCK])
    count = blocks.shape[-2]
    whole = within[..., -1]
    until = _product(whole, triangle[:count, :count])
    return (within + (until - whole)[..., None]).reshape(values.shape)


def _refine(
    codes: _Codes, nodes: _Nodes, row: jax.Array, residual: jax.Array, window: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns gain, cut and left-hand sum of the best threshold near a boundary.

    `row` ``[P, C]`` are the boundaries; the sums start at the boundary before each.
    """
    sums, counts, total, size, members = nodes
    place = jnp.arange(window)
    before = jnp.maximum(row - 1, 0)[None]
    # No boundary comes before the first one of a latent, where sums start from 0.
    from_zero = (codes.start[row] == 0)[:, :, None]
    base_sum = jnp.take_along_axis(sums, before, axis=0)[0][:, :, None]
    base_count = jnp.take_along_axis(counts, before, axis=0)[0][:, :, None]
    positions = codes.start[row][:, :, None] + place[None, None, :]
    inside = positions < codes.stop[row][:, :, None]
    positions = jnp.minimum(positions, codes.order.shape[1] - 1)
    latent = jnp.broadcast_to(codes.latent[row][:, :, None], positions.shape)
    rows = codes.order[latent, positions]
    member = jnp.stack(
        [jnp.take_along_axis(m, r, axis=1) for m, r in zip(members, rows)]
    )
    member = jnp.where(inside, member, 0.0)
    weighted = member * jnp.stack(
        [jnp.take_along_axis(residual, r, axis=1) for r in rows]
    )
    fine_sum = jnp.where(from_zero, 0.0, base_sum) + _prefix_sums(weighted)
    fine_count = jnp.where(from_zero, 0.0, base_count) + _prefix_sums(member)
    fine = _gain(fine_sum, fine_count, total[:, :, None], size[:, :, None])
    fine = jnp.where(inside & codes.distinct[latent, positions], fine, 0.0)
    choice = jnp.argmax(fine, axis=2)[:, :, None]
    return tuple(
        jnp.take_along_axis(array, choice, axis=2)[:, :, 0]
        for array in (fine, positions, fine_sum)
    )


_product = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


def _tree_values(
    rank: jax.Array, splits: list[_Splits], leaves: jax.Array
) -> jax.Array:
    """Returns values ``[C, N]`` of trees; splits per level, leaves ``[8, C]``."""
    shape = (leaves.shape[1], rank.shape[1])
    value = [jnp.broadcast_to(leaf[:, None], shape) for leaf in leaves]
    for level in reversed(splits):
        value = [
            jnp.where(rank[latent] <= cut[:, None], value[2 * i], value[2 * i + 1])
            for i, (latent, cut) in enumerate(zip(level.latent, level.cut))
        ]
    return value[0]


@functools.partial(jax.jit, static_argnames=("sizes", "rounds", "window"))
def _boost(
    codes: _Codes,
    labels: jax.Array,
    learning_rate: float,
    *,
    sizes: tuple[int, ...],
    rounds: int,
    window: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns logits ``[C, N]``, ``[C, M]`` and importances ``[D, C]``, C classes."""
    n = codes.below.shape[1]
    target = jnp.concatenate(
        [jax.nn.one_hot(labels[:, k], s, dtype=jnp.float32, axis=0) for k, s in
         enumerate(sizes)],
        axis=0,
    )  # fmt: skip
    trees = len(target)
    prior = target.mean(axis=1)
    start = jnp.log(jnp.maximum(prior, 1e-12))[:, None]
    # The Newton factor (K − 1) / K counts the classes that occur.
    present = [(p > 0).sum() for p in jnp.split(prior, np.cumsum(sizes)[:-1])]
    shrink = jnp.concatenate(
        [jnp.full(s, 1.0) * (p - 1) / p for p, s in zip(present, sizes)]
    )
    counts_root = codes.below.sum(axis=1)[:, None, None]

    def sums_of(columns: list[jax.Array]) -> jax.Array:
        """Returns left-hand sums ``[T, P, C]`` of P columns ``[C, N]``."""
        stacked = jnp.concatenate(columns, axis=0)
        return _product(codes.below, stacked.T).reshape(-1, len(columns), trees)

    def one_round(carry: tuple, _: None) -> tuple[tuple, None]:
        logits, logits_test, importance = carry
        p = _softmax(logits, sizes)
        residual = target - p
        curvature = p * (1.0 - p)

        total = residual.sum(axis=1)[None]
        size = jnp.full(total.shape, float(n))
        sums = sums_of([residual])
        counts = jnp.broadcast_to(counts_root, sums.shape)
        members = [jnp.ones_like(residual)]
        splits = []
        for level in range(3):
            nodes = _Nodes(sums, counts, total, size, members)
            split = _best_splits(codes, nodes, residual, window)
            splits.append(split)
            importance = importance + split.credit.sum(axis=1)
            lefts = [
                jnp.where(codes.rank[latent] <= cut[:, None], m, 0.0)
                for m, latent, cut in zip(members, split.latent, split.cut)
            ]
            rights = [m - left for m, left in zip(members, lefts)]
            members = [m for pair in zip(lefts, rights) for m in pair]
            if level == 2:
                break
            width = len(lefts)
            total = jnp.stack([split.left, split.right], axis=1).reshape(-1, trees)
            left = sums_of([m * residual for m in lefts] + lefts)
            left_sums, left_counts = left[:, :width], left[:, width:]
            sums = jnp.stack([left_sums, sums - left_sums], axis=2)
            counts = jnp.stack([left_counts, counts - left_counts], axis=2)
            sums = sums.reshape(-1, 2 * width, trees)
            counts = counts.reshape(sums.shape)
            size_left = jnp.stack([m.sum(axis=1) for m in lefts])
            size = jnp.stack([size_left, size - size_left], axis=1).reshape(-1, trees)
        # The sums are over the rows of the leaf. Differences of histogram sums have the
        # rounding errors of all rows, which a small curvature would amplify.
        total = jnp.stack([(m * residual).sum(axis=1) for m in members])
        bend = jnp.stack([(m * curvature).sum(axis=1) for m in members])
        leaves = shrink[None] * total / jnp.maximum(bend, 1e-30)
        leaves = learning_rate * jnp.where(bend > 1e-30, leaves, 0.0)
        logits = logits + _tree_values(codes.rank, splits, leaves)
        logits_test = logits_test + _tree_values(codes.rank_test, splits, leaves)
        return (logits, logits_test, importance), None

    carry = (
        jnp.broadcast_to(start, target.shape),
        jnp.broadcast_to(start, (trees, codes.rank_test.shape[1])),
        jnp.zeros((len(codes.order), trees)),
    )
    return jax.lax.scan(one_round, carry, None, length=rounds)[0]


def boosted_trees(
    codes: np.ndarray,
    labels: np.ndarray,
    sizes: tuple[int, ...],
    codes_test: np.ndarray | None = None,
    *,
    bins: int = 32,
    rounds: int = 100,
    learning_rate: float = 0.1,
) -> BoostedTrees:
    """Fits gradient-boosted trees for all factors at once.

    Args:
      codes: ``[N, D]`` features.
      labels: ``[N, K]`` integers below ``sizes``.
      sizes: number of classes of each factor.
      codes_test: ``[M, D]`` rows to predict, or None.
      bins: quantile bins of a feature, whose boundaries are tried first.
      rounds: boosting rounds, each with one tree of depth 3 per class.
      learning_rate: shrinkage of every leaf.
    """
    edges = bin_edges(codes, bins)
    codes_test = codes[:0] if codes_test is None else codes_test
    prepared, window = _prepare(codes, codes_test, edges, bins)
    logits, logits_test, gains = _boost(
        prepared, jnp.asarray(labels), learning_rate, sizes=tuple(sizes),
        rounds=rounds, window=window,
    )  # fmt: skip
    starts = np.cumsum((0, *sizes[:-1]))
    gains = np.add.reduceat(np.asarray(gains, np.float64), starts, axis=1)
    total = gains.sum(axis=0, keepdims=True)
    importance = np.where(total > 0, gains / np.where(total > 0, total, 1.0), 0.0)
    return BoostedTrees(importance, np.asarray(logits).T, np.asarray(logits_test).T)
