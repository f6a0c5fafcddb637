"""Runs whose codes lie in labelled regions: the fit between steps, and lanes."""

import shutil

import jax
import numpy as np
import pytest

from disentangle_jax import rows, training
from tests.training import tiny


def same(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


def near(left, right):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-5), left, right
    )


def test_the_fit_happens_once_and_survives_a_break(tiny_absae, tmp_path):
    run, carry = tiny_absae
    assert [s for s in range(13) if run.method.refit_due(s)] == [4]
    assert carry.state.model_state["prior"]["present"].all()
    # Again from the checkpoint that was saved at the end of the warm-up.
    shutil.copytree(run.workdir, tmp_path / "again")
    for step in (8, 12):
        shutil.rmtree(tmp_path / "again" / "checkpoints" / str(step))
    again = training.train(training.prepare(run.config, tmp_path / "again"))
    same(again.state, carry.state)


def test_refits_where_asked(tmp_path):
    run = training.prepare(tiny.absae(refit_every=3), tmp_path)
    steps = [s for s in range(13) if run.method.refit_due(s)]
    assert steps == [4, 7, 10]


def test_lanes_of_seeds_and_tau_equal_solo(tmp_path):
    many = tiny.absae_labelled()
    many.train.update(num_steps=8, checkpoint_every=8)
    many.lanes.seeds = 5
    many.lanes.sweep["method.tau"] = (2.0, 3.0)
    run = training.prepare(many, tmp_path / "lanes")
    carry = training.train(run)
    number = 3  # tau 2, seed 3
    alone = rows.alone(many, run.lanes[number].fields)
    assert alone.method.tau == 2 and alone.train.seed == 3
    solo = training.train(training.prepare(alone, tmp_path / "solo"))
    lane, solo = training.take(carry.state, number), training.take(solo.state, 0)
    near(lane.params, solo.params)
    near(lane.model_state, solo.model_state)
    other = training.take(carry.state, 8)  # tau 3, the same seed
    means = [state.model_state["prior"]["means"] for state in (other, solo)]
    gap = np.abs(means[0] - means[1])
    assert gap.max() > 1e-3


def test_eight_devices_equal_one(tiny_absae, tmp_path, devices):
    _, carry = tiny_absae
    devices(8)
    eight = training.train(training.prepare(tiny.absae_labelled(), tmp_path))
    near(eight.state.params, carry.state.params)
    near(eight.state.model_state, carry.state.model_state)


def test_wrong_configs(tmp_path):
    short = tiny.absae()
    short.train.update(num_steps=4)
    several = tiny.absae()
    several.train.update(steps_per_dispatch=2, log_every=2, checkpoint_every=4)
    several.method.refit_every = 3
    own = tiny.absae()
    own.train.input = "stream"
    own.lanes.update(seeds=2, same_batches=False)
    plain = tiny.absae()
    plain.method.tau = 0.0
    for wrong, message in (
        (short, "`train.num_steps` must be more than the warm-up of absae"),
        (several, "`train.steps_per_dispatch` must divide 7"),
        (own, "`lanes.same_batches` must be True"),
        (plain, "`method.tau` must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            training.prepare(wrong, tmp_path)
