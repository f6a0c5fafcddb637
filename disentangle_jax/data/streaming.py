"""Streams batches through tf.data."""

import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.data.dataset import Dataset, generator

_PAIR_NAMES = ("image", "index", "image2", "index2")


class _BatchOrder:
    """The indices of batch ``t``: a new permutation of all indices per epoch."""

    def __init__(self, indices: np.ndarray, batch_size: int, seed: int):
        self._indices = indices
        self._batch_size = batch_size
        self._seed = seed
        self.steps_per_epoch = len(indices) // batch_size
        self._epoch: tuple[int, np.ndarray] = -1, indices

    def _permutation(self, epoch: int) -> np.ndarray:
        cached, order = self._epoch
        if cached != epoch:
            order = generator((self._seed, epoch)).permutation(self._indices)
            # Threads may race for this: assigning a pair is one atomic operation.
            self._epoch = epoch, order
        return order

    def __call__(self, step: int) -> np.ndarray:
        epoch, place = divmod(step, self.steps_per_epoch)
        start = place * self._batch_size
        return self._permutation(epoch)[start : start + self._batch_size]


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
    transform: Callable[[np.ndarray, np.random.Generator], np.ndarray] | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Streams batches of uint8 images through tf.data.

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
      prefetch: number of batches prepared in advance, and how many at the same time.
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
    tf = import_tensorflow()
    order = _BatchOrder(dataset.indices, batch_size, seed)
    shard = batch_size // process_count
    mine = slice(process_index * shard, (process_index + 1) * shard)
    places = range(mine.start, mine.stop)

    def read(index: np.ndarray, step: int, half: int) -> np.ndarray:
        seeds = [(seed, step, place, half) for place in places]
        image = dataset.noisy_images(index, seeds)
        if transform is None:
            return image
        rngs = (generator((*words, 1)) for words in seeds)
        return np.stack([transform(one, rng) for one, rng in zip(image, rngs)])

    def make_batch(at: np.int64) -> list[np.ndarray]:
        step = int(at)
        whole = order(step)
        batch = [read(whole[mine], step, 0), whole[mine]]
        if pairs is not None:
            key = jax.random.fold_in(jax.random.key(seed), step)
            # Drawn for the whole batch, so that the shards agree on the partners.
            partner, _ = dataset.partners(key, whole, pairs)
            batch += [read(partner[mine], step, 1), partner[mine]]
        return batch

    failed: list[ValueError] = []

    def checked_batch(step: np.int64) -> list[np.ndarray]:
        try:
            return make_batch(step)
        except ValueError as error:
            failed.append(error)
            raise

    names = ("image", "index") if pairs is None else _PAIR_NAMES
    shapes = [(shard, *dataset.image_shape), (shard,)] * (len(names) // 2)
    dtypes = [array.dtype for array in make_batch(np.int64(start_step))]

    def load(step: Any) -> dict[str, Any]:
        arrays = tf.numpy_function(checked_batch, [step], dtypes)
        for array, shape in zip(arrays, shapes):
            array.set_shape(shape)
        return dict(zip(names, arrays))

    end = np.iinfo(np.int64).max if num_steps is None else start_step + num_steps
    stream = tf.data.Dataset.range(start_step, end)
    stream = stream.map(load, num_parallel_calls=prefetch, deterministic=True)
    return _named_errors(stream.prefetch(prefetch).as_numpy_iterator(), failed)


def _named_errors(
    batches: Iterator[dict[str, np.ndarray]], failed: list[ValueError]
) -> Iterator[dict[str, np.ndarray]]:
    """Yields batches; an error is the one that `failed` holds, not TensorFlow's."""
    try:
        yield from batches
    except Exception:
        if failed:
            raise failed[0] from None
        raise


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
