"""Priors that do not factorise: closed forms, positive definiteness, what is learnt."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

from disentangle_jax import distributions, losses


def random_correlation(rng, dims):
    factor = rng.normal(size=(dims, dims))
    covariance = factor @ factor.T + 0.1 * np.eye(dims)
    scale = np.sqrt(np.diag(covariance))
    return covariance / scale[:, None] / scale[None, :]


def test_densities_against_scipy(rng):
    matrix = random_correlation(rng, 4)
    z = rng.normal(size=(6, 4))
    logits = jnp.asarray(rng.normal(size=(6, 3)), jnp.float32)
    log_y = distributions.exp_concrete_sample(jax.random.key(0), logits, 0.5)
    draws = [losses.Concrete(log_y, logits, 0.5)]
    # A group of the last dimension and the Concrete variable.
    got = losses.correlated_log_prior(
        jnp.asarray(z, jnp.float32),
        jnp.asarray(matrix, jnp.float32),
        groups=(1, 2, 2),
        concrete=draws,
    )
    uniform = distributions.exp_concrete_log_prob(log_y, jnp.zeros_like(logits), 0.5)
    uniform = np.asarray(uniform, np.float64)
    middle = stats.multivariate_normal(np.zeros(2), matrix[1:3, 1:3]).logpdf(z[:, 1:3])
    single = stats.norm.logpdf(z)
    want = {
        "log_p_elements": np.column_stack([single, uniform]),
        "log_p_groups": np.column_stack([single[:, 0], middle, single[:, 3] + uniform]),
        "log_p_joint": stats.multivariate_normal(np.zeros(4), matrix).logpdf(z)
        + uniform,
    }
    assert set(got) == set(want)
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-4)


def test_identity_is_the_standard_prior(make_batch):
    x, logits, z, mean, log_var = make_batch(6, 4)
    options = {"beta": 4.0, "gamma": 3.0, "groups": (1, 3), "dataset_size": 50}
    want, terms = losses.hfvae(x, logits, z, mean, log_var, **options)
    prior = losses.correlated_log_prior(z, jnp.eye(4), groups=(1, 3))
    got, more = losses.hfvae(x, logits, z, mean, log_var, **options, **prior)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for name in terms:
        np.testing.assert_allclose(more[name], terms[name], rtol=1e-4, atol=1e-4)


def test_terms_against_closed_forms():
    r"""Codes of a known Gaussian under a prior of another correlation.

    With q(z) = N(0, S) and p(z) = N(0, R), unit variances, two groups of two:
    Ⓐ = TC_q − E_q[log p(z) / Π p(z_d)], each a ratio of determinants and traces.
    """
    rng = np.random.default_rng(3)
    s, r = random_correlation(rng, 4), random_correlation(rng, 4)
    n = 4000
    z = jnp.asarray(rng.multivariate_normal(np.zeros(4), s, size=n), jnp.float32)
    prior = losses.correlated_log_prior(z, jnp.asarray(r, jnp.float32), groups=(2, 2))

    def expected(matrix, part):
        """E over N(0, S) of the log-density of N(0, matrix) on some dimensions."""
        own, other = s[np.ix_(part, part)], matrix[np.ix_(part, part)]
        trace = np.trace(np.linalg.solve(other, own))
        return -0.5 * (
            len(part) * np.log(2 * np.pi) + np.linalg.slogdet(other)[1] + trace
        )

    everything, halves = [0, 1, 2, 3], ([0, 1], [2, 3])
    want = {
        "log_p_joint": expected(r, everything),
        "log_p_groups": sum(expected(r, half) for half in halves),
        "log_p_elements": sum(expected(r, [e]) for e in everything),
    }
    for name, value in want.items():
        mean = np.asarray(prior[name], np.float64).reshape(n, -1).sum(axis=1)
        error = mean.std() / np.sqrt(n)
        assert abs(mean.mean() - value) < 4 * error, name


@pytest.mark.parametrize("groups", [None, (2, 3), (1, 1, 3)])
def test_correlations_are_positive_definite(groups, rng):
    build = jax.jit(lambda free: distributions.correlation_matrix(free, groups=groups))
    for scale in (0.3, 3.0, 30.0):
        free = jnp.asarray(scale * rng.normal(size=(5, 5)), jnp.float32)
        matrix = np.asarray(build(free), np.float64)
        np.testing.assert_allclose(np.diag(matrix), np.ones(5), atol=1e-4)
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-6)
        assert np.linalg.eigvalsh(matrix)[0] > 0
        start = 0
        for size in groups or ():
            block = matrix[start : start + size, start : start + size]
            np.testing.assert_allclose(block, np.eye(size), atol=2e-4)
            start += size
        if groups is None or scale > 1:
            assert np.abs(matrix[0, 1:]).max() > 0.05
    np.testing.assert_allclose(build(jnp.zeros((5, 5))), np.eye(5), atol=1e-6)


def test_every_correlation_can_be_reached(rng):
    """Parameters in closed form: a Cholesky factor, each row over its diagonal."""
    matrix = random_correlation(rng, 5)
    factor = np.linalg.cholesky((matrix - 1e-3 * np.eye(5)) / (1 - 1e-3))
    free = jnp.asarray(factor / np.diag(factor)[:, None], jnp.float32)
    got = distributions.correlation_matrix(free)
    np.testing.assert_allclose(got, matrix, atol=1e-5)


@pytest.mark.parametrize("groups", [None, (2, 2)])
def test_the_most_likely_correlation_is_the_codes_own(groups, rng):
    """What a learned prior comes to, on codes of known correlation."""
    true = np.eye(4)
    true[0, 2] = true[2, 0] = 0.7
    true[1, 3] = true[3, 1] = -0.4
    codes = rng.multivariate_normal(np.zeros(4), true, size=4000)
    z = jnp.asarray(codes, jnp.float32)

    def loss(free):
        matrix = distributions.correlation_matrix(free, groups=groups)
        prior = losses.correlated_log_prior(z, matrix, groups=(4,))
        return -prior["log_p_joint"].mean()

    optimizer = optax.adam(0.05)

    def step(carry, _):
        free, state = carry
        updates, state = optimizer.update(jax.grad(loss)(free), state)
        return (optax.apply_updates(free, updates), state), None

    free = jnp.zeros((4, 4))
    carry = (free, optimizer.init(free))
    (free, _), _ = jax.jit(lambda c: jax.lax.scan(step, c, length=200))(carry)
    got = distributions.correlation_matrix(free, groups=groups)
    np.testing.assert_allclose(got, true, atol=0.05)


def test_errors():
    z = jnp.zeros((3, 4))
    with pytest.raises(ValueError, match=r"`correlation` must be \[D, D\] with D = 4"):
        losses.correlated_log_prior(z, jnp.eye(3), groups=(4,))
    with pytest.raises(ValueError, match="`groups` must be positive sizes that add up"):
        losses.correlated_log_prior(z, jnp.eye(4), groups=(2, 3))
    with pytest.raises(ValueError, match=r"`free` must be \[D, D\]"):
        distributions.correlation_matrix(jnp.zeros((2, 3)))
    with pytest.raises(ValueError, match="`groups` must be positive sizes that add up"):
        distributions.correlation_matrix(jnp.zeros((3, 3)), groups=(2, 2))
    pairs = {"pairwise": jnp.zeros((3, 3, 4)), "log_p_elements": jnp.zeros((3, 4))}
    draws = losses.Concrete(jnp.zeros((3, 2)), jnp.zeros((3, 2)), 1.0)
    with pytest.raises(ValueError, match="`concrete` must be empty where `pairwise`"):
        losses.hfvae(
            z, z, z, z, z, beta=1.0, gamma=1.0, groups=(4,), dataset_size=9,
            concrete=[draws], **pairs,
        )  # fmt: skip
