"""MPI3D: the publisher's npz files, memory-mapped where possible."""

import math
import os
import pathlib
import struct
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from disentangle_jax.data.catalogue import DatasetDescription, TfdsLayout, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import (
    Folder,
    check_shape,
    find,
    open_npz,
    open_unpacked,
    read_npy_header,
    read_npz_member,
    reading,
    warn_of_replaced,
)

# Since April 2025; the publisher's older addresses hold a corrupt real.npz.
_ADDRESS = "https://huggingface.co/datasets/waleedgondal/mpi3d"
_COMPLEX_ADDRESS = (
    "https://drive.google.com/file/d/1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm/view"
)


def _images_member(path: pathlib.Path) -> zipfile.ZipInfo:
    with reading(path), zipfile.ZipFile(path) as archive:
        return archive.getinfo("images.npy")


def _compressed_images(
    path: pathlib.Path,
) -> tuple[tuple, Iterator[np.ndarray]] | None:
    if _images_member(path).compress_type == zipfile.ZIP_STORED:
        return None
    with reading(path):
        shape, _, pieces = read_npz_member(path, "images")
    return shape, pieces


def _read_images(description: DatasetDescription, path: pathlib.Path) -> np.ndarray:
    """Returns all images, without reading them if the npz is not compressed."""
    with reading(path):
        shape, dtype, _ = read_npz_member(path, "images")
    expected = (math.prod(description.factor_sizes), *description.fixed_shape)
    check_shape(path, "images", shape, expected)
    images = open_unpacked(path, shape)
    if images is not None:
        return images
    member = _images_member(path)
    with reading(path):
        if member.compress_type != zipfile.ZIP_STORED:
            with open_npz(path) as archive:
                return archive["images"]
        with path.open("rb") as file:
            # A zip member is a 30-byte header, its name, extra bytes, then the data.
            file.seek(member.header_offset + 26)
            name_length, extra_length = struct.unpack("<HH", file.read(4))
            file.seek(name_length + extra_length, os.SEEK_CUR)
            read_npy_header(file)
            offset = file.tell()
        return np.memmap(path, dtype, "r", offset, shape)


def _load(description: DatasetDescription, data_dir: Folder, split: str) -> Dataset:
    path = find(description, data_dir)
    warn_of_replaced(description, path)
    images = _read_images(description, path)
    return description.dataset(lambda indices: np.asarray(images[indices])).split(split)


def _described(file: str, *, objects: int = 6, **fields: Any) -> dict[str, Any]:
    """Returns the fields of a description; `objects` is the number of shapes."""
    return {
        "factors": {
            "object_color": objects,
            "object_shape": objects,
            "object_size": 2,
            "camera_height": 3,
            "background_color": 3,
            "horizontal_axis": 40,
            "vertical_axis": 40,
        },
        "image_shape": (64, 64, 3),
        "size": "1,036,800",
        "licence": "CC BY 4.0",
        "fetch": _ADDRESS,
        "files": file,
        "patterns": (file,),
        "tfds": TfdsLayout(),
        "compressed_images": _compressed_images,
        **fields,
    }


# Moments: from the code of Overlooked Implications of the Reconstruction Loss.
@define(
    **_described(
        "mpi3d_toy.npz",
        moments=((0.22437, 0.22142, 0.22625), (0.06900, 0.06343, 0.07608)),
        md5={"mpi3d_toy.npz": "55889cb7c7dfc655d6e0277beee88868"},
    )
)
def mpi3d_toy(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """MPI3D toy: simple renderings of a robot arm.

    disentanglement_lib lists 4 colours and shapes, because the challenge held out two;
    the published files hold 6.

    Args:
      data_dir: folder with the publisher's npz, or that file.
      split: as in ``data.load``.
    """
    return _load(mpi3d_toy.description, data_dir, split)


@define(
    **_described(
        "mpi3d_realistic.npz",
        moments=((0.17987, 0.20475, 0.18148), (0.08746, 0.09331, 0.09242)),
        md5={"mpi3d_realistic.npz": "59a6225b88b635365f70c91b3e52f70f"},
    )
)
def mpi3d_realistic(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """MPI3D realistic: as :func:`mpi3d_toy`, rendered realistically."""
    return _load(mpi3d_realistic.description, data_dir, split)


@define(
    **_described(
        "mpi3d_real.npz",
        moments=((0.12849, 0.16480, 0.13972), (0.09329, 0.09203, 0.10323)),
        patterns=("mpi3d_real.npz", "real.npz"),
        replaced={"real.npz": "0f33f609918fb5c97996692f91129802"},
    )
)
def mpi3d_real(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """MPI3D real: as :func:`mpi3d_toy`, photographs of the robot.

    The old file ``real.npz`` is read too, with a warning: its publisher replaced it in
    April 2025 because it is corrupt. The published moments and scores are of that file.
    """
    return _load(mpi3d_real.description, data_dir, split)


@define(
    **_described(
        "real3d_complicated_shapes_ordered.npz",
        objects=4,
        size="460,800",
        fetch=_COMPLEX_ADDRESS,
    )
)
def mpi3d_real_complex(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """MPI3D real-complex: as :func:`mpi3d_real`, with everyday objects.

    A coffee cup, a tennis ball, a croissant and a beer cup, each in four colours.
    """
    return _load(mpi3d_real_complex.description, data_dir, split)
