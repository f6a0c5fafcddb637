"""The PI controller of ControlVAE against its algorithm, written as a loop."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses
from tests.losses import cases


def loop(divergences, set_point, k_p, k_i, low, high):
    """Algorithm 1 of the paper, whose integral may always return to the limits."""
    integral = last = 0.0
    for kl in divergences:
        error = set_point - kl
        too_high, too_low = last > high, last < low
        if not (too_high and error < 0) and not (too_low and error > 0):
            integral -= k_i * error
        last = k_p / (1 + math.exp(error)) + integral + low
        yield min(max(last, low), high)


@pytest.mark.parametrize("low, high", [(0.0, 1.0), (1.0, 2.5), (1.0, 1.5)])
def test_weights_by_a_loop(low, high, rng):
    divergences = 10.0 + 8.0 * np.sin(np.arange(60) / 6.0) + rng.normal(size=60)
    settings = {"set_point": 9.0, "k_p": 0.05, "k_i": 0.02}

    def step(controller, kl):
        beta, controller = losses.pi_control(
            kl, controller, beta_min=low, beta_max=high, **settings
        )
        return controller, beta

    with jax.enable_x64(True):
        start = losses.Controller(jnp.zeros(()), jnp.zeros(()))
        run = cases.quick_jit(lambda kl: jax.lax.scan(step, start, kl)[1])
        got = run(jnp.asarray(divergences))
    want = list(loop(divergences, low=low, high=high, **settings))
    np.testing.assert_allclose(got, want, rtol=1e-12)
    # It reaches a limit and leaves it again.
    assert min(want[want.index(high) :]) < high


def test_no_gradient_passes_and_lanes_differ():
    start = losses.Controller(jnp.zeros(()), jnp.ones(()))

    def weight(kl, set_point):
        return losses.pi_control(kl, start, set_point=set_point)[0]

    assert float(jax.grad(weight)(5.0, 2.0)) == 0.0
    lanes = jax.vmap(weight, in_axes=(None, 0))(jnp.float32(5.0), jnp.arange(3.0))
    assert len(set(np.asarray(lanes).tolist())) == 3


def test_the_divergence_reaches_the_set_point():
    """A model whose KL falls as its weight grows settles at the set point."""
    controller, beta = losses.Controller(jnp.zeros(()), jnp.zeros(())), 1.0
    control = cases.quick_jit(losses.pi_control)
    for _ in range(400):
        kl = jnp.float32(30.0 / beta)
        beta, controller = control(kl, controller, set_point=10.0, k_i=0.01)
    assert float(30.0 / beta) == pytest.approx(10.0, rel=0.01)
