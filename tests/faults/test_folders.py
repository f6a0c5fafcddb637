"""A folder has one writer, and its files are whole or named as damaged."""

import os
import pathlib
import resource
import shlex
import shutil
import subprocess
import sys
import time

import pytest

from disentangle_jax import claims, evaluation, files, main, training
from disentangle_jax import sweep as sweep_lib
from disentangle_jax.experiments import capacity
from disentangle_jax.training import logging
from launch import sweep as launcher
from tests.experiments import made
from tests.launch import tiny_sweep
from tests.training import tiny

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def other_process(tmp_path):
    """A process that holds ``run`` below the temporary folder."""
    code = (
        "import pathlib, sys; from disentangle_jax import claims\n"
        "with claims.hold(pathlib.Path(sys.argv[1])):\n"
        "    print('holding', flush=True); input()"
    )
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "holding\n"
    yield folder, process
    process.kill()
    process.communicate()


def test_a_second_writer_is_told_who_holds_the_folder(other_process, capsys):
    folder, process = other_process
    config = folder.parent / "config.py"
    config.write_text(tiny.FILE)
    argv = [f"--config={config}", f"--workdir={folder}", "--config.train.num_steps=2"]
    assert main.main(argv) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{folder} is in use by process {process.pid} on " in said
    assert f", since {time.strftime('%Y-')}" in said
    assert [path.name for path in folder.iterdir()] == ["claim.1"]
    with pytest.raises(training.InUse):
        training.train(training.prepare(tiny.config(num_steps=2), folder))
    process.kill()  # Its claim stays, and is taken over.
    process.wait()
    with training.writing(folder), training.writing(folder):
        assert [path.name for path in folder.iterdir()] == ["claim.2"]
    assert not list(folder.iterdir())


