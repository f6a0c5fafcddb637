"""Runs of the tiny config as real processes, as a user starts them."""

import os
import pathlib
import socket
import subprocess
import sys
import time

import numpy as np

from disentangle_jax import training
from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from tests.training import tiny

ROOT = pathlib.Path(__file__).parents[2]

_started: list[subprocess.Popen] = []


def start(
    folder: pathlib.Path, workdir: pathlib.Path, *arguments: str, devices: int = 1
) -> subprocess.Popen:
    """Starts `train` of a tiny config, its output in a pipe."""
    file = folder / "tiny_run.py"
    file.write_text(tiny.FILE)
    command = [sys.executable, "-m", "disentangle_jax.main", "train"]
    process = subprocess.Popen(
        [*command, f"--config={file}", f"--workdir={workdir}", *arguments],
        cwd=ROOT,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    _started.append(process)
    return process


def kill_leftovers() -> None:
    """Ends the processes that a failed test left running."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()


def start_two(
    folder: pathlib.Path, workdir: pathlib.Path, *arguments: str
) -> list[subprocess.Popen]:
    """Starts two processes of two devices each that train one run."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    together = (f"--coordinator=localhost:{port}", "--num_processes=2")
    return [
        start(folder, workdir, *together, f"--process_id={i}", *arguments, devices=2)
        for i in range(2)
    ]


def wait_for_rows(folder: pathlib.Path, rows: int, process: subprocess.Popen) -> None:
    """Returns when the metrics of `folder` have so many rows."""
    path = folder / "metrics.jsonl"
    deadline = time.monotonic() + 240
    while not path.exists() or path.read_text().count("\n") < rows:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline, "no progress"
        time.sleep(0.002)


def end(*processes: subprocess.Popen) -> list[str]:
    """Waits for processes that must end well; returns what they said."""
    said = [process.communicate(timeout=300)[0] for process in processes]
    for process, out in zip(processes, said, strict=True):
        assert process.returncode == 0, out
    return said


def final_state(workdir: pathlib.Path, steps: int = 200) -> program_lib.Carry:
    """Returns what the last checkpoint of a run holds."""
    run = training.prepare(training.read_config(workdir), workdir)
    like = program_lib.abstract_carry(run)
    with Checkpoints(workdir / "checkpoints", keep=3) as checkpoints:
        assert checkpoints.latest_step() == steps
        return checkpoints.restore(like)


def steps_of(folder: pathlib.Path) -> np.ndarray:
    """Returns the steps that the metric rows of `folder` stand for."""
    return np.array([row["step"] for row in training.read_metrics(folder)])
