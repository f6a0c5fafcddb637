"""SmallNORB: the publisher's binary .mat files."""

import math
import pathlib

import numpy as np

from disentangle_jax.data.catalogue import TfdsLayout, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder, check_shape, find, reading
from disentangle_jax.data.resizing import resize as resized
from disentangle_jax.types import unknown_name

PARTS = {"training": "5x46789", "testing": "5x01235"}
DTYPES: dict[int, np.dtype] = {0x1E3D4C54: np.dtype("<i4"), 0x1E3D4C55: np.dtype("u1")}
INSTANCES = {"hidden": 10, "train": 5}


def _read_matrix(path: pathlib.Path) -> np.ndarray:
    """Reads one binary matrix: magic number, rank, at least three sizes, data."""
    with reading(path):
        content = path.read_bytes()
        if len(content) < 20:
            raise ValueError(f"only {len(content)} bytes")
        magic, rank = np.frombuffer(content[:8], "<i4").tolist()
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


def _read_part(data_dir: Folder, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns images of the first camera ``[N, 96, 96]`` and values ``[N, 5]``."""

    def matrix(kind: str) -> tuple[np.ndarray, pathlib.Path]:
        name = f"smallnorb-{PARTS[part]}x9x18x6x2x96x96-{part}-{kind}.mat"
        path = find(smallnorb.description, data_dir, (name,))
        return _read_matrix(path), path

    images, path = matrix("dat")
    check_shape(path, "the images", images.shape, (None, 2, 96, 96))
    category, path = matrix("cat")
    check_shape(path, "the categories", category.shape, (len(images),))
    info, path = matrix("info")
    check_shape(path, "the factors", info.shape, (len(images), 4))
    instance, elevation, azimuth, lighting = info.T
    # Azimuths are stored as tens of degrees, 0, 2 … 34.
    values = (category, instance, elevation, azimuth // 2, lighting)
    return images[:, 0], np.stack(values, axis=-1).astype(np.int64)


def _assemble(
    images: np.ndarray,
    values: np.ndarray,
    *,
    instances: str = "hidden",
    resize: str = "antialias",
) -> Dataset:
    """Returns the dataset of images ``[N, 96, 96]`` and their values ``[N, 5]``.

    Args:
      images: images of the first camera.
      values: category, instance, elevation, azimuth, lighting.
      instances: as in ``smallnorb``.
      resize: as in ``smallnorb``.
    """
    description = smallnorb.description
    size = description.fixed_shape[0]
    images = resized(images[..., None], size, method=resize)
    _, values[:, 1] = np.unique(values[:, 1], return_inverse=True)
    # The images are sorted so that those of one combination are adjacent.
    names, sizes = list(description.factor_names), list(description.factor_sizes)
    columns = [0, 2, 3, 4]
    count = INSTANCES[instances]
    copies = count if instances == "hidden" else 1
    if copies == 1:
        names.insert(1, "instance")
        sizes.insert(1, count)
        columns.insert(1, 1)
        order_by, order_sizes = columns, sizes
    else:
        order_by, order_sizes = [*columns, 1], [*sizes, count]
    places = np.ravel_multi_index(tuple(values[:, order_by].T), tuple(order_sizes))
    order = np.argsort(places)
    images, values = images[order], values[order]
    complete = np.array_equal(places[order], np.arange(math.prod(order_sizes)))
    return description.dataset(
        lambda indices: images[indices],
        factor_names=names,
        factor_sizes=sizes,
        factor_table=None if complete else values[:, columns],
        copies=copies if complete else 1,
        in_memory=images,
    )


@define(
    factors={"category": 5, "elevation": 9, "azimuth": 18, "lighting": 6},
    note="10 hidden instances, or 5 as a factor",
    image_shape=(64, 64, 1),
    size="48,600 (or 24,300)",
    licence="research only",
    fetch="https://cs.nyu.edu/~ylclab/data/norb-v1.0-small",
    files="the six unpacked smallnorb-*.mat files",
    md5={
        "smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat": (
            "66054832f9accfe74a0f4c36a75bc0a2"
        ),
        "smallnorb-5x01235x9x18x6x2x96x96-testing-dat.mat": (
            "e4ad715691ed5a3a5f138751a4ceb071"
        ),
    },
    # Overlooked Implications of the Reconstruction Loss, Table 2.
    moments=((0.752091840108860,), (0.095638790168273,)),
    tfds=TfdsLayout(
        "smallnorb",
        keys=("label_category", "instance")
        + ("label_elevation", "label_azimuth", "label_lighting"),
        parts=("train", "test"),
        # The two parts differ in instances, which are no factor, so they are merged.
        assemble=lambda images, values: _assemble(images[..., 0], values),
    ),
)
def smallnorb(
    *,
    data_dir: Folder = None,
    split: str = "train",
    instances: str = "hidden",
    resize: str = "antialias",
) -> Dataset:
    """SmallNORB: toys from the first of two cameras.

    Args:
      data_dir: folder with the publisher's six unpacked .mat files.
      split: as in ``data.load``, of the images that ``instances`` chooses (not the
        publisher's parts, which differ in instances).
      instances: ``"hidden"``, both parts, 48,600 images, where the ten instances of a
        category are not a factor (the study's code); ``"train"``, the publisher's
        training part, 24,300 images, with the factor instance 5 after the category
        (disent; Overlooked Implications, Table 1).
      resize: from 96×96 to 64×64: ``"antialias"`` (the 12,600-model study) or
        ``"bilinear"`` (Overlooked Implications).
    """
    if instances not in INSTANCES:
        raise unknown_name("smallnorb", "instances", instances, INSTANCES)
    parts = ("training", "testing") if instances == "hidden" else ("training",)
    images, values = map(
        np.concatenate, zip(*(_read_part(data_dir, part) for part in parts))
    )
    return _assemble(images, values, instances=instances, resize=resize).split(split)
