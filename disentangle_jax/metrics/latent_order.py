"""The position of each factor in the order of the latents."""

import numpy as np

from disentangle_jax.metrics.inputs import ArrayLike, Score
from disentangle_jax.types import check_groups


def ordering(importance: ArrayLike, *, groups: tuple[int, ...] | None = None) -> Score:
    r"""Importance-weighted position of each factor in the order of the latents.

    .. math:: p_k = \frac{\sum_v R_{vk}\, v / (V - 1)}{\sum_v R_{vk}}

    for the latent variables v = 0 … V − 1 in the model's order and importances R ≥ 0
    (mutual information, or DCI's). The position is 0 if only the first variable encodes
    the factor, 1 if only the last does, and 1/2 if all do equally. "Structure by
    Architecture" (Sec. 4.1, Fig. 4) concludes from traversals that structural decoders
    encode high-level factors first.

    Args:
      importance: ``[V, K]`` of each variable for each factor; with `groups`,
        ``[D, K]``, whose rows are summed within a variable.
      groups: sizes of the latent variables.

    Returns:
      ``spread``, the largest difference between positions of two factors, and
      ``position_k`` of each factor, in [0, 1]; NaN for a factor without importance.
    """
    matrix = np.asarray(importance, np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ValueError(
            "ordering: `importance` must be a finite non-negative matrix [V, K], got "
            f"shape {matrix.shape}."
        )
    if groups is not None:
        groups = check_groups("ordering", groups, len(matrix))
        starts = np.cumsum([0, *groups[:-1]])
        matrix = np.add.reduceat(matrix, starts, axis=0)
    if len(matrix) < 2:
        raise ValueError("ordering: `importance` must have at least two variables.")
    total = matrix.sum(axis=0)
    place = np.linspace(0.0, 1.0, len(matrix))
    with np.errstate(invalid="ignore"):
        positions = np.where(total > 0, place @ matrix / total, np.nan)
    known = positions[~np.isnan(positions)]
    spread = float(np.ptp(known)) if len(known) else float("nan")
    values = {"spread": spread}
    values |= {f"position_{k}": float(p) for k, p in enumerate(positions)}
    return Score(values, {"variables": len(matrix)}, matrices={"importance": matrix})
