"""The table scores of many code sets at once: a sweep is an array axis."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.metrics._information import Information, contingency, quantise
from disentangle_jax.metrics._inputs import ArrayLike, check_arrays, to_numpy
from disentangle_jax.metrics._intervals import OF_INFORMATION
from disentangle_jax.types import unknown_name

# Lanes that are alive at once; more would only use more memory.
_AT_ONCE = 4


@functools.partial(jax.jit, static_argnames=("cells", "sizes"))
def _tables(
    labels: jax.Array, factors: jax.Array, *, cells: int, sizes: tuple[int, ...]
) -> jax.Array:
    """``[L, G, cells, sum(sizes)]`` tables of labels ``[L, N, G]``."""
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
    """Scores L code sets of the same rows (seeds, hyperparameters) in one program.

    Args:
      codes: ``[L, N, D]``.
      factors: ``[N, K]``, shared by all lanes.
      scores: of the mutual-information family: mig, mig_sup, jemmig, dcimig,
        modularity, med.
      groups: sizes of multi-dimensional latent variables, as in `evaluate`.
      bins: equal-width bins.
      seed: seeds the quantiser of ``groups``.

    Returns:
      ``{name: [L]}``, each lane as the score alone would give it.
    """
    codes = to_numpy("evaluate_lanes", "codes", codes)
    if codes.ndim != 3 or 0 in codes.shape:
        raise ValueError(
            "evaluate_lanes: `codes` must have shape [L, N, D], got "
            f"{codes.shape}. Use `evaluate` for one set."
        )
    for name in scores:
        if name not in OF_INFORMATION:
            raise unknown_name("evaluate_lanes", "scores", name, OF_INFORMATION)
    arrays = check_arrays("evaluate_lanes", codes[0], factors, groups=groups)
    lanes = [check_arrays("evaluate_lanes", c, factors).codes for c in codes]
    quantised = [quantise(c, arrays.groups, bins, seed) for c in lanes]
    cells = quantised[0][1]
    tables = _tables(
        jnp.asarray(np.stack([labels for labels, _ in quantised])),
        jnp.asarray(arrays.labels),
        cells=cells,
        sizes=arrays.sizes,
    )
    info = Information(np.asarray(tables), arrays.sizes)
    return {name: OF_INFORMATION[name](info, cells) for name in scores}
