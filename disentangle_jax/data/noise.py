"""Noise that datasets add to their images at every draw."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from disentangle_jax.batching import in_batches

Noise = Callable[[jax.Array, jax.Array], jax.Array]

_AT_ONCE = 64  # Images of one compiled call.


def add_noise(noise: Noise, images: np.ndarray, seeds: npt.ArrayLike) -> np.ndarray:
    """Returns images with noise that is a function of their seeds alone.

    Args:
      noise: pure-JAX function from ``(key, image [H, W, C])`` to an image.
      images: ``[n, H, W, C]``.
      seeds: ``[n, words]`` integers, the seed of each image.
    """
    words = np.asarray(seeds).astype(np.uint32)
    return in_batches(
        lambda rows: _seeded(noise)(words[rows], images[rows]),
        np.arange(len(images)),
        _AT_ONCE,
    )


def uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns the float32 values in [0, 1) of ``jax.random.uniform(key, shape)``.

    On a CPU, JAX computes its default generator, Threefry, by a loop over the rounds
    that is not vectorised. Without the loop, the same bits take a tenth of the time.

    Args:
      key: typed PRNG key.
      shape: of the result, less than 2³² values.
    """
    threefry = jax.random.key_impl(key) == "threefry2x32"
    split = jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    if not (threefry and split):
        return jax.random.uniform(key, shape)
    first, second = jax.random.key_data(key)
    place = jnp.arange(math.prod(shape), dtype=jnp.uint32)
    one, other = _threefry(first, second, jnp.zeros_like(place), place)
    # The highest 23 bits are the fraction of a float in [1, 2).
    float_bits = ((one ^ other) >> 9) | np.uint32(0x3F800000)
    return (jax.lax.bitcast_convert_type(float_bits, jnp.float32) - 1).reshape(shape)


def _threefry(
    first: jax.Array, second: jax.Array, x: jax.Array, y: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns the Threefry-2x32 cipher, of 20 rounds, of the words `x` and `y`.

    Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).
    """
    keys = first, second, first ^ second ^ np.uint32(0x1BD11BDA)
    x, y = x + keys[0], y + keys[1]
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = x + y
            y = x ^ ((y << turn) | (y >> (32 - turn)))
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


@functools.lru_cache(maxsize=8)
def _seeded(noise: Noise) -> Callable:
    """Returns `noise` of words ``[n, w]`` instead of keys, compiled."""

    def seeded(words: jax.Array, image: jax.Array) -> jax.Array:
        key = jax.random.key(0)
        for word in words:
            key = jax.random.fold_in(key, word)
        return noise(key, image)

    return jax.jit(jax.vmap(seeded))
