"""XYSquares: three squares on a grid, one per colour channel."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.data import _rendering
from disentangle_jax.data._dataset import Dataset

FACTOR_NAMES = ("x_red", "y_red", "x_green", "y_green", "x_blue", "y_blue")
PLACES = 8
SQUARE = 8
SIZE = 64


def _render(factors: ArrayLike, *, spacing: int) -> jax.Array:
    """Renders images, uint8 ``[n, 64, 64, 3]``, of ``factors [n, 6]``; pure JAX."""
    factors = jnp.asarray(factors, jnp.int32)
    offset = (SIZE - (SQUARE + (PLACES - 1) * spacing)) // 2
    start = offset + spacing * factors
    pixel = np.arange(SIZE, dtype=np.int32)
    distance = pixel[None, None] - start[:, :, None]
    inside = (distance >= 0) & (distance < SQUARE)
    columns, rows = inside[:, 0::2], inside[:, 1::2]
    squares = rows[:, :, :, None] & columns[:, :, None, :]
    return jnp.moveaxis(squares, 1, -1).astype(jnp.uint8) * 255


def xysquares(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    spacing: int = 8,
) -> Dataset:
    """XYSquares: 262,144 images of 64×64×3, generated.

    A red, a green and a blue square of 8×8 pixels, each at one of 8×8 places. Factors:
    x and y of red, green and blue, 8 each. At spacing 8 the places of a square do not
    overlap, so that all pairs along a factor are equally far apart (Overlooked
    Implications of the Reconstruction Loss, Sec. 5). Every spacing keeps 8 places per
    axis, as in the paper's runs, centred in the image.

    Args:
      data_dir: unused, as nothing is read.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      spacing: pixels between neighbouring places, 1 … 8.
    """
    del data_dir
    if spacing not in range(1, 9):
        raise ValueError(
            f"xysquares: `spacing` must be an integer in [1, 8], got {spacing!r}."
        )
    render = functools.partial(_render, spacing=int(spacing))
    sizes = (PLACES,) * 6
    return Dataset(
        "xysquares",
        image_shape=(SIZE, SIZE, 3),
        images=functools.partial(
            _rendering.images_by_index, jax.jit(render), sizes, chunk=64
        ),
        factor_names=FACTOR_NAMES,
        factor_sizes=sizes,
        render=render,
    ).split(split)
