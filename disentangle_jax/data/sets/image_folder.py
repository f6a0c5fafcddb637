"""Any folder of images."""

import csv
import pathlib
from typing import Any

import numpy as np

from disentangle_jax.data.catalogue import define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.own_arrays import from_arrays
from disentangle_jax.data.publisher_files import Folder, data_folder


def _listed(
    folder: pathlib.Path, file: pathlib.Path
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Returns paths, names of factors and values ``[N, K]`` of a CSV file."""
    if not file.is_file():
        raise FileNotFoundError(f"data.load: image_folder found no {file}.")
    with file.open(newline="") as lines:
        head, *rows = csv.reader(lines)
    if len(head) < 2 or not rows or any(len(row) != len(head) for row in rows):
        raise ValueError(
            f"data.load: {file} must have a head and rows with a path and at least one "
            "factor each."
        )
    paths = np.array([folder / row[0] for row in rows], object)
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"data.load: {file} lists {path}, which is absent.")
    columns = [_numbers([row[k] for row in rows]) for k in range(1, len(head))]
    return paths, head[1:], np.stack(columns, axis=1)


def _numbers(texts: list[str]) -> np.ndarray:
    """Returns the numbers of a column, or of texts the rank of each in the alphabet."""
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        return np.unique(texts, return_inverse=True)[1].astype(np.float64)


@define(
    note="the columns of a CSV file; or label, if all images lie in sub-folders",
    size="any",
    licence="yours",
    fetch="your own images",
    files="PNG or JPEG files, in one sub-folder per label if they have labels",
)
def image_folder(
    *,
    data_dir: Folder = None,
    split: str = "train",
    size: int = 64,
    channels: int = 3,
    factors: str = "",
) -> Dataset:
    """Any folder of PNG or JPEG images, resized to a square after a centre crop.

    Factors: the columns of a CSV file; without one, label, the name of the sub-folder,
    if all images lie in sub-folders.

    Args:
      data_dir: the folder.
      split: as in ``data.load``.
      size: height and width of the images.
      channels: 3 (RGB) or 1 (grey).
      factors: CSV file in the folder, with a head: the first column holds the paths of
        the images in the folder, the others are factors (numbers or texts, see
        ``data.from_arrays``). Only images that it lists are used.
    """
    from PIL import Image, ImageOps

    from disentangle_jax.data import pictures

    if channels not in (1, 3):
        raise ValueError(f"image_folder: `channels` must be 1 or 3, got {channels}.")
    folder = data_folder(data_dir)
    paths = np.array(pictures.images_under(folder), object)
    if not len(paths):
        raise FileNotFoundError(
            f"data.load: image_folder found no PNG or JPEG in {folder}. Name a folder "
            "of images with data_dir."
        )
    shape = size, size, channels

    def fit(image: Image.Image) -> Image.Image:
        return ImageOps.fit(image, (size, size), Image.Resampling.LANCZOS)

    if factors:
        paths, names, table = _listed(folder, folder / factors)
        return from_arrays(
            "image_folder",
            pictures.Pictures(paths.__getitem__, len(paths), shape, fit=fit),
            table,
            factor_names=names,
            source=f"data.load: {folder / factors}",
        ).split(split)
    labelled: dict[str, Any] = {}
    if all(path.parent != folder for path in paths):
        kinds = [path.relative_to(folder).parts[0] for path in paths]
        found, labels = np.unique(kinds, return_inverse=True)
        labelled = {
            "factor_names": ("label",),
            "factor_sizes": (len(found),),
            "factor_table": labels[:, None],
        }
    images = pictures.Pictures(paths.__getitem__, len(paths), shape, fit=fit)
    return image_folder.description.dataset(
        images.__getitem__,
        image_shape=shape,
        length=len(paths),
        reader=images.reader,
        **labelled,
    ).split(split)
