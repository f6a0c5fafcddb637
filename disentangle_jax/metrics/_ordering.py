"""Where in the order of the latents each factor is encoded."""

import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.metrics._inputs import Score


def ordering(importance: ArrayLike, *, groups: tuple[int, ...] | None = None) -> Score:
    r"""Importance-weighted position of each factor along the latent order.

    .. math:: p_k = \frac{\sum_v R_{vk}\, v / (V - 1)}{\sum_v R_{vk}}

    for the latent variables v = 0 … V − 1 in the model's order and any importance R ≥ 0
    (mutual information, or DCI's). 0: all of the factor is in the first variable, 1: in
    the last; a factor spread evenly has 1/2. "Structure by Architecture" (Sec. 4.1,
    Fig. 4) reads off traversals that structural decoders put high-level factors first.

    Args:
      importance: ``[V, K]``, of each variable for each factor; ``[D, K]`` with
        `groups`, whose rows are summed within a variable.
      groups: sizes of the latent variables.

    Returns:
      ``spread``, the largest difference between positions of two factors, and
      ``position_k`` of each factor, in [0, 1]; NaN for a factor that nothing encodes.
    """
    matrix = np.asarray(importance, np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ValueError(
            "ordering: `importance` must be a finite non-negative matrix [V, K], got "
            f"shape {matrix.shape}."
        )
    if groups is not None:
        if sum(groups) != len(matrix):
            raise ValueError(
                f"ordering: `groups` must add up to the {len(matrix)} rows, got "
                f"{groups}."
            )
        starts = np.cumsum([0, *groups[:-1]])
        matrix = np.add.reduceat(matrix, starts, axis=0)
    if len(matrix) < 2:
        raise ValueError("ordering: `importance` must have two variables to order.")
    total = matrix.sum(axis=0)
    place = np.linspace(0.0, 1.0, len(matrix))
    with np.errstate(invalid="ignore"):
        positions = np.where(total > 0, place @ matrix / total, np.nan)
    known = positions[~np.isnan(positions)]
    spread = float(np.ptp(known)) if len(known) else float("nan")
    values = {"spread": spread}
    values |= {f"position_{k}": float(p) for k, p in enumerate(positions)}
    return Score(values, {"variables": len(matrix)}, matrices={"importance": matrix})
