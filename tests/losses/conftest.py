"""Batches to test on."""

import jax.numpy as jnp
import numpy as np
import pytest


@pytest.fixture
def make_batch(rng):
    """Makes `(x, logits, z, mean, log_var)` of a given size."""

    def make(batch: int, dims: int, image: tuple[int, ...] = (4, 3, 2)):
        x = rng.uniform(size=(batch, *image))
        logits = 2.0 * rng.normal(size=(batch, *image))
        mean = rng.normal(size=(batch, dims))
        log_var = rng.normal(size=(batch, dims)) - 1.0
        z = mean + np.exp(0.5 * log_var) * rng.normal(size=(batch, dims))
        return [jnp.asarray(a, jnp.float32) for a in (x, logits, z, mean, log_var)]

    return make
