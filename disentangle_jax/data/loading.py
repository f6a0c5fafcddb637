"""Loads a dataset by name."""

import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from disentangle_jax.data import catalogue, from_tfds
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.registry import imported
from disentangle_jax.types import unknown_name


def load(
    name: str,
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    split_recipe: str = "paper",
    **options: Any,
) -> Dataset:
    """Returns a dataset by name.

    Indices address the whole dataset whatever the split (see :class:`Dataset`): a split
    decides which of them are *drawn*. Datasets that their publishers ship in one piece
    are split 70/10/20 by :func:`split_indices`. Where the publisher ships a test part,
    ``"test"`` is that part, and ``"train"`` and ``"validation"`` share the publisher's
    training part 90/10 by the same fixed seed (``"train+validation"`` is both); other
    recipes split the whole.

    Args:
      name: one of :func:`names`, or ``package.module:function`` of your own dataset
        function ``(*, data_dir=None, split="train", **options) -> Dataset``.
      data_dir: folder that holds the publisher's files, or those that TensorFlow
        Datasets made of them; None for ``DISENTANGLE_DATA_DIR``, else
        ``~/disentangle_data``. Rendered datasets read no files.
      split: ``"train"``, ``"validation"``, ``"train+validation"``, ``"test"`` or
        ``"all"``.
      split_recipe: as in :func:`split_indices`. Datasets that change their training
        part (by noisy copies, or by repeating rare classes) have an argument of this
        name, and split before they change it.
      **options: options of the dataset, listed in the docstring of its function. All
        datasets of square images also take ``size``, the height and width to which
        images are reduced by averaging areas.
    """
    if split == "train+validation":
        parts = [
            load(
                name,
                data_dir=data_dir,
                split=part,
                split_recipe=split_recipe,
                **options,
            )
            for part in ("train", "validation")
        ]
        return _united(*parts)
    if ":" in name:
        function = imported(name, "data.load", "name")
    else:
        function = catalogue.find(name, "data.load")
    parameters = inspect.signature(function).parameters
    size = None if "size" in parameters else options.pop("size", None)
    if all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
        for option in options:
            if option not in parameters:
                known = sorted(parameters)
                raise unknown_name(f"data.load({name!r})", "options", option, known)
    if "split_recipe" in parameters:
        options["split_recipe"] = split_recipe
        dataset = _call(function, data_dir, split, options)
    elif split_recipe == "paper":
        dataset = _call(function, data_dir, split, options)
    else:
        whole = _call(function, data_dir, "all", options)
        dataset = whole.split(split, recipe=split_recipe)
    return dataset if size is None else dataset.resized(size)


def _call(
    function: Callable[..., Dataset],
    data_dir: str | os.PathLike | None,
    split: str,
    options: dict[str, Any],
) -> Dataset:
    """Returns a dataset of its files, or of those that TensorFlow Datasets made."""
    try:
        dataset = function(data_dir=data_dir, split=split, **options)
    except FileNotFoundError:
        description = getattr(function, "description", None)
        if (
            options
            or description is None
            or from_tfds.prepared_folder(description, data_dir) is None
        ):
            raise
        return from_tfds.load_prepared(description, data_dir, split)
    if not isinstance(dataset, Dataset):
        raise TypeError(
            f"data.load: `name` must name a function that returns a data.Dataset, and "
            f"{function.__name__} returned {type(dataset).__name__}."
        )
    return dataset


def _united(train: Dataset, validation: Dataset) -> Dataset:
    """Returns the dataset that draws from both parts of the same images."""
    if len(train) != len(validation):
        raise ValueError(
            "data.load: `split` must not be 'train+validation' for "
            f"{train.name}, whose parts are separate datasets; use 'train'."
        )
    return train.narrow(np.union1d(train.indices, validation.indices))