def test_a_claim_of_another_machine_is_watched(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(claims, "STALE", 0.2)
    elsewhere = {**claims.me(), "place": "elsewhere", "since": "yesterday"}
    files.write_json(tmp_path / "claim.1", elsewhere)
    with claims.hold(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["claim.2"]
    assert "waiting whether process" in capsys.readouterr().out
    files.write_json(tmp_path / "claim.1", elsewhere)

    def touch(_):
        os.utime(tmp_path / "claim.1", (1e9, 1e9))  # It lives.

    monkeypatch.setattr(claims.time, "sleep", touch)
    with pytest.raises(claims.Held, match="since yesterday"), claims.hold(tmp_path):
        pass


def test_a_damaged_claim_is_watched_and_moved_aside(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(claims, "STALE", 0.2)
    for content in (b"", b"\xff\xfe", b"[1]", b'{"pid": 1}'):
        (tmp_path / "claim.1").write_bytes(content)
        with claims.hold(tmp_path):
            pass
        said = capsys.readouterr().out
        assert f"{tmp_path / 'claim.1'} is damaged; moved to claim.1.damaged" in said
    assert len(list(tmp_path.glob("claim.1.damaged*"))) == 4


def test_a_damaged_note_of_a_failure_is_moved_aside(tmp_path, capsys):
    sweep = sweep_lib.create(
        sweep_lib.expand(tiny_sweep.__file__), tmp_path / "sweep", lanes=2
    )
    path = sweep.folder(sweep.packs[0]) / "failed.json"
    path.parent.mkdir(parents=True)
    files.write_json(path, {"why": "no space", "traceback": ""})
    status = ["status", f"--workdir={tmp_path / 'sweep'}"]
    assert launcher.main(status) == 1
    assert "pack 0 failed: no space" in capsys.readouterr().out
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.warns(UserWarning, match="failed.json is damaged; moved to"):
        assert launcher.main(status) == 1
    assert "pack 0 failed: the reason was damaged" in capsys.readouterr().out
    assert path.with_name("failed.json.damaged").exists() and not path.exists()


def test_json_files_notice_every_flipped_bit(tmp_path):
    path = tmp_path / "file.json"
    value = {"seed": 1, "rate": 0.1, "names": ["a", None, True], "nan": float("inf")}
    files.write_json(path, value)
    assert files.read_json(path) == value
    content = path.read_bytes()
    unnoticed = 0
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            assert files.read_json(path) == value  # As white space has several forms.
            unnoticed += 1
        except files.Damaged as error:
            assert str(path) in str(error)
    assert unnoticed < len(content) / 20


def test_rows_notice_every_flipped_bit(tmp_path):
    writer = logging.MetricsWriter(tmp_path, start_step=0)
    for step in (1, 2, 3):
        writer.write(step, {"loss": 0.1 * step})
    path = tmp_path / "metrics.jsonl"
    content, rows = path.read_bytes(), training.read_metrics(tmp_path)
    assert rows[1] == {"step": 2, "loss": 0.2} and len(rows) == 3
    start, end = (content.index(b'{"step": %d' % step) for step in (2, 3))
    for bit in range(8 * start, 8 * (end - 1)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.warns(UserWarning, match="metrics.jsonl: . lines are damaged"):
            assert training.read_metrics(tmp_path) == [rows[0], rows[2]]


def test_a_run_resumes_after_a_million_rows_at_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    block = "".join(
        logging._line({"step": step, "loss": 0.5, "kl": 1.0}).decode()
        for step in range(1, 1001)
    )
    path.write_text(block * 1000)
    logging.MetricsWriter(tmp_path, start_step=1000).write(1001, {"loss": 1.0})
    size = path.stat().st_size
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    logging.MetricsWriter(tmp_path, start_step=1000)
    assert time.monotonic() - began < 1.0
    assert training.last_row(tmp_path)["step"] == 1000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    assert path.stat().st_size == len(block) * 1000 < size


def test_rows_of_many_lanes_need_few_open_files(tmp_path):
    _, hard = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 10, hard))
    try:
        writers = []
        for lane in range(50):
            (tmp_path / str(lane)).mkdir()
            writers.append(logging.MetricsWriter(tmp_path / str(lane), start_step=0))
        for writer in writers:
            writer.write(1, {"loss": 1.0})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert training.last_row(tmp_path / "49") == {"step": 1, "loss": 1.0}


@pytest.mark.slow
def test_a_thousand_lanes_need_fewer_than_1024_open_files(tmp_path):
    (tmp_path / "tiny_run.py").write_text(tiny.FILE)
    fields = {"lanes.seeds": 1000, "model.width": 1, "train.num_steps": 2}
    fields |= {"train.log_every": 1, "train.checkpoint_every": 2}
    command = [sys.executable, "-m", "disentangle_jax.main", "train"]
    command += [f"--config={tmp_path}/tiny_run.py", f"--workdir={tmp_path}/run"]
    command += [f"--config.{name}={value}" for name, value in fields.items()]
    shell = f"ulimit -n 1024; {shlex.join(command)}"
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    environment["JAX_NUM_CPU_DEVICES"] = "1"
    done = subprocess.run(
        ["bash", "-c", shell], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    folders = list((tmp_path / "run" / "lanes").iterdir())
    assert len(folders) == 1000
    assert all(training.last_row(folder)["step"] == 2 for folder in folders)


def test_a_protocol_is_complete_with_its_reports_and_can_be_moved(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(capacity, "_IMAGES", 20)
    config = made.config("capacity", capacities=(1.0, 4.0), pairs=50)
    config.method = {"name": "annealed_vae"}
    config.train.num_steps = 8
    values = made.values(config, tmp_path / "whole")
    moved = tmp_path / "moved"
    shutil.move(tmp_path / "whole", moved)
    report, pictures = moved / "capacity-1/report.html", moved / "capacity-4"
    drawn = report.read_bytes()
    report.unlink()
    (pictures / "pictures.npz").write_bytes(b"damaged")
    written = (moved / "capacity-1/scores.json").stat().st_mtime_ns
    capsys.readouterr()
    assert made.values(config, moved) == values
    said = capsys.readouterr().out
    assert "already trained for 6 steps" in said  # And evaluated again, in stage 2.
    assert report.read_bytes() == drawn
    assert (moved / "capacity-1/scores.json").stat().st_mtime_ns == written
    assert evaluation.read_arrays(pictures)
    made.values(config, moved)
    assert capsys.readouterr().out.count("already trained and evaluated") == 2
