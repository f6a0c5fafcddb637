"""MED: DCI's entropies on mutual-information importances, for wide codes."""

import numpy as np

from disentangle_jax.metrics._dci import disentanglement_completeness
from disentangle_jax.metrics._information import information
from disentangle_jax.metrics._inputs import ArrayLike, Score, check_arrays


def med(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    bins: int = 20,
    top_k: int | None = None,
    seed: int = 0,
) -> Score:
    r"""Mutual-information-based entropy disentanglement (Cao et al. 2022).

    The disentanglement of `dci` with importances
    :math:`R_{ik} = I(\hat z_i; f_k) / \sum_j I(\hat z_j; f_k)` (bins as in `mig`),
    which need no classifier and so scale to codes of thousands of dimensions. In
    [0, 1], higher is better.

    Args:
      codes: ``[N, D]``.
      factors: ``[N, K]``, taken as labels.
      codes_test: accepted as in every score; MED has no test part.
      factors_test: as ``codes_test``.
      bins: equal-width bins.
      top_k: keep only the ``top_k`` most important latents of each factor (their
        union), which makes codes of different width comparable; None keeps all.
      seed: accepted as in every score; MED has no randomness.

    Returns:
      ``med`` and ``completeness``.
    """
    arrays = check_arrays(
        "med", codes, factors, codes_test=codes_test, factors_test=factors_test
    )
    if top_k is not None and top_k < 1:
        raise ValueError(f"med: `top_k` must be positive, got {top_k}.")
    mi = information(arrays, bins=bins, bin_factors=False, seed=seed)[0].mi
    if top_k is not None:
        kept = np.unique(np.argsort(-mi, axis=0, kind="stable")[:top_k])
        mi = mi[kept]
    total = mi.sum(axis=0, keepdims=True)
    importance = mi / np.where(total > 0, total, np.inf)
    disentangled, complete = disentanglement_completeness(importance)
    return Score(
        {"med": disentangled, "completeness": complete},
        arrays.settings(bins=bins, top_k=top_k),
        matrices={"importance": importance},
    )
