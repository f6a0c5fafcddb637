"""Pooling, upsampling and Mish against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax.models import layers
from tests.models.quick import random_variables


def gradients_match(function, reference, *arguments, atol=2e-5):
    """Values and gradients of a random linear functional agree."""
    y, pull = jax.vjp(function, *arguments)
    wanted, wanted_pull = jax.vjp(reference, *arguments)
    np.testing.assert_allclose(y, wanted, atol=atol)
    g = jax.random.normal(jax.random.key(1), y.shape)
    for a, b in zip(pull(g), wanted_pull(g)):
        np.testing.assert_allclose(a, b, atol=atol * max(1, float(jnp.abs(b).max())))


def test_mish(rng):
    x = np.concatenate([rng.standard_normal(100) * 5, [-100, -30, 0, 19, 21, 100]])
    exact = x * np.tanh(np.logaddexp(0, x))
    np.testing.assert_allclose(
        layers.mish(jnp.float32(x)), exact, rtol=1e-5, atol=1e-12
    )
    slope = jax.vmap(jax.grad(layers.mish))(jnp.float32(x))
    h = 1e-6  # central differences in float64
    up, down = x + h, x - h
    wanted = (
        up * np.tanh(np.logaddexp(0, up)) - down * np.tanh(np.logaddexp(0, down))
    ) / (2 * h)
    np.testing.assert_allclose(slope, wanted, atol=1e-5)


def test_mish_gradient_from_autodiff(getkey):
    x = 3 * jax.random.normal(getkey(), (1000,))
    reference = lambda x: x * jnp.tanh(jax.nn.softplus(x))  # noqa: E731
    gradients_match(layers.mish, reference, x)


def test_relu_in_all_forms(rng):
    x = jnp.float32([*rng.standard_normal(20), 0.0, -0.0, 1e30, -1e30])
    t = jnp.float32(rng.standard_normal(x.shape))
    wanted = jnp.where(x > 0, t, 0)
    np.testing.assert_array_equal(layers.relu(x), np.maximum(x, 0))
    value, tangent = jax.jvp(layers.relu, (x,), (t,))
    np.testing.assert_array_equal(tangent, wanted)
    np.testing.assert_array_equal(jax.vjp(layers.relu, x)[1](t)[0], wanted)
    np.testing.assert_array_equal(layers.slope_by_sign(value, t), wanted)


def test_upsampling_by_products_equals_shifts(getkey):
    x = jax.random.normal(getkey(), (2, 3, 5, 4))
    gradients_match(layers._upsample_by_products, layers._upsample_by_shifts, x)


def test_max_pool(getkey):
    def reference(x):
        return jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )

    x = jax.random.normal(getkey(), (2, 4, 6, 3))
    gradients_match(layers.max_pool, reference, x, atol=0)


def test_max_pool_gives_ties_to_the_first():
    x = jnp.array([[1.0, 3.0], [3.0, 3.0]]).reshape(1, 2, 2, 1)
    gradient = jax.grad(lambda x: layers.max_pool(x).sum())(x)
    np.testing.assert_array_equal(gradient.reshape(2, 2), [[0, 1], [0, 0]])
    flat = jax.grad(lambda x: layers.max_pool(x).sum())(jnp.zeros((1, 2, 2, 1)))
    np.testing.assert_array_equal(flat.reshape(2, 2), [[1, 0], [0, 0]])


@pytest.mark.parametrize("size", [1, 2, 5])
def test_upsample(size, getkey):
    def reference(x):
        b, h, w, c = x.shape
        return jax.image.resize(x, (b, 2 * h, 2 * w, c), "bilinear")

    x = jax.random.normal(getkey(), (2, size, size + 1, 3))
    gradients_match(layers.upsample, reference, x, atol=1e-6)


def test_upsample_by_hand():
    # One row 0, 4: half-pixel centres give 0, 1, 3, 4.
    x = jnp.array([0.0, 4.0]).reshape(1, 1, 2, 1)
    y = layers.upsample(x)
    np.testing.assert_allclose(y[0, :, :, 0], [[0, 1, 3, 4]] * 2)


@pytest.mark.parametrize("features", [2, 8])
def test_conv_of_an_upsampled_image(features, getkey):
    # With 2 outputs of 24 inputs the products come first, with 8 the upsampling.
    settings = dict(kernel_size=3, padding=(1, 1))
    x = jax.random.normal(getkey(), (2, 3, 4, 24))
    fused = layers.Conv(features, upsampled=True, **settings)
    plain = layers.Conv(features, **settings)
    variables = random_variables(fused, x)
    kernel, bias = variables["params"]["kernel"], variables["params"]["bias"]

    def apply(layer, kernel, x):
        return layer.apply({"params": {"kernel": kernel, "bias": bias}}, x)

    gradients_match(
        lambda kernel, x: apply(fused, kernel, x),
        lambda kernel, x: apply(plain, kernel, layers.upsample(x)),
        kernel,
        x,
    )
