"""Methods that see standardised images."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from disentangle_jax.methods._method import Batch, Hyper, Method, as_unit_interval


def standardized(
    method: Method, mean: Sequence[float], deviation: Sequence[float]
) -> Method:
    """Returns `method` trained on images with mean 0 and deviation 1 per channel.

    Michlo et al., "Overlooked Implications of the Reconstruction Loss", App. C.1. The
    loss compares standardised images; what goes in and comes out are images in [0, 1]
    as ever.

    Args:
      method: one whose decoder's logits are images (``mse``, ``gaussian``, …), not
        Bernoulli log-odds.
      mean: of each channel of images in [0, 1].
      deviation: of each channel, positive.
    """
    if method.output is jax.nn.sigmoid:
        raise ValueError(
            "standardized: `method` must not have a Bernoulli decoder, since "
            "standardised images do not lie in [0, 1]; set `method.reconstruction` to "
            "'mse'."
        )
    mean, deviation = jnp.asarray(mean), jnp.asarray(deviation)

    def scaled(image: jax.Array) -> jax.Array:
        shape = (1,) * (image.ndim - 1) + mean.shape
        unit = as_unit_interval(image)
        return (unit - mean.reshape(shape)) / deviation.reshape(shape)

    def step(key: jax.Array, state, batch: Batch, hyper: Hyper):
        batch = {
            name: scaled(value) if "image" in name else value
            for name, value in batch.items()
        }
        return method.step(key, state, batch, hyper)

    def output(logits: jax.Array) -> jax.Array:
        shape = (1,) * (logits.ndim - 1) + mean.shape
        return method.output(logits) * deviation.reshape(shape) + mean.reshape(shape)

    return dataclasses.replace(
        method,
        step=step,
        encode=lambda state, x: method.encode(state, scaled(x)),
        output=output,
    )
