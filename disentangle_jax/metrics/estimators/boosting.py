"""Gradient-boosted trees with softmax loss.

The learner of scikit-learn's ``GradientBoostingClassifier`` (Friedman 2001: depth 3,
100 rounds, learning rate 0.1, one tree per class and round, Newton leaves). Only the
search for a split differs: scikit-learn tries all thresholds, this code 127 for each
latent: the boundaries of 64 quantile bins, and within each bin the threshold that best
separates the classes of the factor (without it, no split would separate classes whose
codes do not overlap). Codes with no more than 128 distinct values are split exactly as
in scikit-learn.

It runs on the host, in NumPy: all trees of a factor's round grow at once, level by
level. The sums of residuals in the bins of all latents are one product of a sparse
matrix (which rows lie in which bin) with a column per tree; that of the left children
suffices, since the right ones follow by subtraction. The factors are independent of
each other and share the cores of the machine.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from disentangle_jax.metrics.estimators.threads import in_threads


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
    """Codes in bins, B for each of D latents, and how to count rows in them."""

    bins: np.ndarray  # [D, N + M] uint8: bin of each row
    rows: csr_array  # [B D, N] float32: 1 where a row lies in a bin of a latent
    counts: np.ndarray  # [B, D, 1] rows in the bins 0 … b

    def left_sums(self, columns: np.ndarray) -> np.ndarray:
        """Returns sums ``[B, D, …]`` of columns ``[N, …]`` over the bins 0 … b."""
        sums = self.rows @ columns.reshape(len(columns), -1)
        sums = sums.reshape(*self.counts.shape[:2], *columns.shape[1:])
        for below, here in zip(sums, sums[1:]):
            here += below
        return sums


def _purity(labels: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns, for each row, the purity of its bin's rows up to and including it.

    The purity of n rows is the sum over classes of count² / n; bins begin at `starts`.
    """
    place = np.arange(len(labels))
    own = np.searchsorted(starts, place, side="right") - 1
    key = own * (labels.max() + 1) + labels
    order = np.argsort(key, kind="stable")
    first = np.searchsorted(key[order], key[order], side="left")
    seen = np.empty_like(place)
    seen[order] = place - first
    # One more row of a class seen m times adds (m + 1)² − m².
    squares = np.cumsum(2 * seen + 1)
    before = np.concatenate([[0], squares])[starts]
    return (squares - before[own]) / (place - starts[own] + 1)


def _class_edges(
    values: np.ndarray, labels: np.ndarray, edges: np.ndarray
) -> np.ndarray:
    """Returns one threshold within each bin: the one that best separates the classes.

    Args:
      values: ``[N]`` values of a latent in ascending order.
      labels: ``[N]`` classes of these rows.
      edges: thresholds between the bins.
    """
    n = len(values)
    stops = np.searchsorted(values, edges, side="right")
    starts = np.unique(np.concatenate([[0], stops[stops < n]]))
    stops = np.append(starts[1:], n)
    left = _purity(labels, starts)
    right = _purity(labels[::-1], n - stops[::-1])[::-1]
    purity = np.zeros(n)
    purity[:-1] = np.where(values[1:] > values[:-1], left[:-1] + right[1:], 0.0)
    purity[stops - 1] = 0.0  # These cuts are between bins.
    best = np.repeat(np.maximum.reduceat(purity, starts), stops - starts)
    cuts = np.flatnonzero((purity == best) & (purity > 0))
    bins = np.searchsorted(starts, cuts, side="right")
    cuts = cuts[np.unique(bins, return_index=True)[1]]
    return 0.5 * (values[cuts] + values[cuts + 1])


