"""Reads a dataset's images by TensorFlow's own operations, inside a stream."""

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.resizing import by_halves, sums_of_areas

# A stream copies at most this many bytes of a dataset that lies in memory.
_MOST_COPIED = 500_000_000

Read = Callable[[Any], Any]


class _Held:
    """An array and its copy as a tensor, which all streams of the array share."""

    def __init__(self, tf: ModuleType, array: np.ndarray):
        self.array, self.tensor = array, tf.convert_to_tensor(array)


_HELD: weakref.WeakValueDictionary[int, _Held] = weakref.WeakValueDictionary()


def reader(tf: ModuleType, dataset: Dataset) -> Read | None:
    """Returns a function from int64 indices ``[b]`` to images, both tensors.

    The images are those of ``dataset.images``, bit for bit. None for datasets that only
    Python can read: those that are rendered, add noise, are packed bits (which NumPy
    unpacks faster), lie in a memory-mapped array or in a large one, or whose definition
    has no ``reader``.

    Args:
      tf: the module ``tensorflow``.
      dataset: the dataset.
    """
    if dataset.noise is not None:
        return None
    if dataset.reader is not None:
        read = dataset.reader(tf)
    elif dataset.in_memory is not None and _fits(dataset.in_memory):
        read = _gathered(tf, dataset.in_memory)
    else:
        return None
    if dataset.image_shape == dataset.stored_shape:
        return read
    shrink = _shrink(tf, dataset)
    return lambda indices: shrink(read(indices))


def _fits(array: np.ndarray) -> bool:
    """Whether a stream may hold a copy of the array."""
    if array.nbytes > _MOST_COPIED:
        return False
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    return not isinstance(owner, np.memmap)


def _gathered(tf: ModuleType, array: np.ndarray) -> Read:
    """Returns a function from indices to rows of the array."""
    held = _HELD.get(id(array))
    if held is None:
        held = _HELD[id(array)] = _Held(tf, array)
    return lambda indices: tf.gather(held.tensor, indices)


def _shrink(tf: ModuleType, dataset: Dataset) -> Callable[[Any], Any]:
    """Returns ``dataset.shrink`` for tensors."""
    size = dataset.image_shape[0]
    if by_halves(dataset.stored_shape[0], size):
        area = (dataset.stored_shape[0] // size) ** 2

        def halved(images: Any) -> Any:
            total = sums_of_areas(tf.cast(images, tf.uint16), size)
            return tf.cast(tf.round(tf.cast(total, tf.float32) / area), tf.uint8)

        return halved

    def averaged(images: Any) -> Any:
        # Other ratios need sums of fractions: the order of NumPy decides the last bit.
        shrunk = tf.numpy_function(dataset.shrink, [images], tf.uint8, stateful=False)
        return tf.ensure_shape(shrunk, (None, *dataset.image_shape))

    return averaged
