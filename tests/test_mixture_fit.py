"""The Gaussian mixture that is fitted to a few labelled codes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import distributions

CODES, COUNTS = (5, 12, 3), np.array([12, 7, 1, 0, 2])


def by_hand(codes, counts, scale, shrinkage):
    """The formula of the docstring, in float64, with loops."""
    dims = codes.shape[2]
    scatters, means = [], []
    for row, count in zip(codes.astype(np.float64), counts):
        row = row[:count]
        mean = row.mean(axis=0) if count else np.zeros(dims)
        means.append(mean)
        scatters.append(
            sum((np.outer(z - mean, z - mean) for z in row), np.zeros((dims, dims)))
        )
    free = np.maximum(counts - 1, 0)
    pooled = sum(scatters) / max(free.sum(), 1)
    covariances = [
        scale * (s + shrinkage * pooled) / (f + shrinkage) + 1e-6 * np.eye(dims)
        for s, f in zip(scatters, free)
    ]
    return np.array(means), np.array(covariances)


def test_against_loops(rng):
    codes = rng.normal(size=CODES).astype(np.float32) * [0.5, 1.0, 2.0] + 3.0
    codes = codes.astype(np.float32)
    fit = jax.jit(distributions.gaussian_mixture_fit)
    means, covariances, present = fit(codes, COUNTS, scale=0.1, shrinkage=1.5)
    wanted = by_hand(codes, COUNTS, 0.1, 1.5)
    np.testing.assert_allclose(means, wanted[0], atol=1e-5)
    np.testing.assert_allclose(covariances, wanted[1], atol=1e-5)
    assert present.tolist() == [True, True, True, False, True]


def test_without_shrinkage_it_is_the_sample_covariance(rng):
    codes = rng.normal(size=(1, 40, 3)).astype(np.float32)
    _, covariances, _ = distributions.gaussian_mixture_fit(
        jnp.asarray(codes), jnp.array([40]), scale=1.0, shrinkage=0.0
    )
    np.testing.assert_allclose(
        covariances[0], np.cov(codes[0].T) + 1e-6 * np.eye(3), atol=1e-5
    )


def test_never_singular(rng):
    """Fewer samples than dimensions, one sample, equal samples: all have densities."""
    codes = rng.normal(size=(8, 10, 16)).astype(np.float32)
    codes[2] = codes[2, :1]
    counts = jnp.array([10, 1, 10, 0, 10, 10, 10, 10])
    for shrinkage in (1.0, 0.0):
        means, covariances, _ = distributions.gaussian_mixture_fit(
            jnp.asarray(codes), counts, shrinkage=shrinkage
        )
        densities = distributions.gaussian_component_log_prob(
            jnp.asarray(codes[0]), means, covariances
        )
        assert np.isfinite(densities).all()
        if shrinkage:
            assert np.linalg.eigvalsh(covariances).min() > 1e-4
    # Even where nothing varies at all.
    same = jnp.ones((2, 5, 3))
    _, covariances, _ = distributions.gaussian_mixture_fit(same, jnp.array([5, 5]))
    np.testing.assert_allclose(covariances[0], 1e-6 * np.eye(3), atol=1e-12)


def test_what_is_beyond_the_counts_does_not_matter(rng):
    codes = rng.normal(size=CODES).astype(np.float32)
    spoilt = codes.copy()
    for row, count in zip(spoilt, COUNTS):
        row[count:] = np.nan
    fit = jax.jit(distributions.gaussian_mixture_fit)
    jax.tree.map(np.testing.assert_array_equal, fit(codes, COUNTS), fit(spoilt, COUNTS))


def test_lanes_of_counts_equal_each_alone(rng):
    codes = jnp.asarray(rng.normal(size=CODES), jnp.float32)
    counts = jnp.stack([jnp.minimum(COUNTS, most) for most in (2, 5, 12)])
    lanes = jax.vmap(lambda c: distributions.gaussian_mixture_fit(codes, c))(counts)
    alone = distributions.gaussian_mixture_fit(codes, counts[1])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a[1], b, atol=1e-6), lanes, alone
    )


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"`codes` must be \[K, n, D\]"):
        distributions.gaussian_mixture_fit(jnp.zeros((3, 2)), jnp.array([1, 1, 1]))
