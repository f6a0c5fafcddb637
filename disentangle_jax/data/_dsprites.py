"""dSprites: the published npz or hdf5 file, or a part of it."""

import os
import pathlib
from collections.abc import Iterator

import numpy as np

from disentangle_jax.data import _files, _grids
from disentangle_jax.data._dataset import Dataset

FACTOR_NAMES = ("shape", "scale", "orientation", "x", "y")
FACTOR_SIZES = (3, 6, 40, 32, 32)
SIZE = 64
FILES = (
    "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
    "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5",
    "dsprites_downsampled.npz",
)


def _npz(path: pathlib.Path) -> tuple[np.ndarray, tuple, Iterator[np.ndarray]]:
    with _files.open_npz(path) as archive:
        classes = archive["latents_classes"]
    shape, _, pieces = _files.read_npz_member(path, "imgs")
    return classes, shape, pieces


def _hdf5(path: pathlib.Path) -> tuple[np.ndarray, tuple, Iterator[np.ndarray]]:
    import h5py

    with h5py.File(path, "r") as file:
        classes = file["latents/classes"][:]
        shape = file["imgs"].shape

    def pieces() -> Iterator[np.ndarray]:
        with h5py.File(path, "r") as file:
            for start in range(0, shape[0], 4096):
                yield file["imgs"][start : start + 4096]

    return classes, shape, pieces()


def read(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Reads ``(packed images [N, 512], classes [N, 5])``; eight pixels per byte.

    Packed bits hold the full set in 377 MB instead of 3 GB.
    """
    with _files.reading(path):
        classes, shape, pieces = (_npz if path.suffix == ".npz" else _hdf5)(path)
        _files.check_shape(path, "imgs", shape, (len(classes), SIZE, SIZE))
        # The publisher's first column is a colour that never changes.
        classes = classes[:, -5:].astype(np.int64)
        packed = np.empty((shape[0], SIZE * SIZE // 8), np.uint8)
        start = 0
        for piece in pieces:
            flat = piece.reshape(len(piece), -1)
            packed[start : start + len(piece)] = np.packbits(flat > 0, axis=1)
            start += len(piece)
    return packed, classes


def unpack(packed: np.ndarray) -> np.ndarray:
    """Returns images, uint8 ``[n, 64, 64, 1]`` of 0 and 255, of bits ``[n, 512]``."""
    bits = np.unpackbits(packed, axis=1).reshape(-1, SIZE, SIZE, 1)
    return bits * np.uint8(255)


def dsprites(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    file: str | None = None,
) -> Dataset:
    """dSprites: 737,280 images of 64×64×1, white (255) on black.

    Factors: shape 3 (square, ellipse, heart), scale 6, orientation 40, x 32, y 32.
    Orientations 0 and 39 are the same angle. Complete grids of fewer values are sets of
    their own factor sizes; a file that is no complete grid keeps the published sizes.

    Args:
      data_dir: folder with the publisher's npz or hdf5 file, or the file itself.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      file: name of another file of that layout in ``data_dir``.
    """
    path = _files.find("dsprites", data_dir, FILES if file is None else (file,))
    packed, classes = read(path)
    sizes, table, order = _grids.grid_of(path, classes, FACTOR_SIZES)
    packed = packed if order is None else packed[order]
    return Dataset(
        "dsprites",
        image_shape=(SIZE, SIZE, 1),
        images=lambda indices: unpack(packed[indices]),
        factor_names=FACTOR_NAMES,
        factor_sizes=sizes,
        factor_table=table,
        packed=packed,
    ).split(split)
