"""Interventional scores: BetaVAE, FactorVAE and Z-max-variance.

Each draws small batches in which one factor is held (or only one is varied) and
predicts the factor from the latents. `metrics.sources` documents what they take. Draws
from a dataset follow disentanglement_lib's ``RandomState`` sequence, so that its scores
can be replayed vote by vote. Arguments that all three take:

* encode_fn, dataset: an encoder and a dataset, or codes and factors;
* codes_test, factors_test: accepted as in every score; the scores draw fresh batches;
* groups: sizes of latent variables; the distance of a multi-dimensional variable is
  Euclidean, and its variance the sum over its dimensions;
* batch_size: images (or pairs of images) of a vote;
* num_train, num_eval: votes to fit and to score the classifier;
* factor_bins: draw the rows of a batch from arrays, even of a full grid, whose factors
  are divided into that many bins, as the ubisoft library does;
* rescale: return (accuracy − 1/K) / (1 − 1/K) as the score;
* encode_batch: images to encode at once;
* seed: seed of all draws.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.estimators import logistic_regression, logits
from disentangle_jax.metrics.inputs import ArrayLike, Score
from disentangle_jax.metrics.intervals import Bootstrap
from disentangle_jax.metrics.sources import (
    Conditional,
    Source,
    draw_factors,
    source_of,
)
from disentangle_jax.metrics.votes import by_blocks, group_setting, lengths, majority
from disentangle_jax.types import check_groups


def _check_counts(function: str, **counts: int) -> None:
    for name, value in counts.items():
        if value < 2:
            raise ValueError(f"{function}: `{name}` must be at least 2, got {value}.")


_STUDY = {
    "batch_size": 64, "num_train": 10_000, "num_eval": 5_000,
    "num_variance_estimate": 10_000, "factor_bins": None, "rescale": False,
}  # fmt: skip


def _rescale(accuracy: Any, k: int) -> Any:
    """Rescales an accuracy so that chance, 1/k, is 0."""
    return (accuracy - 1.0 / k) / (1.0 - 1.0 / k) if k > 1 else accuracy


def _held_factor_batches(
    source: Source, rs: np.random.RandomState, votes: int, batch: int, pairs: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Returns held factors ``[votes]`` and indices ``[votes, 1 + pairs, batch]``.

    In a pair of batches, rows j of both share the value of the held factor; in a single
    batch all rows do.
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
        return held, source.lookup(drawn, rs)
    held = rs.randint(factors, size=votes)
    rows = np.empty((votes, 1 + pairs, batch), np.int64)
    for k in range(factors):
        own = np.flatnonzero(held == k)
        sampler = Conditional(source.labels[:, k])
        if pairs:
            value = rs.choice(sampler.shared, size=len(own) * batch)
            both = sampler.rows(rs, value, 2, unit=2).reshape(len(own), batch, 2)
            rows[own] = np.moveaxis(both, 2, 1)
        else:
            value = rs.choice(sampler.shared, size=len(own))
            rows[own, 0] = sampler.rows(rs, value, batch)
    return held, rows


def _accuracy_interval(key: str) -> Callable:
    def interval(score: Score, bootstrap: Bootstrap) -> dict[str, np.ndarray]:
        accuracy = bootstrap.accuracy(score)
        if score.settings["rescale"]:
            accuracy = _rescale(accuracy, len(bootstrap.arrays.sizes))
        return {key: accuracy}

    return interval


@define(
    keys={
        "beta_vae_score": "accuracy of naming the factor that pairs of images share "
        "(1 is best)",
        "train_accuracy": "the same on the training votes",
        "chance_corrected": "the score rescaled so that chance is 0 (1 is best)",
    },
    deterministic=False,
    groups=True,
    interventional=True,
    cost="medium",
    invariant_to=("shift",),
    conventions={
        "dlib": {
            "batch_size": 64,
            "num_train": 10_000,
            "num_eval": 5_000,
            "factor_bins": None,
            "rescale": False,
        },
        "ubisoft": {
            "batch_size": 200,
            "num_train": 10_000,
            "num_eval": 5_000,
            "factor_bins": 10,
            "rescale": True,
        },
    },  # fmt: skip
    interval=_accuracy_interval("beta_vae_score"),
    reference="Higgins et al. 2017, beta-VAE: Learning Basic Visual Concepts with a "
    "Constrained Variational Framework",
)
def beta_vae_score(
    encode_fn: Callable | ArrayLike,
    dataset: Any,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    batch_size: int = 64,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    factor_bins: int | None = None,
    rescale: bool = False,
    encode_batch: int = 1024,
    seed: int = 0,
) -> Score:
    r"""BetaVAE score, or Z-diff (Higgins et al. 2017).

    A vote is the mean of :math:`|z^1 - z^2|` over ``batch_size`` pairs that share one
    factor; a multinomial logistic regression (L2, C = 1, on raw features) predicts
    which. The score is its accuracy: in [1/K, 1] up to noise, higher is better. It is 1
    as soon as K − 1 of the K factors are disentangled (the last follows by
    elimination), so it does not notice one missing factor.

    Arguments: see `metrics.interventions`.

    Returns:
      ``beta_vae_score``, ``train_accuracy``, and ``chance_corrected``:
      (accuracy − 1/K) / (1 − 1/K).
    """
    name = "beta_vae_score"
    _check_counts(name, batch_size=batch_size, num_train=num_train, num_eval=num_eval)
    source = source_of(name, encode_fn, dataset, encode_batch, factor_bins)
    rs = np.random.RandomState(seed)
    held, rows = _held_factor_batches(
        source, rs, num_train + num_eval, batch_size, pairs=True
    )
    codes, place = source.codes(rows)
    groups = check_groups(name, groups, codes.shape[1])
    features = by_blocks(
        place,
        lambda p: lengths(codes[p[:, 0]] - codes[p[:, 1]], groups).mean(axis=1),
    ).astype(np.float64)
    k = len(source.sizes)
    fit = logistic_regression(features[:num_train], held[:num_train, None], (k,))[0]
    right = logits(fit, features).argmax(axis=1) == held
    train, score = right[:num_train].mean(), right[num_train:].mean()
    settings = source.settings | group_setting(groups) | {
        "batch_size": batch_size, "num_train": num_train, "num_eval": num_eval,
        "factor_bins": factor_bins, "rescale": rescale, "encodes": len(codes),
        "seed": seed,
    }  # fmt: skip
    corrected = _rescale(score, k)
    return Score(
        {
            name: corrected if rescale else score,
            "train_accuracy": train,
            "chance_corrected": corrected,
        },
        settings,
        matrices={"correct": right[num_train:]},
    )


@define(
    keys={
        "factor_vae_score": "accuracy of naming the held factor from the latent that "
        "varies least (1 is best)",
        "train_accuracy": "the same on the training votes",
        "chance_corrected": "the score rescaled so that chance is 0 (1 is best)",
        "active_latents": "number of latents that vote",
    },
    deterministic=False,
    groups=True,
    interventional=True,
    invariant_to=("permutation", "shift"),
    conventions={
        "disent": _STUDY | {"threshold": 0.0, "constant_votes": True},
        "dlib": _STUDY | {"threshold": 0.05, "constant_votes": False},
        "ubisoft": {
            "batch_size": 200,
            "num_train": 800,
            "num_eval": 800,
            "num_variance_estimate": 10_000,
            "factor_bins": 10,
            "rescale": True,
            "threshold": 0.05,
            "constant_votes": False,
        },
    },  # fmt: skip
    interval=_accuracy_interval("factor_vae_score"),
    reference="Kim & Mnih 2018, Disentangling by Factorising",
)
def factor_vae_score(
    encode_fn: Callable | ArrayLike,
    dataset: Any,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    batch_size: int = 64,
    num_train: int = 10_000,
    num_eval: int = 5_000,
    num_variance_estimate: int = 10_000,
    threshold: float = 0.05,
    constant_votes: bool = False,
    factor_bins: int | None = None,
    rescale: bool = False,
    encode_batch: int = 1024,
    seed: int = 0,
) -> Score:
    r"""FactorVAE score, or Z-min-variance (Kim & Mnih 2018).

    A vote holds one factor in a batch and names the latent with the smallest variance
    relative to its global variance (both ddof 1). The score is the accuracy of the
    majority-vote classifier. In [1/K, 1] up to noise, higher is better.

    Latents with a global standard deviation below ``threshold`` do not vote: 0.05 in
    the study, 0 in other libraries, which matters as soon as latents collapse. A latent
    with no variance never votes. If no latent votes, the score is that of guessing the
    most frequent factor.

    Args:
      num_variance_estimate: images for the global variances.
      threshold: smallest standard deviation of a latent that votes.
      constant_votes: if a latent is constant, let it win every vote, as it does in
        disent (whose 0/0 is the smallest number there is).

    Other arguments: see `metrics.interventions`.

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
    source = source_of(name, encode_fn, dataset, encode_batch, factor_bins)
    rs = np.random.RandomState(seed)
    if source.lookup is not None:
        wide = draw_factors(rs, source.sizes, num_variance_estimate)
        wide = source.lookup(wide, rs)
    elif len(source.labels) <= num_variance_estimate:
        wide = np.arange(len(source.labels))
    else:
        wide = rs.permutation(len(source.labels))[:num_variance_estimate]
    held, rows = _held_factor_batches(
        source, rs, num_train + num_eval, batch_size, pairs=False
    )
    codes, place = source.codes(np.concatenate([wide, rows.reshape(-1)]))
    groups, k = check_groups(name, groups, codes.shape[1]), len(source.sizes)
    right, table, active = majority(
        codes, codes[place[: len(wide)]], place[len(wide) :].reshape(-1, batch_size),
        held, np.argmin, k=k, num_train=num_train, threshold=threshold,
        constant_votes=constant_votes, groups=groups,
    )  # fmt: skip
    score = right[num_train:].mean()
    settings = source.settings | group_setting(groups) | {
        "batch_size": batch_size, "num_train": num_train, "num_eval": num_eval,
        "num_variance_estimate": num_variance_estimate, "threshold": threshold,
        "constant_votes": constant_votes, "factor_bins": factor_bins,
        "rescale": rescale, "encodes": len(codes), "seed": seed,
    }  # fmt: skip
    corrected = _rescale(score, k)
    return Score(
        {
            name: corrected if rescale else score,
            "train_accuracy": right[:num_train].mean(),
            "chance_corrected": corrected,
            "active_latents": active,
        },
        settings,
        matrices={"votes": table, "correct": right[num_train:]},
    )


