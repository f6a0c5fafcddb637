"""Unfairness of predictions to a factor that should not matter."""

from collections.abc import Callable
from typing import Any

import numpy as np

from disentangle_jax.metrics._inputs import ArrayLike, Score
from disentangle_jax.metrics._sources import Conditional, draw_factors, source_of
from disentangle_jax.metrics.estimators import boosted_trees


def fairness(
    encode_fn: Callable | ArrayLike,
    dataset: Any,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    num_train: int = 10_000,
    points_per_class: int = 100,
    encode_batch: int = 1024,
    seed: int = 0,
) -> Score:
    r"""Unfairness (Locatello et al. 2019, On the Fairness of …, Eq. 3).

    Boosted trees predict a target factor y from the code of ``num_train`` points. For
    a sensitive factor s, ``points_per_class`` new points are drawn with s set to each
    of its values, and

    .. math:: \frac{1}{|S|} \sum_s \mathrm{TV}\big(p(\hat y), p(\hat y \mid do(s))\big)

    compares the predicted classes of all these points with those of one value (total
    variation, half the sum of absolute differences). The mean over all pairs of target
    and sensitive factor is in [0, 1]; lower is better. Finite samples alone give some
    0.05–0.3, more for factors with many values.

    Args:
      encode_fn: encoder, or codes ``[N, D]``; see `metrics._sources`. With
        arrays that are no full grid, ``do(s)`` becomes conditioning on s, and the
        points are drawn from the rows that the trees were fitted on.
      dataset: data set, or factors ``[N, K]``.
      codes_test: accepted as in every score; points are drawn afresh instead.
      factors_test: as ``codes_test``.
      num_train: points that the trees are fitted on.
      points_per_class: points drawn for each value of a sensitive factor.
      encode_batch: images encoded at once.
      seed: seeds all draws.

    Returns:
      ``unfairness`` and ``worst`` (largest entry); the matrix over target × sensitive
      is in ``matrices["unfairness"]`` (0 on its diagonal).
    """
    source = source_of("fairness", encode_fn, dataset, encode_batch)
    k = len(source.sizes)
    if k < 2:
        raise ValueError("fairness: `factors` must have at least two factors, got 1.")
    rs = np.random.RandomState(seed)
    if source.lookup is not None:
        drawn = draw_factors(rs, source.sizes, num_train)
        train, labels = source.lookup(drawn), drawn
    else:
        train = rs.permutation(len(source.labels))[:num_train]
        labels = source.labels[train]
    points = []
    for s, size in enumerate(source.sizes):
        if source.lookup is not None:
            base = draw_factors(rs, source.sizes, size * points_per_class)
            base[:, s] = np.repeat(np.arange(size), points_per_class)
            points.append(source.lookup(base).reshape(size, points_per_class))
        else:
            sampler = Conditional(source.labels[:, s])
            values = np.arange(len(sampler.values))
            points.append(sampler.rows(rs, values, points_per_class))
    codes, place = source.codes(
        np.concatenate([train, *(p.reshape(-1) for p in points)])
    )
    new = codes[place[len(train) :]]
    fit = boosted_trees(codes[place[: len(train)]], labels, source.sizes, new)
    stops = np.cumsum(source.sizes)
    matrix = np.zeros((k, k))
    for target, (classes, stop) in enumerate(zip(source.sizes, stops)):
        guess = fit.logits_test[:, stop - classes : stop].argmax(axis=1)
        start = 0
        for s, drawn in enumerate(points):
            own = guess[start : start + drawn.size].reshape(drawn.shape)
            start += drawn.size
            if s == target:
                continue
            share = np.stack([(own == c).mean(axis=1) for c in range(classes)], axis=1)
            overall = share.mean(axis=0, keepdims=True)
            matrix[target, s] = np.mean(0.5 * np.abs(share - overall).sum(axis=1))
    apart = ~np.eye(k, dtype=bool)
    settings = source.settings | {
        "num_train": len(train), "points_per_class": points_per_class, "seed": seed,
        "encodes": len(codes),
    }  # fmt: skip
    return Score(
        {"unfairness": matrix[apart].mean(), "worst": matrix[apart].max()},
        settings,
        matrices={"unfairness": matrix},
    )
