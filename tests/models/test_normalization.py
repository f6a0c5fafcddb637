"""Group normalisation against loops in float64, with large means."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax.models import layers, normalization
from disentangle_jax.models.normalization import group_norm

GROUPS, EPSILON = 4, 1e-5


def by_loops(x, scale, bias, offset, g):
    """Value, and gradients of ``sum(g * value)`` by the four arrays, in float64."""
    x, scale, bias, offset, g = (
        np.asarray(a, float) for a in (x, scale, bias, offset, g)
    )
    y, dx, normed = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape)
    size = x.shape[-1] // GROUPS
    for b in range(x.shape[0]):
        for group in range(GROUPS):
            columns = np.s_[size * group : size * (group + 1)]
            part = np.s_[b, :, :, columns]
            moved = x[part] + offset[columns]
            deviation = np.sqrt(moved.var() + EPSILON)
            n = normed[part] = (moved - moved.mean()) / deviation
            y[part] = n * scale[columns] + bias[columns]
            d = g[part] * scale[columns]
            dx[part] = (d - d.mean() - n * (d * n).mean()) / deviation
    over = (0, 1, 2)
    return y, (dx, (g * normed).sum(over), g.sum(over), dx.sum(over))


def statistics_by_loops(x, offset):
    x, offset = np.asarray(x, float), np.asarray(offset, float)
    mean, from_mean, variance = np.zeros((3, x.shape[0], x.shape[-1]))
    size = x.shape[-1] // GROUPS
    for b in range(x.shape[0]):
        for group in range(GROUPS):
            columns = np.s_[size * group : size * (group + 1)]
            moved = x[b, :, :, columns] + offset[columns]
            mean[b, columns] = moved.mean() - offset[columns]
            from_mean[b, columns] = moved.mean((0, 1)) - moved.mean()
            variance[b, columns] = moved.var()
    return mean, from_mean, variance


def arguments(rng, mean):
    x = np.float32(rng.standard_normal((2, 16, 18, 12)) + mean)
    return x, *np.float32(rng.standard_normal((3, 12)))


@pytest.mark.parametrize("mean", [0, 1e3])
def test_value_and_gradients(mean, rng):
    x, scale, bias, offset = map(jnp.asarray, arguments(rng, mean))
    g = jnp.float32(rng.standard_normal(x.shape))

    def function(x, scale, bias, offset):
        return group_norm(x, scale, bias, GROUPS, EPSILON, offset=offset)

    y, pull = jax.vjp(function, x, scale, bias, offset)
    wanted, gradients = by_loops(x, scale, bias, offset, g)
    # The mean is rounded like x itself.
    rounding = max(2e-6, np.spacing(np.float32(mean)))
    np.testing.assert_allclose(y, wanted, atol=5 * rounding)
    for found, exact in zip(pull(g), gradients, strict=True):
        np.testing.assert_allclose(found, exact, atol=5 * rounding * abs(exact).max())
    alone = group_norm(x, scale, bias, GROUPS, EPSILON)
    without = by_loops(x, scale, bias, jnp.zeros(12), g)[0]
    np.testing.assert_allclose(alone, without, atol=5 * rounding)


@pytest.mark.parametrize("mean", [0, 1, -1e3, 1e4])
def test_one_pass_is_exact_for_any_mean(mean, rng):
    x, _, _, offset = map(jnp.asarray, arguments(rng, mean))
    wanted = statistics_by_loops(x, offset)
    for away in (0, 10):  # A pixel, and a value that is 10 deviations from it.
        found = normalization.one_pass(x, offset, x[:, 5, 7] + away, groups=GROUPS)
        rounding = max(2e-6, np.spacing(np.float32(abs(mean))))
        np.testing.assert_allclose(found[0], wanted[0], atol=2 * rounding)
        np.testing.assert_allclose(found[1], wanted[1], atol=5e-6)
        np.testing.assert_allclose(found[2], wanted[2], rtol=2e-5)


def test_one_pass_from_the_only_pixel_that_differs():
    # The worst pixel: its squared distance to the mean is n - 1 times the variance.
    x = np.full((1, 32, 32, 4), 7.3, np.float32)
    x[:, 3, 4] += [1, 10, 100, 1000]
    x, offset = jnp.asarray(x), jnp.zeros(4)
    found = normalization.one_pass(x, offset, x[:, 3, 4], groups=GROUPS)[2]
    exact = statistics_by_loops(x, offset)[2]
    np.testing.assert_allclose(found, exact, rtol=1024 * 2**-23)
    flat = jnp.full((1, 16, 16, 4), 7.3)
    variance = normalization.one_pass(flat, offset, flat[:, 0, 0], groups=GROUPS)[2]
    np.testing.assert_array_equal(variance, 0)


def test_one_lane_of_many_is_the_solo_layer(rng):
    x, scale, bias, offset = map(jnp.asarray, arguments(rng, 1))

    def loss(x, offset):
        pixel = x[:, 3, 3]
        y = group_norm(x, scale, bias, GROUPS, EPSILON, offset=offset, pixel=pixel)
        return jnp.sin(y).sum()

    gradient = jax.grad(loss, argnums=(0, 1))
    lanes = jax.vmap(gradient)(jnp.stack([x, 2 * x + 1]), jnp.stack([offset, -offset]))
    for lane, solo in zip(lanes, gradient(2 * x + 1, -offset), strict=True):
        np.testing.assert_allclose(lane[1], solo, atol=1e-5)
    one_pass = functools.partial(normalization.one_pass, groups=GROUPS)
    pixels = jnp.stack([x[:, 1, 1], x[:, 2, 2]])
    lanes = jax.vmap(one_pass, in_axes=(0, None, 0))(jnp.stack([x, x]), offset, pixels)
    for lane, solo in zip(lanes, one_pass(x, offset, pixels[1]), strict=True):
        np.testing.assert_allclose(lane[1], solo, rtol=1e-5, atol=1e-6)


def test_group_of_a_single_number_has_no_gradient(getkey):
    # One pixel and one channel per group: the output is the bias whatever the input.
    x = 100 * jax.random.normal(getkey(), (2, 1, 1, 4))
    scale, bias = jnp.full(4, 1.7), jnp.zeros(4)
    y, pull = jax.vjp(lambda x: group_norm(x, scale, bias, 4, EPSILON), x)
    np.testing.assert_allclose(y, 0)
    g = jax.random.normal(getkey(), x.shape)
    # 1/sqrt(epsilon) = 316 times the rounding of a difference of equal numbers.
    np.testing.assert_allclose(pull(g)[0], 0, atol=1e-3)


@pytest.mark.parametrize(
    ("kind", "pooled"),
    [
        ("plain", False),
        ("plain", True),
        ("wide", True),
        ("stride", False),
        ("upsample", False),
        ("transpose", False),
    ],
)
def test_pixel_of_a_crop_is_one_of_the_layer(kind, pooled, rng):
    conv = {
        "plain": layers.Conv(4, 3, padding=(1, 1)),
        "wide": layers.Conv(4, 5, padding=(2, 2)),
        "stride": layers.Conv(4, 3, stride=2, padding=(1, 1)),
        "upsample": layers.Conv(4, 3, padding=(1, 1), upsampled=True),
        "transpose": layers.ConvTranspose(4, 4, padding=(1, 1)),
    }[kind]

    def layer(x, kernel):
        y = conv.convolve(x, kernel)
        return layers.max_pool(y) if pooled else y

    x = jnp.float32(rng.standard_normal((2, 16, 22, 4)))
    side = conv.kernel_size
    kernel = jnp.float32(rng.standard_normal((side, side, 4, 4)))
    pixel = normalization.pixel_of_crop(layer, x, kernel)
    distance = jnp.abs(layer(x, kernel) - pixel[:, None, None]).max(-1)
    assert jnp.all(distance.min((1, 2)) < 1e-4)
    # It is unused, and so not computed, except on TPUs.
    np.testing.assert_array_equal(normalization.central_pixel(layer, x, kernel), 0)
    assert normalization.central_pixel(layer, x[:, :8], kernel) is None
