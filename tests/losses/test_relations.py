"""Adversarial terms against loops, and a critic that must find a known ratio."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses, sampling
from tests.losses import reference


def log_sigmoid(value):
    return -math.log1p(math.exp(-value))


@pytest.mark.parametrize(("joint", "permuted"), [(1, 1), (4, 4), (6, 3)])
def test_critic_losses(joint, permuted, getkey):
    a, b = (
        jax.random.normal(getkey(), (joint,)),
        jax.random.normal(getkey(), (permuted,)),
    )
    first, second = (values.tolist() for values in reference.arrays(a, b))
    np.testing.assert_allclose(losses.density_ratio_tc(a), sum(first) / joint, 1e-5)
    real = -sum(log_sigmoid(v) for v in first) / joint
    fake = -sum(log_sigmoid(-v) for v in second) / permuted
    got = losses.discriminator_loss(a, b)
    np.testing.assert_allclose(got, (real + fake) / 2, rtol=1e-5)
    # Codes are the second sample of the adversarial autoencoder, the prior the first.
    got = losses.adversarial_prior_losses(b, a)
    assert list(got) == ["discriminator", "generator"]
    np.testing.assert_allclose(got["discriminator"], (real + fake) / 2, rtol=1e-5)
    want = -sum(log_sigmoid(v) for v in second) / permuted
    np.testing.assert_allclose(got["generator"], want, rtol=1e-5)


def test_an_undecided_critic_costs_one_bit():
    zeros = jnp.zeros(5)
    np.testing.assert_allclose(losses.discriminator_loss(zeros, zeros), math.log(2))
    assert losses.density_ratio_tc(zeros) == 0.0


@pytest.mark.parametrize("logit", [-80.0, 80.0])
def test_certain_critics_still_learn(logit):
    # Beyond 1e-6 disentanglement_lib's clipped probabilities have no gradient.
    logits = jnp.full(4, logit)
    grads = jax.grad(losses.discriminator_loss, argnums=(0, 1))(logits, logits)
    wrong = grads[0] if logit < 0 else grads[1]
    np.testing.assert_allclose(np.abs(wrong), np.full(4, 1 / 8), rtol=1e-5)


def test_ratio_of_a_known_density(getkey):
    """A quadratic critic trained on permuted codes finds a Gaussian's correlation."""
    # With correlation 0.6 the total correlation is -log(1 - 0.36) / 2 = 0.223.
    z = jax.random.normal(getkey(), (20_000, 2))
    z = z.at[:, 1].set(0.6 * z[:, 0] + 0.8 * z[:, 1])

    def critic(weights, z):
        square = jnp.square(z).sum(axis=1)
        return weights[0] + weights[1] * z[:, 0] * z[:, 1] + weights[2] * square

    def loss(weights, key):
        permuted = sampling.permute_dims(key, z)
        return losses.discriminator_loss(critic(weights, z), critic(weights, permuted))

    step = jax.jit(lambda w, k: w - 1.0 * jax.grad(loss)(w, k))
    weights = jnp.zeros(3)
    for _ in range(200):
        weights = step(weights, getkey())
    got = losses.density_ratio_tc(critic(weights, z))
    np.testing.assert_allclose(got, -0.5 * math.log(1 - 0.36), atol=0.02)


def mixture(getkey, components, dims):
    means = jax.random.normal(getkey(), (components, dims))
    factors = jax.random.normal(getkey(), (components, dims, dims))
    covariances = factors @ factors.transpose(0, 2, 1) + jnp.eye(dims)[None]
    return means, covariances


@pytest.mark.parametrize(
    ("batch", "dims", "components"), [(1, 1, 2), (5, 3, 4), (8, 4, 3)]
)
def test_relation_loss(batch, dims, components, getkey):
    means, covariances = mixture(getkey, components, dims)
    predicted = jax.random.normal(getkey(), (batch, dims))
    target = jax.random.randint(getkey(), (batch,), 0, components)
    got = losses.relation_loss(predicted, target, means=means, covariances=covariances)
    points, m, c = reference.arrays(predicted, means, covariances)
    want = []
    for point, k in zip(points, np.asarray(target)):
        offset = point - m[k]
        distance = offset @ np.linalg.inv(c[k]) @ offset
        log_det = math.log(np.linalg.det(c[k]))
        want.append(0.5 * (dims * math.log(2 * math.pi) + log_det + distance))
    np.testing.assert_allclose(got, want, rtol=1e-4)
    draws = jax.random.normal(getkey(), (batch, dims))
    got = losses.relation_loss(predicted, draws, form="mse")
    want = [sum((a - b) ** 2) / dims for a, b in zip(points, np.asarray(draws))]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_relation_loss_trains_only_the_learner(getkey):
    means, covariances = mixture(getkey, 2, 2)
    predicted, target = jnp.ones((3, 2)), jnp.array([0, 1, 1])

    def total(predicted, means, covariances):
        return losses.relation_loss(
            predicted, target, means=means, covariances=covariances
        ).sum()

    grads = jax.grad(total, argnums=(0, 1, 2))(predicted, means, covariances)
    assert np.abs(grads[0]).min() > 0
    assert not np.any(grads[1]) and not np.any(grads[2])


def test_errors(getkey):
    matrix, vector = jnp.ones((3, 2)), jnp.ones(3)
    means, covariances = mixture(getkey, 2, 2)
    with pytest.raises(ValueError, match=r"density_ratio_tc: `critic_logits` must be"):
        losses.density_ratio_tc(matrix)
    with pytest.raises(ValueError, match=r"discriminator_loss: `permuted_logits` must"):
        losses.discriminator_loss(vector, matrix)
    with pytest.raises(ValueError, match=r"adversarial_prior_losses: `code_logits`"):
        losses.adversarial_prior_losses(matrix, vector)
    with pytest.raises(
        ValueError, match="relation_loss: `form` must be one of nll, mse"
    ):
        losses.relation_loss(matrix, matrix, form="l2")
    with pytest.raises(
        ValueError, match="relation_loss: `means` and `covariances` must"
    ):
        losses.relation_loss(matrix, jnp.array([0, 1, 0]))
    with pytest.raises(ValueError, match=r"`target` must be \[B\] integer components"):
        losses.relation_loss(matrix, matrix, means=means, covariances=covariances)
    with pytest.raises(ValueError, match="`target` must have the shape of `predicted`"):
        losses.relation_loss(matrix, vector, form="mse")
