"""Sweeps through faults: nothing is lost, nothing is made twice, and it is told why."""

import gc
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from disentangle_jax import claims, files
from disentangle_jax import main as runs
from disentangle_jax import sweep as sweep_lib
from launch import sweep as command
from launch import work
from tests.launch import tiny_sweep

ROOT = pathlib.Path(__file__).parents[2]
TINY = tiny_sweep.__file__


def launch(capsys, workdir, *argv):
    code = command.main([*argv, f"--workdir={workdir}"])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def debug(capsys, workdir, preset="", *argv):
    start = (f"--config={TINY}{preset}", "--cluster=debug", "--lanes=2")
    return launch(capsys, workdir, *start, *argv)


def rows_of(workdir):
    return {p.stem: sweep_lib.read_row(p) for p in (workdir / "rows").glob("*.json")}


def starts(workdir):
    """Returns how often each pack's training was begun or continued."""
    return {
        pack.name: len(list(next((pack / "lanes").iterdir()).glob("tensorboard/*")))
        for pack in sorted((workdir / "packs").iterdir())
    }


def scores(rows):
    return {name: row["scores"] for name, row in rows.items()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished sweep, to be copied."""
    workdir = tmp_path_factory.mktemp("finished") / "sweep"
    argv = [f"--config={TINY}", "--cluster=debug", "--lanes=2", f"--workdir={workdir}"]
    assert command.main(argv) == 0
    return workdir


@pytest.fixture
def sweep(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "sweep")
    return tmp_path / "sweep"


def test_a_finished_sweep_has_each_row_once_and_is_left_alone(sweep, capsys):
    before = rows_of(sweep)
    assert len(before) == 4 and starts(sweep) == {"0000": 1, "0001": 1}
    for row in before.values():
        assert row["finite"] and not row["errors"]
        assert {"mig", "bce", "kl", "tc_mean", "tc_sampled"} <= set(row["scores"])
        assert row["commit"] and row["versions"]["jax"]
    code, out, _ = launch(capsys, sweep, "resume")
    assert code == 0 and "nothing is missing" in out and "4/4 models done" in out
    assert rows_of(sweep) == before
    code, out, _ = launch(capsys, sweep, "collect")
    assert code == 0 and "4 of 4 models" in out
    assert (sweep / "table.csv").read_text().count("\n") == 5
    assert runs.main(["study", str(sweep)]) == 0
    assert (sweep / "study" / "report.html").exists()


def test_a_deleted_run_folder_is_made_again_only_for_missing_rows(sweep, capsys):
    before = rows_of(sweep)
    times = {p.name: p.stat().st_mtime_ns for p in (sweep / "rows").iterdir()}
    shutil.rmtree(sweep / "packs" / "0000")
    # All rows are there: nothing is to be done.
    code, out, _ = launch(capsys, sweep, "resume")
    assert code == 0 and "nothing is missing" in out
    # One row of the deleted run is lost as well, and one is damaged.
    first, second = sweep_lib.load(sweep).packs[0].models
    (sweep / "rows" / f"{first.id}.json").unlink()
    damaged = sweep / "rows" / f"{second.id}.json"
    damaged.write_bytes(damaged.read_bytes()[:-30])
    code, out, _ = launch(capsys, sweep, "status")
    assert code == 1 and "2/4 models done" in out and "1 corrupt" in out
    code, out, _ = launch(capsys, sweep, "resume")
    assert code == 0, out
    assert f"{damaged} is damaged; moved aside" in out
    assert scores(rows_of(sweep)) == scores(before)
    assert len(list((sweep / "rows").glob(f"{second.id}.corrupt-*"))) == 1
    for model in sweep_lib.load(sweep).packs[1].models:
        path = sweep / "rows" / f"{model.id}.json"
        assert path.stat().st_mtime_ns == times[path.name]


def test_another_sweep_in_the_folder_is_refused(sweep, capsys):
    code, _, err = debug(capsys, sweep, "", "--config.train.num_steps=6")
    assert code == 2 and "holds another sweep" in err


def test_one_pack_fails_and_the_others_are_run(tmp_path, capsys):
    code, out, err = debug(capsys, tmp_path, ":lost")
    assert code == 1
    assert "pack 0 failed: FileNotFoundError: data.load: cars3d needs" in out
    assert "1 of 2 packs failed (0)" in err and len(rows_of(tmp_path)) == 2
    code, out, _ = launch(capsys, tmp_path, "status")
    assert code == 1 and "2/4 models done  2 failed" in out
    assert "pack 0 failed: FileNotFoundError" in out
    note = json.loads((tmp_path / "packs" / "0000" / "failed.json").read_text())
    assert "Traceback" in note["traceback"]
    code, out, _ = launch(capsys, tmp_path, "collect")
    assert code == 0 and "2 of 4 models" in out


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 300 kB in memory, and a function that makes it larger."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    grow = ["mount", "-o", "remount,size=200m", str(disk)]
    try:
        yield disk, lambda: subprocess.run(grow, check=True)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


# Orbax leaves files open where a checkpoint could not be written.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_loses_nothing_and_is_told(small_disk, finished, capsys):
    disk, grow = small_disk
    workdir = disk / "sweep"
    code, out, err = debug(capsys, workdir)
    assert code == 1 and "the disk is full; free some space" in out
    for path in (workdir / "rows").iterdir():  # What is there is whole.
        sweep_lib.read_row(path)
    grow()
    code, out, _ = launch(capsys, workdir, "resume")
    assert code == 0, out
    assert scores(rows_of(workdir)) == scores(rows_of(finished))
    assert not [p for p in workdir.rglob(".*") if p.parent.name in ("rows", "codes")]
    gc.collect()


# Who runs a pack.


def dead_process():
    """Returns the number and start of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = claims.process_start(process.pid)
    process.communicate(b"\n")
    return process.pid, started


def test_a_claim_is_held_by_one_and_taken_from_the_dead(tmp_path):
    held = pytest.raises(claims.Held, match=f"process {os.getpid()} on ")
    with claims.Claim(tmp_path), held, claims.Claim(tmp_path):
        pass
    with claims.Claim(tmp_path):  # Released, so free.
        pass
    assert list(tmp_path.iterdir()) == []
    pid, started = dead_process()
    left = {**claims.me(), "pid": pid, "started": started}
    files.write_json(tmp_path / "claim.4", left)
    assert not claims.looks_alive(tmp_path / "claim.4")
    with claims.Claim(tmp_path):
        assert [p.name for p in tmp_path.iterdir()] == ["claim.5"]
    # The number of a dead process that another has now.
    left["pid"] = os.getpid()
    files.write_json(tmp_path / "claim.1", left)
    with claims.Claim(tmp_path):
        pass


def test_the_claim_of_a_finished_pack_is_removed_if_its_process_died(
    finished, tmp_path
):
    """A process was killed after it wrote the last row of its pack."""
    shutil.copytree(finished, tmp_path / "sweep")
    sweep = sweep_lib.load(tmp_path / "sweep")
    folder = sweep.folder(sweep.packs[0])
    pid, started = dead_process()
    for left, remains in (({"pid": pid, "started": started}, False), ({}, True)):
        files.write_json(folder / "claim.1", {**claims.me(), **left})
        work.work(sweep)
        assert (folder / "claim.1").exists() == remains


def test_a_claim_from_elsewhere_is_taken_when_it_is_silent(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "STALE", 0.2)
    path = tmp_path / "claim.1"
    files.write_json(path, {**claims.me(), "place": "elsewhere"})
    os.utime(path, (1e9, 1e9))  # Its clock is decades behind ours.
    watched = {}
    with pytest.raises(claims.Held):
        claims.Claim(tmp_path, watched).__enter__()
    os.utime(path, (1e9 + 1, 1e9 + 1))  # It lives.
    time.sleep(0.25)
    with pytest.raises(claims.Held):
        claims.Claim(tmp_path, watched).__enter__()
    time.sleep(0.25)
    with claims.Claim(tmp_path, watched):
        assert not path.exists()


def test_who_was_given_up_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "HEARTBEAT", 0.05)
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    with claims.Claim(tmp_path):
        files.write_json(tmp_path / "claim.2", claims.me())
        deadline = time.monotonic() + 10
        while not killed and time.monotonic() < deadline:
            time.sleep(0.02)
    assert killed == [(os.getpid(), signal.SIGTERM)]


