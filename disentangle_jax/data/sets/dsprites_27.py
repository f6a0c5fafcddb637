"""dSprites in 27 labelled regions, of the published file or rendered."""

import functools
import os

from disentangle_jax.data import regions
from disentangle_jax.data.catalogue import define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder
from disentangle_jax.data.sets.dsprites import SIZE, SOURCE, dsprites
from disentangle_jax.data.sets.rendered_dsprites import rendered_dsprites

# The published positions 0 … 31 that count as first, centre and last (from the code).
_POSITIONS = {
    **dict.fromkeys(range(5), 0),
    **dict.fromkeys(range(13, 18), 1),
    **dict.fromkeys(range(27, 32), 2),
}
_SCALES = (2, 3, 4)
_FULL_TURN = 39  # Orientations 0 and 39 of dSprites are the same.
_REGIONS = {
    "factors": {"shape": 3, "x": 3, "y": 3},
    "note": "bands; scale and orientation vary",
    "image_shape": (SIZE, SIZE, 1),
}


def _bands(base: Dataset) -> dict[str, dict[int, int]]:
    """Returns the new value of each value of dSprites' factors that is kept.

    A grid of every s-th value holds the published values 0, s, 2 s, …; the bands are
    defined on the published values. Orientations lie within two published steps of
    upright, or within s steps where the grid is coarser.
    """
    _, _, orientations, columns, rows = base.factor_sizes
    step, column, row = 40 // orientations, 32 // columns, 32 // rows
    tolerance = max(2, step)
    return {
        "scale": {s: s for s in _SCALES},
        "orientation": {
            o: o
            for o in range(orientations)
            if min(o * step % _FULL_TURN, -o * step % _FULL_TURN) <= tolerance
        },
        "x": {
            x: _POSITIONS[x * column]
            for x in range(columns)
            if x * column in _POSITIONS
        },
        "y": {y: _POSITIONS[y * row] for y in range(rows) if y * row in _POSITIONS},
    }


@functools.lru_cache(maxsize=2)
def _published(data_dir: str | None, file: str | None, size: int) -> Dataset:
    base = dsprites(data_dir=data_dir, split="all", file=file)
    return regions.banded(dsprites_27.description, base, _bands(base), size)


@functools.lru_cache(maxsize=2)
def _rendered(size: int) -> Dataset:
    base = rendered_dsprites(split="all")
    return regions.banded(rendered_dsprites_27.description, base, _bands(base), size)


@define(**SOURCE, **_REGIONS, size="12,150 of dsprites, and noisy copies")
def dsprites_27(
    *,
    data_dir: Folder = None,
    split: str = "train",
    split_recipe: str = "paper",
    file: str | None = None,
    noisy_copies: int = 3,
    size: int = SIZE,
) -> Dataset:
    """dSprites in 27 regions: shape, x (left, centre, right) and y (from the top).

    Positions 0–4, 13–17 and 27–31, scales 2–4, orientations within two steps of
    upright: 12,150 images of the published file. Its grid of every 4th orientation and
    2nd position has 1,323: positions 0, 2, 4; 14, 16; 28, 30 and the published
    orientations 0, 4 and 36. Scale and orientation are not factors here.

    Args:
      data_dir: as in ``dsprites``.
      split: as in ``data.load``.
      split_recipe: as in ``data.load``.
      file: as in ``dsprites``.
      noisy_copies: number of Gaussian and of Bernoulli copies of each *training* image
        (``data.with_noisy_copies``).
      size: as in ``data.load``; images are reduced before the noise is added.
    """
    whole = _published(None if data_dir is None else os.fspath(data_dir), file, size)
    return regions.split_with_copies(
        dsprites_27.description, whole, split, split_recipe, noisy_copies
    )


@define(
    **_REGIONS,
    size="12,150 of rendered_dsprites, and noisy copies",
    licence="Apache-2.0",
)
def rendered_dsprites_27(
    *,
    data_dir: Folder = None,
    split: str = "train",
    split_recipe: str = "paper",
    noisy_copies: int = 3,
    size: int = SIZE,
) -> Dataset:
    """``dsprites_27`` of ``rendered_dsprites``, which has the same arguments."""
    del data_dir
    return regions.split_with_copies(
        rendered_dsprites_27.description,
        _rendered(size),
        split,
        split_recipe,
        noisy_copies,
    )
