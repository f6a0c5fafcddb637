"""SmallNORB: the publisher's binary .mat files."""

import math
import os
import pathlib

import numpy as np

from disentangle_jax.data import _files, _resize
from disentangle_jax.data._dataset import Dataset
from disentangle_jax.types import unknown_name

PARTS = {"training": "5x46789", "testing": "5x01235"}
DTYPES = {0x1E3D4C54: np.dtype("<i4"), 0x1E3D4C55: np.dtype("u1")}
SIZE = 64
NAMES = ("category", "instance", "elevation", "azimuth", "lighting")
CATEGORIES, ELEVATIONS, AZIMUTHS, LIGHTINGS = 5, 9, 18, 6


def read_matrix(path: pathlib.Path) -> np.ndarray:
    """Reads one binary matrix: magic number, rank, at least three sizes, data."""
    with _files.reading(path):
        content = path.read_bytes()
        magic, rank = np.frombuffer(content[:8], "<i4")
        if magic not in DTYPES:
            raise ValueError(f"unknown magic number {magic:#x}")
        header = 8 + 4 * max(rank, 3)
        shape = tuple(np.frombuffer(content[8:header], "<i4")[:rank].tolist())
        dtype = DTYPES[magic]
        expected = math.prod(shape) * dtype.itemsize
        if len(content) - header < expected:
            raise ValueError(f"{len(content)} of {header + expected} bytes")
        data = content[header : header + expected]
        return np.frombuffer(data, dtype).reshape(shape)


def _read_part(
    data_dir: str | os.PathLike | None, part: str
) -> tuple[np.ndarray, np.ndarray]:
    """Returns images of the first camera ``[N, 96, 96]`` and values ``[N, 5]``."""

    def matrix(kind: str) -> tuple[np.ndarray, pathlib.Path]:
        name = f"smallnorb-{PARTS[part]}x9x18x6x2x96x96-{part}-{kind}.mat"
        path = _files.find("smallnorb", data_dir, (name,))
        return read_matrix(path), path

    images, path = matrix("dat")
    _files.check_shape(path, "the images", images.shape, (None, 2, 96, 96))
    category, path = matrix("cat")
    _files.check_shape(path, "the categories", category.shape, (len(images),))
    info, path = matrix("info")
    _files.check_shape(path, "the factors", info.shape, (len(images), 4))
    instance, elevation, azimuth, lighting = info.T
    # Azimuths are stored as tens of degrees, 0, 2 … 34.
    values = (category, instance, elevation, azimuth // 2, lighting)
    return images[:, 0], np.stack(values, axis=-1).astype(np.int64)


def assemble(
    images: np.ndarray,
    values: np.ndarray,
    *,
    instances: str = "hidden",
    resize: str = "antialias",
) -> Dataset:
    """Makes the set of images ``[N, 96, 96]`` and their values ``[N, 5]``.

    Args:
      images: of the first camera.
      values: category, instance, elevation, azimuth, lighting.
      instances: as in ``smallnorb``.
      resize: as in ``smallnorb``.
    """
    images = _resize.resize(images[..., None], SIZE, method=resize)
    _, values[:, 1] = np.unique(values[:, 1], return_inverse=True)
    count = 10 if instances == "hidden" else 5
    sizes = (CATEGORIES, count, ELEVATIONS, AZIMUTHS, LIGHTINGS)
    hidden = instances == "hidden"
    # Sorted so that the images of a combination follow each other.
    columns = (0, 2, 3, 4, 1) if hidden else (0, 1, 2, 3, 4)
    places = np.ravel_multi_index(
        tuple(values[:, columns].T), tuple(sizes[column] for column in columns)
    )
    order = np.argsort(places)
    images, values = images[order], values[order]
    complete = np.array_equal(places[order], np.arange(math.prod(sizes)))
    factors = (0, 2, 3, 4) if hidden else (0, 1, 2, 3, 4)
    return Dataset(
        "smallnorb",
        image_shape=(SIZE, SIZE, 1),
        images=lambda indices: images[indices],
        factor_names=[NAMES[column] for column in factors],
        factor_sizes=[sizes[column] for column in factors],
        factor_table=None if complete else values[:, factors],
        copies=count if hidden and complete else 1,
        in_memory=images,
    )


def smallnorb(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    instances: str = "hidden",
    resize: str = "antialias",
) -> Dataset:
    """SmallNORB: toys from the first of two cameras, 64×64×1.

    Factors: category 5, elevation 9, azimuth 18, lighting 6.

    Args:
      data_dir: folder with the publisher's six unpacked .mat files.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``, of the images that
        ``instances`` chooses (not the publisher's parts, which differ in instances).
      instances: ``"hidden"``, both parts, 48,600 images, the ten instances of a
        category are no factor (the study's code); ``"train"``, the publisher's training
        part, 24,300 images, with the factor instance 5 after the category (disent;
        Overlooked Implications, Table 1).
      resize: from 96×96 to 64×64: ``"antialias"`` (the study) or ``"bilinear"``
        (Overlooked Implications).
    """
    if instances not in ("hidden", "train"):
        raise unknown_name("smallnorb", "instances", instances, ("hidden", "train"))
    parts = ("training", "testing") if instances == "hidden" else ("training",)
    images, values = map(
        np.concatenate, zip(*(_read_part(data_dir, part) for part in parts))
    )
    return assemble(images, values, instances=instances, resize=resize).split(split)
