"""Sets whose images fall into a few labelled regions, as AbsAE's experiments need.

"Leveraging Relational Information for Learning Weakly Disentangled Representations",
Sec. 4.1: some factors are kept in bands and are the labels, the others vary unlabelled.
The sets are split *before* the training part is copied with noise; the published code
copies first, which puts versions of one image into train and test. Validation and test
images are plain.
"""

import functools
import os
from collections.abc import Callable, Mapping

import numpy as np

from disentangle_jax.data import (
    _dsprites,
    _folders,
    _rendered_dsprites,
    _rendered_shapes3d,
    _shapes3d,
)
from disentangle_jax.data._dataset import Dataset
from disentangle_jax.data._samplers import with_noisy_copies

# Published places 0 … 31 that count as first, centre and last (facts of its code).
_PLACES = {
    **dict.fromkeys(range(5), 0),
    **dict.fromkeys(range(13, 18), 1),
    **dict.fromkeys(range(27, 32), 2),
}
_SCALES = (2, 3, 4)
_TURN = 39  # Orientations 0 and 39 of dSprites are the same.
# How the paper maps 8 scales to 3, and which colours and views it keeps, is not known.
_SHAPES3D_SCALES = {0: 0, 1: 0, 3: 1, 4: 1, 6: 2, 7: 2}
_SHAPES3D_HUES = (0, 3, 6, 9)
_SHAPES3D_VIEWS = (0, 3, 7, 11, 14)


def _banded(
    name: str, base: Dataset, values: Mapping[str, Mapping[int, int]], kept: tuple
) -> Dataset:
    """Returns the images whose factors have the `values`, all in memory.

    Args:
      name: of the new set.
      base: the whole set.
      values: for each factor of `base`, what each value that stays becomes.
      kept: the factors that stay, in their new order.
    """
    narrowed = base.keep(**values)
    factors = narrowed.factors(narrowed.indices)
    columns = []
    for factor in kept:
        own, names = values.get(factor), base.factor_names
        column = factors[:, names.index(factor)]
        columns.append(column if own is None else np.array([own[v] for v in column]))
    table = np.stack(columns, axis=1)
    images = np.concatenate(
        [
            base.images(narrowed.indices[start : start + 1024])
            for start in range(0, len(narrowed.indices), 1024)
        ]
    )
    return _in_memory(name, images, table, kept, tuple(table.max(axis=0) + 1))


def _in_memory(
    name: str, images: np.ndarray, table: np.ndarray, names: tuple, sizes: tuple
) -> Dataset:
    return Dataset(
        name,
        image_shape=images.shape[1:],
        images=lambda indices: images[indices],
        factor_names=names,
        factor_sizes=sizes,
        factor_table=table,
        in_memory=images,
    )


def _with_copies(dataset: Dataset, split: str, copies: int) -> Dataset:
    """Returns a split; the training part with noisy copies, made once."""
    part = dataset.split(split)
    if not copies or split != "train":
        return part
    noisy = with_noisy_copies(part, copies=copies)
    images = np.concatenate(
        [
            noisy.images(noisy.indices[start : start + 1024])
            for start in range(0, len(noisy), 1024)
        ]
    )
    table = noisy.factors(noisy.indices)
    return _in_memory(
        noisy.name, images, table, dataset.factor_names, dataset.factor_sizes
    )


def _dsprites_bands(base: Dataset) -> dict[str, dict[int, int]]:
    """Returns what each value of dSprites' factors becomes.

    A grid of every s-th value holds the published values 0, s, 2 s, …; the bands are
    those of the published values. Orientations lie within two published steps of
    upright, or within s where the grid is coarser.
    """
    _, _, turns, columns, rows = base.factor_sizes
    turn, column, row = 40 // turns, 32 // columns, 32 // rows
    upright = max(2, turn)
    return {
        "scale": {s: s for s in _SCALES},
        "orientation": {
            o: o
            for o in range(turns)
            if min(o * turn % _TURN, -o * turn % _TURN) <= upright
        },
        "x": {x: _PLACES[x * column] for x in range(columns) if x * column in _PLACES},
        "y": {y: _PLACES[y * row] for y in range(rows) if y * row in _PLACES},
    }


@functools.lru_cache(maxsize=2)
def _whole_dsprites(name: str, data_dir: str | None, file: str | None) -> Dataset:
    if name == "dsprites_27":
        base = _dsprites.dsprites(data_dir=data_dir, split="all", file=file)
    else:
        base = _rendered_dsprites.rendered_dsprites(split="all")
    return _banded(name, base, _dsprites_bands(base), ("shape", "x", "y"))


