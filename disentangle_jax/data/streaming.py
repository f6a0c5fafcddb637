"""Streams batches through tf.data."""

import atexit
import os
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.data.dataset import Dataset, generator
from disentangle_jax.data.readers import reader

Tensor = Any  # Of TensorFlow, which is imported late.
Transform = Callable[[np.ndarray, np.random.Generator], np.ndarray]


class _Batches:
    """Batch ``t`` by NumPy: a new permutation of all indices per epoch.

    Args:
      dataset: the dataset to draw from.
      batch_size: size of the global batch.
      seed: seed of the order and of `transform`.
      rows: the rows of each global batch that this process reads.
      pairs: as in :func:`pipeline`.
      transform: as in :func:`pipeline`.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        seed: int,
        rows: range,
        pairs: int | str | None,
        transform: Transform | None,
    ):
        self._dataset, self._seed, self._rows = dataset, seed, rows
        self._batch_size, self._transform = batch_size, transform
        self._mine = slice(rows.start, rows.stop)
        self._cached: tuple[int, np.ndarray] = -1, dataset.indices
        self.pairs = pairs
        self.steps_per_epoch = len(dataset.indices) // batch_size

    def _epoch(self, number: int) -> np.ndarray:
        """Returns the indices ``[steps, batch_size]`` of all batches of an epoch."""
        cached, order = self._cached
        if cached != number:
            order = generator((self._seed, number)).permutation(self._dataset.indices)
            shape = self.steps_per_epoch, self._batch_size
            order = order[: shape[0] * shape[1]].reshape(shape)
            # Threads may race for this: assigning a pair is one atomic operation.
            self._cached = number, order
        return order

    def epoch(self, number: np.int64) -> np.ndarray:
        """Returns the indices ``[steps, b]`` that this process reads in an epoch."""
        return self._epoch(int(number))[:, self._mine]

    def indices(self, step: np.int64) -> list[np.ndarray]:
        """Returns the indices ``[b]`` of batch `step`, and those of the partners."""
        number, place = divmod(int(step), self.steps_per_epoch)
        whole = self._epoch(number)[place]
        if self.pairs is None:
            return [whole[self._mine]]
        key = jax.random.fold_in(jax.random.key(self._seed), int(step))
        # Drawn for the whole batch, so that the shards agree on the partners.
        partners, _ = self._dataset.partners(key, whole, self.pairs)
        return [whole[self._mine], partners[self._mine]]

    def _seeds(self, step: np.int64, half: int) -> list[tuple[int, ...]]:
        return [(self._seed, int(step), row, int(half)) for row in self._rows]

    def transformed(self, images: np.ndarray, step: np.int64, half: int) -> np.ndarray:
        """Returns images of batch `step` after `transform`; `half` 1 for partners."""
        if self._transform is None:
            return images
        rngs = (generator((*words, 1)) for words in self._seeds(step, half))
        return np.stack([self._transform(one, rng) for one, rng in zip(images, rngs)])

    def __call__(self, step: np.int64) -> list[np.ndarray]:
        """Returns images and indices of batch `step`, then those of the partners."""
        arrays = []
        for half, index in enumerate(self.indices(step)):
            images = self._dataset.noisy_images(index, self._seeds(step, half))
            arrays += [self.transformed(images, step, half), index]
        return arrays


def import_tensorflow() -> ModuleType:
    """Imports TensorFlow for input only, without access to accelerators."""
    # Input needs neither its log messages nor its oneDNN kernels.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")
    return tf


def pipeline(
    dataset: Dataset,
    *,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    num_steps: int | None = None,
    indices: ArrayLike | None = None,
    process_index: int = 0,
    process_count: int = 1,
    prefetch: int = 2,
    pairs: int | str | None = None,
    transform: Transform | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Streams batches of uint8 images through tf.data.

    TensorFlow reads and decodes the images by its own operations where the dataset says
    how (``Dataset``'s ``reader``) or lies in memory as a whole; else Python reads them.
    The images are the same, those of ``dataset.images``.

    Batch ``t`` is a function of ``(seed, t)`` alone: each epoch is a new permutation of
    the indices, without its incomplete last batch. So a stream that starts at
    ``start_step=t`` gives the same batches as an uninterrupted one from there on,
    without replaying the earlier ones. Neither ``prefetch`` nor the number of processes
    changes a batch: the shards of the processes, in order, concatenate to the batch of
    one process.

    Args:
      dataset: the dataset to stream.
      batch_size: size of the *global* batch, over all processes.
      seed: seed of the order (and of ``transform``).
      start_step: step of the first batch.
      num_steps: number of batches; None for an endless stream.
      indices: ``[m]`` images to draw from; None for ``dataset.indices``.
      process_index: which shard of each batch this process reads.
      process_count: number of shards.
      prefetch: number of batches prepared in advance; also how many Python reads at the
        same time. TensorFlow's readers use as many cores as help.
      pairs: how many factors the partner of each image differs in, as ``k`` in
        ``data.pair_factors``; None for no partners.
      transform: function from ``(image [H, W, C], rng)`` to an image, for augmentation
        on the host; its generator is seeded by seed, step and row of the batch.

    Returns:
      An iterator of ``{"image": [b, H, W, C], "index": [b]}`` of NumPy arrays, with
      ``b = batch_size / process_count``; with ``pairs`` also ``image2`` and ``index2``.
    """
    if indices is not None:
        dataset = dataset.narrow(indices)
    _check(dataset, batch_size, process_index, process_count)
    if seed < 0 or start_step < 0 or prefetch < 1:
        raise ValueError(
            "pipeline: `seed` and `start_step` must be at least 0 and `prefetch` at "
            f"least 1, got {seed}, {start_step} and {prefetch}."
        )
    shard = batch_size // process_count
    rows = range(process_index * shard, (process_index + 1) * shard)
    batches = _Batches(dataset, batch_size, seed, rows, pairs, transform)
    like = batches(np.int64(start_step))
    end = np.iinfo(np.int64).max if num_steps is None else start_step + num_steps
    steps = range(start_step, end)
    tf = import_tensorflow()
    read = reader(tf, dataset)
    if read is None:
        stream = _by_numpy(tf, batches, steps, like, prefetch)
    else:
        changed = transform is not None
        stream = _by_tensorflow(tf, batches, steps, like, read, changed)
    stream = stream.prefetch(prefetch).as_numpy_iterator()
    return _Stream(stream, batches, steps, tf.errors.OpError)


