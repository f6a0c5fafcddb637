"""A function applied to many rows, in batches of one size."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np


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
