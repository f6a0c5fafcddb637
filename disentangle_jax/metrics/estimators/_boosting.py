"""Gradient-boosted trees with softmax loss, all factors in one program.

The learner of scikit-learn's ``GradientBoostingClassifier`` (Friedman 2001: depth 3,
100 rounds, learning rate 0.1, one tree for each class and round, Newton leaves). Only
the search for a split differs: it looks at the boundaries of quantile bins first and
then at every threshold within the two bins next to the best boundary, where
scikit-learn looks at all thresholds (for the two latents with the best boundaries;
refining one alone would favour it). Codes with no more distinct values than bins are
split exactly as there.

A scatter is slow on every XLA backend, so nothing is scattered. ``below[t, n]`` says
whether row n lies on the left of boundary t (of all latents); one matrix product of it
with the residuals of *all* trees of a round gives the left-hand sums of every boundary.
A level costs one product for the left children (the right ones follow by subtraction),
a round 7 columns for each class.
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


class _Codes(NamedTuple):
    """Sorted and binned codes; T boundaries are those of all latents, after one more.

    The first boundary has every row on its left: the "split" of a node that cannot be
    split. A cut at position j of a latent sends the rows of rank 0 … j to the left.
    """

    below: jax.Array  # [T, N] float32: 1 on the left of a boundary
    order: jax.Array  # [D, N] rows of each latent by value
    rank: jax.Array  # [D, N] where each row is in that order
    rank_test: jax.Array  # [D, M] a test row is on the left of cuts from here on
    distinct: jax.Array  # [D, N] whether a cut after this position parts two values
    latent: jax.Array  # [T] latent of a boundary
    cut: jax.Array  # [T] its position
    start: jax.Array  # [T] first position of the two bins next to it
    stop: jax.Array  # [T] position after them; `start` where there is nothing between


def _prepare(
    codes: np.ndarray, codes_test: np.ndarray, edges: np.ndarray, bins: int
) -> tuple[_Codes, int]:
    """Sorts and bins codes; also returns the width of the widest pair of bins.

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
        # Nothing to refine where every threshold is a boundary; bins that one value
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
    """Softmax of ``[sum(sizes), N]`` within each factor."""
    parts = jnp.split(logits, np.cumsum(sizes)[:-1], axis=0)
    return jnp.concatenate([jax.nn.softmax(part, axis=0) for part in parts], axis=0)


# Length of the blocks of prefix sums.
_BLOCK = 32

# Latents whose best boundary is refined, most promising first. More change little.
_REFINED = 2

# Relative difference of gains below which splits count as equally good; float32 sums
# tell no smaller ones apart.
_TIE = 1e-4


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
    """Decrease of the sum of squared residuals; 0 where one side is empty."""
    rest = size - counts
    valid = (counts > 0.5) & (rest > 0.5)
    n_left = jnp.where(valid, counts, 1.0)
    n_right = jnp.where(valid, rest, 1.0)
    gap = sums / n_left - (total - sums) / n_right
    return jnp.where(valid, gap**2 * n_left * n_right / jnp.maximum(size, 1.0), 0.0)


def _best_splits(
    codes: _Codes,
    sums: jax.Array,
    counts: jax.Array,
    total: jax.Array,
    size: jax.Array,
    members: list[jax.Array],
    residual: jax.Array,
    window: int,
) -> _Splits:
    """Chooses the splits of P nodes of C trees.

    Args:
      codes: the prepared codes.
      sums: ``[T, P, C]`` sums of residuals on the left of each boundary.
      counts: ``[T, P, C]`` rows on the left.
      total: ``[P, C]`` sums over the nodes.
      size: ``[P, C]`` rows of the nodes.
      members: P masks ``[C, N]``.
      residual: ``[C, N]``.
      window: largest number of thresholds next to a boundary; 0 for no refinement.

    A node that cannot be split takes the first boundary, which sends all to the left at
    no gain. Latents that split equally well (in small nodes many do) share the credit,
    where scikit-learn draws one of them.
    """
    latents = len(codes.order)
    gain = _gain(sums, counts, total[None], size[None])
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
            fine, fine_cut, fine_left = _refine(
                codes, row, sums, counts, total, size, members, residual, window
            )
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
    """Inclusive sums along the last axis, a multiple of `_BLOCK`, as small products."""
    blocks = values.reshape(*values.shape[:-1], -1, _BLOCK)
    place = jnp.arange(max(blocks.shape[-2:]))
    triangle = (place[:, None] <= place[None, :]).astype(values.dtype)
    within = _product(blocks, triangle[:_BLOCK, :_BLOCK])
    count = blocks.shape[-2]
    whole = within[..., -1]
    until = _product(whole, triangle[:count, :count])
    return (within + (until - whole)[..., None]).reshape(values.shape)


def _refine(
    codes: _Codes,
    row: jax.Array,
    sums: jax.Array,
    counts: jax.Array,
    total: jax.Array,
    size: jax.Array,
    members: list[jax.Array],
    residual: jax.Array,
    window: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Gain, cut and left-hand sum of the best threshold next to a boundary.

    ``row`` is ``[P, C]``; the other arguments are those of `_best_splits`. The sums
    start at the boundary before.
    """
    place = jnp.arange(window)
    before = jnp.maximum(row - 1, 0)[None]
    # The first boundary of a latent has none before it: sums start from 0.
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
    """Values ``[C, N]`` of the trees; splits by level, leaves ``[8, C]``."""
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
    """Logits ``[C, N]`` and ``[C, M]`` and importances ``[D, C]``, C = sum(sizes)."""
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
        """``[T, P, C]`` left-hand sums of P columns ``[C, N]``."""
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
            split = _best_splits(
                codes, sums, counts, total, size, members, residual, window
            )
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
            nodes = len(lefts)
            total = jnp.stack([split.left, split.right], axis=1).reshape(-1, trees)
            left = sums_of([m * residual for m in lefts] + lefts)
            left_sums, left_counts = left[:, :nodes], left[:, nodes:]
            sums = jnp.stack([left_sums, sums - left_sums], axis=2)
            counts = jnp.stack([left_counts, counts - left_counts], axis=2)
            sums = sums.reshape(-1, 2 * nodes, trees)
            counts = counts.reshape(sums.shape)
            size_left = jnp.stack([m.sum(axis=1) for m in lefts])
            size = jnp.stack([size_left, size - size_left], axis=1).reshape(-1, trees)
        # Summed over the rows of the leaf itself: differences of histogram sums carry
        # the rounding of the whole data, which a small curvature would blow up.
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
      rounds: boosting rounds, each with one tree of depth 3 for every class.
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
