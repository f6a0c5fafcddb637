"""Batches to test on."""

import jax
import jax.numpy as jnp
import pytest


@pytest.fixture
def make_batch(getkey):
    """Makes `(x, logits, z, mean, log_var)` of a given size."""

    def make(batch: int, dims: int, image: tuple[int, ...] = (4, 3, 2)):
        x = jax.random.uniform(getkey(), (batch, *image))
        logits = 2.0 * jax.random.normal(getkey(), (batch, *image))
        mean = jax.random.normal(getkey(), (batch, dims))
        log_var = jax.random.normal(getkey(), (batch, dims)) - 1.0
        noise = jax.random.normal(getkey(), (batch, dims))
        return x, logits, mean + jnp.exp(0.5 * log_var) * noise, mean, log_var

    return make
