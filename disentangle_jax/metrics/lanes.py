"""The mutual-information scores of many models at once: a sweep is an array axis."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.metrics.descriptions import describe, names
from disentangle_jax.metrics.information import Information, contingency, quantise
from disentangle_jax.metrics.inputs import ArrayLike, check_arrays, to_numpy
from disentangle_jax.metrics.intervals import OfInformation
from disentangle_jax.types import unknown_name

# Lanes in memory at once; more would only use more memory.
_AT_ONCE = 4


@functools.partial(jax.jit, static_argnames=("cells", "sizes"))
def lane_tables(
    labels: jax.Array, factors: jax.Array, *, cells: int, sizes: tuple[int, ...]
) -> jax.Array:
    """Returns tables ``[L, G, cells, sum(sizes)]`` of labels ``[L, N, G]``."""
    one = functools.partial(contingency, cells=cells, sizes=sizes)
    return jax.lax.map(lambda z: one(z, factors), labels, batch_size=_AT_ONCE)


def evaluate_lanes(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    scores: Sequence[str] = ("mig", "modularity"),
    groups: Sequence[int] | None = None,
    bins: int = 20,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Scores the codes of L models (seeds, hyperparameters) in one program.

    Args:
      codes: ``[L, N, D]``, of the same N observations.
      factors: ``[N, K]``, shared by all lanes.
      scores: scores that are functions of the mutual information of latents and
        factors: mig, mig_sup, jemmig, dcimig, modularity, med.
      groups: sizes of multi-dimensional latent variables, as in `evaluate`.
      bins: equal-width bins.
      seed: seeds the quantiser of ``groups``.

    Returns:
      ``{name: [L]}``, for each lane the value that the score alone returns.
    """
    codes = to_numpy("evaluate_lanes", "codes", codes)
    if codes.ndim != 3 or 0 in codes.shape:
        raise ValueError(
            "evaluate_lanes: `codes` must have shape [L, N, D], got "
            f"{codes.shape}. Use `evaluate` for one model."
        )
    intervals = {name: describe(name).interval for name in names()}
    known = {n: i.value for n, i in intervals.items() if isinstance(i, OfInformation)}
    for name in scores:
        if name not in known:
            raise unknown_name("evaluate_lanes", "scores", name, known)
    arrays = check_arrays(
        "evaluate_lanes", codes[0], factors, groups=groups, factor_bins=bins
    )
    lanes = [check_arrays("evaluate_lanes", c, factors).codes for c in codes]
    quantised = [quantise(c, arrays.groups, bins, seed) for c in lanes]
    cells = quantised[0][1]
    tables = lane_tables(
        jnp.asarray(np.stack([labels for labels, _ in quantised])),
        jnp.asarray(arrays.labels),
        cells=cells,
        sizes=arrays.sizes,
    )
    info = Information(np.asarray(tables), arrays.sizes)
    return {name: known[name](info, cells) for name in scores}
