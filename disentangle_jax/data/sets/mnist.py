"""MNIST and Fashion-MNIST: the publishers' idx files."""

import gzip
import math
import pathlib
from typing import Any

import numpy as np

from disentangle_jax.data.catalogue import DatasetDescription, TfdsLayout, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import (
    Folder,
    check_shape,
    data_folder,
    find,
    reading,
)

_COMMON = {
    "factors": {"label": 10},
    "image_shape": (28, 28, 1),
    "size": "60,000 + 10,000",
    "files": "the four *-ubyte.gz files",
}
_TFDS: dict[str, Any] = {"keys": ("label",), "parts": ("train", "test")}


def _read_idx(path: pathlib.Path) -> np.ndarray:
    """Reads an idx file of bytes, gzipped or not."""
    with reading(path):
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        # Two zero bytes, the type (8: bytes), the rank, then big-endian sizes.
        if content[:3] != b"\0\0\x08":
            raise ValueError(f"unknown magic number {content[:4].hex()}")
        header = 4 + 4 * content[3]
        shape = tuple(np.frombuffer(content[4:header], ">i4").tolist())
        if len(content) != header + math.prod(shape):
            raise ValueError(f"{len(content)} of {header + math.prod(shape)} bytes")
        return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _load(description: DatasetDescription, data_dir: Folder, split: str) -> Dataset:
    def part(prefix: str) -> tuple[np.ndarray, np.ndarray]:
        arrays = []
        for kind in ("images-idx3", "labels-idx1"):
            file = f"{prefix}-{kind}-ubyte"
            path = find(description, data_dir, (f"{file}.gz", file))
            arrays.append(_read_idx(path))
        images, labels = arrays
        expected = (len(labels), *description.fixed_shape[:2])
        check_shape(data_folder(data_dir), "images", images.shape, expected)
        if len(labels) and labels.max() > 9:
            raise ValueError(
                f"data.load: {path} must hold labels in [0, 10), got {labels.max()}. "
                "Delete it and fetch it again."
            )
        return images[..., None], labels

    prefixes = {"test": ("t10k",), "all": ("train", "t10k")}.get(split, ("train",))
    images, labels = map(np.concatenate, zip(*map(part, prefixes)))
    return description.dataset(
        lambda indices: images[indices],
        factor_table=labels[:, None],
        in_memory=images,
    ).split_train(split)


@define(
    **_COMMON,
    licence="CC BY-SA 3.0",
    fetch="https://storage.googleapis.com/cvdf-datasets/mnist",
    tfds=TfdsLayout("mnist", **_TFDS),
)
def mnist(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """MNIST: handwritten digits.

    Args:
      data_dir: folder with the four idx files.
      split: ``"train"`` and ``"validation"`` share the 60,000 training images 90/10,
        ``"test"`` is the 10,000 test images, ``"all"`` both parts in that order.
    """
    return _load(mnist.description, data_dir, split)


@define(
    **_COMMON,
    licence="MIT",
    fetch="https://github.com/zalandoresearch/fashion-mnist",
    tfds=TfdsLayout("fashion_mnist", **_TFDS),
)
def fashion_mnist(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """Fashion-MNIST: pieces of clothing; the arguments are those of ``mnist``."""
    return _load(fashion_mnist.description, data_dir, split)
