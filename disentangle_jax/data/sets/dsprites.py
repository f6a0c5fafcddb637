"""dSprites: the published npz or hdf5 file, or a part of it."""

import pathlib
from collections.abc import Iterator

import numpy as np

from disentangle_jax.data.catalogue import TfdsLayout, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.grids import grid_of
from disentangle_jax.data.publisher_files import (
    Folder,
    check_shape,
    find,
    open_npz,
    read_hdf5,
    read_npz_member,
    reading,
)

SIZE = 64
_FILE = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64"
# The publisher's file, which the variants of dSprites are made of too.
SOURCE = {
    "licence": "Apache-2.0",
    "fetch": "https://github.com/google-deepmind/dsprites-dataset",
    "files": f"{_FILE}.npz (or .hdf5)",
    "md5": {f"{_FILE}.hdf5": "b331c4447a651c44bf5e8ae09022e230"},
}


def _npz(path: pathlib.Path) -> tuple[np.ndarray, tuple, Iterator[np.ndarray]]:
    with open_npz(path) as archive:
        classes = archive["latents_classes"]
    shape, _, pieces = read_npz_member(path, "imgs")
    return classes, shape, pieces


def _hdf5(path: pathlib.Path) -> tuple[np.ndarray, tuple, Iterator[np.ndarray]]:
    import h5py

    with h5py.File(path, "r") as file:
        return file["latents/classes"][:], file["imgs"].shape, read_hdf5(path, "imgs")


def _read(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Reads ``(packed images [N, 512], classes [N, 5])``, eight pixels per byte.

    Packed bits hold the full dataset in 377 MB instead of 3 GB.
    """
    with reading(path):
        classes, shape, pieces = (_npz if path.suffix == ".npz" else _hdf5)(path)
        check_shape(path, "imgs", shape, (len(classes), SIZE, SIZE))
        # The publisher's first column is a colour that never changes.
        classes = classes[:, -5:].astype(np.int64)
        packed = np.empty((shape[0], SIZE * SIZE // 8), np.uint8)
        start = 0
        for piece in pieces:
            flat = piece.reshape(len(piece), -1)
            # TensorFlow Datasets' small .hdf5 file for tests holds any bytes.
            if path.suffix == ".npz" and flat.max(initial=0) > 1:
                raise ValueError("pixels that are neither 0 nor 1")
            packed[start : start + len(piece)] = np.packbits(flat > 0, axis=1)
            start += len(piece)
    return packed, classes


def _unpack(packed: np.ndarray) -> np.ndarray:
    """Returns images, uint8 ``[n, 64, 64, 1]`` of 0 and 255, of bits ``[n, 512]``."""
    bits = np.unpackbits(packed, axis=1).reshape(-1, SIZE, SIZE, 1)
    return bits * np.uint8(255)


@define(
    **SOURCE,
    factors={"shape": 3, "scale": 6, "orientation": 40, "x": 32, "y": 32},
    image_shape=(SIZE, SIZE, 1),
    size="737,280",
    patterns=(f"{_FILE}.npz", f"{_FILE}.hdf5", "dsprites_downsampled.npz"),
    # Overlooked Implications of the Reconstruction Loss, Table 2.
    moments=((0.042494423521890,), (0.195166458806261,)),
    tfds=TfdsLayout(
        "dsprites",
        keys=("label_shape", "label_scale", "label_orientation")
        + ("label_x_position", "label_y_position"),
        # TFDS keeps the file's 0 and 1.
        fit=lambda image: (image > 0) * np.uint8(255),
    ),
)
def dsprites(
    *, data_dir: Folder = None, split: str = "train", file: str | None = None
) -> Dataset:
    """dSprites: a white (255) square, ellipse or heart on black.

    Orientations 0 and 39 are the same angle. A file with a complete grid of fewer
    values has smaller factor sizes; a file without a complete grid keeps the published
    sizes.

    Args:
      data_dir: folder with the publisher's npz or hdf5 file, or the file itself.
      split: as in ``data.load``.
      file: name of another file of that layout in ``data_dir``.
    """
    description = dsprites.description
    path = find(description, data_dir, None if file is None else (file,))
    packed, classes = _read(path)
    sizes, table, order = grid_of(path, classes, description.factor_sizes)
    packed = packed if order is None else packed[order]
    return description.dataset(
        lambda indices: _unpack(packed[indices]),
        factor_sizes=sizes,
        factor_table=table,
        packed=packed,
    ).split(split)
