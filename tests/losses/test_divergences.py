"""KL terms against loops, quadrature-free closed forms and hand-worked cases."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses, sampling
from tests.losses import reference

SHAPES = [(1, 1), (4, 3), (7, 10)]


@pytest.mark.parametrize(("batch", "dims"), SHAPES)
def test_gaussian_kl(batch, dims, make_batch):
    *_, mean, log_var = make_batch(batch, dims)
    want = reference.analytic_kl(mean, log_var)
    np.testing.assert_allclose(losses.gaussian_kl_per_dim(mean, log_var), want, 1e-4)
    np.testing.assert_allclose(losses.gaussian_kl(mean, log_var), want.sum(1), 1e-5)


def test_gaussian_kl_by_hand():
    # N(1, 4) from N(0, 1): (1 + 4 - log 4 - 1) / 2 = 2 - log 2.
    got = losses.gaussian_kl(jnp.array([[1.0]]), jnp.log(jnp.array([[4.0]])))
    np.testing.assert_allclose(got, [2 - math.log(2)], rtol=1e-6)


def test_gaussian_kl_keeps_small_values():
    # To second order KL = (log_var)²/4: 2.5e-7 here. exp(lv) - lv - 1 in float32
    # rounds at 1.2e-7 and would be off by half.
    got = losses.gaussian_kl(jnp.zeros((1, 1)), jnp.full((1, 1), 1e-3))
    np.testing.assert_allclose(got, [(math.expm1(1e-3) - 1e-3) / 2], rtol=1e-2)


@pytest.mark.parametrize("prior_shape", [(), (3,), (5, 3)])
def test_other_priors(prior_shape, make_batch, getkey):
    *_, z, mean, log_var = make_batch(5, 3)
    prior_mean = jax.random.normal(getkey(), prior_shape)
    prior_log_var = jax.random.normal(getkey(), prior_shape)
    m, s = np.broadcast_to(prior_mean, (5, 3)), np.broadcast_to(prior_log_var, (5, 3))
    mu, lv, points = reference.arrays(mean, log_var, z)
    want = np.zeros((5, 3))
    sampled = np.zeros(5)
    for i in range(5):
        for d in range(3):
            v, w = math.exp(lv[i, d]), math.exp(s[i, d])
            want[i, d] = (math.log(w / v) + (v + (mu[i, d] - m[i, d]) ** 2) / w - 1) / 2
            sampled[i] += reference.log_normal(points[i, d], mu[i, d], lv[i, d])
            sampled[i] -= reference.log_normal(points[i, d], m[i, d], s[i, d])
    prior = {"prior_mean": prior_mean, "prior_log_var": prior_log_var}
    got = losses.gaussian_kl_per_dim(mean, log_var, **prior)
    np.testing.assert_allclose(got, want, rtol=1e-4)
    got = losses.gaussian_kl(mean, log_var, **prior)
    np.testing.assert_allclose(got, want.sum(1), rtol=1e-5)
    got = losses.sampled_gaussian_kl(z, mean, log_var, **prior)
    np.testing.assert_allclose(got, sampled, rtol=1e-4, atol=1e-5)


def test_sae_code_kl(make_batch):
    *_, mean, log_var = make_batch(4, 3)
    mu, lv = reference.arrays(mean, log_var)
    std = np.sqrt(np.exp(lv))
    want = (mu**2 - np.log(std) + std - 1) / 2
    got = losses.gaussian_kl_per_dim(mean, log_var, kl_compat="sae_code")
    np.testing.assert_allclose(got, want, rtol=1e-4)
    got = losses.gaussian_kl(mean, log_var, kl_compat="sae_code")
    np.testing.assert_allclose(got, want.sum(1), rtol=1e-5)


@pytest.mark.parametrize(("batch", "dims"), SHAPES)
def test_sampled_kl(batch, dims, make_batch):
    *_, z, mean, log_var = make_batch(batch, dims)
    got = losses.sampled_gaussian_kl(z, mean, log_var)
    want = reference.sampled_kl(z, mean, log_var)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_sampled_kl_is_unbiased(getkey):
    mean, log_var = jnp.array([[0.5, -1.0]]), jnp.array([[-1.0, 0.3]])
    keys = jax.random.split(getkey(), 50_000)

    def draw(key):
        z = sampling.reparameterize(key, mean, log_var)
        return losses.sampled_gaussian_kl(z, mean, log_var)

    got = jax.vmap(draw)(keys).mean()
    # The standard deviation of one draw is about 1.2, so 0.005 of the mean.
    np.testing.assert_allclose(got, losses.gaussian_kl(mean, log_var)[0], atol=0.03)


@pytest.mark.parametrize("batch", [1, 4, 9])
def test_capacity_kl(batch, getkey):
    kl = jax.random.uniform(getkey(), (batch,)) * 10
    for capacity in (2.0, 8.0):
        mean = sum(float(v) for v in kl) / batch
        got = losses.capacity_kl(kl, gamma=3.0, capacity=capacity)
        np.testing.assert_allclose(got, 3.0 * abs(mean - capacity), rtol=1e-5)


def test_linear_capacity_goes_on_from_where_it_was():
    whole = [losses.linear_capacity(t, c_max=10.0, threshold=100) for t in range(101)]
    second = [
        losses.linear_capacity(t, c_start=4.0, c_max=10.0, threshold=60)
        for t in range(61)
    ]
    np.testing.assert_allclose(second, whole[40:], rtol=1e-6)


def test_linear_capacity():
    schedule = jax.jit(
        lambda t: losses.linear_capacity(t, c_max=25.0, threshold=100_000)
    )
    steps = [0, 1, 50_000, 100_000, 300_000]
    got = [float(schedule(t)) for t in steps]
    np.testing.assert_allclose(got, [0.0, 25e-5, 12.5, 25.0, 25.0], rtol=1e-6)


def test_beta_normalisation():
    # beta 4 with 9 latents on 64x64x3 is 4 * 9 / 12288 = 0.0029 (Michlo et al.: 0.003).
    size = {"latents": 9, "pixels": 64 * 64 * 3}
    got = losses.normalize_beta(4.0, **size)
    np.testing.assert_allclose(got, 36 / 12288)
    np.testing.assert_allclose(losses.unnormalize_beta(got, **size), 4.0)


def test_normalised_losses_agree(make_batch):
    x, x_hat, z, mean, log_var = make_batch(4, 5)
    pixels = 4 * 3 * 2
    kl = losses.gaussian_kl_per_dim(mean, log_var)
    summed = (2 * losses.gaussian_reconstruction(x, x_hat) + 3.0 * kl.sum(1)) / pixels
    beta = losses.normalize_beta(3.0, latents=5, pixels=pixels)
    averaged = losses.mse(x, x_hat) + beta * kl.mean(1)
    np.testing.assert_allclose(summed, averaged, rtol=1e-5)
    # The weight for our objectives, which sum the KL, is as the docstring says.
    objective, _ = losses.beta_vae(
        x, x_hat, z, mean, log_var, beta=beta / 5, reconstruction=losses.mse
    )
    np.testing.assert_allclose(objective, averaged.mean(), rtol=1e-5)


@pytest.mark.parametrize("log_var", [-20.0, 20.0])
def test_extreme_variances(log_var):
    mean, spread = jnp.ones((3, 2)), jnp.full((3, 2), log_var)
    for function in (
        lambda m, s: losses.gaussian_kl(m, s).sum(),
        lambda m, s: losses.gaussian_kl(m, s, kl_compat="sae_code").sum(),
        lambda m, s: losses.sampled_gaussian_kl(jnp.ones((3, 2)), m, s).sum(),
    ):
        value, grads = jax.value_and_grad(function, argnums=(0, 1))(mean, spread)
        assert np.isfinite(value)
        assert all(np.isfinite(g).all() for g in grads)
    want = (1 + math.exp(log_var) - 1 - log_var) / 2
    got = losses.gaussian_kl_per_dim(mean, spread)
    np.testing.assert_allclose(got, np.full((3, 2), want), rtol=1e-5)


def test_errors():
    codes = jnp.ones((4, 2))
    with pytest.raises(ValueError, match=r"`mean` must be \[B, D\], got shape \(4,\)"):
        losses.gaussian_kl(jnp.ones(4), jnp.ones(4))
    with pytest.raises(ValueError, match="`log_var` must have the shape of `mean`"):
        losses.gaussian_kl(codes, codes[:3])
    with pytest.raises(ValueError, match="Did you mean 'sae_code'"):
        losses.gaussian_kl(codes, codes, kl_compat="sae_cod")
    with pytest.raises(ValueError, match="sampled_gaussian_kl: `mean` must have the"):
        losses.sampled_gaussian_kl(codes, codes[:, :1], codes)
    with pytest.raises(ValueError, match=r"capacity_kl: `kl` must be \[B\]"):
        losses.capacity_kl(codes, gamma=1.0, capacity=1.0)
