"""Lanes that are computed in passes, as on TPUs, equal those computed at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import training
from disentangle_jax.training import passes
from tests.training import tiny


def laned(method="beta_vae", **fields):
    config = tiny.config(num_steps=3, log_every=3, checkpoint_every=3)
    config.method.name = method
    config.method.update(fields)
    config.optimizer.eps = 1e-3
    config.lanes.seeds = 8
    return config


@pytest.mark.parametrize(
    "method, fields",
    [("beta_vae", {"beta": 1.0}), ("factor_vae", {"gamma": 1.0, "critic_width": 8})],
)
def test_gradients_in_passes_and_one_update_change_nothing(
    tmp_path, monkeypatch, method, fields
):
    config = laned(method, **fields)
    plain = training.train(training.prepare(config, tmp_path / "plain"))
    monkeypatch.setattr(passes, "_platform", lambda run: "tpu")
    monkeypatch.setattr(passes, "_AT_ONCE", 2)
    monkeypatch.setattr(passes, "_UPDATED", 4)
    run = training.prepare(config, tmp_path / "passes")
    assert (passes.lanes_at_once(run), passes.lanes_updated(run)) == (2, 4)
    divided = training.train(run)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        plain.state,
        divided.state,
    )


def test_large_models_go_one_by_one_on_tpus(tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "_platform", lambda run: "tpu")
    run = training.prepare(laned(beta=1.0), tmp_path)
    assert passes.lanes_at_once(run) == 4
    monkeypatch.setattr(passes, "step_bytes", lambda run: 2**30)
    assert (passes.lanes_at_once(run), passes.lanes_updated(run)) == (1, 8)


def test_lanes_go_one_by_one_on_cpus_if_a_dispatch_has_several_steps(tmp_path):
    config = laned(beta=1.0)
    run = training.prepare(config, tmp_path)
    assert (passes.lanes_at_once(run), passes.lanes_updated(run)) == (8, 8)
    config.train.steps_per_dispatch = 3
    run = training.prepare(config, tmp_path)
    assert (passes.lanes_at_once(run), passes.lanes_updated(run)) == (1, 1)


@pytest.mark.parametrize("at_once, across", [(2, 1), (4, 2), (2, 4), (8, 8)])
def test_every_lane_is_in_one_pass(at_once, across):
    lanes = jnp.arange(8.0)[:, None] + jnp.zeros((8, 3))
    own = passes.Passes(lanes, at_once, across)
    taken = jnp.stack([own.take(number) for number in range(8 // at_once)])
    assert taken.shape == (8 // at_once, at_once, 3)
    np.testing.assert_array_equal(own.unfold(taken), lanes)
    changed = own.replace(0, -taken[0])
    np.testing.assert_array_equal(
        passes.Passes(changed, at_once, across).take(0), -taken[0]
    )


def test_devices_have_their_own_lanes_in_every_pass():
    own = passes.Passes(jnp.arange(8), 4, 2)
    np.testing.assert_array_equal(own.take(1), [2, 3, 6, 7])
