"""Flatness and its components: how codes move along traversals of the factors."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import rankdata

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.inputs import ArrayLike, Score
from disentangle_jax.metrics.sources import draw_factors, source_of


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the Pearson correlation, 0 if one side is constant."""
    a, b = a - a.mean(), b - b.mean()
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norm) if norm > 0 else 0.0


def _top_share(variances: np.ndarray) -> np.ndarray:
    """Returns the largest share along the last axis, rescaled to [0, 1]."""
    n = variances.shape[-1]
    total = variances.sum(axis=-1)
    share = variances.max(axis=-1) / np.where(total > 0, total, np.inf)
    if n == 1:
        return np.where(total > 0, 1.0, 0.0)
    return np.where(total > 0, (share - 1.0 / n) / (1.0 - 1.0 / n), 0.0)


def _components(z: np.ndarray, rs: np.random.RandomState) -> dict[str, float]:
    """Returns the components of traversals ``[R, S, D]`` of one factor."""
    size = z.shape[1]
    step = np.linalg.norm(np.diff(z, axis=1), axis=-1).sum(axis=1)
    width = np.zeros(len(z))
    for s in range(size):
        far = np.linalg.norm(z - z[:, s : s + 1], axis=-1).max(axis=1)
        width = np.maximum(width, far)
    centred = z - z.mean(axis=1, keepdims=True)
    spectrum = np.linalg.svd(centred, compute_uv=False) ** 2
    missing = z.shape[2] - spectrum.shape[1]
    spectrum = np.pad(spectrum, ((0, 0), (0, max(missing, 0))))
    linear = _top_share(spectrum).mean()
    axis = _top_share((centred**2).sum(axis=1)).mean()
    pick = rs.randint(size, size=(3, len(z)))
    a, p, n = (z[np.arange(len(z)), i] for i in pick)
    near, far = np.abs(a - p).sum(axis=-1), np.abs(a - n).sum(axis=-1)
    ground_near, ground_far = np.abs(pick[0] - pick[1]), np.abs(pick[0] - pick[2])
    order = np.sign(ground_near - ground_far) * np.sign(
        np.where(np.isclose(near, far, rtol=1e-6, atol=0.0), 0.0, near - far)
    )
    ordered = ground_near != ground_far
    same = np.mean(0.5 * (1.0 + order[ordered])) if ordered.any() else 0.5
    return {
        "flatness": np.mean(width / np.where(step > 0, step, np.inf)),
        "linearity": linear,
        "axis": axis,
        "alignment": axis / linear if linear > 0 else 0.0,
        "spearman": _correlation(rankdata(ground_near), rankdata(near)),
        "pearson": _correlation(ground_near.astype(float), near),
        "same_order": same if step.any() else 0.0,
    }


@define(
    keys={
        "flatness": "traversals of a factor are straight lines in order (1 is best)",
        "linearity": "traversals of a factor are lines (1 is best)",
        "axis": "traversals of a factor follow an axis (1 is best)",
        "alignment": "straight traversals follow an axis (1 is best)",
        "spearman": "distances of codes rank like distances of factors (1 is best)",
        "pearson": "distances of codes grow linearly with those of factors (1 is best)",
        "same_order": "the nearer of two factor values has the nearer code (1 is best)",
    },
    needs="full grid",
    interventional=True,
    deterministic=False,
    invariant_to=("permutation", "shift", "global_scale"),
    reference="Michlo et al. 2023, Overlooked Implications of the Reconstruction Loss "
    "for VAE Disentanglement",
)
def flatness(
    encode_fn: Callable | ArrayLike,
    dataset: Any,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    repeats: int = 1024,
    encode_batch: int = 1024,
    seed: int = 0,
) -> Score:
    r"""Flatness and related components of Michlo et al. (2023).

    For each factor, ``repeats`` traversals :math:`z_1 … z_S` (all values of the factor,
    the others held at random values) are encoded. Per factor, then averaged:

    * ``flatness``: :math:`\max_{s,t} \|z_s - z_t\| \,/ \sum_s \|z_{s+1} - z_s\|`: 1
      if the traversal is a straight line in order, less if it folds;
    * ``linearity``: share of the largest principal variance of a traversal, rescaled
      from [1/D, 1] to [0, 1]; ``axis``: the same of the variances of single latents;
      ``alignment``: axis / linearity, 1 if straight traversals follow an axis;
    * ``spearman``, ``pearson``: correlation, over random pairs of points of a
      traversal, of the distance of their factor values and the L1 distance of their
      codes; ``same_order``: share of random triplets whose two distances from the
      first point have the same order in factors and codes (ties count half). Combined
      over factors by the geometric mean (of values clipped at 0).

    All in [0, 1], higher is better. Factors of size 1 are left out; a factor that does
    not move the code counts 0.

    Args:
      encode_fn, dataset: an encoder and a dataset, or the codes and factors of a full
        grid; see `metrics.sources`. Other arrays have no traversals and are an error.
      codes_test, factors_test, seed: as in every score. There is no test part.
      repeats: traversals per factor (standard error about 0.001 at 1024).
      encode_batch: images to encode at once.
    """
    source = source_of("flatness", encode_fn, dataset, encode_batch)
    if source.lookup is None:
        raise ValueError(
            "flatness: `codes` must hold every combination of factor values once, "
            "since the score traverses the factors; these rows do not. Pass "
            "(encode_fn, dataset) instead."
        )
    if repeats < 1:
        raise ValueError(f"flatness: `repeats` must be positive, got {repeats}.")
    rs = np.random.RandomState(seed)
    grids = []
    for k, size in enumerate(source.sizes):
        if size < 2:
            continue
        base = draw_factors(rs, source.sizes, repeats)
        walk = np.repeat(base[:, None, :], size, axis=1)
        walk[:, :, k] = np.arange(size)
        grids.append(source.lookup(walk))
    codes, place = source.codes(np.concatenate([g.reshape(-1) for g in grids]))
    codes = codes.astype(np.float64)
    parts = np.split(place, np.cumsum([g.size for g in grids])[:-1])
    found = [
        _components(codes[part].reshape(*grid.shape, -1), rs)
        for part, grid in zip(parts, grids)
    ]
    table = {name: np.array([f[name] for f in found]) for name in found[0]}
    values = {name: np.mean(each) for name, each in table.items()}
    for name in ("spearman", "pearson", "same_order"):
        clipped = np.maximum(table[name], 0.0)
        values[name] = np.prod(clipped) ** (1.0 / len(clipped))
    settings = source.settings | {
        "repeats": repeats, "encodes": len(codes), "seed": seed,
    }  # fmt: skip
    matrices = {"per_factor": np.stack(list(table.values()))}
    return Score(values, settings, matrices=matrices)
