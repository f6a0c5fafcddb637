"""Noise that datasets add to their images at every draw."""

import functools
from collections.abc import Callable

import jax
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


@functools.lru_cache(maxsize=8)
def _seeded(noise: Noise) -> Callable:
    """Returns `noise` of words ``[n, w]`` instead of keys, compiled."""

    def seeded(words: jax.Array, image: jax.Array) -> jax.Array:
        key = jax.random.key(0)
        for word in words:
            key = jax.random.fold_in(key, word)
        return noise(key, image)

    return jax.jit(jax.vmap(seeded))
