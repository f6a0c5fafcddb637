"""Densities against loops, numerical integrals and draws."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import distributions as dist

SHAPES = [(3,), (2, 4), (2, 3, 2)]


def each(function, *arrays):
    """Applies a scalar function entry by entry, in float64."""
    arrays = [np.asarray(a, np.float64) for a in arrays]
    flat = [function(*values) for values in zip(*(a.ravel() for a in arrays))]
    return np.array(flat).reshape(arrays[0].shape)


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


@pytest.mark.parametrize("shape", SHAPES)
def test_gaussian(shape, getkey):
    z, mean, log_var, m, s = jax.random.normal(getkey(), (5, *shape))

    def log_prob(z, mean, log_var):
        variance = math.exp(log_var)
        normaliser = math.sqrt(2 * math.pi * variance)
        return math.log(math.exp(-((z - mean) ** 2) / (2 * variance)) / normaliser)

    def kl(mean, log_var, m, s):
        v, w = math.exp(log_var), math.exp(s)
        return 0.5 * math.log(w / v) + (v + (mean - m) ** 2) / (2 * w) - 0.5

    def entropy(log_var):
        return 0.5 * math.log(2 * math.pi * math.e * math.exp(log_var))

    got = dist.gaussian_log_prob(z, mean, log_var)
    np.testing.assert_allclose(got, each(log_prob, z, mean, log_var), rtol=1e-5)
    got = dist.gaussian_kl(mean, log_var, m, s)
    np.testing.assert_allclose(got, each(kl, mean, log_var, m, s), 1e-4, 1e-6)
    zeros = np.zeros(shape)
    got = dist.gaussian_kl(mean, log_var)
    np.testing.assert_allclose(got, each(kl, mean, log_var, zeros, zeros), 1e-4, 1e-6)
    got = dist.gaussian_entropy(log_var)
    np.testing.assert_allclose(got, each(entropy, log_var), rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_bernoulli(shape, getkey):
    logits, prior = jax.random.normal(getkey(), (2, *shape))
    x = jax.random.bernoulli(getkey(), 0.5, shape).astype(jnp.float32)

    def log_prob(x, logit):
        return math.log(sigmoid(logit) if x else 1 - sigmoid(logit))

    def kl(logit, prior):
        p, r = sigmoid(logit), sigmoid(prior)
        return p * math.log(p / r) + (1 - p) * math.log((1 - p) / (1 - r))

    def entropy(logit):
        p = sigmoid(logit)
        return -p * math.log(p) - (1 - p) * math.log(1 - p)

    got = dist.bernoulli_log_prob(x, logits)
    np.testing.assert_allclose(got, each(log_prob, x, logits), rtol=1e-5)
    got = dist.bernoulli_kl(logits, prior)
    np.testing.assert_allclose(got, each(kl, logits, prior), 1e-4, 1e-6)
    got = dist.bernoulli_kl(logits)
    np.testing.assert_allclose(got, each(kl, logits, np.zeros(shape)), 1e-4, 1e-6)
    got = dist.bernoulli_entropy(logits)
    np.testing.assert_allclose(got, each(entropy, logits), rtol=1e-5)


def test_bernoulli_sample(getkey):
    logits = jnp.broadcast_to(jnp.array([-1.0, 0.0, 2.0]), (100_000, 3))
    draws = np.asarray(dist.bernoulli_sample(getkey(), logits))
    assert set(np.unique(draws)) == {0.0, 1.0} and draws.dtype == np.float32
    # Standard error at most 0.0016.
    np.testing.assert_allclose(
        draws.mean(0), [sigmoid(v) for v in (-1.0, 0.0, 2.0)], atol=0.008
    )


@pytest.mark.parametrize("shape", [(2,), (3, 4), (2, 3, 5)])
def test_categorical(shape, getkey):
    logits, prior = jax.random.normal(getkey(), (2, *shape))
    kl, entropy, uniform = [], [], []
    rows = zip(
        np.asarray(logits).reshape(-1, shape[-1]),
        np.asarray(prior).reshape(-1, shape[-1]),
    )
    for a, b in rows:
        p = [math.exp(v) / sum(math.exp(u) for u in a) for v in a]
        r = [math.exp(v) / sum(math.exp(u) for u in b) for v in b]
        kl.append(sum(u * math.log(u / v) for u, v in zip(p, r)))
        entropy.append(-sum(u * math.log(u) for u in p))
        uniform.append(sum(u * math.log(u * len(p)) for u in p))
    got = dist.categorical_kl(logits, prior)
    np.testing.assert_allclose(got, np.reshape(kl, shape[:-1]), 1e-4, 1e-6)
    got = dist.categorical_kl(logits)
    np.testing.assert_allclose(got, np.reshape(uniform, shape[:-1]), 1e-4, 1e-6)
    got = dist.categorical_entropy(logits)
    np.testing.assert_allclose(got, np.reshape(entropy, shape[:-1]), 1e-5)


@pytest.mark.parametrize("shape", [(2,), (3, 4), (2, 3, 5)])
@pytest.mark.parametrize("temperature", [0.3, 0.66, 2.0])
def test_concrete_log_prob(shape, temperature, getkey):
    logits = jax.random.normal(getkey(), shape)
    z = jax.nn.softmax(jax.random.normal(getkey(), shape))
    count = shape[-1]
    want = []
    for point, scores in zip(
        np.asarray(z, np.float64).reshape(-1, count),
        np.asarray(logits, np.float64).reshape(-1, count),
    ):
        alpha = [math.exp(v) for v in scores]
        density = math.factorial(count - 1) * temperature ** (count - 1)
        total = sum(a * p**-temperature for a, p in zip(alpha, point))
        for a, p in zip(alpha, point):
            density *= a * p ** (-temperature - 1) / total
        want.append(math.log(density))
    got = dist.concrete_log_prob(z, logits, temperature)
    np.testing.assert_allclose(got, np.reshape(want, shape[:-1]), 1e-4, 1e-4)
    # In logarithms it lacks the Jacobian, sum log z.
    log_z = jnp.log(z)
    got = dist.exp_concrete_log_prob(log_z, logits, temperature) - log_z.sum(-1)
    np.testing.assert_allclose(got, np.reshape(want, shape[:-1]), 1e-4, 1e-4)


def test_concrete_density_integrates_to_one():
    grid = jnp.linspace(1e-4, 1 - 1e-4, 20_001)
    z = jnp.stack([grid, 1 - grid], axis=1)
    logits = jnp.broadcast_to(jnp.array([0.5, -0.3]), z.shape)
    density = jnp.exp(dist.concrete_log_prob(z, logits, 1.5))
    np.testing.assert_allclose(jnp.trapezoid(density, grid), 1.0, atol=2e-3)


@pytest.mark.parametrize("temperature", [0.05, 0.66])
def test_concrete_sample(temperature, getkey):
    logits = jnp.broadcast_to(jnp.array([0.0, 1.0, -1.0]), (50_000, 3))
    z = dist.concrete_sample(getkey(), logits, temperature)
    np.testing.assert_allclose(z.sum(axis=1), np.ones(50_000), rtol=1e-5)
    # The largest entry is the categorical variable, at any temperature (Maddison et
    # al., Prop. 1b). Standard error at most 0.0022.
    share = np.bincount(np.argmax(z, axis=1), minlength=3) / 50_000
    np.testing.assert_allclose(share, jax.nn.softmax(logits[0]), atol=0.01)


def test_cold_concrete_draws_have_finite_densities(getkey):
    logits = 20.0 * jax.random.normal(getkey(), (64, 10))
    key = getkey()

    def total(logits):
        log_z = dist.exp_concrete_sample(key, logits, 0.05)
        return dist.exp_concrete_log_prob(log_z, logits, 0.05).sum()

    value, grad = jax.value_and_grad(total)(logits)
    assert np.isfinite(value) and np.isfinite(grad).all()
    # Such draws do underflow, and even so the plain density stays finite.
    z = dist.concrete_sample(key, logits, 0.05)
    assert (np.asarray(z) == 0).any()
    assert np.isfinite(dist.concrete_log_prob(z, logits, 0.05)).all()


def mixture(getkey, components, dims):
    means = jax.random.normal(getkey(), (components, dims))
    factors = jax.random.normal(getkey(), (components, dims, dims))
    return means, factors @ factors.transpose(0, 2, 1) + 0.5 * jnp.eye(dims)[None]


@pytest.mark.parametrize(
    ("shape", "components", "dims"), [((4,), 1, 1), ((5,), 3, 2), ((2, 3), 4, 3)]
)
def test_gaussian_mixture_log_prob(shape, components, dims, getkey):
    means, covariances = mixture(getkey, components, dims)
    z = jax.random.normal(getkey(), (*shape, dims))
    scores = jax.random.normal(getkey(), (components,))
    m, c = np.asarray(means, np.float64), np.asarray(covariances, np.float64)
    weights = np.exp(np.asarray(scores, np.float64))
    weights /= weights.sum()
    parts, equal, weighted = [], [], []
    for point in np.asarray(z, np.float64).reshape(-1, dims):
        density = []
        for k in range(components):
            offset = point - m[k]
            distance = offset @ np.linalg.inv(c[k]) @ offset
            scale = math.sqrt((2 * math.pi) ** dims * np.linalg.det(c[k]))
            density.append(math.exp(-0.5 * distance) / scale)
        parts.append(np.log(density))
        equal.append(math.log(np.mean(density)))
        weighted.append(math.log(weights @ density))
    got = dist.gaussian_component_log_prob(z, means, covariances)
    np.testing.assert_allclose(got, np.reshape(parts, (*shape, components)), 1e-4)
    got = dist.gaussian_mixture_log_prob(z, means, covariances)
    np.testing.assert_allclose(got, np.reshape(equal, shape), 1e-4)
    got = dist.gaussian_mixture_log_prob(z, means, covariances, scores)
    np.testing.assert_allclose(got, np.reshape(weighted, shape), 1e-4)


def test_gaussian_mixture_sample(getkey):
    means, covariances = mixture(getkey, 3, 2)
    weights = jnp.array([0.2, 0.5, 0.3])
    z, component = dist.gaussian_mixture_sample(
        getkey(), 60_000, means, covariances, jnp.log(weights)
    )
    share = np.bincount(component, minlength=3) / 60_000
    np.testing.assert_allclose(share, weights, atol=0.01)
    for k in range(3):
        rows = np.asarray(z)[np.asarray(component) == k]
        np.testing.assert_allclose(rows.mean(0), means[k], atol=0.12)
        np.testing.assert_allclose(np.cov(rows.T), covariances[k], rtol=0.1, atol=0.1)
    _, component = dist.gaussian_mixture_sample(getkey(), 30_000, means, covariances)
    share = np.bincount(component, minlength=3) / 30_000
    np.testing.assert_allclose(share, np.full(3, 1 / 3), atol=0.015)


@pytest.mark.parametrize("log_var", [-20.0, 20.0])
def test_extreme_variances(log_var):
    values = jnp.full((2, 3), log_var)
    ones = jnp.ones((2, 3))
    for function in (
        lambda m, s: dist.gaussian_log_prob(ones, m, s).sum(),
        lambda m, s: dist.gaussian_kl(m, s).sum(),
        lambda m, s: dist.gaussian_kl(ones, ones, m, s).sum(),
    ):
        grads = jax.grad(function, argnums=(0, 1))(0.5 * ones, values)
        assert all(np.isfinite(g).all() for g in grads)


@pytest.mark.parametrize("logit", [-80.0, 80.0])
def test_extreme_logits(logit):
    values = jnp.full((2, 3), logit)
    for function in (
        lambda a: dist.bernoulli_log_prob(jnp.ones((2, 3)), a).sum(),
        lambda a: dist.bernoulli_kl(a).sum(),
        lambda a: dist.bernoulli_entropy(a).sum(),
        lambda a: dist.categorical_kl(a * jnp.arange(3.0)[None]).sum(),
        lambda a: dist.categorical_entropy(a * jnp.arange(3.0)[None]).sum(),
    ):
        value, grad = jax.value_and_grad(function)(values)
        assert np.isfinite(value) and np.isfinite(grad).all()
    np.testing.assert_allclose(dist.bernoulli_kl(values), np.full((2, 3), math.log(2)))


def test_errors(getkey):
    means, covariances = mixture(getkey, 3, 2)
    for function in (dist.gaussian_component_log_prob, dist.gaussian_mixture_log_prob):
        with pytest.raises(ValueError, match=r"`covariances` \[K, D, D\], got"):
            function(jnp.ones((4, 2)), means, covariances[0])
    with pytest.raises(ValueError, match="gaussian_component_sample: `means` must be"):
        dist.gaussian_component_sample(
            getkey(), jnp.zeros(3, int), means[0], covariances
        )
