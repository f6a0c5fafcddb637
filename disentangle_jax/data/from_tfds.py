"""Reads datasets that TensorFlow Datasets (TFDS) has prepared."""

import pathlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from disentangle_jax.data.catalogue import DatasetDescription, TfdsLayout
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


class _Images:
    """The images of the examples of several sources, one after the other.

    Args:
      layout: how they are stored.
      sources: give examples whose images are decoded.
      encoded: give the same examples with the bytes of their images.
      order: place of each image among all examples; None where they are in order.
    """

    def __init__(
        self,
        layout: TfdsLayout,
        sources: Sequence[_Source],
        encoded: Sequence[_Source],
        order: np.ndarray | None = None,
    ):
        self._layout, self._sources, self._encoded = layout, sources, encoded
        self._order = order
        self._starts = np.cumsum([0, *map(len, sources)])
        stored = sources[0][0]["image"]
        self.stored_shape, self.shape = stored.shape, layout.fit(stored).shape

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        if not len(indices):
            return np.zeros((0, *self.shape), np.uint8)
        return self._fitted(np.stack(self._stored(self._sources, indices)))

    def _stored(self, sources: Sequence[_Source], indices: np.ndarray) -> list[Any]:
        """Returns what `sources` hold for the images."""
        places = np.asarray(indices)
        if self._order is not None:
            places = self._order[places]
        parts = np.searchsorted(self._starts, places, side="right") - 1
        # One by one: to read several, array_record would start a thread for each.
        return [
            sources[part][place]["image"]
            for part, place in zip(parts, (places - self._starts[parts]).tolist())
        ]

    def _fitted(self, images: np.ndarray) -> np.ndarray:
        return np.stack([self._layout.fit(image) for image in images])

    def _contents(self, indices: np.ndarray) -> np.ndarray:
        """Returns the bytes of the images, an array of objects ``[n]``."""
        return np.array(self._stored(self._encoded, indices), object)

    def reader(self, tf: ModuleType) -> Callable[[Any], Any]:
        """Returns a function from a tensor of indices to images, decoded by `tf`.

        Python reads the bytes, since TensorFlow has no operation for array_record.
        """
        from disentangle_jax.data.pictures import decoded

        def picture(content: Any) -> Any:
            pixels = decoded(tf, content, self.stored_shape[-1])
            return tf.ensure_shape(pixels, self.stored_shape)

        def read(indices: Any) -> Any:
            contents = tf.numpy_function(self._contents, [indices], tf.string, False)
            contents = tf.ensure_shape(contents, indices.shape)
            images = tf.map_fn(picture, contents, fn_output_signature=tf.uint8)
            if self._layout.fits:
                images = tf.numpy_function(self._fitted, [images], tf.uint8, False)
            return tf.ensure_shape(images, (*indices.shape, *self.shape))

        return read


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
    encoded = builder.as_data_source(list(parts), decoders=skip)
    values = np.concatenate([_columns(source, keys) for source in encoded])
    if layout.assemble is not None:
        images = _Images(layout, sources, encoded)
        everything = images(np.arange(len(images)))
        return layout.assemble(everything, values).split(split)
    table: np.ndarray | None = values
    order: np.ndarray | None = None
    if not published_parts:
        sizes, table, order = grid_of(folder, values, sizes)
    images = _Images(layout, sources, encoded, order)
    dataset = description.dataset(
        images,
        image_shape=images.shape,
        factor_names=names,
        factor_sizes=sizes,
        factor_table=table,
        reader=images.reader,
    )
    if not published_parts:
        return dataset.split(split)
    return dataset if "validation" in layout.parts else dataset.split_train(split)
