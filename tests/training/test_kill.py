"""A run killed at random moments, as a user would see it, in real processes."""

import itertools
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


def kill_and_go_on(folder, rows, spans, *arguments):
    """Trains with a kill within each span of rows of ``folder / rows``, to the end."""
    workdir = folder / "run"
    chance = random.Random(0)
    for span in spans:
        process = command.start(folder, workdir, *arguments)
        command.wait_for_rows(workdir / rows, chance.randint(*span), process)
        time.sleep(chance.uniform(0, 0.05))
        process.kill()
        process.communicate()
        if process.returncode == 0:
            pytest.fail("the run was over before it could be killed; make it longer")
    command.end(command.start(folder, workdir, *arguments))
    return command.final_state(workdir)


def test_kill_9_at_random_moments(whole, tmp_path):
    state = kill_and_go_on(tmp_path, "", [(1, 26), (33, 58), (65, 90)])
    jax.tree.map(np.testing.assert_array_equal, state, whole)
    np.testing.assert_array_equal(command.steps_of(tmp_path / "run"), range(2, 202, 2))


def test_kill_9_of_a_lane_run(tmp_path):
    names = ["learning_rate=0.001,seed=0", "learning_rate=0.01,seed=0"]
    expected = tmp_path / "expected"
    expected.mkdir()
    command.end(command.start(expected, expected / "run", *LANES))
    folder = f"lanes/{names[0]}"
    state = kill_and_go_on(tmp_path, folder, [(1, 90)], *LANES)
    whole = command.final_state(expected / "run")
    jax.tree.map(np.testing.assert_array_equal, state, whole)
    for name in names:
        np.testing.assert_array_equal(
            command.steps_of(tmp_path / "run" / "lanes" / name), range(2, 202, 2)
        )
    # The lanes are two models, not one twice.
    kernel = jax.tree.leaves(state.state.params)[-1]
    assert float(np.abs(kernel[0] - kernel[1]).max()) > 1e-3


def test_signals_save_and_say_how_to_go_on(whole, tmp_path):
    workdir = tmp_path / "run"
    said = []
    for rows, number in ((3, signal.SIGTERM), (40, signal.SIGINT)):
        process = command.start(tmp_path, workdir)
        command.wait_for_rows(workdir, rows, process)
        process.send_signal(number)
        said.append(process.communicate(timeout=60)[0])
        assert process.returncode == 128 + number, said[-1]
        assert "The same command continues from there." in said[-1]
    said += command.end(command.start(tmp_path, workdir))
    for before, after in itertools.pairwise(said):
        stopped_at = int(before.split("stopped at step ")[1].split()[0])
        assert f"continuing from the checkpoint of step {stopped_at}" in after
    jax.tree.map(np.testing.assert_array_equal, command.final_state(workdir), whole)
