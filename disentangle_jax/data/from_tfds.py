"""Reads datasets that TensorFlow Datasets (TFDS) has prepared."""

import pathlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from disentangle_jax.data.catalogue import DatasetDescription
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.grids import grid_of
from disentangle_jax.data.publisher_files import Folder, data_folder
from disentangle_jax.data.streaming import import_tensorflow
from disentangle_jax.types import unknown_name


def prepared_folder(
    description: DatasetDescription, data_dir: Folder
) -> pathlib.Path | None:
    """Returns the newest folder in which TFDS has prepared a dataset, or None."""
    if description.tfds is None:
        return None
    folder = data_folder(data_dir) / (description.tfds.builder or description.name)
    versions = sorted(folder.glob("*/dataset_info.json"))
    return versions[-1].parent if versions else None


def _feature(example: Any, key: str) -> int:
    """Returns a feature; ``a/b`` is feature b of the group a."""
    for name in key.split("/"):
        example = example[name]
    return example


class _Source(Protocol):
    """What TFDS returns as a data source."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int) -> dict[str, Any]: ...

    def __getitems__(self, places: Sequence[int]) -> Sequence[dict[str, Any]]: ...


def _columns(source: _Source, keys: Sequence[str]) -> np.ndarray:
    rows = np.empty((len(source), len(keys)), np.int64)
    for start in range(0, len(source), 1024):
        places = range(start, min(start + 1024, len(source)))
        for place, example in zip(places, source.__getitems__(list(places))):
            rows[place] = [_feature(example, key) for key in keys]
    return rows


def load_prepared(
    description: DatasetDescription, data_dir: Folder, split: str
) -> Dataset:
    """Returns a dataset that TFDS has prepared, read example by example.

    Args:
      description: the dataset; its ``tfds`` says how TFDS stores it.
      data_dir: TFDS's data directory.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
    """
    import_tensorflow()
    import tensorflow_datasets as tfds

    folder = prepared_folder(description, data_dir)
    layout = description.tfds
    if folder is None or layout is None:
        raise FileNotFoundError(
            f"data.load: TensorFlow Datasets has not prepared {description.name}."
        )
    builder = tfds.builder_from_directory(folder)
    if builder.info.file_format.value != "array_record":
        raise ValueError(
            f"data.load: {folder} must be prepared as array_record, which can be read "
            f"by index, got {builder.info.file_format.value}. Prepare it with: python "
            f"-m disentangle_jax.data.prepare {description.name} --tfds --data_dir=…"
        )
    names, sizes = description.factor_names, description.factor_sizes
    keys: Sequence[str] = [f"label_{name}" for name in names]
    if layout.attributes:
        # In alphabetical order, as in the published list; TFDS does not order them.
        names = tuple(sorted(builder.info.features[layout.attributes]))
        sizes = (2,) * len(names)
        keys = [f"{layout.attributes}/{name}" for name in names]
    elif layout.keys is not None:
        keys = layout.keys
    published_parts = len(layout.parts) > 1 and layout.assemble is None
    parts = layout.parts
    if published_parts:
        known: dict[str, tuple[str, ...]] = {part: (part,) for part in parts}
        known = {"validation": ("train",), **known, "all": parts}
        if split not in known:
            raise unknown_name("data.load", "split", split, known)
        parts = known[split]
    skip = {"image": tfds.decode.SkipDecoding()}
    sources = builder.as_data_source(list(parts))
    without_images = builder.as_data_source(list(parts), decoders=skip)
    values = np.concatenate([_columns(source, keys) for source in without_images])
    starts = np.cumsum([0, *map(len, sources)])

    def images(indices: np.ndarray) -> np.ndarray:
        places = indices if order is None else order[indices]
        part = np.searchsorted(starts, places, side="right") - 1
        examples = (
            sources[source][int(place)]
            for source, place in zip(part, places - starts[part])
        )
        return np.stack([layout.fit(example["image"]) for example in examples])

    table: np.ndarray | None = values
    order: np.ndarray | None = None
    if layout.assemble is not None:
        return layout.assemble(images(np.arange(starts[-1])), values).split(split)
    if not published_parts:
        sizes, table, order = grid_of(folder, values, sizes)
    dataset = description.dataset(
        images,
        image_shape=layout.fit(sources[0][0]["image"]).shape,
        factor_names=names,
        factor_sizes=sizes,
        factor_table=table,
    )
    if not published_parts:
        return dataset.split(split)
    return dataset if "validation" in layout.parts else dataset.split_train(split)
