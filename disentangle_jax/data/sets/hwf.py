"""The handwritten symbols of HWF: one folder of images per symbol, or one npz file."""

import pathlib

import numpy as np

from disentangle_jax.data.catalogue import TfdsLayout, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import (
    Folder,
    check_shape,
    find,
    open_npz,
    reading,
)

SYMBOLS = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "+", "-", "times")
# The publisher's files, which symbols_13 reads too.
SOURCE = {
    "factors": {"symbol": len(SYMBOLS)},
    "note": "0–9, +, −, ×",
    "image_shape": (45, 45, 1),
    "licence": "CC0 (Kaggle, handwritten math symbols)",
    "fetch": "https://www.kaggle.com/datasets/xainano/handwrittenmathsymbols",
    "files": "its folders 0 … 9, +, -, times",
}


@define(
    **SOURCE,
    size="about 50,000",
    patterns=("times", "*/times", "*symbols*.npz"),
    tfds=TfdsLayout(),
)
def hwf(*, data_dir: Folder = None, split: str = "train") -> Dataset:
    """Handwritten symbols of HWF: digits and operators, dark on light.

    Reads a folder per symbol (``0`` … ``9``, ``+``, ``-``, ``times``), or one
    ``*symbols*.npz`` with ``images [N, 45, 45]`` and ``labels [N]``. The symbols are
    not equally frequent; in ``symbols_13`` they are.

    Args:
      data_dir: folder that holds the folders or the npz file.
      split: as in ``data.load``.
    """
    from disentangle_jax.data import pictures

    description = hwf.description
    found = find(description, data_dir)
    shape = description.fixed_shape
    if found.suffix == ".npz":
        with reading(found), open_npz(found) as archive:
            images, labels = archive["images"], archive["labels"]
        check_shape(found, "images", images.shape, (len(labels), *shape[:2]))
        images = images[..., None]
    else:
        paths: list[pathlib.Path] = []
        numbers: list[int] = []
        for label, symbol in enumerate(SYMBOLS):
            of_symbol = pictures.images_under(found.parent / symbol)
            if not of_symbol:
                raise FileNotFoundError(
                    f"data.load: hwf needs images of every symbol, and "
                    f"{found.parent / symbol} holds none. {description.advice()}"
                )
            paths += of_symbol
            numbers += [label] * len(of_symbol)
        files = pictures.Pictures(np.array(paths).__getitem__, len(paths), shape)
        images = files[np.arange(len(paths))]
        labels = np.array(numbers)
    return description.dataset(
        lambda indices: images[indices],
        factor_table=labels[:, None],
        in_memory=images,
    ).split(split)
