"""dSprites rendered from its geometry, in pure JAX.

Measured on the real images: a pixel is white where its centre lies inside the shape;
the centre of the shape is at 16 + 32 · position pixels; the square's side is 19.2, the
ellipse's semi-axes are 12.765 and 7.215 times the scale. The square's corners lie on a
raster of 1/256 pixel, which makes all of its images exact.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.data.catalogue import define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder
from disentangle_jax.data.rendering import rendered_dataset, rendering_of
from disentangle_jax.data.sets.dsprites import SIZE, dsprites

SQUARE, ELLIPSE, HEART = range(3)
SCALES = np.linspace(0.5, 1.0, 6)
ANGLES = np.linspace(0.0, 2 * np.pi, 40)
# Centre of the shape, in pixels from the centre of the first pixel.
CENTRES = 15.5 + 32 * np.linspace(0.0, 1.0, 32)
HALF_SIDE = 9.6
SEMI_AXES = 12.765, 7.215
RASTER = 256

# The heart is the well-known curve x = w sin³t, y = h (13 cos t - 5 cos 2t - 2 cos 3t -
# cos 4t) + o; w, h and o were fitted to the measured outline (within 0.03).
HEART_WIDTH, HEART_HEIGHT, HEART_OFFSET = 9.5953, 0.66196, 1.4373


def _heart_edge(cos: jax.Array) -> jax.Array:
    """Returns the height (downwards) of the heart's curve at the cosine ``cos``."""
    double = 2 * cos**2 - 1
    wave = 13 * cos - 5 * double - 2 * cos * (2 * double - 1) - (2 * double**2 - 1)
    return -HEART_HEIGHT * wave - HEART_OFFSET


def _square_corners() -> np.ndarray:
    """Returns the corners of every square, int32 ``[2 (x, y), 6, 40, 32, 4]``.

    In units of the raster; the fourth axis is the position along x or y. Computed in
    double precision, since some edges are within 1/500 of a raster unit of a rounding.
    """
    corner = HALF_SIDE * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    sin, cos = np.sin(-ANGLES)[:, None], np.cos(-ANGLES)[:, None]
    turned = np.stack(
        [
            cos * corner[:, 0] - sin * corner[:, 1],
            sin * corner[:, 0] + cos * corner[:, 1],
        ]
    )
    scaled = SCALES[:, None, None] * turned[:, None]
    placed = scaled[:, :, :, None] + CENTRES[:, None]
    return np.round(placed * RASTER).astype(np.int32)


def _draw(factors: jax.Array) -> jax.Array:
    """Returns one image, bool ``[64, 64]``, of ``factors [5]``."""
    shape = factors[0]
    scale = jnp.asarray(SCALES, jnp.float32)[factors[1]]
    # The angle has the opposite sign, as y points down.
    angle = jnp.asarray(-ANGLES, jnp.float32)[factors[2]]
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    centres = jnp.asarray(CENTRES, jnp.float32)
    centre_x, centre_y = centres[factors[3]], centres[factors[4]]
    pixels = np.arange(SIZE, dtype=np.float32)
    x = jnp.broadcast_to(pixels[None, :] - centre_x, (SIZE, SIZE))
    y = jnp.broadcast_to(pixels[:, None] - centre_y, (SIZE, SIZE))
    across, along = cos * x + sin * y, cos * y - sin * x

    # Square: on the inner side of each edge, exactly, in integer raster units.
    corners = jnp.asarray(_square_corners())
    corner_x = corners[0, factors[1], factors[2], factors[3]]
    corner_y = corners[1, factors[1], factors[2], factors[4]]
    whole = np.arange(SIZE, dtype=np.int32) * RASTER
    in_square = jnp.ones((SIZE, SIZE), bool)
    for start, end in ((0, 1), (1, 2), (2, 3), (3, 0)):
        edge_x = corner_x[end] - corner_x[start]
        edge_y = corner_y[end] - corner_y[start]
        rows = edge_x * (whole - corner_y[start])
        columns = edge_y * (whole - corner_x[start])
        # A pixel centre on an edge belongs to the left and the bottom edge only.
        owns = (edge_y < 0) | ((edge_y == 0) & (edge_x < 0))
        in_square &= rows[:, None] - columns[None, :] >= jnp.where(owns, 0, 1)

    a, b = SEMI_AXES
    in_ellipse = (across / a) ** 2 + (along / b) ** 2 < scale**2

    # Heart: the curve passes each x twice, on the lobes (cos t > 0) and below.
    x, y = across / scale, along / scale
    cube = jnp.clip(jnp.abs(x) / HEART_WIDTH, 1e-30, 1.0)
    sine = jnp.exp(jnp.log(cube) / 3)  # Ten times faster than cbrt on a CPU.
    cosine = jnp.sqrt(jnp.maximum(1 - sine**2, 0.0))
    in_heart = (
        (jnp.abs(x) < HEART_WIDTH)
        & (y > _heart_edge(cosine))
        & (y < _heart_edge(-cosine))
    )

    return jnp.where(
        shape == SQUARE, in_square, jnp.where(shape == ELLIPSE, in_ellipse, in_heart)
    )


def render(factors: ArrayLike) -> jax.Array:
    """Renders images, uint8 ``[n, 64, 64, 1]``, of ``factors [n, 5]``; pure JAX."""
    images = jax.vmap(_draw)(jnp.asarray(factors, jnp.int32))
    return images[..., None].astype(jnp.uint8) * 255


@define(**rendering_of(dsprites.description))
def rendered_dsprites(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """Our rendering of ``dsprites``, without a download.

    Orientations 0 and 39 are the same angle, as in the published images. More than 94 %
    of the images equal the published ones in every pixel; the others differ in about
    one pixel. ``data_dir`` is not used.
    """
    del data_dir
    return rendered_dataset(rendered_dsprites.description, render, split)
