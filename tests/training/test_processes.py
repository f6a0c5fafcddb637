"""Two real processes with two devices each train what one with four does."""

import signal

import jax
import numpy as np
import pytest

from disentangle_jax import commands, training
from disentangle_jax.training import feed
from tests.training import command, tiny

# Adam divides by the size of a gradient: with its usual eps, rounding decides the
# direction of an update whose gradient is almost zero.
EPS = "--config.optimizer.eps=1e-3"


def assert_near(left, right):
    scale = max(float(np.abs(p).max()) for p in jax.tree.leaves(right.state.params))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * scale),
        left.state.params,
        right.state.params,
    )


def one_process(config, workdir, devices):
    devices(4)
    carry = training.train(training.prepare(config, workdir))
    devices(1)
    return carry


def test_batch_over_processes_stopped_and_resumed(tmp_path, devices):
    workdir = tmp_path / "two"
    few = (EPS, "--config.train.num_steps=40")
    first, second = command.start_two(tmp_path, workdir, *few)
    command.wait_for_rows(workdir, 3, first)
    second.send_signal(signal.SIGTERM)  # One is asked to stop, both do.
    said = [process.communicate(timeout=120)[0] for process in (first, second)]
    assert first.returncode == second.returncode == 128 + signal.SIGTERM, said
    stopped_at = int(said[0].split("stopped at step ")[1].split()[0])
    assert 6 < stopped_at < 40
    said = command.end(*command.start_two(tmp_path, workdir, *few))
    assert f"continuing from the checkpoint of step {stopped_at}" in said[0]
    assert "training" not in said[1]  # Only the first process speaks,
    np.testing.assert_array_equal(  # and writes each row once.
        command.steps_of(workdir), range(2, 42, 2)
    )
    config = tiny.config(num_steps=40, log_every=2, checkpoint_every=10)
    config.optimizer.eps = 1e-3
    one = one_process(config, tmp_path / "one", devices)
    assert_near(command.final_state(workdir, 40), one)
    rows = [training.read_metrics(folder)[-1] for folder in (workdir, tmp_path / "one")]
    assert rows[0]["loss"] == pytest.approx(rows[1]["loss"], rel=1e-6)


@pytest.mark.slow
def test_lanes_over_processes(tmp_path, devices):
    workdir = tmp_path / "two"
    command.end(
        *command.start_two(
            tmp_path,
            workdir,
            EPS,
            "--config.train.num_steps=10",
            "--config.lanes.seeds=2",
            "--config.lanes.same_batches=False",
        )
    )
    config = tiny.config(num_steps=10, log_every=2, checkpoint_every=10)
    config.optimizer.eps = 1e-3
    config.lanes.update(seeds=2, same_batches=False)
    one = one_process(config, tmp_path / "one", devices)
    assert one.alive.sharding.shard_shape((2,)) == (1,)  # Each lane on two devices.
    assert_near(command.final_state(workdir, 10), one)
    for seed in (0, 1):
        steps = command.steps_of(workdir / "lanes" / f"seed={seed}")
        np.testing.assert_array_equal(steps, range(2, 12, 2))


def test_block_of_a_process():
    assert feed._block([(0, 2), (2, 4)], 8) == range(0, 4)
    assert feed._block([(4, 8), (4, 8)], 8) == range(4, 8)
    assert feed._block([(0, 8)], 8) == range(8)
    # Scattered, or not a whole share: everything is read.
    assert feed._block([(0, 2), (4, 6)], 8) == range(8)
    assert feed._block([(2, 4), (4, 6)], 8) == range(8)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--coordinator=localhost:1"], "needs --num_processes=N and --process_id=I"),
        (["--num_processes=2"], "must be HOST:PORT or auto"),
        (["--coordinator=localhost"], "must be HOST:PORT or auto, got 'localhost'"),
        (
            ["--coordinator=localhost:1", "--num_processes=2", "--process_id=2"],
            r"must lie in \[0, 2\)",
        ),
        (["--coordinator=auto", "--process_id=0"], "leave out"),
    ],
)
def test_wrong_commands_are_told(tmp_path, arguments, message):
    file = tmp_path / "tiny_run.py"
    file.write_text(tiny.FILE)
    with pytest.raises(ValueError, match=message):
        commands.get("train")([f"--config={file}", *arguments])
