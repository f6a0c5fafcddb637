"""A run killed at random moments, as a user would see it, in real processes."""

import random
import signal
import time

import jax
import numpy as np
import pytest

from tests.training import command

LANES = ("--config.lanes.sweep.optimizer.learning_rate=1e-3,1e-2",)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    command.end(command.start(folder, folder / "run"))
    return command.final_state(folder / "run")


def kill_and_go_on(folder, rows, chance, *arguments):
    """Trains with a kill after some rows of ``folder / rows``; returns the result."""
    workdir = folder / "run"
    process = command.start(folder, workdir, *arguments)
    command.wait_for_rows(workdir / rows, chance.randint(1, 90), process)
    time.sleep(chance.uniform(0, 0.05))
    process.kill()
    process.communicate()
    if process.returncode == 0:
        pytest.fail("the run was over before it could be killed; make it longer")
    command.end(command.start(folder, workdir, *arguments))
    return command.final_state(workdir)


@pytest.mark.parametrize("moment", range(3))
def test_kill_9_at_a_random_moment(whole, tmp_path, moment):
    state = kill_and_go_on(tmp_path, "", random.Random(moment))
    jax.tree.map(np.testing.assert_array_equal, state, whole)
    np.testing.assert_array_equal(command.steps_of(tmp_path / "run"), range(2, 202, 2))


def test_kill_9_of_a_lane_run(tmp_path):
    names = ["learning_rate=0.001,seed=0", "learning_rate=0.01,seed=0"]
    expected = tmp_path / "expected"
    expected.mkdir()
    command.end(command.start(expected, expected / "run", *LANES))
    folder = f"lanes/{names[0]}"
    state = kill_and_go_on(tmp_path, folder, random.Random(7), *LANES)
    whole = command.final_state(expected / "run")
    jax.tree.map(np.testing.assert_array_equal, state, whole)
    for name in names:
        np.testing.assert_array_equal(
            command.steps_of(tmp_path / "run" / "lanes" / name), range(2, 202, 2)
        )
    # The lanes are two models, not one twice.
    kernel = jax.tree.leaves(state.state.params)[-1]
    assert float(np.abs(kernel[0] - kernel[1]).max()) > 1e-3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_saves_and_says_how_to_go_on(whole, tmp_path, number):
    workdir = tmp_path / "run"
    process = command.start(tmp_path, workdir)
    command.wait_for_rows(workdir, 3, process)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number, out
    assert "The same command continues from there." in out
    stopped_at = int(out.split("stopped at step ")[1].split()[0])
    (out,) = command.end(command.start(tmp_path, workdir))
    assert f"continuing from the checkpoint of step {stopped_at}" in out
    jax.tree.map(np.testing.assert_array_equal, command.final_state(workdir), whole)
