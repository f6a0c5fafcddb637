"""MNIST and Fashion-MNIST: the publishers' idx files."""

import gzip
import math
import os
import pathlib

import numpy as np

from disentangle_jax.data import _files
from disentangle_jax.data._dataset import Dataset

SIZE = 28


def read_idx(path: pathlib.Path) -> np.ndarray:
    """Reads an idx file of bytes, gzipped or not."""
    with _files.reading(path):
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


def _load(name: str, data_dir: str | os.PathLike | None, split: str) -> Dataset:
    def part(prefix: str) -> tuple[np.ndarray, np.ndarray]:
        arrays = []
        for kind in ("images-idx3", "labels-idx1"):
            file = f"{prefix}-{kind}-ubyte"
            arrays.append(read_idx(_files.find(name, data_dir, (f"{file}.gz", file))))
        images, labels = arrays
        where = _files.data_folder(data_dir)
        _files.check_shape(where, "images", images.shape, (len(labels), SIZE, SIZE))
        return images[..., None], labels

    prefixes = {"test": ("t10k",), "all": ("train", "t10k")}.get(split, ("train",))
    images, labels = map(np.concatenate, zip(*map(part, prefixes)))
    dataset = Dataset(
        name,
        image_shape=(SIZE, SIZE, 1),
        images=lambda indices: images[indices],
        factor_names=("label",),
        factor_sizes=(10,),
        factor_table=labels[:, None],
        in_memory=images,
    )
    return dataset.split_train(split)


def mnist(
    *, data_dir: str | os.PathLike | None = None, split: str = "train"
) -> Dataset:
    """MNIST: handwritten digits, 28×28×1; factor: label 10.

    Args:
      data_dir: folder with the four idx files.
      split: ``"train"`` and ``"validation"`` share the 60,000 training images 90/10,
        ``"test"`` is the 10,000 test images, ``"all"`` both parts in that order.
    """
    return _load("mnist", data_dir, split)


def fashion_mnist(
    *, data_dir: str | os.PathLike | None = None, split: str = "train"
) -> Dataset:
    """Fashion-MNIST: pieces of clothing, 28×28×1; factor: label 10.

    Args:
      data_dir: folder with the four idx files.
      split: as in ``mnist``.
    """
    return _load("fashion_mnist", data_dir, split)
