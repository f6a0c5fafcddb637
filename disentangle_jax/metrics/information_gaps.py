"""Scores of mutual information: MIG and its relatives, and modularity.

Each score is a function of the matrix :math:`I_{ik} = I(\\hat z_i; f_k)` of plug-in
mutual informations between the binned latent variables and the factors (see
`metrics.information` for the bins and ``groups=``). With ``groups`` of size one each is
the classic score.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.information import (
    HEAT_MAP,
    Information,
    information,
    label_entropies,
    top_two,
)
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Arrays,
    Score,
    as_key,
    check_arrays,
    check_log_var,
)
from disentangle_jax.metrics.intervals import OfInformation
from disentangle_jax.types import unknown_name

# How libraries bin codes and factors.
_DLIB = {"bins": 20, "bin_factors": False}
_UBISOFT = {"bins": 10, "bin_factors": True}

_DO_TRAN = (
    "Do & Tran 2020, Theory and Evaluation Metrics for Learning Disentangled "
    "Representations"
)


def _safe_ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Returns the ratio, 0 where the denominator is 0."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)


def _define_of_information(**fields: Any) -> Callable[[Callable], Callable]:
    """Returns a decorator that turns a function of an `Information` into a score.

    The function ``(info, cells) -> [...]`` computes the score for each leading index
    (resample, lane) of the `Information`; ``cells`` is the number of cells of a code.

    Args:
      **fields: attributes of the `ScoreDescription`.
    """

    def decorate(value: Callable[[Information, int], np.ndarray]) -> Callable:
        name = value.__name__

        def score(
            codes: ArrayLike,
            factors: ArrayLike,
            *,
            codes_test: ArrayLike | None = None,
            factors_test: ArrayLike | None = None,
            groups: Sequence[int] | None = None,
            bins: int = 20,
            bin_factors: bool = False,
            seed: int = 0,
        ) -> Score:
            arrays = check_arrays(
                name, codes, factors, codes_test, factors_test, groups,
                factor_bins=bins,
            )  # fmt: skip
            info, cells = information(
                arrays, bins=bins, bin_factors=bin_factors, seed=seed
            )
            settings = arrays.settings(bins=bins, bin_factors=bin_factors)
            return Score({name: value(info, cells)}, settings, matrices={"mi": info.mi})

        score.__name__ = score.__qualname__ = name
        score.__doc__ = value.__doc__
        interval = OfInformation(name, value)
        described = define(groups=True, matrices=HEAT_MAP, interval=interval, **fields)
        return described(score)

    return decorate


def _mig(info: Information, normaliser: str = "factor") -> np.ndarray:
    if normaliser == "factor":
        scaled = info.mi / info.factor_entropy[..., None, :]
    else:
        scaled = _safe_ratio(info.mi, info.code_entropy[..., :, None])
    first, second = top_two(scaled, -2)
    return np.mean(first - second, axis=-1)


@define(
    keys={
        "mig": "gap between the two latents that know most about a factor (1 is best)"
    },
    groups=True,
    matrices=HEAT_MAP,
    conventions={
        "disent": _DLIB | {"normaliser": "factor"},
        "dlib": _DLIB | {"normaliser": "factor"},
        "ubisoft": _UBISOFT | {"normaliser": "code"},
    },
    interval=OfInformation("mig", lambda info, cells: _mig(info)),
    reference="Chen et al. 2018, Isolating Sources of Disentanglement in VAEs",
)
def mig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    normaliser: str = "factor",
    groups: Sequence[int] | None = None,
    bins: int = 20,
    bin_factors: bool = False,
    log_var: ArrayLike | None = None,
    posterior_samples: int = 2000,
    seed: int = 0,
) -> Score:
    r"""Mutual information gap (Chen et al. 2018, Eq. 6).

    .. math:: \frac1K \sum_k \frac{I(\hat z_{(1)}; f_k) - I(\hat z_{(2)}; f_k)}{H(f_k)}

    where (1) and (2) are the two latent variables with the most information about
    factor k. In [0, 1], higher is better. With a single latent variable the second
    information is 0.

    With ``log_var`` the information is that of the analytic posterior
    :math:`q(z_j, v_k)` (Chen et al. 2018, App. C) instead of the histogram's:
    :math:`I = E[\log q(z_j \mid v_k) - \log q(z_j)]`, where both densities average
    ``q(z_j | x_n)`` over the given rows (all of them, or those that share the value
    of the factor) and the expectation is over ``posterior_samples`` rows.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score; the
        codes are posterior means if ``log_var`` is given. There is no test part.
      bins: equal-width bins between the smallest and the largest code; continuous
        factors are binned likewise.
      bin_factors: scale codes and all factors to [0, 1] and bin both, as the ubisoft
        library does, which merges the 40 orientations of dSprites into ``bins``
        classes.
      normaliser: "factor" is the paper's; "code" divides by the entropy of the code,
        which other libraries call MIG too.
      log_var: ``[N, D]`` posterior log-variances.
      posterior_samples: rows of the expectation of the analytic form.

    Returns:
      ``mig``. The matrix of informations in nats is in ``matrices["mi"]``.
    """
    arrays = check_arrays(
        "mig", codes, factors, codes_test, factors_test, groups, factor_bins=bins
    )
    if normaliser not in ("factor", "code"):
        raise unknown_name("mig", "normaliser", normaliser, ("factor", "code"))
    if log_var is None:
        info, _ = information(arrays, bins=bins, bin_factors=bin_factors, seed=seed)
        settings = arrays.settings(
            bins=bins, bin_factors=bin_factors, normaliser=normaliser
        )
        value = _mig(info, normaliser)
        return Score({"mig": value}, settings, matrices={"mi": info.mi})
    log_var = check_log_var("mig", log_var, arrays.codes)
    if bin_factors or normaliser != "factor" or max(arrays.groups) > 1:
        raise ValueError(
            "mig: `log_var` (the analytic form) must come without `groups`, "
            "`bin_factors` and `normaliser`."
        )
    mi = _posterior_information(arrays, log_var, posterior_samples, seed)
    entropy = label_entropies(arrays.labels)
    first, second = top_two(np.maximum(mi, 0.0) / entropy, 0)
    settings = arrays.settings(
        estimator="analytic posterior", posterior_samples=posterior_samples, seed=seed
    )
    return Score({"mig": np.mean(first - second)}, settings, matrices={"mi": mi})


def _posterior_information(
    arrays: Arrays, log_var: np.ndarray, samples: int, seed: int
) -> np.ndarray:
    """Returns Monte Carlo estimates ``[D, K]`` of I(z_j; v_k) under the posterior."""
    key = as_key("mig", seed)
    rows = len(arrays.codes)
    pick = jax.random.permutation(jax.random.fold_in(key, 0), rows)[:samples]
    mean = jnp.asarray(arrays.codes, jnp.float32)
    scale = jnp.asarray(np.exp(0.5 * np.asarray(log_var, np.float64)), jnp.float32)
    labels = jnp.asarray(arrays.labels)
    noise = jax.random.normal(jax.random.fold_in(key, 1), (len(pick), mean.shape[1]))
    z = mean[pick] + scale[pick] * noise
    count = jnp.stack(
        [jnp.bincount(labels[:, k], length=s)[labels[pick, k]] for k, s in
         enumerate(arrays.sizes)],
        axis=1,
    )  # fmt: skip
    ratios = posterior_log_ratios(mean, scale, labels, z, labels[pick], count)
    return np.asarray(ratios, np.float64).mean(axis=0)


@jax.jit
def posterior_log_ratios(
    mean: jax.Array,
    scale: jax.Array,
    labels: jax.Array,
    z: jax.Array,
    z_labels: jax.Array,
    z_counts: jax.Array,
) -> jax.Array:
    """Returns ``[S, D, K]`` log q(z_j | v_k) − log q(z_j) of S sampled codes."""

    def one(sample: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        z_row, label_row, count_row = sample
        log_q = -0.5 * ((z_row[None, :] - mean) / scale) ** 2 - jnp.log(scale)
        peak = log_q.max(axis=0)
        density = jnp.exp(log_q - peak[None, :])
        marginal = density.mean(axis=0)
        same = (labels == label_row[None, :]).astype(density.dtype)
        conditional = (density.T @ same) / count_row.astype(density.dtype)[None, :]
        return jnp.log(conditional) - jnp.log(marginal)[:, None]

    return jax.lax.map(one, (z, z_labels, z_counts), batch_size=16)


@_define_of_information(
    keys={"mig_sup": "gap between the two factors a latent knows best (1 is best)"},
    conventions={"ubisoft": _UBISOFT},
    reference="Li et al. 2020, Progressive Learning and Disentanglement of "
    "Hierarchical Representations",
)
def mig_sup(info: Information, cells: int) -> np.ndarray:
    r"""MIG-sup: the gap seen from the latent variables (Li et al. 2020).

    .. math:: \frac1G \sum_i \frac{I(\hat z_i; f_{(1)}) - I(\hat z_i; f_{(2)})}
              {H(\hat z_i)}

    In [0, 1], higher is better. A dead variable counts 0 (other code: 0/0). Arguments
    as in `mig`.
    """
    scaled = _safe_ratio(info.mi, info.code_entropy[..., :, None])
    first, second = top_two(scaled, -1)
    return np.mean(first - second, axis=-1)


@_define_of_information(
    keys={"jemmig": "MIG less a penalty for latents that mix factors (1 is best)"},
    conventions={"ubisoft": _UBISOFT},
    reference=_DO_TRAN,
)
def jemmig(info: Information, cells: int) -> np.ndarray:
    r"""Joint-entropy-minus-MIG (Do & Tran 2020), inverted so that higher is better.

    .. math:: \frac1K \sum_k 1 - \frac{H(f_k, \hat z_{i^*}) - I(\hat z_{(1)}; f_k)
              + I(\hat z_{(2)}; f_k)}{H(f_k) + \log B}

    where :math:`i^*` is the best variable for factor k and B the number of cells of a
    code. In [0, 1]. Arguments as in `mig`.
    """
    first, second = top_two(info.mi, -2)
    best = np.argmax(info.mi, axis=-2)[..., None, :]
    joint = np.take_along_axis(info.joint_entropy, best, axis=-2)[..., 0, :]
    cost = (joint - first + second) / (info.factor_entropy + np.log(cells))
    return np.mean(1.0 - cost, axis=-1)


@_define_of_information(
    keys={"dcimig": "each factor is known by a latent of its own (1 is best)"},
    conventions={"ubisoft": _UBISOFT},
    reference="Sepliarskaia et al. 2019, How to Not Measure Disentanglement",
)
def dcimig(info: Information, cells: int) -> np.ndarray:
    r"""DCIMIG, or 3CharM (Sepliarskaia et al. 2019).

    The gap :math:`g_i = I(\hat z_i; f_{(1)}) - I(\hat z_i; f_{(2)})` of each variable
    is credited to its best factor :math:`k^*(i)`; the score is

    .. math:: \frac{\sum_k \max_{i: k^*(i) = k} g_i}{\sum_k H(f_k)}

    In [0, 1], higher is better; a factor that is best for no variable adds 0. Arguments
    as in `mig`.
    """
    first, second = top_two(info.mi, -1)
    gap = first - second
    best = np.argmax(info.mi, axis=-1)
    factors = np.arange(info.mi.shape[-1])
    credit = np.where(best[..., :, None] == factors, gap[..., :, None], 0.0)
    return np.sum(credit.max(axis=-2), axis=-1) / np.sum(info.factor_entropy, axis=-1)


@_define_of_information(
    keys={"modularity": "each latent has information about one factor (1 is best)"},
    conventions={"dlib": _DLIB, "ubisoft": _UBISOFT},
    reference="Ridgeway & Mozer 2018, Learning Deep Disentangled Embeddings with the "
    "F-Statistic Loss",
)
def modularity(info: Information, cells: int) -> np.ndarray:
    r"""Modularity (Ridgeway & Mozer 2018, Eq. 2), the "ModExp" column of the study.

    .. math:: \frac1G \sum_i \Big[1 - \frac{\sum_{k \ne k^*(i)} I_{ik}^2}
              {(K-1)\, I_{ik^*}^2}\Big]

    In [0, 1], higher is better. A variable with no information counts 0, as in
    disentanglement_lib; with one factor every informative variable counts 1. Pure noise
    does *not* score 0: the bias of finite samples makes one factor the largest.
    Arguments as in `mig`.
    """
    squared = info.mi**2
    best = squared.max(axis=-1)
    others = max(info.mi.shape[-1] - 1, 1)
    rest = _safe_ratio(squared.sum(axis=-1) - best, best * others)
    return np.mean(np.where(best > 0, 1.0 - rest, 0.0), axis=-1)


@define(
    keys={
        "rmig": "MIG of codes sampled from the posterior (1 is best)",
        "rmig_nats": "the same gap in nats, not divided by the factor's entropy",
    },
    invariant_to=("permutation",),
    matrices=HEAT_MAP,
    reference=_DO_TRAN,
)
def rmig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    log_var: ArrayLike | None = None,
    bins: int = 200,
    limits: tuple[float, float] = (-4.0, 4.0),
    seed: int = 0,
) -> Score:
    r"""Robust mutual information gap (Do & Tran 2020, Sec. 4.2).

    As `mig`, but for the stochastic code: a row is spread over the bins of latent i
    with the probabilities :math:`q(\hat z_i \mid x_n)` of its posterior instead of
    falling into one bin. ``bins`` bins of equal width lie between fixed ``limits`` (the
    codes of a variational autoencoder lie near the unit Gaussian); values outside
    belong to the outermost bins. In [0, 1], higher is better. The paper reports the gap
    in nats, without the division by the entropy.

    Args:
      codes, factors, codes_test, factors_test, seed: as in every score; the codes are
        posterior means. There is no test part and no randomness.
      log_var: ``[N, D]`` posterior log-variances; None for deterministic codes.
      bins: number of bins.
      limits: the smallest and the largest edge of the bins.

    Returns:
      ``rmig`` and ``rmig_nats``; the informations are in ``matrices["mi"]``.
    """
    arrays = check_arrays("rmig", codes, factors, codes_test, factors_test)
    low, high = limits
    if not low < high:
        raise ValueError(f"rmig: `limits` must be (low, high), got {limits}.")
    edges = np.linspace(low, high, bins + 1)[1:-1]
    mean = arrays.codes.astype(np.float64)
    if log_var is not None:
        log_var = check_log_var("rmig", log_var, mean)
    hot = np.concatenate(
        [np.eye(s)[f] for f, s in zip(arrays.labels.T, arrays.sizes)], axis=1
    )
    tables = np.zeros((mean.shape[1], bins, hot.shape[1]))
    for d in range(mean.shape[1]):
        if log_var is None:
            place = np.searchsorted(edges, mean[:, d], side="right")
            np.add.at(tables[d], place, hot)
            continue
        scale = np.exp(0.5 * log_var[:, d].astype(np.float64))
        below = ndtr((edges[None, :] - mean[:, d, None]) / scale[:, None])
        spread = np.diff(below, axis=1, prepend=0.0, append=1.0)
        tables[d] = spread.T @ hot
    info = Information(tables, arrays.sizes)
    first, second = top_two(info.mi, 0)
    gap = first - second
    return Score(
        {"rmig": np.mean(gap / info.factor_entropy), "rmig_nats": np.mean(gap)},
        arrays.settings(bins=bins, limits=limits, stochastic=log_var is not None),
        matrices={"mi": info.mi},
    )
