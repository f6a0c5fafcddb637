"""Names of the sets and the function that loads each."""

import importlib
import inspect
import os

from disentangle_jax.data._catalogue import CATALOGUE
from disentangle_jax.data._dataset import Dataset
from disentangle_jax.types import unknown_name


def names() -> list[str]:
    """Returns the names that :func:`load` knows."""
    return sorted(CATALOGUE)


def load(
    name: str,
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    **options: object,
) -> Dataset:
    """Returns a set by name.

    Indices address the whole set whatever the split (see :class:`Dataset`): a split
    decides which of them are *drawn*. Sets that their publishers ship as one piece are
    split 70/10/20 by :func:`split_indices`. Where the publisher ships a test part of
    its own, ``"test"`` is that part and ``"train"`` and ``"validation"`` share the
    publisher's training part, 90/10 by the same fixed seed.

    Args:
      name: one of :func:`names`.
      data_dir: folder that holds the publisher's files (or TensorFlow Datasets' of
        them); None for ``DISENTANGLE_DATA_DIR``, else ``~/disentangle_data``. Rendered
        sets need none.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      **options: options of the set, listed in its own docstring.
    """
    if name not in CATALOGUE:
        raise unknown_name("data.load", "name", name, names())
    module = importlib.import_module(f"disentangle_jax.data.{CATALOGUE[name].module}")
    source = getattr(module, name)
    known = set(inspect.signature(source).parameters)
    for option in options:
        if option not in known:
            raise unknown_name(f"data.load({name!r})", "options", option, sorted(known))
    try:
        return source(data_dir=data_dir, split=split, **options)
    except FileNotFoundError:
        from disentangle_jax.data import _from_tfds

        if options or _from_tfds.prepared_folder(name, data_dir) is None:
            raise
        return _from_tfds.load_prepared(name, data_dir, split)