class _Sorted(NamedTuple):
    """The rows of each latent by value, and thresholds that suit every factor."""

    order: np.ndarray  # [D, N]
    values: np.ndarray  # [D, N]
    edges: list[np.ndarray]  # thresholds of each latent
    complete: list[bool]  # whether these are all thresholds

    @classmethod
    def of(cls, codes: np.ndarray, bins: int) -> "_Sorted":
        order = np.argsort(codes, axis=0, kind="stable").T
        values = np.take_along_axis(codes.T, order, axis=1)
        complete = [bool(np.count_nonzero(np.diff(v)) < bins) for v in values]
        edges = [
            bin_edges(column[:, None], bins if every else bins // 2)[0]
            for column, every in zip(codes.T, complete)
        ]
        return cls(order, values, edges, complete)

    def for_classes(self, labels: np.ndarray) -> list[np.ndarray]:
        """Returns thresholds of each latent for one factor with these labels."""
        return [
            edges
            if complete
            else np.union1d(edges, _class_edges(values, labels[order], edges))
            for order, values, edges, complete in zip(*self)
        ]


def _in_bins(codes: np.ndarray, edges: list[np.ndarray], n: int) -> _Codes:
    """Returns codes ``[N + M, D]`` in bins; the first `n` rows are those to fit."""
    latents, count = len(edges), max(map(len, edges)) + 1
    columns = [np.searchsorted(e, z, side="left") for e, z in zip(edges, codes.T)]
    bins = np.stack(columns).astype(np.uint8)
    place = bins[:, :n].astype(np.int32) * latents + np.arange(latents)[:, None]
    order = np.argsort(place, axis=None, kind="stable")
    counts = np.bincount(place.ravel(), minlength=count * latents)
    stops = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    entries = np.ones(place.size, np.float32), (order % n).astype(np.int32), stops
    rows = csr_array(entries, shape=(count * latents, n))
    counts = np.cumsum(counts.reshape(count, latents, 1), axis=0)
    return _Codes(bins, rows, counts.astype(np.float32))


# Relative difference of gains below which splits count as equally good; float32 sums
# cannot resolve smaller ones.
_TIE = 1e-4


class _Nodes(NamedTuple):
    """A node of each of C trees."""

    sums: np.ndarray  # [B, D, C] residuals in the bins 0 … b
    counts: np.ndarray  # [B, D, C] rows in these bins
    total: np.ndarray  # [C] sums of residuals
    size: np.ndarray  # [C] rows

    def gains(self) -> np.ndarray:
        """Returns the decreases ``[B, D, C]`` of the sum of squared residuals.

        They are 0 where a side is empty.
        """
        rest = self.size - self.counts
        gains = self.sums / np.maximum(self.counts, 1.0)
        right = self.total - self.sums
        right /= np.maximum(rest, 1.0)
        gains -= right
        gains *= gains
        gains *= self.counts
        gains *= rest
        gains /= np.maximum(self.size, 1.0)
        return gains

    def split(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns latent and last bin on the left ``[C]``, and credits ``[D]``.

        A node that cannot be split has all bins on the left and no credit. Latents that
        split equally well (many do in small nodes) share the credit, where scikit-learn
        picks one at random.
        """
        gains = self.gains()
        by_latent = gains.max(axis=0)
        best = by_latent.max(axis=0)
        tied = by_latent >= (1.0 - _TIE) * best
        credit = np.sum(best * tied / tied.sum(axis=0), axis=1)
        latent = by_latent.argmax(axis=0)
        cut = gains[:, latent, np.arange(len(latent))].argmax(axis=0)
        return latent, np.where(best > 0, cut, len(gains) - 1).astype(np.uint8), credit


def _grow(
    codes: _Codes, residual: np.ndarray, memory: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Grows a tree of depth 3 for each residual ``[C, N]``.

    Returns:
      The leaves ``[C, N + M]`` of all rows, and the credits ``[D]`` of the splits.
    """
    trees, n = residual.shape
    by_row = np.ascontiguousarray(residual.T)
    size = np.full(trees, n, np.float32)
    root = _Nodes(codes.left_sums(by_row), codes.counts, residual.sum(axis=1), size)
    level, credits = [root], []
    leaf = np.zeros((trees, codes.bins.shape[1]), np.uint8)
    for depth in range(3):
        right = np.zeros(leaf.shape, bool)
        for p, nodes in enumerate(level):
            latent, cut, credit = nodes.split()
            right |= (codes.bins[latent] > cut[:, None]) & (leaf == p)
            credits.append(credit)
        leaf = 2 * leaf + right
        if depth == 2:
            break
        shape = (n, 2, len(level), trees)
        columns = memory[: np.prod(shape)].reshape(shape)
        for p in range(len(level)):
            columns[:, 1, p] = np.ascontiguousarray((leaf[:, :n] == 2 * p).T)
            np.multiply(columns[:, 1, p], by_row, out=columns[:, 0, p])
        sums, counts = np.moveaxis(codes.left_sums(columns), 2, 0)
        children = []
        for p, parent in enumerate(level):
            own = sums[:, :, p], counts[:, :, p]
            left = _Nodes(*own, own[0][-1, 0], own[1][-1, 0])
            children += [left, _Nodes(*(a - b for a, b in zip(parent, left)))]
        level = children
    return leaf, np.sum(credits, axis=0)


def _fit_factor(
    codes: _Codes, labels: np.ndarray, classes: int, rounds: int, learning_rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns logits ``[N + M, classes]`` and the credits ``[D]`` of one factor."""
    n = len(labels)
    target = (labels[None] == np.arange(classes)[:, None]).astype(np.float32)
    prior = target.mean(axis=1)
    # The Newton factor (K − 1) / K counts the classes that occur.
    present = np.count_nonzero(prior)
    rate = learning_rate * (present - 1) / present
    logits = np.log(np.maximum(prior, 1e-12))[:, None]
    logits = np.repeat(logits, codes.bins.shape[1], axis=1)
    credits = np.zeros(len(codes.bins))
    # Allocated once: the first use of fresh memory takes longer than the arithmetic.
    p, residual, curvature = np.empty((3, classes, n), np.float32)
    memory = np.empty(4 * n * classes, np.float32)
    for _ in range(rounds):
        np.subtract(logits[:, :n], logits[:, :n].max(axis=0), out=p)
        np.exp(p, out=p)
        p /= p.sum(axis=0)
        np.subtract(target, p, out=residual)
        np.subtract(1.0, p, out=curvature)
        curvature *= p
        leaf, credit = _grow(codes, residual, memory)
        credits += credit
        for c in range(classes):
            own = leaf[c, :n].astype(np.intp)
            total = np.bincount(own, residual[c], minlength=8)
            bend = np.bincount(own, curvature[c], minlength=8)
            step = np.where(bend > 1e-30, total / np.maximum(bend, 1e-30), 0.0)
            logits[c] += (rate * step).astype(np.float32)[leaf[c]]
    return logits.T, credits


def boosted_trees(
    codes: np.ndarray,
    labels: np.ndarray,
    sizes: tuple[int, ...],
    codes_test: np.ndarray | None = None,
    *,
    bins: int = 128,
    rounds: int = 100,
    learning_rate: float = 0.1,
) -> BoostedTrees:
    """Fits gradient-boosted trees for all factors at once.

    Args:
      codes: ``[N, D]`` features.
      labels: ``[N, K]`` integers below ``sizes``.
      sizes: number of classes of each factor.
      codes_test: ``[M, D]`` rows to predict, or None.
      bins: number of bins of a feature, between which splits are tried; at most 256.
      rounds: boosting rounds, each with one tree of depth 3 per class.
      learning_rate: shrinkage of every leaf.
    """
    if not 2 <= bins <= 256:
        raise ValueError(f"boosted_trees: `bins` must lie in [2, 256], got {bins}.")
    codes = np.asarray(codes, np.float64)
    every = codes if codes_test is None else np.concatenate([codes, codes_test])
    ordered = _Sorted.of(codes, bins)

    def fit(k: int) -> tuple[np.ndarray, np.ndarray]:
        own = _in_bins(every, ordered.for_classes(labels[:, k]), len(codes))
        return _fit_factor(own, labels[:, k], sizes[k], rounds, learning_rate)

    fits = in_threads(fit, range(len(sizes)), sizes)
    logits = np.concatenate([logits for logits, _ in fits], axis=1)
    gains = np.stack([gains for _, gains in fits], axis=1)
    total = gains.sum(axis=0, keepdims=True)
    importance = np.where(total > 0, gains / np.where(total > 0, total, 1.0), 0.0)
    return BoostedTrees(importance, logits[: len(codes)], logits[len(codes) :])
