"""Scores that intervene: BetaVAE, FactorVAE and Z-max-variance.

Each draws small batches in which one factor is held (or alone is varied) and asks which
latent gives the factor away. What they take is told in `metrics._sources`. Draws with a
data set follow disentanglement_lib's ``RandomState`` sequence, so that scores can be
replayed vote by vote.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from disentangle_jax.metrics._information import equal_width_labels
from disentangle_jax.metrics._inputs import ArrayLike, Score
from disentangle_jax.metrics._sources import (
    Conditional,
    Source,
    draw_factors,
    source_of,
)
from disentangle_jax.metrics.estimators import logistic_regression, logits


def _check_counts(function: str, **counts: int) -> None:
    for name, value in counts.items():
        if value < 2:
            raise ValueError(f"{function}: `{name}` must be at least 2, got {value}.")


def _held_factor_batches(
    source: Source, rs: np.random.RandomState, votes: int, batch: int, pairs: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Held factor ``[votes]`` and indices ``[votes, batch]`` (two of them if pairs).

    In a pair of batches, row j of both shares the factor; in a single batch all rows.
    """
    factors = len(source.sizes)
    if source.lookup is not None:
        held = np.empty(votes, np.int64)
        drawn = np.empty((votes, 1 + pairs, batch, factors), np.int64)
        for v in range(votes):
            held[v] = rs.randint(factors)
            drawn[v, 0] = draw_factors(rs, source.sizes, batch)
            if pairs:
                drawn[v, 1] = draw_factors(rs, source.sizes, batch)
                drawn[v, 1, :, held[v]] = drawn[v, 0, :, held[v]]
            else:
                drawn[v, 0, :, held[v]] = drawn[v, 0, 0, held[v]]
        return held, source.lookup(drawn)
    held = rs.randint(factors, size=votes)
    rows = np.empty((votes, 1 + pairs, batch), np.int64)
    for k in range(factors):
        own = np.flatnonzero(held == k)
        sampler = Conditional(source.labels[:, k])
        if pairs:
            value = rs.randint(len(sampler.values), size=len(own) * batch)
            drawn = sampler.rows(rs, value, 2).reshape(len(own), batch, 2)
            rows[own] = np.moveaxis(drawn, 2, 1)
        else:
            value = rs.randint(len(sampler.values), size=len(own))
            rows[own, 0] = sampler.rows(rs, value, batch)
    return held, rows


def beta_vae_score(
    encode_fn: Callable | ArrayLike,
    dataset: Any,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    batch_size: int = 64,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    encode_batch: int = 1024,
    seed: int = 0,
) -> Score:
    r"""BetaVAE score, or Z-diff (Higgins et al. 2017).

    A point is the mean of :math:`|z^1 - z^2|` over ``batch_size`` pairs that share one
    factor; a multinomial logistic regression (L2, C = 1, on raw features) tells which.
    The score is its accuracy on ``num_eval`` points after ``num_train``: in [1/K, 1] up
    to noise, higher is better. It is 1 as soon as K − 1 of the K factors are
    disentangled (the last is told by elimination), so it cannot see a missing factor.

    Args:
      encode_fn: encoder, or codes ``[N, D]``; see `metrics._sources`.
      dataset: data set, or factors ``[N, K]``.
      codes_test: accepted as in every score; points are drawn afresh instead.
      factors_test: as ``codes_test``.
      batch_size: pairs of a point.
      num_train: points that the classifier is fitted on.
      num_eval: points that it is scored on.
      encode_batch: images encoded at once.
      seed: seeds all draws.

    Returns:
      ``beta_vae_score``, ``train_accuracy``, and ``chance_corrected``:
      (accuracy − 1/K) / (1 − 1/K).
    """
    name = "beta_vae_score"
    _check_counts(name, batch_size=batch_size, num_train=num_train, num_eval=num_eval)
    source = source_of(name, encode_fn, dataset, encode_batch)
    rs = np.random.RandomState(seed)
    held, rows = _held_factor_batches(
        source, rs, num_train + num_eval, batch_size, pairs=True
    )
    codes, place = source.codes(rows)
    features = np.empty((len(held), codes.shape[1]))
    for start in range(0, len(held), 512):
        part = slice(start, start + 512)
        gap = np.abs(codes[place[part, 0]] - codes[place[part, 1]])
        features[part] = gap.mean(axis=1)
    k = len(source.sizes)
    fit = logistic_regression(features[:num_train], held[:num_train, None], (k,))[0]
    right = logits(fit, features).argmax(axis=1) == held
    train, score = right[:num_train].mean(), right[num_train:].mean()
    settings = source.settings | {
        "batch_size": batch_size, "num_train": num_train, "num_eval": num_eval,
        "encodes": len(codes), "seed": seed,
    }  # fmt: skip
    return Score(
        {name: score, "train_accuracy": train, "chance_corrected": _rescale(score, k)},
        settings,
        matrices={"correct": right[num_train:]},
    )


