"""The handwritten symbols of HWF, balanced."""

import functools
import os

import numpy as np

from disentangle_jax.data import regions
from disentangle_jax.data.catalogue import define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder
from disentangle_jax.data.sets.hwf import SOURCE, hwf


@functools.lru_cache(maxsize=2)
def _whole(data_dir: str | None, crop: bool) -> Dataset:
    base = hwf(data_dir=data_dir, split="all")
    images = base.images(base.indices)
    if crop:
        images = np.stack([_cropped(image) for image in images])
    return regions.in_memory(symbols_13.description, images, base.factors(base.indices))


@define(**SOURCE, size="those of hwf, balanced")
def symbols_13(
    *,
    data_dir: Folder = None,
    split: str = "train",
    split_recipe: str = "paper",
    crop: bool = False,
    noisy_copies: int = 0,
) -> Dataset:
    """Handwritten symbols of ``hwf``, equally frequent in the training part.

    The training part repeats images of rarer symbols until all are equally frequent, in
    place of the published code's sampling by inverse frequency.

    Args:
      data_dir: as in ``hwf``.
      split: as in ``data.load``.
      split_recipe: as in ``data.load``.
      crop: whether each symbol is cropped and enlarged to fill the image, for other
        handwriting that is smaller or off centre; the published symbols fill theirs.
      noisy_copies: as in ``dsprites_27``.
    """
    whole = _whole(None if data_dir is None else os.fspath(data_dir), crop)
    part = regions.split_with_copies(
        symbols_13.description, whole, split, split_recipe, noisy_copies
    )
    if split != "train":
        return part
    symbol = part.factors(part.indices)[:, 0]
    most = np.bincount(symbol).max()
    repeated = [np.resize(part.indices[symbol == s], most) for s in np.unique(symbol)]
    return part.narrow(np.concatenate(repeated))


def _cropped(image: np.ndarray) -> np.ndarray:
    """Returns a dark symbol on light, cropped and enlarged to fill its image.

    Two pixels at the edge are removed first, because scans have lines there.
    """
    from PIL import Image

    size = image.shape[0]
    ink = 255 - image[2:-2, 2:-2, 0]
    rows, columns = np.nonzero(ink > 64)
    if not len(rows):
        return image
    ink = ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    factor = (size - 4) / max(ink.shape)
    height, width = (max(1, round(side * factor)) for side in ink.shape)
    enlarged = Image.fromarray(ink).resize((width, height), Image.Resampling.BILINEAR)
    canvas = np.full_like(image, 255)
    top, left = (size - height) // 2, (size - width) // 2
    canvas[top : top + height, left : left + width, 0] -= np.asarray(enlarged)
    return canvas
