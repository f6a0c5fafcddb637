"""Flatness and its components: how a code moves along factor traversals."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import rankdata

from disentangle_jax.metrics._inputs import ArrayLike, Score
from disentangle_jax.metrics._sources import draw_factors, source_of


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson correlation; 0 where one is constant."""
    a, b = a - a.mean(), b - b.mean()
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / norm) if norm > 0 else 0.0


def _top_share(variances: np.ndarray) -> np.ndarray:
    """Largest share along the last axis, rescaled from [1/n, 1] to [0, 1]."""
    n = variances.shape[-1]
    total = variances.sum(axis=-1)
    share = variances.max(axis=-1) / np.where(total > 0, total, np.inf)
    if n == 1:
        return np.where(total > 0, 1.0, 0.0)
    return np.where(total > 0, (share - 1.0 / n) / (1.0 - 1.0 / n), 0.0)


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
    r"""Flatness family of Michlo et al. (the paper's factor-distance components).

    For each factor, ``repeats`` traversals :math:`z_1 … z_S` (all values of the factor,
    the others held at random values) are encoded. Per factor, then averaged:

    * ``flatness``: :math:`\max_{s,t} \|z_s - z_t\| \,/ \sum_s \|z_{s+1} - z_s\|`: 1
      where the traversal is a straight line walked in order, less where it folds;
    * ``linearity``: share of the largest principal variance of a traversal, rescaled
      from [1/D, 1] to [0, 1]; ``axis``: the same of the variances of single latents;
      ``alignment``: axis / linearity, 1 where straight traversals follow an axis;
    * ``spearman``, ``pearson``: correlation over random pairs of points of a traversal
      of the distance of their factor values with the L1 distance of their codes, and
      ``same_order``: share of random triplets whose two distances from the first point
      are ordered alike (ties half). Combined over factors by the geometric mean (of
      values clipped at 0).

    All in [0, 1], higher is better. Factors of size 1 are left out; a factor that does
    not move the code counts 0.

    Args:
      encode_fn: encoder, or codes ``[N, D]`` of a full grid; see
        `metrics._sources`. Other arrays have no traversals: an error.
      dataset: data set, or factors ``[N, K]``.
      codes_test: accepted as in every score; there is no test part.
      factors_test: as ``codes_test``.
      repeats: traversals for each factor (error of the mean about 0.001 at 1024).
      encode_batch: images encoded at once.
      seed: seeds the traversals.
    """
    source = source_of("flatness", encode_fn, dataset, encode_batch)
    if source.lookup is None:
        raise ValueError(
            "flatness: `codes` must hold every combination of factor values once, "
            "since the score walks along factors; these rows do not. Pass "
            "(encode_fn, dataset) instead."
        )
    if repeats < 1:
        raise ValueError(f"flatness: `repeats` must be positive, got {repeats}.")
    rs = np.random.RandomState(seed)
    moving = [k for k, size in enumerate(source.sizes) if size > 1]
    grids = []
    for k in moving:
        base = draw_factors(rs, source.sizes, repeats)
        walk = np.repeat(base[:, None, :], source.sizes[k], axis=1)
        walk[:, :, k] = np.arange(source.sizes[k])
        grids.append(source.lookup(walk))
    codes, place = source.codes(np.concatenate([g.reshape(-1) for g in grids]))
    codes = codes.astype(np.float64)
    names = (
        "flatness", "linearity", "axis", "alignment", "spearman", "pearson",
        "same_order",
    )  # fmt: skip
    found = {name: [] for name in names}
    start = 0
    for grid in grids:
        z = codes[place[start : start + grid.size]].reshape(*grid.shape, -1)
        start += grid.size
        size = grid.shape[1]
        step = np.linalg.norm(np.diff(z, axis=1), axis=-1).sum(axis=1)
        width = np.zeros(len(z))
        for s in range(size):
            far = np.linalg.norm(z - z[:, s : s + 1], axis=-1).max(axis=1)
            width = np.maximum(width, far)
        flat = width / np.where(step > 0, step, np.inf)
        centred = z - z.mean(axis=1, keepdims=True)
        spectrum = np.linalg.svd(centred, compute_uv=False) ** 2
        missing = z.shape[2] - spectrum.shape[1]
        spectrum = np.pad(spectrum, ((0, 0), (0, max(missing, 0))))
        linear = _top_share(spectrum).mean()
        axis = _top_share((centred**2).sum(axis=1)).mean()
        found["flatness"].append(flat.mean())
        found["linearity"].append(linear)
        found["axis"].append(axis)
        found["alignment"].append(axis / linear if linear > 0 else 0.0)
        pick = rs.randint(size, size=(3, len(z)))
        a, p, n = (z[np.arange(len(z)), i] for i in pick)
        near, far = np.abs(a - p).sum(axis=-1), np.abs(a - n).sum(axis=-1)
        ground_near, ground_far = np.abs(pick[0] - pick[1]), np.abs(pick[0] - pick[2])
        found["pearson"].append(_correlation(ground_near.astype(float), near))
        found["spearman"].append(_correlation(rankdata(ground_near), rankdata(near)))
        order = np.sign(ground_near - ground_far) * np.sign(
            np.where(np.isclose(near, far, rtol=1e-6, atol=0.0), 0.0, near - far)
        )
        told = ground_near != ground_far
        same = np.mean(0.5 * (1.0 + order[told])) if told.any() else 0.5
        found["same_order"].append(same if step.any() else 0.0)
    values = {name: np.mean(found[name]) for name in names[:4]}
    for name in names[4:]:
        clipped = np.maximum(found[name], 0.0)
        values[name] = float(np.prod(clipped) ** (1.0 / len(clipped)))
    settings = source.settings | {
        "repeats": repeats, "encodes": len(codes), "seed": seed,
    }  # fmt: skip
    return Score(
        values,
        settings,
        matrices={"per_factor": np.array([found[name] for name in names])},
    )
