"""Runs the packs of a sweep as Slurm array jobs, through submitit."""

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from disentangle_jax import sweep as sweep_lib

from . import work

# Slurm's default limit on the tasks of one array (MaxArraySize) is 1001.
_MOST_TASKS = 1000
# Number of times that a task may reach its time limit. Each time it is queued again and
# continues from its last checkpoint.
_MOST_TIMEOUTS = 1000


class PackTask:
    """The work of one task of the array; submitit pickles it.

    Slurm sends a signal before a time limit or a preemption. Submitit then puts the
    task back into the queue, and it continues from its last checkpoint.
    """

    def __init__(self, workdir: str):
        self.workdir = workdir

    def __call__(self, pack: int) -> None:
        work.set_up_process()
        work.work(sweep_lib.load(self.workdir), packs=[pack])

    def checkpoint(self, pack: int) -> Any:
        """Returns the task to put back into the queue: the same one."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, pack)


def check() -> None:
    """Raises a ValueError if this machine cannot submit jobs."""
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
    """Submits one task per pack and returns the ids of the array jobs.

    Args:
      sweep: the sweep; its folder must be on a file system that the nodes share.
      packs: numbers of the packs.
      time_limit: minutes per task; a task that needs longer is queued again.
      parallelism: maximal number of tasks at a time.
      partition: partition of the cluster.
      gpus: number of GPUs per task.
      cpus: number of CPUs per task.
      memory_gb: memory per task.
      constraint: features that the nodes must have.
      account: account to charge.
    """
    import submitit

    folder = sweep.workdir.absolute() / "slurm"
    executor = submitit.AutoExecutor(
        folder=folder / "%j", cluster="slurm", slurm_max_num_timeout=_MOST_TIMEOUTS
    )
    parameters = {
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
    executor.update_parameters(**{k: v for k, v in parameters.items() if v is not None})
    task = PackTask(str(sweep.workdir.absolute()))
    submitted = []
    for start in range(0, len(packs), _MOST_TASKS):
        part = list(packs[start : start + _MOST_TASKS])
        try:
            jobs = executor.map_array(task, part)
        except submitit.core.utils.FailedJobError as error:
            line = str(error).partition("\n")[0]
            raise ValueError(f"--cluster=slurm: sbatch failed: {line}") from None
        job = jobs[0].job_id.partition("_")[0]
        _note_job(folder / "jobs.jsonl", {"job": job, "packs": part})
        submitted.append(job)
    return submitted


def _note_job(path: pathlib.Path, job: dict[str, Any]) -> None:
    """Appends a line in one write, so that launchers do not mix their lines."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    with os.fdopen(handle, "ab") as file:
        file.write((json.dumps(job) + "\n").encode())


def jobs(sweep: sweep_lib.Sweep) -> dict[str, list[int]]:
    """Returns the packs of each array job of the sweep, by the id of the job."""
    path = sweep.workdir / "slurm" / "jobs.jsonl"
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text().splitlines())
    return {line["job"]: line["packs"] for line in lines}


def active_packs(sweep: sweep_lib.Sweep) -> dict[int, str]:
    """Returns the packs in Slurm's queue with the state that Slurm reports."""
    known = jobs(sweep)
    if not known:
        return {}
    # This asks for all of one's own jobs: Slurm rejects ids that it has forgotten.
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
    """Cancels the array jobs of the sweep and returns their ids.

    Tasks save their state before they stop.
    """
    active = active_packs(sweep)
    ended = [job for job, packs in jobs(sweep).items() if set(packs) & set(active)]
    if ended:
        subprocess.run(["scancel", *ended], check=True)
    return ended
