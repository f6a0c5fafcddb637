"""Reads and decodes image files, by Pillow or by TensorFlow, to the same pixels."""

import functools
import os
import pathlib
import stat
from collections.abc import Callable, Sequence
from concurrent import futures
from types import ModuleType
from typing import Any

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
# Pillow's weights of red, green and blue in grey, of 2 ** 16.
_GREY = (19595, 38470, 7471)

Fit = Callable[[Image.Image], Image.Image]


@functools.cache
def _pool() -> futures.ThreadPoolExecutor:
    # Threads suffice: Pillow releases the interpreter lock while it decodes.
    return futures.ThreadPoolExecutor()


class Pictures:
    """Image files as a uint8 array ``[N, H, W, C]`` that is read by rows.

    Args:
      paths: function from indices ``[n]`` to n files.
      count: number of files.
      shape: ``(H, W, C)`` of what is read, C 1 (grey) or 3 (RGB).
      corner: ``(top, left)`` of the region of that shape which is read; None where it
        is the whole picture.
      fit: function from a picture of any size to one of that shape; None where
        pictures need no resizing.
    """

    def __init__(
        self,
        paths: Callable[[np.ndarray], Sequence[pathlib.Path]],
        count: int,
        shape: tuple[int, ...],
        *,
        corner: tuple[int, int] | None = None,
        fit: Fit | None = None,
    ):
        self._paths, self._corner, self._fit = paths, corner, fit
        self.shape, self.ndim = (count, *shape), 4

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        """Returns the pictures of ``rows [n]``, read by Pillow."""
        paths = self._paths(rows)
        if not len(paths):
            return np.zeros((0, *self.shape[1:]), np.uint8)
        return np.stack(list(_pool().map(self._read, paths)))

    def _read(self, path: pathlib.Path) -> np.ndarray:
        mode = "L" if self.shape[-1] == 1 else "RGB"
        try:
            with Image.open(regular(path)) as image:
                if image.width * image.height > _MOST_PIXELS:
                    raise ValueError(f"{image.width} x {image.height} pixels")
                picture = image.convert(mode)
                fitted = picture if self._fit is None else self._fit(picture)
                pixels = np.asarray(fitted)
        except _UNREADABLE as error:
            raise UnreadableImage(
                f"data.load: the image {path} cannot be read ({error}). Replace or "
                "remove it."
            ) from error
        pixels = self._region(pixels.reshape(*pixels.shape[:2], -1))
        check_shape(path, "the image", pixels.shape, self.shape[1:])
        return pixels

    def _region(self, pixels: Any) -> Any:
        """Returns the region of ``[h, w, C]`` pixels, of NumPy or TensorFlow."""
        if self._corner is None:
            return pixels
        (top, left), (height, width) = self._corner, self.shape[1:3]
        return pixels[top : top + height, left : left + width]

    def reader(self, tf: ModuleType) -> Callable[[Any], Any]:
        """Returns a function from a tensor of rows ``[b]`` to their pictures.

        TensorFlow reads and decodes them. Only ``fit`` is Pillow's: its resampling
        rounds in a way of its own.
        """

        def picture(path: Any) -> Any:
            pixels = decoded(tf, tf.io.read_file(path), self.shape[-1])
            if self._fit is not None:
                fit = functools.partial(self._fitted, self._fit)
                pixels = tf.numpy_function(fit, [pixels], tf.uint8, False)
            return tf.ensure_shape(self._region(pixels), self.shape[1:])

        def read(rows: Any) -> Any:
            paths = tf.numpy_function(self._regular_paths, [rows], tf.string, False)
            return tf.map_fn(
                picture,
                tf.ensure_shape(paths, rows.shape),
                fn_output_signature=tf.uint8,
            )

        return read

    def _regular_paths(self, rows: np.ndarray) -> np.ndarray:
        """Returns the names of the files, empty for pipes and devices, which block."""
        paths = map(os.fsencode, self._paths(rows))
        return np.array([p if _is_regular(p) else b"" for p in paths], object)

    def _fitted(self, fit: Fit, pixels: np.ndarray) -> np.ndarray:
        if pixels.shape[0] * pixels.shape[1] > _MOST_PIXELS:
            raise ValueError(f"{pixels.shape[1]} x {pixels.shape[0]} pixels")
        image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        return np.asarray(fit(image)).reshape(self.shape[1:])


def _is_regular(path: bytes) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def decoded(tf: ModuleType, content: Any, channels: int) -> Any:
    """Returns the pixels ``[h, w, C]`` of a PNG or JPEG file, those that Pillow gives.

    Args:
      tf: the module ``tensorflow``.
      content: bytes of the file, a string tensor.
      channels: 1 (grey) or 3 (RGB).
    """
    # Depth and colour type of a PNG. Of 16-bit greys, TensorFlow would take the highest
    # bits, and Pillow does not. No content is an error, after which Pillow reads them.
    deep = tf.strings.substr(content, 24, 2) == b"\x10\x00"
    # `decode_jpeg` decodes PNGs, too. The other method for JPEGs is not Pillow's.
    pixels = tf.io.decode_jpeg(
        tf.where(deep, b"", content), channels=3, dct_method="INTEGER_ACCURATE"
    )
    pixels = tf.ensure_shape(pixels, (None, None, 3))  # Animations have more axes.
    if channels == 3:
        return pixels
    weighted = tf.cast(pixels, tf.int32) * tf.constant(_GREY)
    grey = (tf.reduce_sum(weighted, axis=-1, keepdims=True) + 2**15) // 2**16
    return tf.cast(grey, tf.uint8)


def images_under(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the PNG and JPEG files below a folder, sorted."""
    suffixes = (".png", ".jpg", ".jpeg")
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in suffixes)
