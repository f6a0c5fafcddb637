"""IRS: how little a latent changes when all factors but its own change."""

from collections.abc import Sequence

import numpy as np

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Score,
    check_arrays,
    equal_width_labels,
    unit_interval_labels,
)


def _mean_quantile(distance: np.ndarray, starts: np.ndarray, q: float) -> float:
    """Returns the mean over groups of the q-quantile of distances sorted per group."""
    counts = np.diff(np.append(starts, len(distance)))
    place = q * (counts - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, counts - 1)
    low, high = distance[starts + below], distance[starts + above]
    return float(np.mean(low + (place - below) * (high - low)))


@define(
    keys={"irs": "latents do not change when other factors change (1 is best)"},
    groups=True,
    invariant_to=("permutation", "shift", "global_scale"),
    conventions={
        "dlib": {"quantile": 0.99, "factor_bins": 20, "unit_bins": False},
        "ubisoft": {"quantile": 1.0, "factor_bins": 10, "unit_bins": True},
    },
    reference="Suter et al. 2019, Robustly Disentangled Causal Mechanisms",
)
def irs(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    quantile: float = 0.99,
    factor_bins: int | None = 20,
    unit_bins: bool = False,
    seed: int = 0,
) -> Score:
    r"""Interventional robustness score (Suter et al. 2019).

    .. math:: \frac{\sum_i M_i \max_k (1 - d_{ik} / M_i)}{\sum_i M_i}

    where :math:`M_i = \max_n |z_{ni} - \bar z_i|` and :math:`d_{ik}` is the mean over
    the values v of factor k of the ``quantile`` of
    :math:`|z_{ni} - \mathrm{mean}(z_i \mid f_k = v)|` among the rows with that value.
    In [0, 1], higher is better. Dead latents are left out; 0 if all are dead.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score. The
        distances of a multi-dimensional variable are Euclidean. There is no test part
        and no randomness.
      quantile: 0.99 is the study's; the paper takes the maximum, 1.0.
      factor_bins: equal-width bins of the factor values, which merge the values of
        factors that have more; None keeps the values as they are.
      unit_bins: scale the factors to [0, 1] before they are binned, as the ubisoft
        library does, where values on an edge may round to the other bin.

    Returns:
      ``irs``; the matrix :math:`1 - d_{ik}/M_i` is in ``matrices["robustness"]``
      (0 for dead latents).
    """
    arrays = check_arrays(
        "irs", codes, factors, codes_test, factors_test, groups, factor_bins=factor_bins
    )
    if not 0.0 <= quantile <= 1.0:
        raise ValueError(f"irs: `quantile` must be in [0, 1], got {quantile}.")
    labels = arrays.labels
    if factor_bins is not None:
        binned = unit_interval_labels if unit_bins else equal_width_labels
        labels = binned(arrays.factors, factor_bins)
    alive = np.ptp(arrays.codes, axis=0) > 0
    codes = np.where(alive, arrays.codes, 0.0).astype(np.float64)
    starts = np.cumsum((0, *arrays.groups[:-1]))

    def length(deviation: np.ndarray) -> np.ndarray:
        """Returns the Euclidean length ``[N, G]`` of each variable's deviation."""
        if len(arrays.groups) == codes.shape[1]:
            return np.abs(deviation)
        return np.sqrt(np.add.reduceat(deviation**2, starts, axis=1))

    largest = length(codes - codes.mean(axis=0)).max(axis=0)
    spread = np.empty((len(arrays.groups), labels.shape[1]))
    for k, column in enumerate(labels.T):
        order = np.argsort(column, kind="stable")
        first = np.flatnonzero(np.diff(column[order], prepend=-1))
        counts = np.diff(np.append(first, len(column)))
        means = np.add.reduceat(codes[order], first, axis=0) / counts[:, None]
        distance = length(codes[order] - np.repeat(means, counts, axis=0))
        value = np.repeat(np.arange(len(first)), counts)
        for g in range(len(spread)):
            within = distance[np.lexsort((distance[:, g], value)), g]
            spread[g, k] = _mean_quantile(within, first, quantile)
    moving = largest > 0
    robust = np.where(
        moving[:, None], 1.0 - spread / np.where(moving, largest, 1.0)[:, None], 0.0
    )
    total = largest.sum()
    irs = np.sum(largest * robust.max(axis=1)) / total if total > 0 else 0.0
    return Score(
        {"irs": irs},
        arrays.settings(
            quantile=quantile, factor_bins=factor_bins, unit_bins=unit_bins
        ),
        matrices={"robustness": robust},
    )