def dsprites_27(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    file: str | None = None,
    noisy_copies: int = 3,
) -> Dataset:
    """dSprites in 27 regions: shape 3, x 3 (left, centre, right), y 3 (from the top).

    Places 0–4, 13–17 and 27–31, scales 2–4, orientations within two steps of upright:
    12,150 images of the published file. Of its grid of every 4th orientation and 2nd
    place (1,323 images) the places are 0, 2, 4; 14, 16; 28, 30 and the orientations the
    published 0, 4 and 36. Scale and orientation are no factors here.

    Args:
      data_dir: as in ``dsprites``.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      file: as in ``dsprites``.
      noisy_copies: Gaussian and as many Bernoulli copies of each *training* image
        (``data.with_noisy_copies``).
    """
    folder = None if data_dir is None else os.fspath(data_dir)
    whole = _whole_dsprites("dsprites_27", folder, file)
    return _with_copies(whole, split, noisy_copies)


def rendered_dsprites_27(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    noisy_copies: int = 3,
) -> Dataset:
    """Our rendering of ``dsprites_27``, all 12,150 images, no download.

    Args:
      data_dir: unused, as nothing is read.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      noisy_copies: as in ``dsprites_27``.
    """
    del data_dir
    whole = _whole_dsprites("rendered_dsprites_27", None, None)
    return _with_copies(whole, split, noisy_copies)


@functools.lru_cache(maxsize=2)
def _whole_shapes3d(name: str, data_dir: str | None) -> Dataset:
    load: Callable[..., Dataset] = _rendered_shapes3d.rendered_shapes3d
    if name == "shapes3d_120":
        load = _shapes3d.shapes3d
    base = load(data_dir=data_dir, split="all")
    floor, wall, hue, scale, shape, view = base.factor_names
    values = {
        floor: {h: h for h in _SHAPES3D_HUES},
        wall: {h: h for h in _SHAPES3D_HUES},
        scale: _SHAPES3D_SCALES,
        view: {v: v for v in _SHAPES3D_VIEWS},
    }
    return _banded(name, base, values, (hue, shape, scale))


def shapes3d_120(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    noisy_copies: int = 0,
) -> Dataset:
    """3D Shapes in 120 regions: object hue 10, shape 4, scale 3.

    The paper's mapping of 8 scales to 3 and its thinning are not known. Here scales 0–1
    are small, 3–4 medium and 6–7 big; floor and wall have the hues 0, 3, 6, 9, the
    orientation is 0, 3, 7, 11 or 14: 160 images of each region.

    Args:
      data_dir: as in ``shapes3d``.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      noisy_copies: as in ``dsprites_27``.
    """
    folder = None if data_dir is None else os.fspath(data_dir)
    return _with_copies(_whole_shapes3d("shapes3d_120", folder), split, noisy_copies)


def rendered_shapes3d_120(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    noisy_copies: int = 0,
) -> Dataset:
    """``shapes3d_120`` of our rendering of 3D Shapes, no download.

    Args:
      data_dir: unused, as nothing is read.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      noisy_copies: as in ``dsprites_27``.
    """
    del data_dir
    whole = _whole_shapes3d("rendered_shapes3d_120", None)
    return _with_copies(whole, split, noisy_copies)


@functools.lru_cache(maxsize=2)
def _whole_symbols(data_dir: str | None, crop: bool) -> Dataset:
    base = _folders.hwf(data_dir=data_dir, split="all")
    images = base.images(base.indices)
    if crop:
        images = np.stack([_cropped(image) for image in images])
    table = base.factors(base.indices)
    return _in_memory("symbols_13", images, table, base.factor_names, base.factor_sizes)


def symbols_13(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    crop: bool = True,
    noisy_copies: int = 0,
) -> Dataset:
    """Handwritten symbols of ``hwf``: digits and +, −, ×, equally often.

    The training part repeats images of rarer symbols until all are as frequent, in
    place of the published code's sampling by inverse frequency.

    Args:
      data_dir: as in ``hwf``.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      crop: whether each symbol is cut out and enlarged to fill the image, as those of
        the published set do; handwriting collected otherwise is smaller and off centre.
      noisy_copies: as in ``dsprites_27``.
    """
    folder = None if data_dir is None else os.fspath(data_dir)
    part = _with_copies(_whole_symbols(folder, crop), split, noisy_copies)
    if split != "train":
        return part
    symbol = part.factors(part.indices)[:, 0]
    most = np.bincount(symbol).max()
    repeated = [np.resize(part.indices[symbol == s], most) for s in np.unique(symbol)]
    return part.narrow(np.concatenate(repeated))


def _cropped(image: np.ndarray) -> np.ndarray:
    """Returns a symbol, dark on light, cut out and enlarged to fill its image.

    Two pixels at the edge are blanked first: scans have lines there.
    """
    from PIL import Image

    size = image.shape[0]
    ink = 255 - image[2:-2, 2:-2, 0]
    rows, columns = np.nonzero(ink > 64)
    if not len(rows):
        return image
    ink = ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    room = size - 4
    factor = room / max(ink.shape)
    height, width = (max(1, round(side * factor)) for side in ink.shape)
    enlarged = Image.fromarray(ink).resize((width, height), Image.Resampling.BILINEAR)
    canvas = np.full_like(image, 255)
    top, left = (size - height) // 2, (size - width) // 2
    canvas[top : top + height, left : left + width, 0] -= np.asarray(enlarged)
    return canvas
