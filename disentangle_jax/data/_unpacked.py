"""Plain arrays beside compressed files, mapped into memory instead of read."""

import pathlib
from collections.abc import Iterable

import numpy as np

from disentangle_jax.data import _files


def path_beside(path: pathlib.Path) -> pathlib.Path:
    """Returns where the unpacked images of a publisher's file belong."""
    return path.with_name(f"{path.stem}.images.npy")


def open_beside(path: pathlib.Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """Maps the unpacked images of ``path``; None where there are none."""
    unpacked = path_beside(path)
    if not unpacked.exists():
        return None
    with _files.reading(unpacked):
        images = np.load(unpacked, mmap_mode="r")
    _files.check_shape(unpacked, "the array", images.shape, shape)
    return images


def write(
    path: pathlib.Path, shape: tuple[int, ...], pieces: Iterable[np.ndarray]
) -> None:
    """Writes uint8 ``pieces`` as one array of ``shape``; complete or not at all."""
    with _files.new_file(path) as temporary:
        images = np.lib.format.open_memmap(temporary, "w+", np.uint8, shape)
        start = 0
        for piece in pieces:
            images[start : start + len(piece)] = piece
            start += len(piece)
        images.flush()
