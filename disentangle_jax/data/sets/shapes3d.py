"""3D Shapes: the published 3dshapes.h5, or the unpacked array made of it."""

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
    open_unpacked,
    read_hdf5,
    reading,
)

SIZE = 64
# The publisher's file, which shapes3d_120 reads too.
SOURCE = {
    "licence": "Apache-2.0",
    "fetch": "https://storage.googleapis.com/3d-shapes/3dshapes.h5",
    "files": "3dshapes.h5",
    "md5": {"3dshapes.h5": "099a2078d58cec4daad0702c55d06868"},
}


def _read_labels(path: pathlib.Path) -> tuple[np.ndarray, tuple[int, ...]]:
    """Reads the factor values ``[N, 6]`` as integers, and the shape of the images."""
    import h5py

    with reading(path), h5py.File(path, "r") as file:
        labels = file["labels"][:]
        shape = file["images"].shape
    check_shape(path, "images", shape, (len(labels), SIZE, SIZE, 3))
    # Hues 0 … 0.9, scales 0.75 … 1.25, shapes 0 … 3, angles -30 … 30.
    low = np.array([0.0, 0.0, 0.0, 0.75, 0.0, -30.0])
    step = np.array([0.1, 0.1, 0.1, 0.5 / 7, 1.0, 60 / 14])
    return np.round((labels - low) / step).astype(np.int64), shape


def _compressed_images(path: pathlib.Path) -> tuple[tuple, Iterator[np.ndarray]]:
    _, shape = _read_labels(path)
    return shape, read_hdf5(path, "images")


@define(
    **SOURCE,
    factors={
        "floor_hue": 10,
        "wall_hue": 10,
        "object_hue": 10,
        "scale": 8,
        "shape": 4,
        "orientation": 15,
    },
    image_shape=(SIZE, SIZE, 3),
    size="480,000",
    patterns=("3dshapes.h5",),
    # Overlooked Implications of the Reconstruction Loss, Table 2.
    moments=(
        (0.502584966788819, 0.578759756608967, 0.603449973185958),
        (0.294081404355556, 0.344397908751721, 0.366168598152475),
    ),
    tfds=TfdsLayout("shapes3d"),
    compressed_images=_compressed_images,
)
def shapes3d(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """3D Shapes: a cube, cylinder, sphere or capsule between two walls.

    The h5 file is compressed, so it is read into memory (5.9 GB) unless
    ``data.prepare`` has unpacked it.

    Args:
      data_dir: folder with 3dshapes.h5, or that file.
      split: as in ``data.load``.
    """
    import h5py

    path = find(shapes3d.description, data_dir)
    classes, shape = _read_labels(path)
    images = open_unpacked(path, shape)
    if images is None:
        with reading(path), h5py.File(path, "r") as file:
            images = file["images"][:]
    sizes, table, order = grid_of(path, classes, shapes3d.description.factor_sizes)
    return shapes3d.description.dataset(
        lambda indices: images[indices if order is None else order[indices]],
        factor_sizes=sizes,
        factor_table=table,
        in_memory=images if order is None else None,
    ).split(split)