def _rescale(accuracy: float, k: int) -> float:
    return 1.0 if k == 1 else (accuracy - 1.0 / k) / (1.0 - 1.0 / k)


def _active(codes: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Variances ``[D]`` (ddof 1) and the latents that vote.

    A constant latent is told by its range: its variance may round to above 0.
    """
    variance = codes.var(axis=0, ddof=1)
    alive = np.ptp(codes, axis=0) > 0
    return variance, np.flatnonzero((np.sqrt(variance) >= threshold) & alive)


def _majority(
    winner: np.ndarray, held: np.ndarray, latents: int, k: int, num_train: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which votes the majority of the training votes gets right, and their table."""
    table = np.zeros((latents, k), np.int64)
    np.add.at(table, (winner[:num_train], held[:num_train]), 1)
    right = table.argmax(axis=1)[winner] == held
    return right, table


def factor_vae_score(
    encode_fn: Callable | ArrayLike,
    dataset: Any,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    batch_size: int = 64,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    num_variance_estimate: int = 10_000,
    threshold: float = 0.05,
    encode_batch: int = 1024,
    seed: int = 0,
) -> Score:
    r"""FactorVAE score, or Z-min-variance (Kim & Mnih 2018).

    A vote holds one factor in a batch and names the latent with the smallest variance
    relative to its global variance (both ddof 1). The score is the accuracy on
    ``num_eval`` votes of the majority-vote classifier of ``num_train`` votes. In
    [1/K, 1] up to noise, higher is better.

    Latents with a global standard deviation below ``threshold`` do not vote: 0.05 in
    the study, 0 in other libraries, which matters as soon as latents collapse. A latent
    with no variance never votes, whatever the threshold. With no latent left the score
    is that of guessing the most frequent factor.

    Args:
      encode_fn: encoder, or codes ``[N, D]``; see `metrics._sources`.
      dataset: data set, or factors ``[N, K]``.
      codes_test: accepted as in every score; votes are drawn afresh instead.
      factors_test: as ``codes_test``.
      batch_size: images of a vote.
      num_train: votes that the majority is taken of.
      num_eval: votes that are scored.
      num_variance_estimate: images for the global variances.
      threshold: smallest standard deviation of a latent that votes.
      encode_batch: images encoded at once.
      seed: seeds all draws.

    Returns:
      ``factor_vae_score``, ``train_accuracy``, ``chance_corrected`` and
      ``active_latents`` (how many vote); the training votes are in
      ``matrices["votes"]`` ``[D, K]``.
    """
    name = "factor_vae_score"
    _check_counts(
        name, batch_size=batch_size, num_train=num_train, num_eval=num_eval,
        num_variance_estimate=num_variance_estimate,
    )  # fmt: skip
    source = source_of(name, encode_fn, dataset, encode_batch)
    rs = np.random.RandomState(seed)
    if source.lookup is not None:
        wide = source.lookup(draw_factors(rs, source.sizes, num_variance_estimate))
    elif len(source.labels) <= num_variance_estimate:
        wide = np.arange(len(source.labels))
    else:
        wide = rs.permutation(len(source.labels))[:num_variance_estimate]
    held, rows = _held_factor_batches(
        source, rs, num_train + num_eval, batch_size, pairs=False
    )
    codes, place = source.codes(np.concatenate([wide, rows.reshape(-1)]))
    variance, active = _active(codes[place[: len(wide)]], threshold)
    place = place[len(wide) :].reshape(len(held), batch_size)
    winner = np.zeros(len(held), np.int64)
    if len(active):
        live, scale = codes[:, active], variance[active]
        for start in range(0, len(held), 512):
            part = slice(start, start + 512)
            local = live[place[part]].var(axis=1, ddof=1) / scale
            winner[part] = active[local.argmin(axis=1)]
    k = len(source.sizes)
    right, table = _majority(winner, held, codes.shape[1], k, num_train)
    train, score = right[:num_train].mean(), right[num_train:].mean()
    settings = source.settings | {
        "batch_size": batch_size, "num_train": num_train, "num_eval": num_eval,
        "num_variance_estimate": num_variance_estimate, "threshold": threshold,
        "encodes": len(codes), "seed": seed,
    }  # fmt: skip
    return Score(
        {
            name: score,
            "train_accuracy": train,
            "chance_corrected": _rescale(score, k),
            "active_latents": len(active),
        },
        settings,
        matrices={"votes": table, "correct": right[num_train:]},
    )


def _varied_factor_batches(
    source: Source, rs: np.random.RandomState, votes: int, batch: int, bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Varied factor ``[votes]`` and indices ``[votes, batch]``, all others held."""
    factors = len(source.sizes)
    varied = rs.randint(factors, size=votes)
    if source.lookup is not None:
        base = draw_factors(rs, source.sizes, votes)
        drawn = np.repeat(base[:, None, :], batch, axis=1)
        for k, size in enumerate(source.sizes):
            own = varied == k
            drawn[own, :, k] = rs.randint(size, size=(own.sum(), batch))
        return varied, source.lookup(drawn)
    # Coarse bins, so that the other factors agree in more than one row.
    coarse = equal_width_labels(source.labels, bins)
    rows = np.empty((votes, batch), np.int64)
    for k in range(factors):
        own = np.flatnonzero(varied == k)
        _, cell = np.unique(np.delete(coarse, k, axis=1), axis=0, return_inverse=True)
        sampler = Conditional(cell.reshape(-1))
        usable = np.flatnonzero(sampler.count > 1)
        if not len(usable):
            raise ValueError(
                "z_max_var: `bins` must be coarse enough that two rows agree in all "
                f"factors but number {k}, got {bins}. Take fewer bins or more rows."
            )
        rows[own] = sampler.rows(rs, rs.choice(usable, size=len(own)), batch)
    return varied, rows


def z_max_var(
    encode_fn: Callable | ArrayLike,
    dataset: Any,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    batch_size: int = 200,
    num_train: int = 800,
    num_eval: int = 800,
    threshold: float = 0.05,
    bins: int = 3,
    encode_batch: int = 1024,
    seed: int = 0,
) -> Score:
    r"""Z-max-variance (Kim et al. 2019, Relevance Factor VAE).

    As `factor_vae_score`, but a batch varies one factor and holds all others, and the
    vote goes to the latent with the *largest* relative variance. Rescaled so that
    chance is 0: (accuracy − 1/K) / (1 − 1/K). In [0, 1] up to noise, higher is better.
    With arrays, the values of a factor are first merged to ``bins`` equal-width bins (a
    held factor then still varies within its bin).

    Args:
      encode_fn: encoder, or codes ``[N, D]``; see `metrics._sources`.
      dataset: data set, or factors ``[N, K]``.
      codes_test: accepted as in every score; votes are drawn afresh instead.
      factors_test: as ``codes_test``.
      batch_size: images of a vote.
      num_train: votes that the majority is taken of.
      num_eval: votes that are scored.
      threshold: smallest standard deviation of a latent that votes.
      bins: values that a factor of the arrays is merged to.
      encode_batch: images encoded at once.
      seed: seeds all draws.

    Returns:
      ``z_max_var`` and the ``accuracy`` it is rescaled from.
    """
    name = "z_max_var"
    _check_counts(name, batch_size=batch_size, num_train=num_train, num_eval=num_eval)
    if bins < 1:
        raise ValueError(f"{name}: `bins` must be positive, got {bins}.")
    source = source_of(name, encode_fn, dataset, encode_batch)
    rs = np.random.RandomState(seed)
    varied, rows = _varied_factor_batches(
        source, rs, num_train + num_eval, batch_size, bins
    )
    codes, place = source.codes(rows)
    everything = codes if source.labels is None else source.codes_of(
        np.arange(len(source.labels))
    )  # fmt: skip
    variance, active = _active(everything, threshold)
    winner = np.zeros(len(varied), np.int64)
    if len(active):
        for start in range(0, len(varied), 512):
            part = slice(start, start + 512)
            local = codes[:, active][place[part]].var(axis=1, ddof=1)
            winner[part] = active[(local / variance[active]).argmax(axis=1)]
    k = len(source.sizes)
    right, table = _majority(winner, varied, codes.shape[1], k, num_train)
    score = right[num_train:].mean()
    settings = source.settings | {
        "batch_size": batch_size, "num_train": num_train, "num_eval": num_eval,
        "threshold": threshold, "bins": bins, "encodes": len(codes), "seed": seed,
    }  # fmt: skip
    return Score(
        {name: _rescale(score, k), "accuracy": score},
        settings,
        matrices={"votes": table, "correct": right[num_train:]},
    )
