"""A run resumes exactly, survives damage, and stops loudly."""

import dataclasses
import os
import pathlib
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import training
from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from disentangle_jax.training.logging import MetricsWriter
from tests.training import tiny


def trained(config, workdir) -> jax.Array:
    return training.train(training.prepare(config, workdir))


def assert_same(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        tiny.show_devices(patch, 1)
        return trained(tiny.config(), workdir), workdir


def test_loss_falls_and_rows_are_complete(uninterrupted):
    state, workdir = uninterrupted
    rows = training.read_metrics(workdir)
    assert [row["step"] for row in rows] == [2, 4, 6, 8, 10, 12]
    assert rows[-1]["loss"] < rows[0]["loss"]
    # The mean of the logged terms adds up as the objective does.
    for row in rows:
        assert row["loss"] == pytest.approx(row["reconstruction"] + row["kl"], rel=1e-5)
    assert int(state.step) == 12


@pytest.mark.parametrize("first_part", [4, 7])
def test_resumed_run_equals_uninterrupted(uninterrupted, tmp_path, first_part):
    trained(tiny.config(num_steps=first_part), tmp_path)
    assert_same(trained(tiny.config(), tmp_path), uninterrupted[0])


def test_another_seed_gives_another_run(uninterrupted, tmp_path):
    other = trained(tiny.config(seed=1), tmp_path)
    same = jax.tree.map(lambda a, b: bool((a == b).all()), other, uninterrupted[0])
    assert not any(jax.tree.leaves(same.state.params))


def test_rows_after_the_resumed_step_are_dropped(uninterrupted, tmp_path):
    trained(tiny.config(num_steps=4), tmp_path)
    # What a killed run leaves: rows beyond its last checkpoint and a cut line.
    MetricsWriter(tmp_path, start_step=4).write(6, {"loss": 1.0})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 8, "lo')
    trained(tiny.config(), tmp_path)
    rows = training.read_metrics(tmp_path)
    expected = training.read_metrics(uninterrupted[1])
    for row in (*rows, *expected):
        row.pop("images_per_second")
    assert rows == expected


def test_a_run_stopped_between_rows_has_the_same_rows(
    uninterrupted, tmp_path, monkeypatch
):
    added = training.loop.Rows.add

    def add(self, step, terms):
        added(self, step, terms)
        if step in (3, 7):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(training.loop.Rows, "add", add)
    config = tiny.config(checkpoint_every=5)
    for step in (3, 7):
        with pytest.raises(training.Interrupted, match=f"at step {step} "):
            trained(config, tmp_path)
    assert_same(trained(config, tmp_path), uninterrupted[0])
    rows = training.read_metrics(tmp_path)
    expected = training.read_metrics(uninterrupted[1])
    for row in (*rows, *expected):
        row.pop("images_per_second")
    assert rows == expected


@pytest.mark.parametrize("damage", ["truncate", "remove"])
def test_damaged_newest_checkpoint_falls_back(uninterrupted, tmp_path, damage):
    trained(tiny.config(num_steps=8), tmp_path)
    newest = tmp_path / "checkpoints" / "8"
    files = [p for p in newest.rglob("*") if p.is_file() and p.parent.name == "d"]
    largest = max(files, key=lambda p: p.stat().st_size)
    if damage == "truncate":
        largest.write_bytes(largest.read_bytes()[:100])
    else:
        largest.unlink()
    with pytest.warns(UserWarning, match="step 8 is damaged .* from step 4"):
        state = trained(tiny.config(), tmp_path)
    assert_same(state, uninterrupted[0])
    assert (tmp_path / "damaged-checkpoint-8").is_dir()  # Nothing is deleted.


@pytest.mark.parametrize("damage", ["empty", "half-written"])
def test_a_folder_without_a_checkpoint_hides_no_older_one(
    uninterrupted, tmp_path, damage
):
    trained(tiny.config(num_steps=8), tmp_path)
    (tmp_path / "checkpoints" / "12" / "state").mkdir(parents=True)
    if damage == "empty":
        (tmp_path / "checkpoints" / "12" / "state").rmdir()
    with pytest.warns(UserWarning, match="step 12 is damaged .* from step 8"):
        state = trained(tiny.config(), tmp_path)
    assert_same(state, uninterrupted[0])
    assert (tmp_path / "damaged-checkpoint-12").is_dir()


def test_a_flipped_bit_in_a_checkpoint_is_noticed(uninterrupted, tmp_path):
    trained(tiny.config(num_steps=8), tmp_path)
    newest = tmp_path / "checkpoints" / "8"
    with Checkpoints(tmp_path / "checkpoints", keep=3) as checkpoints:
        run = training.prepare(tiny.config(), tmp_path)
        carry = checkpoints.restore(program_lib.abstract_carry(run))
        params = jax.tree.map(
            lambda p: p.at[(0,) * p.ndim].add(1e-3), carry.state.params
        )
        changed = carry._replace(state=carry.state._replace(params=params))
    # The arrays of another state beside the digests of the saved one.
    with Checkpoints(tmp_path / "other", keep=3) as checkpoints:
        checkpoints.save(8, changed)
    shutil.rmtree(newest / "state")
    shutil.copytree(tmp_path / "other" / "8" / "state", newest / "state")
    for again in ("", ".2"):
        with pytest.warns(UserWarning, match="differs from what was saved.* step 4"):
            state = trained(tiny.config(num_steps=8), tmp_path)
        assert (tmp_path / f"damaged-checkpoint-8{again}").is_dir()
        shutil.rmtree(newest)
        shutil.copytree(tmp_path / f"damaged-checkpoint-8{again}", newest)
    shutil.rmtree(newest)
    assert_same(trained(tiny.config(), tmp_path), uninterrupted[0])
    assert int(state.step) == 8


def test_no_readable_checkpoint_is_an_error_not_a_fresh_start(tmp_path):
    trained(tiny.config(num_steps=4), tmp_path)
    for path in (tmp_path / "checkpoints").rglob("_METADATA"):
        path.unlink()
    with pytest.raises(training.UnreadableCheckpoint, match="none of .* can be read"):
        trained(tiny.config(), tmp_path)
    assert (tmp_path / "checkpoints" / "4").is_dir()


def test_keeps_the_newest_checkpoints(tmp_path):
    trained(tiny.config(keep_checkpoints=2), tmp_path)
    steps = {p.name for p in (tmp_path / "checkpoints").iterdir()}
    assert steps == {"8", "12"}


def test_non_finite_loss_stops_with_step_and_last_good_checkpoint(tmp_path):
    config = tiny.config()
    # Adam moves every weight by about the learning rate a step.
    config.optimizer.learning_rate = 1e30
    with pytest.raises(training.NonFiniteLoss, match="at step 2; no checkpoint was"):
        trained(config, tmp_path / "early")
    trained(tiny.config(num_steps=4), tmp_path / "late")
    run = training.prepare(tiny.config(), tmp_path / "late")
    hyper = {**run.lanes[0].hyper, "learning_rate": 1e30}
    lanes = (run.lanes[0]._replace(hyper=hyper),)
    with pytest.raises(training.NonFiniteLoss, match="at step 6; the last good .* 4"):
        training.train(dataclasses.replace(run, lanes=lanes))
    assert (tmp_path / "late" / "checkpoints" / "4").is_dir()


def test_checkpoint_with_non_finite_parameters_is_never_written(tmp_path):
    run = training.prepare(tiny.config(checkpoint_every=1, num_steps=3), tmp_path)

    class Diverging(type(run.method)):
        def step(self, key, state, batch, hyper):
            # The loss is fine, what the update leaves is not.
            state, terms = super().step(key, state, batch, hyper)
            params = jax.tree.map(lambda p: p * jnp.inf, state.params)
            return state._replace(params=params), terms

    method = object.__new__(Diverging)
    method.__dict__.update(run.method.__dict__)
    with pytest.raises(training.NonFiniteLoss, match="non-finite at step 1"):
        training.train(dataclasses.replace(run, method=method))
    assert not [p for p in (tmp_path / "checkpoints").iterdir() if p.name.isdigit()]


def test_tensorboard_events_hold_the_rows(uninterrupted):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    _, workdir = uninterrupted
    events = EventAccumulator(str(workdir / "tensorboard")).Reload()
    rows = training.read_metrics(workdir)
    logged = [(event.step, event.value) for event in events.Scalars("loss")]
    assert logged == [(row["step"], pytest.approx(row["loss"])) for row in rows]


def test_eight_devices_equal_one(uninterrupted, tmp_path, devices):
    devices(8)
    state = trained(tiny.config(), tmp_path)
    assert len(state.alive.sharding.device_set) == 8
    assert len(uninterrupted[0].alive.sharding.device_set) == 1
    # Only the order of the sums over the batch differs; Adam amplifies it.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5),
        state.state.params,
        uninterrupted[0].state.params,
    )


def test_checkpoint_of_a_saved_step_is_left_alone(tmp_path):
    run = training.prepare(tiny.config(num_steps=4), tmp_path)
    state = training.train(run)
    before = sorted(p.stat().st_mtime_ns for p in pathlib.Path(tmp_path).rglob("*"))
    with Checkpoints(tmp_path / "checkpoints", keep=3) as checkpoints:
        checkpoints.save(4, state)
    after = sorted(p.stat().st_mtime_ns for p in pathlib.Path(tmp_path).rglob("*"))
    assert before == after
