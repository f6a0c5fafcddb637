"""Samples datasets on the accelerator, inside a training step."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.data.dataset import Dataset


def unpack_bits(packed: jax.Array) -> jax.Array:
    """Returns bits, uint8 ``[..., 8 n]`` of 0 and 1, of bytes ``[..., n]``.

    The first pixel is the highest bit, as in ``numpy.packbits``.
    """
    shifts = jnp.arange(7, -1, -1, dtype=jnp.uint8)
    bits = (packed[..., None] >> shifts.reshape((1,) * packed.ndim + (8,))) & 1
    return bits.reshape(*packed.shape[:-1], -1)


def device_sampler(
    dataset: Dataset,
) -> tuple[Callable[[jax.Array, int, dict], dict], dict]:
    """Returns a sampler for use inside a jitted step, and the arrays it reads.

    Nothing is streamed: rendered datasets are rendered on the device, black-and-white
    images lie there as packed bits (dSprites in 377 MB), others as bytes. The arrays
    are returned separately so that the step can take them as arguments (in a closure
    they would be constants of the program); ``device_put`` may replicate them::

        draw, arrays = data.device_sampler(dataset)
        batch = jax.jit(draw, static_argnums=1)(key, 64, arrays)

    Args:
      dataset: a rendered dataset, or one that lies in memory as a whole.

    Returns:
      ``(draw, arrays)`` with ``draw(key, batch_size, arrays) -> {"image": uint8
      [B, H, W, C], "index": int32 [B]}``, drawn uniformly with replacement from
      ``dataset.indices``.
    """
    count = len(dataset.indices)
    everything = count == len(dataset)
    arrays = {} if everything else {"indices": jnp.asarray(dataset.indices, jnp.int32)}
    shape = dataset.stored_shape
    if dataset.render is not None:
        sizes = dataset.factor_sizes

        def images(index: jax.Array, arrays: dict) -> jax.Array:
            del arrays
            factors = jnp.stack(jnp.unravel_index(index, sizes), axis=-1)
            return dataset.render(factors)

    elif dataset.packed is not None:
        arrays["packed"] = jnp.asarray(dataset.packed)

        def images(index: jax.Array, arrays: dict) -> jax.Array:
            bits = unpack_bits(arrays["packed"][index])
            return dataset.shrink(bits.reshape(-1, *shape) * jnp.uint8(255))

    elif dataset.in_memory is not None:
        arrays["images"] = jnp.asarray(dataset.in_memory)

        def images(index: jax.Array, arrays: dict) -> jax.Array:
            return dataset.shrink(arrays["images"][index])

    else:
        raise ValueError(
            "device_sampler: `dataset` must be rendered or lie in memory as a whole, "
            f"and {dataset.name} is read from its files. Stream it with data.pipeline."
        )

    def draw(key: jax.Array, batch_size: int, arrays: dict) -> dict:
        index = jax.random.randint(key, (batch_size,), 0, count, jnp.int32)
        if not everything:
            index = arrays["indices"][index]
        return {"image": images(index, arrays), "index": index}

    return draw, arrays


def device_bytes(dataset: Dataset) -> int | None:
    """Returns what ``device_sampler`` would keep on the device, in bytes.

    None where the dataset cannot be kept there.
    """
    if dataset.render is not None:
        held = 0
    elif dataset.packed is not None:
        held = dataset.packed.nbytes
    elif dataset.in_memory is not None:
        held = dataset.in_memory.nbytes
    else:
        return None
    whole = len(dataset.indices) == len(dataset)
    return held + (0 if whole else len(dataset.indices) * np.dtype(np.int32).itemsize)