def _varied_factor_batches(
    source: Source, rs: np.random.RandomState, votes: int, batch: int, bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns varied factors ``[votes]`` and indices ``[votes, batch]``."""
    factors = len(source.sizes)
    varied = rs.randint(factors, size=votes)
    if source.lookup is not None:
        base = draw_factors(rs, source.sizes, votes)
        drawn = np.repeat(base[:, None, :], batch, axis=1)
        for k, size in enumerate(source.sizes):
            own = varied == k
            drawn[own, :, k] = rs.randint(size, size=(own.sum(), batch))
        return varied, source.lookup(drawn, rs)
    # With coarse bins the other factors agree in more than one row.
    rows = np.empty((votes, batch), np.int64)
    for k in range(factors):
        own = np.flatnonzero(varied == k)
        others = np.delete(source.labels, k, axis=1)
        cells, cell = np.unique(others, axis=0, return_inverse=True)
        if len(cells) == len(others):
            raise ValueError(
                "z_max_var: `bins` must be coarse enough that two rows agree in all "
                f"factors but number {k}, got {bins}. Take fewer bins or more rows."
            )
        sampler = Conditional(cell.reshape(-1))
        rows[own] = sampler.rows(rs, rs.choice(sampler.shared, size=len(own)), batch)
    return varied, rows


def _z_max_var_interval(score: Score, bootstrap: Bootstrap) -> dict[str, np.ndarray]:
    accuracy = bootstrap.accuracy(score)
    rescaled = _rescale(accuracy, len(bootstrap.arrays.sizes))
    return {"z_max_var": rescaled, "accuracy": accuracy}


@define(
    keys={
        "z_max_var": "accuracy of naming the varied factor from the latent that varies "
        "most, rescaled so that chance is 0 (1 is best)",
        "accuracy": "the same accuracy before rescaling (1 is best)",
    },
    deterministic=False,
    groups=True,
    interventional=True,
    invariant_to=("permutation", "shift"),
    conventions={
        "ubisoft": {
            "bins": 3,
            "threshold": 0.05,
            "batch_size": 200,
            "num_train": 800,
            "num_eval": 800,
        }
    },  # fmt: skip
    interval=_z_max_var_interval,
    reference="Kim et al. 2019, Relevance Factor VAE",
)
def z_max_var(
    encode_fn: Callable | ArrayLike,
    dataset: Any,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    bins: int = 3,
    threshold: float = 0.05,
    batch_size: int = 200,
    num_train: int = 800,
    num_eval: int = 800,
    encode_batch: int = 1024,
    seed: int = 0,
) -> Score:
    r"""Z-max-variance (Kim et al. 2019, Relevance Factor VAE).

    As `factor_vae_score`, but a batch varies one factor and holds all others, and the
    vote goes to the latent with the *largest* relative variance. Rescaled so that
    chance is 0: (accuracy − 1/K) / (1 − 1/K). In [0, 1] up to noise, higher is better.
    With arrays, the values of a factor are first merged into ``bins`` equal-width bins
    (a held factor then still varies within its bin).

    Args:
      threshold: smallest standard deviation of a latent that votes.
      bins: number of bins of each factor, with arrays.

    Other arguments: see `metrics.interventions`.

    Returns:
      ``z_max_var`` and the ``accuracy`` before rescaling.
    """
    name = "z_max_var"
    _check_counts(name, batch_size=batch_size, num_train=num_train, num_eval=num_eval)
    source = source_of(name, encode_fn, dataset, encode_batch, bins)
    rs = np.random.RandomState(seed)
    varied, rows = _varied_factor_batches(
        source, rs, num_train + num_eval, batch_size, bins
    )
    codes, place = source.codes(rows)
    everything = codes
    if source.lookup is None:
        everything = source.codes_of(np.arange(len(source.labels)))
    groups, k = check_groups(name, groups, codes.shape[1]), len(source.sizes)
    right, table, _ = majority(
        codes, everything, place, varied, np.argmax, k=k, num_train=num_train,
        threshold=threshold, groups=groups,
    )  # fmt: skip
    score = right[num_train:].mean()
    settings = source.settings | group_setting(groups) | {
        "batch_size": batch_size, "num_train": num_train, "num_eval": num_eval,
        "threshold": threshold, "bins": bins, "encodes": len(codes), "seed": seed,
    }  # fmt: skip
    return Score(
        {name: _rescale(score, k), "accuracy": score},
        settings,
        matrices={"votes": table, "correct": right[num_train:]},
    )