def test_claims_are_touched_while_work_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "HEARTBEAT", 0.05)
    with claims.Claim(tmp_path):
        path = tmp_path / "claim.1"
        os.utime(path, (1e9, 1e9))
        deadline = time.monotonic() + 10
        while path.stat().st_mtime < 2e9 and time.monotonic() < deadline:
            if path.stat().st_mtime > 1.1e9:
                break
            time.sleep(0.02)
        assert path.stat().st_mtime > 1.1e9


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def test_killed_coordinator_killed_worker_and_a_second_launcher(tmp_path):
    """The coordinator is killed, then a worker; another launcher ends the sweep."""
    workdir = tmp_path / "sweep"
    argv = [sys.executable, "-m", "launch.sweep", f"--config={TINY}:long", "--lanes=2"]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}
    options = {"cwd": ROOT, "env": env, "stdout": subprocess.PIPE, "text": True}
    first = subprocess.Popen([*argv, f"--workdir={workdir}"], **options)
    pids = []
    try:
        wait_for(lambda: list(workdir.glob("packs/*/checkpoints/[0-9]*")))
        (claim,) = workdir.glob("packs/*/claim.*")
        worker = json.loads(claim.read_text())["pid"]
        pids.append(worker)
        first.kill()
        first.communicate()
        assert claims.process_start(worker) is not None  # The worker goes on,
        second = subprocess.Popen([*argv, f"--workdir={workdir}"], **options)
        pids.append(second.pid)
        wait_for(lambda: len(list(workdir.glob("logs/*"))) == 2)
        os.kill(worker, signal.SIGKILL)  # until it is killed as well.
        out, _ = second.communicate(timeout=180)
        assert second.returncode == 0, out
    finally:
        for pid in pids:
            if claims.process_start(pid) is not None:
                os.kill(pid, signal.SIGKILL)
    rows = rows_of(workdir)
    sweep = sweep_lib.load(workdir)
    assert set(rows) == {model.id for model in sweep.models}
    assert work.status(sweep).missing == 0
    # Continued where it was killed, not begun anew: every step stands once.
    for path in workdir.glob("packs/*/lanes/*/metrics.jsonl"):
        steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
        assert steps == list(range(2, 61, 2))
    assert sum(starts(workdir).values()) <= 3


def test_cancel_stops_with_everything_saved(tmp_path):
    workdir = tmp_path / "sweep"
    argv = [
        sys.executable, "-m", "launch.sweep", f"--config={TINY}:long", "--lanes=2",
        "--config.train.num_steps=100000", f"--workdir={workdir}",
    ]  # fmt: skip
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}
    process = subprocess.Popen(
        argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: list(workdir.glob("packs/*/checkpoints/[0-9]*")))
        assert command.main(["cancel", f"--workdir={workdir}"]) == 0
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1 and "4 missing" in out  # Nothing failed.
    assert not list(workdir.glob("packs/*/claim.*"))
    assert not list(workdir.glob("packs/*/failed.json"))
