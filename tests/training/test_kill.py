"""A run killed at random moments, as a user would see it, in real processes."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from disentangle_jax import training
from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from tests.training import tiny

ROOT = pathlib.Path(__file__).parents[2]


def start(folder: pathlib.Path, workdir: pathlib.Path) -> subprocess.Popen:
    """Starts `--mode=train` of a tiny config, its output in a pipe."""
    file = folder / "tiny_run.py"
    file.write_text(tiny.FILE)
    command = [sys.executable, "-m", "disentangle_jax.main", f"--config={file}"]
    return subprocess.Popen(
        [*command, f"--workdir={workdir}", "--mode=train"],
        cwd=ROOT,
        # One device of the real kind, whatever the tests run on.
        env={k: v for k, v in os.environ.items() if k != "XLA_FLAGS"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_rows(workdir: pathlib.Path, rows: int, process: subprocess.Popen) -> None:
    path = workdir / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not path.exists() or path.read_text().count("\n") < rows:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.002)


def finish(folder: pathlib.Path, workdir: pathlib.Path) -> str:
    process = start(folder, workdir)
    out, _ = process.communicate(timeout=180)
    assert process.returncode == 0, out
    return out


def final_state(workdir: pathlib.Path):
    run = training.prepare(training.read_config(workdir), workdir)
    like = program_lib.abstract_carry(run, program_lib.build(run))
    with Checkpoints(workdir / "checkpoints", keep=3) as checkpoints:
        assert checkpoints.latest_step() == 200
        return checkpoints.restore(like)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    finish(folder, folder / "run")
    return final_state(folder / "run")


@pytest.mark.parametrize("moment", range(5))
def test_kill_9_at_a_random_moment(whole, tmp_path, moment):
    chance = random.Random(moment)
    workdir = tmp_path / "run"
    process = start(tmp_path, workdir)
    wait_for_rows(workdir, chance.randint(1, 90), process)
    time.sleep(chance.uniform(0, 0.05))
    process.kill()
    process.communicate()
    if process.returncode == 0:
        pytest.fail("the run was over before it could be killed; make it longer")
    finish(tmp_path, workdir)
    jax.tree.map(np.testing.assert_array_equal, final_state(workdir), whole)
    steps = [row["step"] for row in training.read_metrics(workdir)]
    assert steps == list(range(2, 202, 2))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_saves_and_says_how_to_go_on(whole, tmp_path, number):
    workdir = tmp_path / "run"
    process = start(tmp_path, workdir)
    wait_for_rows(workdir, 3, process)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + number, out
    assert "The same command goes on from there." in out
    stopped_at = int(out.split("stopped at step ")[1].split()[0])
    out = finish(tmp_path, workdir)
    assert f"continuing from the checkpoint of step {stopped_at}" in out
    jax.tree.map(np.testing.assert_array_equal, final_state(workdir), whole)
