"""The ELBO's four terms against loops in float64, and what removing one leaves."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses
from tests.losses import cases

SIZE = 40
TERMS = ("identifiability", "information", "evidence", "marginal")


@pytest.fixture
def batch(make_batch):
    return make_batch(5, 2, (3, 2, 1))


def written_out(x, logits, z, mean, log_var):
    x, logits = (np.asarray(a, np.float64).reshape(5, -1) for a in (x, logits))
    z, mean, log_var = (np.asarray(a, np.float64) for a in (z, mean, log_var))

    def log_normal(value, centre, log_variance):
        spread = (value - centre) ** 2 / np.exp(log_variance)
        return float((-0.5 * (math.log(2 * math.pi) + log_variance + spread)).sum())

    def log_pixels(i, k):
        logs = x[i] * logits[k] - np.log1p(np.exp(logits[k]))
        return float(logs.sum())

    weights = np.full((5, 5), (SIZE - 1) / (SIZE * 4))
    np.fill_diagonal(weights, 1 / SIZE)
    log_q = [
        math.log(
            sum(
                weights[i, j] * math.exp(log_normal(z[i], mean[j], log_var[j]))
                for j in range(5)
            )
        )
        for i in range(5)
    ]
    log_p = [log_normal(value, 0.0, np.zeros(2)) for value in z]
    terms = dict.fromkeys(TERMS, 0.0)
    for i in range(5):
        evidence = math.log(
            sum(math.exp(log_pixels(i, k) + log_p[k] - log_q[k]) for k in range(5)) / 5
        )
        own = log_normal(z[i], mean[i], log_var[i])
        values = log_pixels(i, i) - evidence, own - log_q[i], evidence
        for name, value in zip(TERMS, (*values, log_q[i] - log_p[i])):
            terms[name] += value / 5
    return terms


@pytest.mark.parametrize("removed", [None, *TERMS])
def test_terms_and_loss_equal_loops(batch, removed):
    weights = {name: 0.0 if name == removed else 1.5 for name in TERMS}
    loss, terms = cases.quick_jit(
        lambda *arrays: losses.weighted_elbo(
            *arrays, fixed_logits=arrays[1], dataset_size=SIZE, **weights
        )
    )(*batch)
    want = written_out(*batch)
    for name in TERMS:
        assert float(terms[name]) == pytest.approx(want[name], rel=1e-4, abs=1e-4)
    signs = (-1, 1, -1, 1)
    total = sum(sign * weights[n] * want[n] for sign, n in zip(signs, TERMS))
    assert float(loss) == pytest.approx(total, rel=1e-4)


def test_unit_weights_are_a_vae(batch):
    loss, _ = losses.weighted_elbo(*batch, fixed_logits=batch[1], dataset_size=SIZE)
    want, _ = losses.vae(*batch, kl="sampled")
    assert float(loss) == pytest.approx(float(want), rel=1e-5)


def test_the_evidence_teaches_the_decoder_alone(batch):
    def evidence(z, mean, log_var, fixed_logits):
        _, terms = losses.weighted_elbo(
            *batch[:2], z, mean, log_var, fixed_logits=fixed_logits, dataset_size=SIZE
        )
        return terms["evidence"]

    grads = jax.grad(evidence, argnums=(0, 1, 2, 3))(*batch[2:], batch[1])
    *encoder, decoder = (np.abs(np.asarray(g)).max() for g in grads)
    assert not any(encoder) and decoder > 1e-3


def test_several_devices_equal_one(make_batch):
    batch = make_batch(8, 2, (3, 2, 1))

    def run(arrays, axis_name=None):
        return losses.weighted_elbo(
            *arrays, fixed_logits=arrays[1], dataset_size=SIZE, evidence=0.0,
            axis_name=axis_name,
        )  # fmt: skip

    want, _ = run(batch)
    shards = [jnp.reshape(a, (2, 4, *a.shape[1:])) for a in batch]
    got, _ = jax.vmap(lambda a: run(a, "i"), axis_name="i")(shards)
    np.testing.assert_allclose(got, want, rtol=1e-5)
