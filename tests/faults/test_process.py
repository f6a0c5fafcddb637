"""Signals, closed output and full disks end a command in one line, or not at all."""

import errno
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import warnings

import pytest

from disentangle_jax import evaluation, files, main, training
from disentangle_jax.commands import process
from tests.faults import flips
from tests.training import tiny

ROOT = pathlib.Path(__file__).parents[2]


def ending(work, capsys):
    """Returns the exit code of work and the lines that it printed."""
    code = process.exit_code(work)
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, (said.out + said.err).strip()


def failing(error):
    def work():
        raise error

    return work


@pytest.mark.parametrize(
    "error, code, part",
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1, "the disk is full"),
        (ValueError("RESOURCE: No space left on device"), 1, "the disk is full"),
        (OSError(errno.EMFILE, "Too many open files"), 1, "ulimit -n"),
        (MemoryError(), 1, "out of memory; lower `train.batch_size`"),
        (RuntimeError("RESOURCE_EXHAUSTED: allocating 1 GB"), 1, "out of memory"),
        (files.Damaged("a/scores.json: is damaged"), 1, "error: a/scores.json: is"),
        (training.InUse("workdir: a is in use by"), 2, "error: workdir: a is in use"),
        (training.TooLarge("config: too large"), 2, "error: config: too large"),
        (KeyboardInterrupt(), 130, "stopped; what was written is whole"),
        (training.Interrupted(signal.SIGHUP, 7), 129, "stopped at step 7 by Hangup"),
    ],
)
def test_failures_are_one_line(capsys, error, code, part):
    got, said = ending(failing(error), capsys)
    assert got == code and part in said and "\n" not in said


def test_errors_of_the_library_keep_their_traceback():
    with pytest.raises(KeyError):
        process.exit_code(failing(KeyError("bug")))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_what_is_not_training(tmp_path, capsys, number):
    def work():
        path = tmp_path / "scores.json"
        with training.writing(tmp_path), files.new_file(path) as partial:
            partial.write_text("{")
            os.kill(os.getpid(), number)
            signal.pause()
        return 0

    before = signal.getsignal(number)
    code, said = ending(work, capsys)
    assert code == 128 + number and said.startswith("stopped by ")
    assert not list(tmp_path.iterdir())  # No partial file and no claim is left.
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_stops_code_that_cannot_raise_or_hides_it(capsys, number):
    class Cleaned:
        def __del__(self):
            os.kill(os.getpid(), number)
            time.sleep(0.001)

    def cleans_up():
        Cleaned()
        time.sleep(60)

    def hides_it():
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        except BaseException:
            raise ImportError("a library's own error") from None

    def handles_errors():
        try:
            os.kill(os.getpid(), number)
            time.sleep(60)
        except Exception:
            return 0

    for work in (cleans_up, hides_it, handles_errors):
        code, said = ending(work, capsys)
        assert code == 128 + number and said.startswith("stopped")


def test_a_hangup_saves_the_state_and_stays_ignored_under_nohup(tmp_path, monkeypatch):
    tiny.show_devices(monkeypatch, 1)
    config = tiny.config(num_steps=1000, checkpoint_every=1000, log_every=2)
    run = training.prepare(config, tmp_path)
    written = training.logging.MetricsWriter.write

    def write(self, step, values):
        written(self, step, values)
        if step == 4:
            os.kill(os.getpid(), signal.SIGHUP)

    monkeypatch.setattr(training.logging.MetricsWriter, "write", write)
    with pytest.raises(training.Interrupted, match="by Hangup") as stopped:
        training.train(run)
    assert stopped.value.exit_code == 129
    steps = [int(p.name) for p in (tmp_path / "checkpoints").iterdir()]
    assert len(steps) == 1 and 4 <= steps[0] < 1000
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    with training.loop.StopSignals() as stop, training.stop_on_signals():
        assert list(stop._before) == [signal.SIGINT]


def test_a_closed_pipe_ends_nothing():
    reader, writer = os.pipe()
    output = process.Output(open(writer, "w"))  # noqa: SIM115 (closed below)
    os.close(reader)
    for _ in range(3):
        output.write("line\n" * 10_000)
        output.flush()
    output.close()


@pytest.mark.parametrize("module", ["disentangle_jax", "disentangle_jax.main"])
def test_a_reader_that_leaves_ends_no_command(module):
    reader, writer = os.pipe()
    os.close(reader)  # As `| head -1` does after its line.
    command = [sys.executable, "-m", module, "fields"]
    done = subprocess.run(
        command, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_ends_a_command_at_once_and_stays_ignored_in_the_background(monkeypatch):
    monkeypatch.setattr(process, "protect_output", lambda: None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process.set_up()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL  # No traceback.
        with training.stop_on_signals():
            assert signal.getsignal(signal.SIGINT) not in (signal.SIG_DFL, None)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process.set_up()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_terminal_without_unicode_shows_the_rest(monkeypatch):
    content = io.BytesIO()
    stream = io.TextIOWrapper(content, encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)
    process.protect_output()
    training.Progress("training", 2, stream=sys.stdout).update(2, "█ done ↓")
    assert b"training 2/2 steps  ? done ?" in content.getvalue()
    print("dropped", file=sys.stderr)  # Closed before the start.
    sys.stderr.close()


def test_damaged_files_of_a_run_are_named(tmp_path, monkeypatch, capsys):
    tiny.show_devices(monkeypatch, 1)
    run = training.prepare(tiny.config(num_steps=2, checkpoint_every=2), tmp_path)
    training.train(run)
    evaluation.evaluate(run)
    for name in ("pictures.npz", "scores.json", "config.json"):
        path = tmp_path / name
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        capsys.readouterr()
        assert main.main(["report", str(tmp_path)]) in (1, 2)
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and f"{path}: is damaged" in said
        path.write_bytes(whole)
    with (tmp_path / "metrics.jsonl").open("ab") as rows:
        rows.write(b'{"step": 3, "loss"\n')
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main.main(["report", str(tmp_path)]) == 0
    assert "metrics.jsonl: 1 lines are damaged" in capsys.readouterr().out


def test_flipped_bits_are_noticed(tmp_path, monkeypatch, capsys):
    tiny.show_devices(monkeypatch, 1)
    found = flips.flip_all(tmp_path, 40)
    assert all(kind.tries for kind in found.values())
    assert not any(kind.silent for kind in found.values()), found
    assert sum(kind.noticed for kind in found.values()) > 20


@pytest.mark.slow
def test_the_scripted_attack():
    command = [sys.executable, "-m", "tests.faults", "--kills=10", "--flips=40"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^0 failures", done.stdout, re.MULTILINE)