def _named(arrays: list[Any]) -> dict[str, Any]:
    """Returns images and indices by name, with those of the partners if present."""
    return dict(zip(("image", "index", "image2", "index2"), arrays))


def _call(
    tf: ModuleType, function: Callable, given: list[Tensor], like: list[np.ndarray]
) -> list[Tensor]:
    """Returns what a NumPy function returns, as tensors of the shapes of `like`."""
    found = tf.numpy_function(function, given, [a.dtype for a in like], stateful=False)
    for tensor, array in zip(found, like):
        tensor.set_shape(array.shape)
    return found


def _by_numpy(
    tf: ModuleType,
    batches: _Batches,
    steps: range,
    like: list[np.ndarray],
    calls: int,
) -> Any:
    """Returns the stream of batches that Python reads, `calls` at the same time."""
    return tf.data.Dataset.range(steps.start, steps.stop).map(
        lambda step: _named(_call(tf, batches, [step], like)),
        num_parallel_calls=calls,
        deterministic=True,
    )


def _by_tensorflow(
    tf: ModuleType,
    batches: _Batches,
    steps: range,
    like: list[np.ndarray],
    read: Callable[[Tensor], Tensor],
    changed: bool,
) -> Any:
    """Returns the stream of batches that TensorFlow reads: Python gives the indices.

    Args:
      tf: the module ``tensorflow``.
      batches: defines the batches.
      steps: those to stream.
      like: the arrays of one batch.
      read: function from indices ``[b]`` to images.
      changed: whether the images are then transformed.
    """
    images, indices = like[0::2], like[1::2]

    def epoch(number: Tensor) -> Any:
        order = tf.numpy_function(batches.epoch, [number], tf.int64, stateful=False)
        shape = batches.steps_per_epoch, *indices[0].shape
        return tf.data.Dataset.from_tensor_slices(tf.ensure_shape(order, shape))

    def load(step: Tensor, index: Tensor) -> dict[str, Tensor]:
        both = [index]
        if batches.pairs is not None:
            both = _call(tf, batches.indices, [step], indices)
        found = []
        for half, index in enumerate(both):
            image = read(index)
            if changed:
                given = [image, step, tf.constant(half)]
                (image,) = _call(tf, batches.transformed, given, images[:1])
            found += [image, index]
        return _named(found)

    first, passed = divmod(steps.start, batches.steps_per_epoch)
    order = tf.data.Dataset.range(first, np.iinfo(np.int64).max).flat_map(epoch)
    order = order.skip(passed).enumerate(steps.start).take(len(steps))
    return order.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


class _Stream(Iterator[dict[str, np.ndarray]]):
    """Batches; where TensorFlow fails, those of NumPy, whose errors name files.

    Pillow also reads pictures in formats that TensorFlow does not know.
    """

    def __init__(
        self,
        stream: Iterator[dict[str, np.ndarray]],
        batches: _Batches,
        steps: range,
        failure: type[Exception],
    ):
        self._stream: Iterator[dict[str, np.ndarray]] | None = stream
        self._batches, self._failure = batches, failure
        self._steps = iter(steps)
        _OPEN.add(self)

    def __next__(self) -> dict[str, np.ndarray]:
        if self._stream is None:
            raise StopIteration
        step = next(self._steps)
        try:
            return next(self._stream)
        except self._failure:
            return _named(self._batches(np.int64(step)))

    def close(self) -> None:
        """Ends the stream, and waits for the batches that are being read."""
        self._stream = None


_OPEN: weakref.WeakSet[_Stream] = weakref.WeakSet()


@atexit.register
def _close_streams() -> None:
    """Ends the streams whose threads would call Python after it has ended."""
    for stream in list(_OPEN):
        stream.close()


def _check(
    dataset: Dataset, batch_size: int, process_index: int, process_count: int
) -> None:
    """Raises ValueError where the processes cannot share batches of this size."""
    if not 1 <= batch_size <= len(dataset.indices):
        raise ValueError(
            f"pipeline: `batch_size` must lie in [1, {len(dataset.indices)}], the "
            f"number of images to draw from, got {batch_size}."
        )
    if process_count < 1 or batch_size % process_count:
        raise ValueError(
            "pipeline: `process_count` must divide `batch_size`, got "
            f"{process_count} and {batch_size}."
        )
    if not 0 <= process_index < process_count:
        raise ValueError(
            f"pipeline: `process_index` must lie in [0, {process_count}), got "
            f"{process_index}."
        )
