"""Resizes images: in the two ways that the papers use, and by averaging areas."""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.types import unknown_name

Pixels = TypeVar("Pixels", np.ndarray, jax.Array)


def area_average(images: Pixels, size: int) -> Pixels:
    """Returns uint8 images ``[n, size, size, C]``, each pixel the mean of its area.

    NumPy and JAX arrays give the same values.

    Args:
      images: uint8 ``[n, H, H, C]``, H at least `size`.
      size: new height and width.
    """
    arrays = jnp if isinstance(images, jax.Array) else np
    old = images.shape[1]
    if by_halves(old, size):
        total = sums_of_areas(images.astype(np.uint16), size)
        mean = total.astype(np.float32) / (old // size) ** 2
    else:
        covered = _covered(old, size)
        mean = arrays.einsum("ah,nhwc,bw->nabc", covered, images, covered)
    return arrays.round(mean).astype(np.uint8)


def by_halves(old: int, new: int) -> bool:
    """Whether halving the side up to three times leads from `old` to `new`."""
    return old in (new, 2 * new, 4 * new, 8 * new)


def sums_of_areas(images: Any, size: int) -> Any:
    """Returns the sums ``[n, size, size, C]`` of square areas of pixels.

    The images are halved, each time by sums of four slices, which XLA computes many
    times faster than a reduction. Sums of at most 64 bytes are exact.

    Args:
      images: uint16 ``[n, H, H, C]`` of NumPy, JAX or TensorFlow.
      size: new height and width, see :func:`by_halves`.
    """
    while images.shape[1] > size:
        rows = images[:, 0::2] + images[:, 1::2]
        images = rows[:, :, 0::2] + rows[:, :, 1::2]
    return images


def _covered(old: int, new: int) -> np.ndarray:
    """Returns the share ``[new, old]`` of each new pixel that an old one covers."""
    edges = np.arange(new + 1) * (old / new)
    pixel = np.arange(old)
    upper = np.minimum(edges[1:, None], pixel + 1)
    lower = np.maximum(edges[:-1, None], pixel)
    return (np.maximum(upper - lower, 0) * (new / old)).astype(np.float32)


def resize(images: np.ndarray, size: int, *, method: str) -> np.ndarray:
    """Resizes uint8 images ``[n, H, W, C]`` to ``[n, size, size, C]``.

    Args:
      images: the images.
      size: new height and width.
      method: ``"bilinear"``, the weighted mean of the four nearest pixels (Overlooked
        Implications of the Reconstruction Loss, App. B.4), or ``"antialias"``, Lanczos
        resampling over all covered pixels (the code of the 12,600-model study).
    """
    if method == "bilinear":
        rows = _interpolate(images.astype(np.float32), size, axis=1)
        return np.round(_interpolate(rows, size, axis=2)).astype(np.uint8)
    if method != "antialias":
        raise unknown_name("resize", "method", method, ("bilinear", "antialias"))
    from PIL import Image

    def one(channel: np.ndarray) -> np.ndarray:
        picture = Image.fromarray(channel)
        return np.asarray(picture.resize((size, size), Image.Resampling.LANCZOS))

    return np.stack(
        [np.stack([one(c) for c in np.moveaxis(i, -1, 0)], axis=-1) for i in images]
    )


def _interpolate(images: np.ndarray, size: int, *, axis: int) -> np.ndarray:
    old = images.shape[axis]
    # Where the centres of the new pixels lie on the old axis.
    place = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, old - 1)
    shape = [1] * images.ndim
    shape[axis] = size
    weight = (place - low).astype(np.float32).reshape(shape)
    lower, upper = np.take(images, low, axis), np.take(images, high, axis)
    return lower + weight * (upper - lower)
