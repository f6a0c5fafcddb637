"""3D Shapes: the published 3dshapes.h5, or the unpacked array made of it."""

import os
import pathlib

import numpy as np

from disentangle_jax.data import _files, _grids, _unpacked
from disentangle_jax.data._dataset import Dataset
from disentangle_jax.data._rendered_shapes3d import FACTOR_NAMES, FACTOR_SIZES, SIZE

FILES = ("3dshapes.h5",)


def read_labels(path: pathlib.Path) -> tuple[np.ndarray, tuple[int, ...]]:
    """Reads the factor values ``[N, 6]`` as indices, and the shape of the images."""
    import h5py

    with _files.reading(path), h5py.File(path, "r") as file:
        labels = file["labels"][:]
        shape = file["images"].shape
    _files.check_shape(path, "images", shape, (len(labels), SIZE, SIZE, 3))
    # Hues 0 … 0.9, scales 0.75 … 1.25, shapes 0 … 3, angles -30 … 30.
    low = np.array([0.0, 0.0, 0.0, 0.75, 0.0, -30.0])
    step = np.array([0.1, 0.1, 0.1, 0.5 / 7, 1.0, 60 / 14])
    return np.round((labels - low) / step).astype(np.int64), shape


def unpack(path: pathlib.Path, to: pathlib.Path) -> None:
    """Writes the images of the (compressed) h5 file as one plain array."""
    import h5py

    _, shape = read_labels(path)

    def pieces():
        with h5py.File(path, "r") as file:
            for start in range(0, shape[0], 4096):
                yield file["images"][start : start + 4096]

    with _files.reading(path):
        _unpacked.write(to, shape, pieces())


def shapes3d(
    *, data_dir: str | os.PathLike | None = None, split: str = "train"
) -> Dataset:
    """3D Shapes: 480,000 images of 64×64×3.

    Factors: floor hue 10, wall hue 10, object hue 10, scale 8, shape 4 (cube,
    cylinder, sphere, capsule), orientation 15. The h5 file is compressed, so it is
    read into memory (5.9 GB) unless ``data.prepare`` has unpacked it.

    Args:
      data_dir: folder with 3dshapes.h5, or that file.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
    """
    import h5py

    path = _files.find("shapes3d", data_dir, FILES)
    classes, shape = read_labels(path)
    images = _unpacked.open_beside(path, shape)
    if images is None:
        with _files.reading(path), h5py.File(path, "r") as file:
            images = file["images"][:]
    sizes, table, order = _grids.grid_of(path, classes, FACTOR_SIZES)
    return Dataset(
        "shapes3d",
        image_shape=(SIZE, SIZE, 3),
        images=lambda indices: images[indices if order is None else order[indices]],
        factor_names=FACTOR_NAMES,
        factor_sizes=sizes,
        factor_table=table,
    ).split(split)
