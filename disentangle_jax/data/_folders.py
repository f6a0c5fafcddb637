"""Folders of images, and the handwritten symbols that come as one."""

import os
import pathlib

import numpy as np

from disentangle_jax.data import _files
from disentangle_jax.data._dataset import Dataset

SUFFIXES = {".png", ".jpg", ".jpeg"}
SYMBOLS = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "+", "-", "times")
SYMBOL_SIZE = 45


def _images_under(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES)


def image_folder(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    size: int = 64,
    channels: int = 3,
) -> Dataset:
    """Any folder of PNG or JPEG images, resized to a square after a centre crop.

    Factor: label, the name of the sub-folder, if all images lie in sub-folders; else
    none.

    Args:
      data_dir: the folder.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      size: height and width of the images.
      channels: 3 (RGB) or 1 (grey).
    """
    from PIL import Image, ImageOps

    from disentangle_jax.data import _pictures

    if channels not in (1, 3):
        raise ValueError(f"image_folder: `channels` must be 1 or 3, got {channels}.")
    folder = _files.data_folder(data_dir)
    paths = np.array(_images_under(folder), object)
    if not len(paths):
        raise FileNotFoundError(
            f"data.load: image_folder found no PNG or JPEG in {folder}. Name a folder "
            "of images with data_dir."
        )
    shape = size, size, channels

    def fit(image: Image.Image) -> Image.Image:
        return ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS)

    kinds = [path.relative_to(folder).parts[0] for path in paths]
    labels = None
    if all(path.parent != folder for path in paths):
        kinds, labels = np.unique(kinds, return_inverse=True)
    return Dataset(
        "image_folder",
        image_shape=shape,
        images=lambda indices: _pictures.read(paths[indices], shape, fit),
        factor_names=() if labels is None else ("label",),
        factor_sizes=() if labels is None else (len(kinds),),
        factor_table=None if labels is None else labels[:, None],
        length=len(paths),
    ).split(split)


def hwf(*, data_dir: str | os.PathLike | None = None, split: str = "train") -> Dataset:
    """Handwritten symbols of HWF: digits and operators, 45×45×1, dark on light.

    Factor: symbol 13 (0 … 9, +, −, ×). Reads a folder per symbol (``0`` … ``9``, ``+``,
    ``-``, ``times``), or one ``*symbols*.npz`` with ``images [N, 45, 45]`` and
    ``labels [N]``. Classes are far from equally frequent: ``data.class_balanced``
    gives indices to draw them evenly.

    Args:
      data_dir: folder that holds the folders or the npz.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
    """
    from disentangle_jax.data import _pictures

    found = _files.find("hwf", data_dir, ("times", "*/times", "*symbols*.npz"))
    shape = SYMBOL_SIZE, SYMBOL_SIZE, 1
    if found.suffix == ".npz":
        with _files.reading(found), _files.open_npz(found) as archive:
            images, labels = archive["images"], archive["labels"]
        _files.check_shape(found, "images", images.shape, (len(labels), *shape[:2]))
        images = images[..., None]
    else:
        paths, labels = [], []
        for label, symbol in enumerate(SYMBOLS):
            of_symbol = _images_under(found.parent / symbol)
            if not of_symbol:
                raise FileNotFoundError(
                    f"data.load: hwf needs images of every symbol, and "
                    f"{found.parent / symbol} holds none. {_files.advice('hwf')}"
                )
            paths += of_symbol
            labels += [label] * len(of_symbol)
        images = _pictures.read(paths, shape, lambda image: image)
        labels = np.array(labels)
    return Dataset(
        "hwf",
        image_shape=shape,
        images=lambda indices: images[indices],
        factor_names=("symbol",),
        factor_sizes=(len(SYMBOLS),),
        factor_table=labels[:, None],
        in_memory=images,
    ).split(split)
