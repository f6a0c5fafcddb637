"""Rendering by index on the host, in chunks of one compiled size."""

from collections.abc import Callable

import jax
import numpy as np
from jax.typing import ArrayLike


def images_by_index(
    render: Callable[[ArrayLike], jax.Array],
    factor_sizes: tuple[int, ...],
    indices: np.ndarray,
    *,
    chunk: int,
) -> np.ndarray:
    """Renders the images of grid ``indices [n]`` on the CPU, as NumPy.

    The stream feeds an accelerator from the host, so the accelerator is left alone.
    Chunks have a fixed size (the last is padded), so that any ``n`` uses one program.
    """
    factors = np.stack(np.unravel_index(indices, factor_sizes), axis=-1)
    parts = []
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        for start in range(0, len(factors), chunk):
            part = factors[start : start + chunk]
            padded = np.pad(part, ((0, chunk - len(part)), (0, 0)), mode="edge")
            parts.append(np.asarray(render(padded))[: len(part)])
    if not parts:
        shape = jax.eval_shape(render, factors).shape
        return np.zeros(shape, np.uint8)
    return np.concatenate(parts)
