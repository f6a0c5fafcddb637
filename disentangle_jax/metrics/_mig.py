"""The mutual-information family: gaps and modularity from one table pass.

Each score is a function of the matrix :math:`I_{ik} = I(\\hat z_i; f_k)` of plug-in
mutual informations between the binned latent variables and the factors (see
`metrics._information` for the bins and for ``groups=``). With ``groups`` of size one
each is the classic score.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.metrics._information import Information, information, top_two
from disentangle_jax.metrics._inputs import (
    ArrayLike,
    Arrays,
    Score,
    as_key,
    check_arrays,
    check_codes,
)
from disentangle_jax.types import unknown_name


def _safe_ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """0 where the denominator is 0."""
    positive = denominator > 0
    return np.where(positive, numerator / np.where(positive, denominator, 1.0), 0.0)


def mig_value(info: Information, normaliser: str = "factor") -> np.ndarray:
    """`mig` of each leading index (resample, lane) of an `Information`."""
    if normaliser == "factor":
        scaled = info.mi / info.factor_entropy[..., None, :]
    else:
        scaled = _safe_ratio(info.mi, info.code_entropy[..., :, None])
    first, second = top_two(scaled, -2)
    return np.mean(first - second, axis=-1)


def mig_sup_value(info: Information) -> np.ndarray:
    """`mig_sup` of each leading index of an `Information`."""
    scaled = _safe_ratio(info.mi, info.code_entropy[..., :, None])
    first, second = top_two(scaled, -1)
    return np.mean(first - second, axis=-1)


def jemmig_value(info: Information, cells: int) -> np.ndarray:
    """`jemmig` of each leading index; ``cells`` is the number of code labels."""
    first, second = top_two(info.mi, -2)
    best = np.argmax(info.mi, axis=-2)[..., None, :]
    joint = np.take_along_axis(info.joint_entropy, best, axis=-2)[..., 0, :]
    cost = (joint - first + second) / (info.factor_entropy + np.log(cells))
    return np.mean(1.0 - cost, axis=-1)


def dcimig_value(info: Information) -> np.ndarray:
    """`dcimig` of each leading index of an `Information`."""
    first, second = top_two(info.mi, -1)
    gap = first - second
    best = np.argmax(info.mi, axis=-1)
    factors = np.arange(info.mi.shape[-1])
    credit = np.where(best[..., :, None] == factors, gap[..., :, None], 0.0)
    return np.sum(credit.max(axis=-2), axis=-1) / np.sum(info.factor_entropy, axis=-1)


def modularity_value(info: Information) -> np.ndarray:
    """`modularity` of each leading index of an `Information`."""
    squared = info.mi**2
    best = squared.max(axis=-1)
    others = max(info.mi.shape[-1] - 1, 1)
    rest = _safe_ratio(squared.sum(axis=-1) - best, best * others)
    return np.mean(np.where(best > 0, 1.0 - rest, 0.0), axis=-1)


def mig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    bins: int = 20,
    bin_factors: bool = False,
    normaliser: str = "factor",
    log_var: ArrayLike | None = None,
    posterior_samples: int = 2000,
    seed: int = 0,
) -> Score:
    r"""Mutual information gap (Chen et al. 2018, Eq. 6).

    .. math:: \frac1K \sum_k \frac{I(\hat z_{(1)}; f_k) - I(\hat z_{(2)}; f_k)}{H(f_k)}

    where (1) and (2) are the two latent variables that share most with factor k. In
    [0, 1], higher is better. A single latent variable has a second of 0.

    With ``log_var`` the information is that of the analytic posterior
    :math:`q(z_j, v_k)` (Chen et al. 2018, App. C) in place of the histogram's:
    :math:`I = E[\log q(z_j \mid v_k) - \log q(z_j)]`, where both densities average
    ``q(z_j | x_n)`` over the given rows (all of them, or those that share the value
    of the factor) and the expectation is over ``posterior_samples`` rows.

    Args:
      codes: ``[N, D]`` codes; the posterior means where ``log_var`` is given.
      factors: ``[N, K]`` factor values, taken as labels.
      codes_test: accepted as in every score; MIG has no test part.
      factors_test: as ``codes_test``.
      groups: sizes of multi-dimensional latent variables; None for one each.
      bins: equal-width bins between the smallest and the largest code.
      bin_factors: also bin the factors (some libraries do, which merges the 40
        orientations of dSprites into ``bins`` classes).
      normaliser: "factor" is the paper's; "code" divides by the entropy of the code,
        another number that is in use under the same name.
      log_var: ``[N, D]`` posterior log-variances.
      posterior_samples: rows of the expectation of the analytic form.
      seed: seeds the analytic form and the quantiser of ``groups``.

    Returns:
      ``mig``. The matrix of informations in nats is in ``matrices["mi"]``.
    """
    arrays = check_arrays(
        "mig", codes, factors, codes_test=codes_test, factors_test=factors_test,
        groups=groups,
    )  # fmt: skip
    if normaliser not in ("factor", "code"):
        raise unknown_name("mig", "normaliser", normaliser, ("factor", "code"))
    if log_var is None:
        info, _ = information(arrays, bins=bins, bin_factors=bin_factors, seed=seed)
        value = mig_value(info, normaliser)
        settings = arrays.settings(
            bins=bins, bin_factors=bin_factors, normaliser=normaliser
        )
        return Score({"mig": value}, settings, matrices={"mi": info.mi})
    log_var = check_codes("mig", "log_var", log_var)
    if log_var.shape != arrays.codes.shape:
        raise ValueError(
            f"mig: `log_var` must have the shape {arrays.codes.shape} of `codes`, "
            f"got {log_var.shape}."
        )
    if bin_factors or normaliser != "factor" or max(arrays.groups) > 1:
        raise ValueError(
            "mig: `log_var` (the analytic form) must come without `groups`, "
            "`bin_factors` and `normaliser`."
        )
    mi = _posterior_information(arrays, log_var, posterior_samples, seed)
    counts = [np.bincount(c) / len(c) for c in arrays.labels.T]
    entropy = np.array([-np.sum(p[p > 0] * np.log(p[p > 0])) for p in counts])
    first, second = top_two(np.maximum(mi, 0.0) / entropy, 0)
    settings = arrays.settings(
        estimator="analytic posterior", posterior_samples=posterior_samples, seed=seed
    )
    return Score({"mig": np.mean(first - second)}, settings, matrices={"mi": mi})


def _posterior_information(
    arrays: Arrays, log_var: np.ndarray, samples: int, seed: int
) -> np.ndarray:
    """``[D, K]`` Monte Carlo estimate of I(z_j; v_k) under the analytic posterior."""
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

    ratios = _log_ratios(mean, scale, labels, z, labels[pick], count)
    return np.asarray(ratios, np.float64).mean(axis=0)


@jax.jit
def _log_ratios(
    mean: jax.Array,
    scale: jax.Array,
    labels: jax.Array,
    z: jax.Array,
    z_labels: jax.Array,
    z_counts: jax.Array,
) -> jax.Array:
    """``[S, D, K]`` log q(z_j | v_k) − log q(z_j) of S drawn codes."""

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


def mig_sup(
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
    r"""MIG-sup: the gap seen from the latent variables (Li et al. 2020).

    .. math:: \frac1G \sum_i \frac{I(\hat z_i; f_{(1)}) - I(\hat z_i; f_{(2)})}
              {H(\hat z_i)}

    In [0, 1], higher is better. A dead variable counts 0 (0/0 elsewhere). Arguments as
    in `mig`; ``bins=10, bin_factors=True`` is the setting of the ubisoft library.
    """
    arrays = check_arrays(
        "mig_sup", codes, factors, codes_test=codes_test, factors_test=factors_test,
        groups=groups,
    )  # fmt: skip
    info, _ = information(arrays, bins=bins, bin_factors=bin_factors, seed=seed)
    return Score(
        {"mig_sup": mig_sup_value(info)},
        arrays.settings(bins=bins, bin_factors=bin_factors),
        matrices={"mi": info.mi},
    )


def jemmig(
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
    r"""Joint-entropy-minus-MIG (Do & Tran 2020), turned so that higher is better.

    .. math:: \frac1K \sum_k 1 - \frac{H(f_k, \hat z_{i^*}) - I(\hat z_{(1)}; f_k)
              + I(\hat z_{(2)}; f_k)}{H(f_k) + \log B}

    where :math:`i^*` is the best variable for factor k and B the number of cells of a
    code. In [0, 1]. Arguments as in `mig_sup`.
    """
    arrays = check_arrays(
        "jemmig", codes, factors, codes_test=codes_test, factors_test=factors_test,
        groups=groups,
    )  # fmt: skip
    info, cells = information(arrays, bins=bins, bin_factors=bin_factors, seed=seed)
    return Score(
        {"jemmig": jemmig_value(info, cells)},
        arrays.settings(bins=bins, bin_factors=bin_factors),
        matrices={"mi": info.mi},
    )


def dcimig(
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
    r"""DCIMIG, or 3CharM (Sepliarskaia et al. 2019).

    The gap :math:`g_i = I(\hat z_i; f_{(1)}) - I(\hat z_i; f_{(2)})` of each variable
    is credited to its best factor :math:`k^*(i)`; the score is

    .. math:: \frac{\sum_k \max_{i: k^*(i) = k} g_i}{\sum_k H(f_k)}

    In [0, 1], higher is better; a factor that no variable prefers adds 0. Arguments as
    in `mig_sup`.
    """
    arrays = check_arrays(
        "dcimig", codes, factors, codes_test=codes_test, factors_test=factors_test,
        groups=groups,
    )  # fmt: skip
    info, _ = information(arrays, bins=bins, bin_factors=bin_factors, seed=seed)
    return Score(
        {"dcimig": dcimig_value(info)},
        arrays.settings(bins=bins, bin_factors=bin_factors),
        matrices={"mi": info.mi},
    )


def modularity(
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
    r"""Modularity (Ridgeway & Mozer 2018, Eq. 2), the "ModExp" column of the study.

    .. math:: \frac1G \sum_i \Big[1 - \frac{\sum_{k \ne k^*(i)} I_{ik}^2}
              {(K-1)\, I_{ik^*}^2}\Big]

    In [0, 1], higher is better. A variable with no information counts 0, as in
    disentanglement_lib; with one factor every informative variable counts 1. Pure noise
    does *not* score 0: the bias of finite samples picks a winner. Arguments as in
    `mig_sup`.
    """
    arrays = check_arrays(
        "modularity", codes, factors, codes_test=codes_test,
        factors_test=factors_test, groups=groups,
    )  # fmt: skip
    info, _ = information(arrays, bins=bins, bin_factors=bin_factors, seed=seed)
    return Score(
        {"modularity": modularity_value(info)},
        arrays.settings(bins=bins, bin_factors=bin_factors),
        matrices={"mi": info.mi},
    )
