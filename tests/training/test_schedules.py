"""Schedules at hand-worked steps, and what they do to a hyperparameter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import training
from disentangle_jax.training import schedules
from tests.training import tiny


@pytest.mark.parametrize(
    "spec, expected",
    [
        (("linear", 0.0, 1.0, 10, 20), {0: 0, 10: 0, 15: 0.25, 30: 1, 99: 1}),
        (("linear", 1.0, 0.001, 0, 10), {0: 1, 5: 0.5005, 10: 0.001}),
        (("cosine", 0.0, 1.0, 0, 12), {0: 0, 3: 0.1464466, 6: 0.5, 12: 1}),
        (("sigmoid", 0.0, 1.0, 0, 12), {0: 0.00247262, 6: 0.5, 12: 0.99752738}),
        (("cyclic", 8), {0: 0, 4: 0.5, 8: 0, 12: 0.5}),
        (("cyclic", 8, 100), {0: 0, 100: 0, 104: 0.5}),
    ],
)
def test_factor_at_steps(spec, expected):
    factor = jax.jit(schedules.create("beta", spec))
    for step, value in expected.items():
        assert factor(jnp.int32(step)) == pytest.approx(value, abs=1e-6)


def test_scheduled_hyperparameter_is_multiplied(tmp_path):
    config = tiny.config(num_steps=4, log_every=1, checkpoint_every=4)
    config.method.name = "beta_vae"
    config.method.beta = 8.0
    config.train.schedules.beta = ("linear", 0.0, 1.0, 0, 4)
    training.train(training.prepare(config, tmp_path))
    for row in training.read_metrics(tmp_path):
        beta = 8.0 * (row["step"] - 1) / 4
        expected = row["reconstruction"] + beta * row["kl"]
        np.testing.assert_allclose(row["loss"], expected, rtol=1e-5)
