"""MPI3D: the publisher's npz of 1,036,800 images, mapped where it can be."""

import os
import pathlib
import struct
import zipfile

import numpy as np

from disentangle_jax.data import _files, _unpacked
from disentangle_jax.data._catalogue import CATALOGUE
from disentangle_jax.data._dataset import Dataset

FACTOR_NAMES = (
    "object_color",
    "object_shape",
    "object_size",
    "camera_height",
    "background_color",
    "horizontal_axis",
    "vertical_axis",
)
FACTOR_SIZES = (6, 6, 2, 3, 3, 40, 40)
SIZE = 64


def files(name: str) -> tuple[str, str]:
    """Returns the names that the publisher's file of a set may have."""
    return CATALOGUE[name].files, f"{name}.npz"


def read_images(path: pathlib.Path) -> np.ndarray:
    """Returns all images, without reading them if the npz is not compressed."""
    with _files.reading(path):
        shape, dtype, _ = _files.read_npz_member(path, "images")
    count = int(np.prod(FACTOR_SIZES))
    _files.check_shape(path, "images", shape, (count, SIZE, SIZE, 3))
    images = _unpacked.open_beside(path, shape)
    if images is not None:
        return images
    with _files.reading(path):
        with zipfile.ZipFile(path) as archive:
            member = archive.getinfo("images.npy")
        if member.compress_type != zipfile.ZIP_STORED:
            with _files.open_npz(path) as archive:
                return archive["images"]
        with path.open("rb") as file:
            # A zip member is a 30-byte header, its name, extra bytes, then the data.
            file.seek(member.header_offset + 26)
            name_length, extra_length = struct.unpack("<HH", file.read(4))
            file.seek(name_length + extra_length, os.SEEK_CUR)
            _files.read_npy_header(file)
            offset = file.tell()
        return np.memmap(path, dtype, "r", offset, shape)


def unpack(path: pathlib.Path, to: pathlib.Path) -> None:
    """Writes the images of a compressed npz as one plain array."""
    with _files.reading(path):
        shape, _, pieces = _files.read_npz_member(path, "images")
        _unpacked.write(to, shape, pieces)


def _load(name: str, data_dir: str | os.PathLike | None, split: str) -> Dataset:
    path = _files.find(name, data_dir, files(name))
    images = read_images(path)
    return Dataset(
        name,
        image_shape=(SIZE, SIZE, 3),
        images=lambda indices: np.asarray(images[indices]),
        factor_names=FACTOR_NAMES,
        factor_sizes=FACTOR_SIZES,
    ).split(split)


def mpi3d_toy(
    *, data_dir: str | os.PathLike | None = None, split: str = "train"
) -> Dataset:
    """MPI3D toy: 1,036,800 simple renderings of a robot arm, 64×64×3.

    Factors: colour 6, shape 6, size 2, camera height 3, background 3, horizontal axis
    40, vertical axis 40. (disentanglement_lib lists 4 colours and shapes, which was the
    challenge's hold-out; the published files hold 6.)

    Args:
      data_dir: folder with the publisher's npz, or that file.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
    """
    return _load("mpi3d_toy", data_dir, split)


def mpi3d_realistic(
    *, data_dir: str | os.PathLike | None = None, split: str = "train"
) -> Dataset:
    """MPI3D realistic: as :func:`mpi3d_toy`, rendered realistically."""
    return _load("mpi3d_realistic", data_dir, split)


def mpi3d_real(
    *, data_dir: str | os.PathLike | None = None, split: str = "train"
) -> Dataset:
    """MPI3D real: as :func:`mpi3d_toy`, photographs of the robot."""
    return _load("mpi3d_real", data_dir, split)
