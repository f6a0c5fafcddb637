"""Pairs of layers on blocks of pixels equal the layers one after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax.models import blocks, layers


@pytest.mark.parametrize("dtype, rtol", [("float32", 1e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("colours, padding", [(1, 1), (3, 2)])
@pytest.mark.parametrize("name", ["relu", "elu"])
def test_block_form_equals_native_form(name, colours, padding, dtype, rtol, rng):
    with jax.enable_x64(dtype == "float64"):

        def weights(inputs, outputs, features):
            shape = (4, 4, inputs, outputs)
            kernel = 0.1 * rng.standard_normal(shape)
            bias = rng.standard_normal(features)
            return blocks.Weights(jnp.asarray(kernel, dtype), jnp.asarray(bias, dtype))

        down = weights(colours, 8, 8), weights(8, 6, 6)
        up = weights(8, 6, 8), weights(colours, 8, colours)
        image = jnp.asarray(rng.standard_normal((2, 16, 24, colours)), dtype)
        features = jnp.asarray(rng.standard_normal((2, 4, 6, 6)), dtype)
        activate = layers.nonlinearity(name)
        paddings = dict(padding=padding)
        for native, block, x, pair, settings in (
            (blocks._native_pair, blocks._block_pair, image, down, paddings),
            (blocks._native_transpose_pair, blocks._block_transpose_pair)
            + (features, up, {}),
        ):

            def gradient(function, x=x, pair=pair, settings=settings):
                def loss(x, *pair):
                    y = function(x, *pair, activate=activate, **settings)
                    return jnp.sin(y).sum()

                return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))(x, *pair)

            leaves = zip(*map(jax.tree.leaves, (gradient(native), gradient(block))))
            for a, b in leaves:
                scale = max(1.0, float(jnp.abs(a).max()))
                np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)
