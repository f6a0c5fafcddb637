"""A sweep on a real Slurm of one node, that this test starts and stops.

Needs root and Debian's ``slurm-wlm`` and ``munge``; skips where they are absent, unless
``DISENTANGLE_REQUIRE_SLURM`` is set, as ``.ci/run`` does: then that is a failure.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

# Now, as it closes the log handlers that it finds: under `capsys` absl's would close
# the stream that pytest writes to.
import submitit  # noqa: F401

from disentangle_jax import claims
from disentangle_jax import sweep as sweep_lib
from launch import slurm
from launch import sweep as command
from tests.launch import tiny_sweep

ROOT = pathlib.Path(__file__).parents[2]
TINY = tiny_sweep.__file__

_CONF = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
# The life of a credential is also how long a requeued job waits.
AuthInfo=socket={folder}/munge/socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
KillWait=5
SchedulerParameters=batch_sched_delay=0,sched_interval=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def wait_for(condition, what, seconds=180):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.1)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def output(*argv):
    return subprocess.run(argv, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def cluster():
    """Starts munged, slurmctld and slurmd; stops them, and no others, at the end."""
    needed = ("munged", "slurmctld", "slurmd", "sbatch", "setpriv")
    lacking = [name for name in needed if shutil.which(name) is None]
    if lacking or os.geteuid() != 0:
        why = f"needs root and slurm-wlm and munge (no {', '.join(lacking) or 'root'})"
        if os.environ.get("DISENTANGLE_REQUIRE_SLURM"):
            pytest.fail(why)
        pytest.skip(why)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)  # The user munge has to look into it.
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    for path in (folder / "munge", key):
        shutil.chown(path, "munge", "munge")
    conf = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    conf.write_text(_CONF.format(folder=folder, host=host, ports=free_ports(2)))
    patch = pytest.MonkeyPatch()
    patch.setenv("SLURM_CONF", str(conf))
    patch.setenv("JAX_PLATFORMS", "cpu")
    patch.setenv("TPU_SKIP_MDS_QUERY", "1")
    started = []
    log = (folder / "daemons.log").open("wb")

    def start(*argv):
        started.append(subprocess.Popen(argv, stdout=log, stderr=log))

    try:
        start(
            "setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged",
            "--foreground", f"--socket={folder}/munge/socket", f"--key-file={key}",
            f"--pid-file={folder}/munge/pid", f"--seed-file={folder}/munge/seed",
            f"--log-file={folder}/munge/log",
        )  # fmt: skip
        wait_for((folder / "munge" / "socket").exists, "munged", 30)
        start("slurmctld", "-D", "-i")
        start("slurmd", "-D")
        wait_for(lambda: "idle" in output("sinfo", "-h", "-o", "%T"), "the node", 60)
        yield folder
    finally:
        output("scancel", "--user=root")
        deadline = time.monotonic() + 30
        while output("squeue", "-h").strip() and time.monotonic() < deadline:
            time.sleep(0.2)
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        log.close()
        patch.undo()
        shutil.rmtree(folder)


def rows_of(workdir):
    return {p.stem: sweep_lib.read_row(p) for p in (workdir / "rows").glob("*.json")}


def test_killed_and_preempted_tasks_end_with_every_row_once(cluster, tmp_path, capsys):
    workdir = tmp_path / "sweep"
    argv = [f"--config={TINY}:long", f"--workdir={workdir}", "--lanes=2"]
    options = ["--cluster=slurm", "--partition=main", "--time_limit=20"]
    assert command.main([*argv, *options, "--parallelism=2"]) == 0
    assert "submitted 2 packs as array job 1" in capsys.readouterr().out
    sweep = sweep_lib.load(workdir)
    # A second launch finds both in the queue and submits nothing.
    assert command.main([*argv, *options]) == 0
    assert "2 packs are in Slurm's queue already" in capsys.readouterr().out
    assert slurm.jobs(sweep) == {"1": [0, 1]}

    for pack in ("0000", "0001"):
        folder = workdir / "packs" / pack / "checkpoints"
        wait_for(lambda f=folder: list(f.glob("[0-9]*")), f"steps of {pack}")
    # One task is killed the hard way, the other is told that it is preempted.
    (claim,) = (workdir / "packs" / "0000").glob("claim.*")
    killed = json.loads(claim.read_text())
    assert killed["slurm_job"]
    os.kill(killed["pid"], signal.SIGKILL)
    subprocess.run(["scancel", "--signal=USR2", "1_1"], check=True)
    wait_for(lambda: set(slurm.active_packs(sweep)) == {1}, "the killed task to end")
    assert claims.process_start(killed["pid"]) is None

    assert command.main(["resume", f"--workdir={workdir}"]) == 0
    out = capsys.readouterr().out
    assert "submitted 1 packs as array job" in out
    assert list(slurm.jobs(sweep).values()) == [[0, 1], [0]]
    wait_for(lambda: not slurm.active_packs(sweep), "the queue to empty")
    logs = "".join(p.read_text() for p in workdir.glob("slurm/*/*_log.err"))
    assert "this job is preempted" in logs, logs
    assert command.main(["status", f"--workdir={workdir}"]) == 0
    assert "4/4 models done" in capsys.readouterr().out

    # Every row is there once, every step was made once, and all is as run here.
    rows = rows_of(workdir)
    assert set(rows) == {model.id for model in sweep.models}
    for path in workdir.glob("packs/*/lanes/*/metrics.jsonl"):
        steps = [json.loads(line)["step"] for line in path.read_text().splitlines()]
        assert steps == list(range(2, 61, 2))
    local = tmp_path / "local"
    subprocess.run(
        [sys.executable, "-m", "launch.sweep", argv[0], f"--workdir={local}",
         "--lanes=2", "--cluster=debug"],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    alone = rows_of(local)
    assert {k: v["scores"] for k, v in rows.items()} == {
        k: v["scores"] for k, v in alone.items()
    }


def test_cancel_empties_the_queue(cluster, tmp_path, capsys):
    workdir = tmp_path / "sweep"
    argv = [f"--config={TINY}", f"--workdir={workdir}", "--lanes=1", "--cluster=slurm"]
    assert (
        command.main([*argv, "--parallelism=1", "--config.train.num_steps=9998"]) == 0
    )
    sweep = sweep_lib.load(workdir)
    assert len(slurm.active_packs(sweep)) == 4
    assert command.main(["cancel", f"--workdir={workdir}"]) == 0
    assert "cancelled: " in capsys.readouterr().out
    wait_for(lambda: not slurm.active_packs(sweep), "the queue to empty", 60)
    assert command.main(["status", f"--workdir={workdir}"]) == 1
    assert "0/4 models done  4 missing" in capsys.readouterr().out
