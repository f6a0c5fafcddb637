"""Runs that begin with another's parameters, update some parts, see some images."""

import jax
import numpy as np
import pytest

from disentangle_jax import training
from disentangle_jax.training import program as program_lib
from tests.training import tiny


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    tiny.show_devices(monkeypatch, 1)


@pytest.fixture(scope="module")
def stage_one(tmp_path_factory):
    """A trained run of two lanes, and what it ended with."""
    workdir = tmp_path_factory.mktemp("one") / "run"
    with pytest.MonkeyPatch.context() as patch:
        tiny.show_devices(patch, 1)
        carry = training.train(training.prepare(first_config(), workdir))
    return workdir, jax.device_get(carry.state)


def first_config():
    config = tiny.config(num_steps=4)
    config.lanes.seeds = 2
    config.data.drop.shape = (2,)
    return config


def second_config(workdir, **fields):
    config = first_config()
    config.data.drop = {}
    config.train.start_from = str(workdir)
    for name, value in fields.items():
        section, field = name.split("__")
        config[section][field] = value
    return config


def same(a, b):
    return jax.tree.all(jax.tree.map(lambda x, y: bool((x == y).all()), a, b))


@pytest.mark.parametrize(
    "frozen, moved", [("encoder", "decoder"), ("decoder", "encoder")]
)
def test_a_frozen_part_stays_and_the_other_moves(stage_one, tmp_path, frozen, moved):
    folder, before = stage_one
    config = second_config(folder, optimizer__frozen=(frozen,))
    after = training.train(training.prepare(config, tmp_path / "two")).state
    assert same(before.params[frozen], after.params[frozen])
    for old, new in zip(
        jax.tree.leaves(before.params[moved]), jax.tree.leaves(after.params[moved])
    ):
        assert (old != np.asarray(new)).any()


@pytest.mark.parametrize("kept", [True, False])
def test_the_optimizer_state_is_taken_over_or_fresh(stage_one, tmp_path, kept):
    folder, before = stage_one
    config = second_config(folder, train__start_optimizer=kept, train__num_steps=4)
    after = training.train(training.prepare(config, tmp_path / "two")).state
    # Adam counts its updates, in both lanes: 4 of the first run, 4 of this one.
    assert np.asarray(after.opt_state.count).tolist() == ([8, 8] if kept else [4, 4])
    assert np.asarray(before.opt_state.count).tolist() == [4, 4]


def test_a_started_run_equals_one_trained_through(tmp_path):
    """Steps t of the second run are steps 4 + t, but for keys and batches."""
    whole = tiny.config(num_steps=4)
    first = training.train(training.prepare(whole, tmp_path / "one"))
    second = tiny.config(num_steps=4)
    second.train.start_from = str(tmp_path / "one")
    run = training.prepare(second, tmp_path / "two")
    found = training.train(run)
    program = program_lib.build(run)
    state = first.state._replace(step=np.zeros(1, np.int32))
    carry = first._replace(state=state)
    step = jax.jit(program.steps)
    for number, batches in enumerate(training.loop.device_batches(run, 0)):
        inputs = {"batches": batches, "constants": program.constants}
        carry, _ = step(carry, {**inputs, "step": np.int32(number)})
    for got, want in zip(
        jax.tree.leaves(found.state.params), jax.tree.leaves(carry.state.params)
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_training_does_not_see_what_is_dropped_or_held_out(tmp_path):
    config = tiny.config()
    everything = training.prepare(config, tmp_path).train_set
    config.data.drop.shape = (2,)
    config.data.drop.orientation = (0, 14)
    np.save(tmp_path / "held.npy", everything.indices[:50])
    config.data.hold_out = str(tmp_path / "held.npy")
    run = training.prepare(config, tmp_path / "run")
    factors = run.train_set.factors(run.train_set.indices)
    names = run.train_set.factor_names
    assert set(factors[:, names.index("shape")]) == {0, 1, 3}
    assert {0, 14}.isdisjoint(factors[:, names.index("orientation")])
    assert np.isin(run.train_set.indices, everything.indices[50:]).all()
    # The test split keeps them: they are what generalisation is measured on.
    tested = run.test_set.factors(run.test_set.indices)
    assert set(tested[:, names.index("shape")]) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"optimizer__frozen": ("encodr",)}, "did you mean 'encoder'"),
        ({"model__width": 16}, "has another model"),
        ({"method__name": "ae"}, "has another method"),
        ({"lanes__seeds": 3}, "has another lanes"),
        ({"train__start_from": "nowhere"}, "nowhere holds no checkpoint"),
        ({"data__hold_out": "nowhere.npy"}, "there is no file nowhere.npy"),
        ({"data__drop": {"shap": (2,)}}, "did you mean 'shape'"),
    ],
)
def test_wrong_starts_are_told_before_compiling(stage_one, tmp_path, change, message):
    config = second_config(stage_one[0], **change)
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        training.prepare(config, tmp_path)
    assert message.lower() in str(error.value).lower()
