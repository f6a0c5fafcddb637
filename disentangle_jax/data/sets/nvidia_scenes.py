"""Isaac3D and Falcor3D: rendered scenes, a PNG per image and a table of labels."""

import math
import pathlib
from typing import Any

import numpy as np

from disentangle_jax.data.catalogue import DatasetDescription, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.grids import grid_of
from disentangle_jax.data.publisher_files import (
    Folder,
    check_shape,
    find,
    read_npy,
    reading,
)

_STORED = (128, 128, 3)
_DRIVE = "https://drive.google.com/uc?export=download&id="


def _described(folder: str, labels: str, **fields: Any) -> dict[str, Any]:
    return {
        "image_shape": (64, 64, 3),
        "licence": "CC BY 4.0",
        "files": f"the archive's folder {folder} (images/000000.png … and {labels})",
        "patterns": (f"{folder}/{labels}", labels),
        **fields,
    }


def _classes(description: DatasetDescription, path: pathlib.Path) -> np.ndarray:
    """Returns the factors ``[N, K]`` of the images, from the table of labels.

    The table holds each factor scaled to [0, 1]; a value's rank is its class.
    """
    with reading(path):
        labels = read_npy(path)
    sizes = description.factor_sizes
    check_shape(path, "the table", labels.shape, (math.prod(sizes), len(sizes)))
    columns = [np.unique(column, return_inverse=True) for column in labels.T]
    found = tuple(len(values) for values, _ in columns)
    if found != sizes:
        raise ValueError(
            f"data.load: the columns of {path} must have {sizes} different values "
            f"({', '.join(description.factor_names)}), got {found}. It is another "
            "version of the file: fetch the publisher's."
        )
    return np.stack([classes for _, classes in columns], axis=-1)


def _load(
    description: DatasetDescription, data_dir: Folder, split: str, size: int
) -> Dataset:
    path = find(description, data_dir)
    classes = _classes(description, path)
    _, table, order = grid_of(path, classes, description.factor_sizes)
    if table is not None:
        raise ValueError(
            f"data.load: the rows of {path} must be all combinations of the factors, "
            "got one of them twice. It is damaged: fetch it again."
        )
    from disentangle_jax.data import pictures

    folder = path.parent / "images"
    for index in (0, len(classes) - 1):
        if not (folder / f"{index:06}.png").is_file():
            raise FileNotFoundError(
                f"data.load: {description.name} needs {len(classes)} images in "
                f"{folder}, where there is no {index:06}.png. {description.advice()}"
            )

    def paths(indices: np.ndarray) -> list[pathlib.Path]:
        rows = indices if order is None else order[indices]
        return [folder / f"{row:06}.png" for row in rows]

    images = pictures.Pictures(paths, len(classes), _STORED)
    whole = description.dataset(
        images.__getitem__, image_shape=_STORED, reader=images.reader
    )
    return whole.split(split).resized(size)


@define(
    **_described(
        "Isaac3D_down128",
        "labels.npy",
        factors={
            "object_shape": 3,
            "robot_x": 8,
            "robot_y": 5,
            "camera_height": 4,
            "object_scale": 4,
            "lighting_intensity": 4,
            "lighting_y": 6,
            "object_color": 4,
            "wall_color": 4,
        },
        size="737,280",
        fetch=f"{_DRIVE}1OmQ1G2wnm6eTsSFGTKFZZAh5D3nQTW1B",
    )
)
def isaac3d(
    *, data_dir: Folder = None, split: str = "train", size: int = 64
) -> Dataset:
    """Isaac3D (Nie et al. 2020): a robot arm with an object in a kitchen.

    The publisher's text lists the factors in another order than the file's columns,
    whose numbers of values are those given here.

    Args:
      data_dir: folder with the publisher's folder Isaac3D_down128, or that folder.
      split: as in ``data.load``.
      size: height and width, to which the images of 128×128 pixels are averaged.
    """
    return _load(isaac3d.description, data_dir, split, size)


@define(
    **_described(
        "Falcor3D_down128",
        "train-rec.labels",
        factors={
            "lighting_intensity": 5,
            "lighting_x": 6,
            "lighting_y": 6,
            "lighting_z": 6,
            "camera_x": 6,
            "camera_y": 6,
            "camera_z": 6,
        },
        size="233,280",
        fetch=f"{_DRIVE}1XAQfFK1x6cpN1eiovbP0hVfLTm5SsSoJ",
    )
)
def falcor3d(
    *, data_dir: Folder = None, split: str = "train", size: int = 64
) -> Dataset:
    """Falcor3D (Nie et al. 2020): a living room under changing light and camera.

    Args:
      data_dir: folder with the publisher's folder Falcor3D_down128, or that folder.
      split: as in ``data.load``.
      size: height and width, to which the images of 128×128 pixels are averaged.
    """
    return _load(falcor3d.description, data_dir, split, size)
