"""3D Shapes in 120 labelled regions, of the published file or rendered."""

import functools
import os

from disentangle_jax.data import regions
from disentangle_jax.data.catalogue import DatasetDescription, define
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.publisher_files import Folder
from disentangle_jax.data.sets.rendered_shapes3d import rendered_shapes3d
from disentangle_jax.data.sets.shapes3d import SIZE, SOURCE, shapes3d

# The paper does not say how it maps 8 scales to 3 or which hues and angles it keeps.
_SCALES = {0: 0, 1: 0, 3: 1, 4: 1, 6: 2, 7: 2}
_HUES = (0, 3, 6, 9)
_ORIENTATIONS = (0, 3, 7, 11, 14)
_REGIONS = {
    "factors": {"object_hue": 10, "shape": 4, "scale": 3},
    "note": "bands; floor, wall and orientation vary",
    "image_shape": (SIZE, SIZE, 3),
}


def _banded(description: DatasetDescription, base: Dataset, size: int) -> Dataset:
    values = {
        "floor_hue": {hue: hue for hue in _HUES},
        "wall_hue": {hue: hue for hue in _HUES},
        "scale": _SCALES,
        "orientation": {value: value for value in _ORIENTATIONS},
    }
    return regions.banded(description, base, values, size)


@functools.lru_cache(maxsize=2)
def _published(data_dir: str | None, size: int) -> Dataset:
    base = shapes3d(data_dir=data_dir, split="all")
    return _banded(shapes3d_120.description, base, size)


@functools.lru_cache(maxsize=2)
def _rendered(size: int) -> Dataset:
    base = rendered_shapes3d(split="all")
    return _banded(rendered_shapes3d_120.description, base, size)


@define(**SOURCE, **_REGIONS, size="19,200 of shapes3d")
def shapes3d_120(
    *,
    data_dir: Folder = None,
    split: str = "train",
    split_recipe: str = "paper",
    noisy_copies: int = 0,
    size: int = SIZE,
) -> Dataset:
    """3D Shapes in 120 regions: object hue, shape and scale (small, medium, big).

    The paper's mapping of 8 scales to 3 and its thinning are not known. Here scales 0–1
    are small, 3–4 medium and 6–7 big; floor and wall have the hues 0, 3, 6, 9, the
    orientation is 0, 3, 7, 11 or 14: 160 images of each region.

    Args:
      data_dir: as in ``shapes3d``.
      split: as in ``data.load``.
      split_recipe: as in ``data.load``.
      noisy_copies: as in ``dsprites_27``.
      size: as in ``dsprites_27``.
    """
    whole = _published(None if data_dir is None else os.fspath(data_dir), size)
    return regions.split_with_copies(
        shapes3d_120.description, whole, split, split_recipe, noisy_copies
    )


@define(**_REGIONS, size="19,200 of rendered_shapes3d", licence="Apache-2.0")
def rendered_shapes3d_120(
    *,
    data_dir: Folder = None,
    split: str = "train",
    split_recipe: str = "paper",
    noisy_copies: int = 0,
    size: int = SIZE,
) -> Dataset:
    """``shapes3d_120`` of ``rendered_shapes3d``, which has the same arguments."""
    del data_dir
    return regions.split_with_copies(
        rendered_shapes3d_120.description,
        _rendered(size),
        split,
        split_recipe,
        noisy_copies,
    )
