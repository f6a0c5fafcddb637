"""Reconstructions against loops, closed forms and a direct 2D convolution."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses
from tests.losses import reference

SHAPES = [(3, 5), (2, 4, 4, 1), (4, 3, 5, 3)]


def pair(getkey, shape):
    return jax.random.uniform(getkey(), shape), jax.random.normal(getkey(), shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("subtract_entropy", [False, True])
def test_bernoulli(shape, subtract_entropy, getkey):
    x, logits = pair(getkey, shape)
    x = x.at[0].set(0.0).at[1].set(1.0)
    got = losses.bernoulli_reconstruction(x, logits, subtract_entropy=subtract_entropy)
    want = reference.bernoulli(x, logits, subtract_entropy=subtract_entropy)
    np.testing.assert_allclose(got, want, rtol=2e-5)


def test_bernoulli_by_hand():
    # Pixel 1 at logit 0 costs log 2; pixel 1/4 at logit log 3 (p = 3/4) costs
    # -1/4 log 3/4 - 3/4 log 1/4 = log 4 - 1/4 log 3.
    x, logits = jnp.array([[1.0, 0.25]]), jnp.array([[0.0, math.log(3.0)]])
    want = math.log(2) + math.log(4) - math.log(3) / 4
    np.testing.assert_allclose(losses.bernoulli_reconstruction(x, logits), [want])
    # Its own entropy is 0 and log 4 - 3/4 log 3.
    want -= math.log(4) - 0.75 * math.log(3)
    got = losses.bernoulli_reconstruction(x, logits, subtract_entropy=True)
    np.testing.assert_allclose(got, [want], rtol=1e-6)


def test_bernoulli_perfect_prediction_costs_its_entropy(getkey):
    x = jax.random.uniform(getkey(), (4, 9), minval=0.01, maxval=0.99)
    logits = jnp.log(x) - jnp.log1p(-x)
    got = losses.bernoulli_reconstruction(x, logits, subtract_entropy=True)
    np.testing.assert_allclose(got, np.zeros(4), atol=1e-5)


@pytest.mark.parametrize("logit", [-80.0, 80.0])
@pytest.mark.parametrize("pixel", [0.0, 0.5, 1.0])
def test_bernoulli_extreme_logits(logit, pixel):
    x, logits = jnp.full((2, 3), pixel), jnp.full((2, 3), logit)
    value, grad = jax.value_and_grad(
        lambda a: losses.bernoulli_reconstruction(x, a, subtract_entropy=True).sum()
    )(logits)
    probability = float(logit > 0)
    # Wrong by certainty costs |logit| nats per pixel, and the gradient is p - x.
    entropy = math.log(2) if pixel == 0.5 else 0.0
    want = 6 * (80.0 * abs(probability - pixel) - entropy)
    np.testing.assert_allclose(value, want, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(grad, np.full((2, 3), probability - pixel), atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_squared_and_absolute(shape, getkey):
    x, x_hat = pair(getkey, shape)
    half, mean, absolute = [], [], []
    for a, b in zip(*reference.arrays(x, x_hat)):
        differences = [u - v for u, v in zip(a.ravel(), b.ravel())]
        half.append(sum(d * d for d in differences) / 2)
        mean.append(sum(d * d for d in differences) / len(differences))
        absolute.append(sum(abs(d) for d in differences))
    np.testing.assert_allclose(losses.gaussian_reconstruction(x, x_hat), half, 1e-5)
    np.testing.assert_allclose(losses.mse(x, x_hat), mean, 1e-5)
    np.testing.assert_allclose(losses.l1_reconstruction(x, x_hat), absolute, 1e-5)


@pytest.mark.parametrize("shape", [(1, 2), (3, 7), (5, 30)])
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.float32])
def test_multinomial(shape, dtype, getkey):
    counts = jax.random.randint(getkey(), shape, 0, 5).astype(dtype)
    logits = jax.random.normal(getkey(), shape)
    want = []
    for row, scores in zip(*reference.arrays(counts, logits)):
        total = sum(math.exp(s) for s in scores)
        want.append(
            -sum(n * math.log(math.exp(s) / total) for n, s in zip(row, scores))
        )
    got = losses.multinomial_reconstruction(counts, logits)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def blur(image, radius):
    """Zero-padded box mean of one image, pixel by pixel."""
    height, width, channels = image.shape
    out = np.zeros_like(image)
    for i in range(height):
        for j in range(width):
            for a in range(max(0, i - radius), min(height, i + radius + 1)):
                for b in range(max(0, j - radius), min(width, j + radius + 1)):
                    for c in range(channels):
                        out[i, j, c] += image[a, b, c] / (2 * radius + 1) ** 2
    return out


@pytest.mark.parametrize(
    ("shape", "radius"), [((2, 5, 6, 1), 1), ((3, 4, 4, 3), 2), ((1, 6, 3, 2), 9)]
)
def test_box_blur_mse(shape, radius, getkey):
    x, x_hat = pair(getkey, shape)
    want = []
    for a, b in zip(*reference.arrays(x, x_hat)):
        sharp = ((a - b) ** 2).mean()
        want.append(sharp + 7.0 * ((blur(a, radius) - blur(b, radius)) ** 2).mean())
    got = losses.box_blur_mse(x, x_hat, radius=radius, weight=7.0)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_box_blur_mse_defaults_by_hand():
    # One white pixel in the corner of a black 64x64 image. Its blur is 1/3969 on the
    # 32x32 pixels within 31 of it, so the blurred mse is 32² / 64² / 3969², and the
    # weight of 3969 leaves 0.25 / 3969.
    x = jnp.zeros((1, 64, 64, 1)).at[0, 0, 0, 0].set(1.0)
    want = 1 / 64**2 + 0.25 / 3969
    np.testing.assert_allclose(
        losses.box_blur_mse(x, jnp.zeros_like(x)), [want], rtol=1e-5
    )


def test_box_blur_mse_matches_a_convolution_at_full_size(getkey):
    x, x_hat = pair(getkey, (2, 64, 64, 3))
    kernel = jnp.full((63, 63, 1, 3), 1.0 / 3969)
    blurred = jax.lax.conv_general_dilated(
        x - x_hat,
        kernel,
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=3,
    )
    want = losses.mse(x, x_hat) + 3969 * jnp.square(blurred).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(losses.box_blur_mse(x, x_hat), want, rtol=1e-4)


def test_per_pixel(getkey):
    x, logits = pair(getkey, (3, 4, 5, 2))
    got = losses.per_pixel(losses.bernoulli_reconstruction)(x, logits)
    np.testing.assert_allclose(got, reference.bernoulli(x, logits) / 40, rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        losses.bernoulli_reconstruction,
        losses.gaussian_reconstruction,
        losses.mse,
        losses.l1_reconstruction,
        losses.box_blur_mse,
    ],
)
def test_errors(function):
    name = function.__name__
    image = jnp.ones((2, 4, 4, 3))
    with pytest.raises(
        TypeError, match=rf"{name}: `x` must be floating, got uint8.*255"
    ):
        function(image.astype(jnp.uint8), image)
    with pytest.raises(
        ValueError, match=rf"{name}: `(logits|x_hat)` must have the shape"
    ):
        function(image, image[..., :1])
    with pytest.raises(ValueError, match=rf"{name}: `x` must be \[B, "):
        function(image[0, 0, 0], image[0, 0, 0])


def test_box_blur_errors():
    with pytest.raises(ValueError, match=r"`x` must be \[B, H, W, C\]"):
        losses.box_blur_mse(jnp.ones((2, 4)), jnp.ones((2, 4)))
    image = jnp.ones((2, 4, 4, 3))
    with pytest.raises(ValueError, match="`radius` must be at least 0, got -1"):
        losses.box_blur_mse(image, image, radius=-1)


def test_multinomial_errors():
    with pytest.raises(ValueError, match=r"`counts` must be \[B, V\]"):
        losses.multinomial_reconstruction(jnp.ones(3), jnp.ones(3))
    with pytest.raises(ValueError, match="`logits` must have the shape of `counts`"):
        losses.multinomial_reconstruction(jnp.ones((2, 3)), jnp.ones((2, 4)))


@pytest.mark.parametrize("scale", [255.0, -1.0])
def test_bernoulli_refuses_images_outside_the_unit_interval(scale):
    x = jnp.linspace(0.0, 1.0, 12).reshape(2, 6) * scale
    logits = jnp.zeros_like(x)
    with pytest.raises(ValueError, match=r"`x` must lie in \[0, 1\], got .* x / 255"):
        losses.bernoulli_reconstruction(x, logits)
    inside = jax.jit(losses.bernoulli_reconstruction)(x, logits)
    assert np.isnan(inside).all()
    loss, _ = jax.jit(losses.vae)(x, logits, logits, logits, logits)
    assert np.isnan(loss)
    with pytest.raises(TypeError, match="must be floating, got uint8"):
        losses.vae(x.astype(jnp.uint8), logits, logits, logits, logits)
    overshoot = jnp.array([[1.001, -0.001]])  # an interpolated image
    assert np.isfinite(losses.bernoulli_reconstruction(overshoot, overshoot)).all()
