"""Decodes image files in parallel."""

import functools
import pathlib
from collections.abc import Callable, Sequence
from concurrent import futures

import numpy as np
from PIL import Image

from disentangle_jax.data.publisher_files import (
    UnreadableImage,
    check_shape,
    regular,
)

# Larger pictures are none of a dataset; Pillow warns of them, too.
_MOST_PIXELS = 80_000_000
_UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)


@functools.cache
def _pool() -> futures.ThreadPoolExecutor:
    # Threads suffice: Pillow releases the interpreter lock while it decodes.
    return futures.ThreadPoolExecutor()


def read(
    paths: Sequence[pathlib.Path] | np.ndarray,
    shape: tuple[int, ...],
    fit: Callable[[Image.Image], Image.Image] = lambda image: image,
) -> np.ndarray:
    """Reads images as uint8 ``[n, H, W, C]``.

    Args:
      paths: image files.
      shape: ``(H, W, C)`` after ``fit``, C 1 (grey) or 3 (RGB).
      fit: crops or resizes one image.
    """
    mode = "L" if shape[-1] == 1 else "RGB"

    def one(path: pathlib.Path) -> np.ndarray:
        try:
            with Image.open(regular(path)) as image:
                if image.width * image.height > _MOST_PIXELS:
                    raise ValueError(f"{image.width} x {image.height} pixels")
                pixels = np.asarray(fit(image.convert(mode)))
        except _UNREADABLE as error:
            raise UnreadableImage(
                f"data.load: the image {path} cannot be read ({error}). Replace or "
                "remove it."
            ) from error
        pixels = pixels.reshape(*pixels.shape[:2], -1)
        check_shape(path, "the image", pixels.shape, shape)
        return pixels

    if not len(paths):
        return np.zeros((0, *shape), np.uint8)
    return np.stack(list(_pool().map(one, paths)))


def images_under(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the PNG and JPEG files below a folder, sorted."""
    suffixes = (".png", ".jpg", ".jpeg")
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in suffixes)
