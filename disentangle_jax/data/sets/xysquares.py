"""XYSquares: three squares on a grid, one per colour channel."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.data.catalogue import TfdsLayout, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder
from disentangle_jax.data.rendering import rendered_dataset

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


@define(
    factors=dict.fromkeys(
        ("x_red", "y_red", "x_green", "y_green", "x_blue", "y_blue"), PLACES
    ),
    image_shape=(SIZE, SIZE, 3),
    size="262,144",
    licence="Apache-2.0",
    # Overlooked Implications of the Reconstruction Loss, Table 2.
    moments=((0.015625,) * 3, (0.124034734589209,) * 3),
    tfds=TfdsLayout(),
)
def xysquares(
    *, data_dir: Folder = None, split: str = "train", spacing: int = 8
) -> Dataset:
    """XYSquares: a red, a green and a blue square of 8×8 pixels at one of 8×8 places.

    At spacing 8 the places of a square do not overlap, so that all pairs along a factor
    are equally far apart (Overlooked Implications of the Reconstruction Loss, Sec. 5).
    Every spacing keeps 8 places per axis, as in the paper's runs, centred in the image.

    Args:
      data_dir: unused, as no file is read.
      split: as in ``data.load``.
      spacing: pixels between neighbouring places, 1 … 8.
    """
    del data_dir
    if spacing not in range(1, 9):
        raise ValueError(
            f"xysquares: `spacing` must be an integer in [1, 8], got {spacing!r}."
        )
    render = functools.partial(_render, spacing=int(spacing))
    return rendered_dataset(xysquares.description, render, split)
