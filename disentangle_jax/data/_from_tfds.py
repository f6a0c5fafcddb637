"""Sets that TensorFlow Datasets has prepared, by its own builders or by ours."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from disentangle_jax.data import (
    _celeba,
    _dsprites,
    _files,
    _folders,
    _grids,
    _mpi3d,
    _rendered_shapes3d,
    _rfd,
    _smallnorb,
)
from disentangle_jax.data._catalogue import CATALOGUE
from disentangle_jax.data._dataset import Dataset
from disentangle_jax.data._pipeline import import_tensorflow


@dataclasses.dataclass(frozen=True)
class _Layout:
    """How TFDS stores a set: the keys of its factors, their names and sizes."""

    keys: tuple[str, ...]
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    parts: tuple[str, ...] = ("train",)
    fit: Callable[[np.ndarray], np.ndarray] = lambda image: image


def _ours(names: tuple[str, ...], sizes: tuple[int, ...]) -> _Layout:
    return _Layout(tuple(f"label_{name}" for name in names), names, sizes)


def _crop(image: np.ndarray) -> np.ndarray:
    crop = _celeba.PUBLISHED_CROP
    top, left = ((size - crop) // 2 for size in image.shape[:2])
    return image[top : top + crop, left : left + crop]


_DSPRITES_KEYS = ("shape", "scale", "orientation", "x_position", "y_position")
_DIGITS = _Layout(("label",), ("label",), (10,), ("train", "test"))
_MPI3D = _ours(_mpi3d.FACTOR_NAMES, _mpi3d.FACTOR_SIZES)
LAYOUTS = {
    "cars3d": _ours(("elevation", "azimuth", "object"), (4, 24, 183)),
    "celeba": _Layout((), (), (), ("train", "validation", "test"), _crop),
    "dsprites": _Layout(
        tuple(f"label_{key}" for key in _DSPRITES_KEYS),
        _dsprites.FACTOR_NAMES,
        _dsprites.FACTOR_SIZES,
        fit=lambda image: (image > 0) * np.uint8(255),  # TFDS keeps the file's 0 and 1
    ),
    "fashion_mnist": _DIGITS,
    "hwf": _ours(("symbol",), (len(_folders.SYMBOLS),)),
    "mnist": _DIGITS,
    "mpi3d_real": _MPI3D,
    "mpi3d_realistic": _MPI3D,
    "mpi3d_toy": _MPI3D,
    "rfd": _ours(_rfd.FACTOR_NAMES, (1, 8, 1, 30, 30, 30, 30, 30, 10)),
    "shapes3d": _ours(_rendered_shapes3d.FACTOR_NAMES, _rendered_shapes3d.FACTOR_SIZES),
    "smallnorb": _Layout(
        ("label_category", "instance")
        + ("label_elevation", "label_azimuth", "label_lighting"),
        _smallnorb.NAMES,
        (5, 10, 9, 18, 6),
        ("train", "test"),
    ),
}


def prepared_folder(
    name: str, data_dir: str | os.PathLike | None
) -> pathlib.Path | None:
    """Returns the newest folder in which TFDS has prepared a set; None for none."""
    if name not in LAYOUTS:
        return None
    folder = _files.data_folder(data_dir) / (CATALOGUE[name].tfds or name)
    versions = sorted(folder.glob("*/dataset_info.json"))
    return versions[-1].parent if versions else None


def _feature(example: dict, key: str) -> int:
    """Reads a feature; ``a/b`` is feature b of the group a."""
    for name in key.split("/"):
        example = example[name]
    return example


def _columns(source: Sequence, keys: tuple[str, ...]) -> np.ndarray:
    rows = np.empty((len(source), len(keys)), np.int64)
    for start in range(0, len(source), 1024):
        places = range(start, min(start + 1024, len(source)))
        for place, example in zip(places, source.__getitems__(list(places))):
            rows[place] = [_feature(example, key) for key in keys]
    return rows


def load_prepared(name: str, data_dir: str | os.PathLike | None, split: str) -> Dataset:
    """Returns a set that TFDS has prepared in ``data_dir``, read example by example.

    Args:
      name: a key of ``LAYOUTS``.
      data_dir: TFDS's data directory.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
    """
    import_tensorflow()
    import tensorflow_datasets as tfds

    folder = prepared_folder(name, data_dir)
    layout = LAYOUTS[name]
    builder = tfds.builder_from_directory(folder)
    if builder.info.file_format.value != "array_record":
        raise ValueError(
            f"data.load: {folder} must be prepared as array_record, which can be read "
            f"by index, got {builder.info.file_format.value}. Prepare it with: python "
            f"-m disentangle_jax.data.prepare {name} --tfds --data_dir=…"
        )
    if "attributes" in builder.info.features:
        # By name, as in the published list; TFDS stores them in no order.
        names = tuple(sorted(builder.info.features["attributes"]))
        keys = tuple(f"attributes/{attribute}" for attribute in names)
        sizes = (2,) * len(names)
        layout = dataclasses.replace(layout, keys=keys, names=names, sizes=sizes)
    # SmallNORB's two parts are merged, as their instances are no factor.
    own_parts = len(layout.parts) > 1 and name != "smallnorb"
    parts = (split,) if own_parts and split in layout.parts else layout.parts
    if own_parts and split == "validation" and split not in layout.parts:
        parts = ("train",)
    skip = {"image": tfds.decode.SkipDecoding()}
    sources = builder.as_data_source(list(parts))
    bare = builder.as_data_source(list(parts), decoders=skip)
    values = np.concatenate([_columns(source, layout.keys) for source in bare])
    starts = np.cumsum([0, *map(len, sources)])

    def images(indices: np.ndarray) -> np.ndarray:
        places = indices if order is None else order[indices]
        part = np.searchsorted(starts, places, side="right") - 1
        examples = (
            sources[source][int(place)]
            for source, place in zip(part, places - starts[part])
        )
        return np.stack([layout.fit(example["image"]) for example in examples])

    sizes, table, order = layout.sizes, None, None
    if name == "smallnorb":
        both = images(np.arange(starts[-1]))[..., 0]
        return _smallnorb.assemble(both, values).split(split)
    if own_parts:
        table = values if layout.keys else None
    else:
        sizes, table, order = _grids.grid_of(folder, values, layout.sizes)
    shape = layout.fit(sources[0][0]["image"]).shape
    dataset = Dataset(
        name,
        image_shape=shape,
        images=images,
        factor_names=layout.names,
        factor_sizes=sizes,
        factor_table=table,
        length=int(starts[-1]),
    )
    if not own_parts:
        return dataset.split(split)
    return dataset if "validation" in layout.parts else dataset.split_train(split)
