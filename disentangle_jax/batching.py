"""Batches: a function applied in batches of one size, and rows on every device."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec


def in_batches(
    function: Callable[..., Any],
    rows: np.ndarray,
    size: int,
    *,
    done: Callable[[int], None] = lambda count: None,
) -> Any:
    """Returns ``function(rows)``, computed `size` rows at a time.

    The last batch is filled up by repeating its rows, so that a compiled function sees
    one shape only; what belongs to the repeated rows is dropped.

    Args:
      function: maps ``[size, …]`` rows to a pytree of arrays ``[size, …]``.
      rows: ``[N, …]``, N at least 1.
      size: rows of a batch.
      done: called after each batch with the number of rows that are done.

    Returns:
      A pytree of NumPy arrays ``[N, …]``.
    """
    if not len(rows):
        raise ValueError("in_batches: `rows` must not be empty.")
    parts = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        filled = np.resize(part, (size, *part.shape[1:]))
        parts.append(jax.device_get(function(filled)))
        done(start + len(part))
    return jax.tree.map(lambda *a: np.concatenate(a)[: len(rows)], *parts)


def replicated(array: jax.Array) -> jax.Array:
    """The array, on every device where a mesh with Explicit axes splits its rows.

    With Explicit axes, the default of ``jax.make_mesh``, JAX refuses to combine two
    arrays whose rows are both split. Auto axes leave the choice to the compiler.
    """
    sharding = jax.typeof(array).sharding
    if all(axis is None for axis in sharding.spec):
        return array
    return jax.sharding.reshard(array, PartitionSpec())
