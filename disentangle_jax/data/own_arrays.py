"""Makes a dataset of a user's own arrays: images, and a table of factors."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.grids import grid_of
from disentangle_jax.data.pixels import as_bytes


def _columns(
    source: str, table: np.ndarray, sizes: Sequence[int] | None
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Returns ``[N, K]`` labels, or values where a factor is continuous, and sizes."""
    from disentangle_jax.metrics.inputs import is_continuous

    if sizes is not None:
        labels, sizes = table.astype(np.int64), tuple(int(size) for size in sizes)
        if len(sizes) != table.shape[1]:
            raise ValueError(
                f"{source}: `factor_sizes` must have one size for each of the "
                f"{table.shape[1]} factors, got {len(sizes)}."
            )
        outside = (labels < 0) | (labels >= np.asarray(sizes))
        if outside.any() or (labels != table).any():
            raise ValueError(
                f"{source}: `factors` must be whole numbers from 0 below "
                f"`factor_sizes` {sizes}, got {table.min(0)} to {table.max(0)}. Leave "
                "the sizes out to number the values that occur."
            )
        return labels, sizes
    columns, sizes = [], []
    for column in table.T:
        values, ranks = np.unique(column, return_inverse=True)
        number = np.issubdtype(column.dtype, np.number)
        columns.append(column if number and is_continuous(column) else ranks)
        sizes.append(len(values))
    return np.stack(columns, axis=1), tuple(sizes)


def from_arrays(
    name: str,
    images: Any,
    factors: Any = None,
    *,
    factor_names: Sequence[str] | None = None,
    factor_sizes: Sequence[int] | None = None,
    source: str = "data.from_arrays",
) -> Dataset:
    """Returns a dataset of your own images and factors.

    Labels may have any values: those that occur are numbered in their order. A factor
    with many different values is continuous (see `metrics`): its values stay as they
    are, and scores treat them as such. If the labels are a complete grid, every
    combination once in any order, images are renumbered in the order of the grid, and
    pairs and interventions work as for the published datasets.

    Args:
      name: name of the dataset.
      images: ``[N, H, W, C]`` or ``[N, H, W]``, uint8 in 0 … 255 or floats in [0, 1].
        It may be memory-mapped: only the images of a batch are read and converted.
      factors: ``[N, K]`` or ``[N]`` numbers or texts; None where there are none.
      factor_names: one name per factor; ``factor_0`` … by default.
      factor_sizes: number of values of each factor, where the labels count from 0 but
        not all occur.
      source: where the arrays come from, for errors.
    """
    if getattr(images, "ndim", 0) not in (3, 4) or not len(images):
        raise ValueError(
            f"{source}: `images` must have shape [N, H, W, C] or [N, H, W], got "
            f"{getattr(images, 'shape', type(images).__name__)}."
        )
    shape = tuple(images.shape[1:]) if images.ndim == 4 else (*images.shape[1:], 1)
    fields: dict[str, Any] = {"length": len(images)}
    order = None
    if factors is not None:
        table = np.asarray(factors)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or len(table) != len(images) or not table.shape[1]:
            raise ValueError(
                f"{source}: `factors` must have shape [{len(images)}, K], a row for "
                f"each image, got {table.shape}."
            )
        table, sizes = _columns(source, table, factor_sizes)
        kept: np.ndarray | None = table
        if np.issubdtype(table.dtype, np.integer):
            sizes, kept, order = grid_of(source, table, sizes)
        if factor_names is None:
            factor_names = [f"factor_{k}" for k in range(len(sizes))]
        names = tuple(str(name) for name in factor_names)
        fields = {"factor_names": names, "factor_sizes": sizes, "factor_table": kept}

    def read(indices: np.ndarray) -> np.ndarray:
        rows = indices if order is None else order[indices]
        return as_bytes(f"{source}: `images`", np.asarray(images[rows]))

    plain = isinstance(images, np.ndarray) and images.dtype == np.uint8
    if plain and order is None:
        fields["in_memory"] = images.reshape(-1, *shape)
    if hasattr(images, "reader"):
        fields["reader"] = lambda tf: _reordered(tf, images.reader(tf), order)
    return Dataset(
        name,
        image_shape=shape,
        images=lambda indices: read(indices).reshape(-1, *shape),
        **fields,
    )


def _reordered(
    tf: ModuleType, read: Callable[[Any], Any], order: np.ndarray | None
) -> Callable[[Any], Any]:
    """Returns ``read`` for indices of the grid, by a tensor."""
    if order is None:
        return read
    return lambda indices: read(tf.gather(order, indices))


def as_dataset(given: Any) -> Dataset:
    """Returns any object with the methods of a :class:`Dataset` as one.

    Args:
      given: has ``images(indices)``, ``image_shape`` and ``len()``; where it has
        factors, also ``factors(indices)``, ``factor_names`` and ``factor_sizes``.
    """
    if isinstance(given, Dataset):
        return given
    for method in ("images", "image_shape", "__len__"):
        if not hasattr(given, method):
            raise TypeError(
                "prepare: `dataset` must be a data.Dataset, or have images(indices), "
                f"image_shape and len(), got {type(given).__name__} without `{method}`."
            )
    sizes = tuple(getattr(given, "factor_sizes", ()))
    every = np.arange(len(given))
    return Dataset(
        getattr(given, "name", type(given).__name__),
        image_shape=tuple(given.image_shape),
        images=lambda rows: as_bytes("dataset.images", np.asarray(given.images(rows))),
        factor_names=tuple(given.factor_names) if sizes else (),
        factor_sizes=sizes,
        factor_table=np.asarray(given.factors(every)) if sizes else None,
        length=len(given),
    )


def dataset(
    *, data_dir: str | None = None, split: str = "train", called: str = ""
) -> NoReturn:
    """Stands in a config for a dataset that was passed to ``training.prepare``."""
    raise ValueError(
        f"data.load: the run was trained on the dataset {called!r}, passed in "
        "Python; pass it again: training.prepare(config, workdir, dataset=…)."
    )
