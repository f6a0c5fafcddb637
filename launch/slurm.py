"""Packs of a sweep as array jobs of Slurm, through submitit."""

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from disentangle_jax import sweep as sweep_lib
from launch import work

# Slurm's default limit of the tasks of one array (MaxArraySize) is 1001.
_MOST_TASKS = 1000
# Time limits a task may run into before it is given up: each time it goes on from its
# last checkpoint.
_MOST_TIMEOUTS = 1000


class PackTask:
    """What a task of the array does; pickled by submitit.

    On the signal that Slurm sends before a time limit or a preemption, submitit puts
    the task back into the queue, where it goes on from its last checkpoint.
    """

    def __init__(self, workdir: str):
        self.workdir = workdir

    def __call__(self, pack: int) -> None:
        work.set_up_process()
        work.work(sweep_lib.load(self.workdir), packs=[pack])

    def checkpoint(self, pack: int) -> Any:
        """Returns what is put back into the queue: the same."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, pack)


def check() -> None:
    """Raises a ValueError where nothing can be submitted from this machine."""
    if shutil.which("sbatch") is None:
        raise ValueError(
            "--cluster=slurm: there is no `sbatch` on this machine; submit from a "
            "login node of the cluster, or use --cluster=local."
        )
    try:
        import submitit  # noqa: F401
    except ModuleNotFoundError:
        raise ValueError(
            "--cluster=slurm: needs submitit; pip install 'disentangle_jax[launch]'."
        ) from None


def submit(
    sweep: sweep_lib.Sweep,
    packs: Sequence[int],
    *,
    time_limit: int,
    parallelism: int,
    partition: str | None = None,
    gpus: int = 0,
    cpus: int = 1,
    memory_gb: float | None = None,
    constraint: str | None = None,
    account: str | None = None,
) -> list[str]:
    """Submits packs, one task each, and returns the numbers of the array jobs.

    Args:
      sweep: the sweep; its folder must be one that the nodes share.
      packs: numbers of the packs.
      time_limit: of a task, minutes; one that needs longer is requeued.
      parallelism: most tasks at once.
      partition: of the cluster.
      gpus: of a task.
      cpus: of a task.
      memory_gb: of a task.
      constraint: features that the nodes must have.
      account: to charge.
    """
    import submitit

    folder = sweep.workdir.absolute() / "slurm"
    executor = submitit.AutoExecutor(
        folder=folder / "%j", cluster="slurm", slurm_max_num_timeout=_MOST_TIMEOUTS
    )
    wishes = {
        "name": f"sweep-{sweep.workdir.name}",
        "timeout_min": time_limit,
        "cpus_per_task": cpus,
        "slurm_array_parallelism": parallelism,
        "slurm_partition": partition,
        "gpus_per_node": gpus or None,
        "mem_gb": memory_gb,
        "slurm_constraint": constraint,
        "slurm_account": account,
        "slurm_additional_parameters": {"requeue": True},
    }
    executor.update_parameters(**{k: v for k, v in wishes.items() if v is not None})
    task = PackTask(str(sweep.workdir.absolute()))
    submitted = []
    for start in range(0, len(packs), _MOST_TASKS):
        part = list(packs[start : start + _MOST_TASKS])
        jobs = executor.map_array(task, part)
        job = jobs[0].job_id.partition("_")[0]
        _note_job(folder / "jobs.jsonl", {"job": job, "packs": part})
        submitted.append(job)
    return submitted


def _note_job(path: pathlib.Path, job: dict[str, Any]) -> None:
    """Appends a line at once, so that several launchers do not mix theirs."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    with os.fdopen(handle, "ab") as file:
        file.write((json.dumps(job) + "\n").encode())


def jobs(sweep: sweep_lib.Sweep) -> dict[str, list[int]]:
    """Returns the packs of each array job of the sweep, by its number."""
    path = sweep.workdir / "slurm" / "jobs.jsonl"
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text().splitlines())
    return {line["job"]: line["packs"] for line in lines}


def active_packs(sweep: sweep_lib.Sweep) -> dict[int, str]:
    """Returns the packs that Slurm still has, with the state it tells of them."""
    known = jobs(sweep)
    if not known:
        return {}
    # Asked for one's own jobs, not by number: Slurm refuses numbers it has forgotten.
    text = subprocess.run(
        ["squeue", "--noheader", "--array", "--me", "--format=%F %K %T"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {}
    for line in text.splitlines():
        job, index, state = line.split()
        if job in known and index.isdigit():
            found[known[job][int(index)]] = state
    return found


def cancel(sweep: sweep_lib.Sweep) -> list[str]:
    """Ends the array jobs of the sweep that Slurm still has; returns their numbers.

    Tasks save their state before they stop.
    """
    active = active_packs(sweep)
    ended = [job for job, packs in jobs(sweep).items() if set(packs) & set(active)]
    if ended:
        subprocess.run(["scancel", *ended], check=True)
    return ended
