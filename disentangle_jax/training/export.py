"""Writes a lane as an ordinary run."""

import dataclasses
import os
import pathlib
import shutil

import jax

from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from disentangle_jax.training.run import Run
from disentangle_jax.training.stored_runs import write_dataset
from disentangle_jax.training.workdir import start_workdir
from disentangle_jax.types import unknown_name


def export_lane(run: Run, name: str, workdir: str | os.PathLike) -> Run:
    """Writes one lane of a trained run as a run of its own, which can be continued.

    Args:
      run: a trained run with lanes.
      name: of the lane, e.g. ``"beta=4,seed=0"``.
      workdir: folder to write to; it must not exist.

    Returns:
      The run of the lane: config, checkpoint and metric rows are in its folder.
    """
    names = [lane.name for lane in run.lanes]
    if name not in names:
        raise unknown_name("export_lane", "name", name, names)
    workdir = pathlib.Path(workdir)
    if workdir.exists():
        raise ValueError(f"export_lane: `workdir` must not exist, and {workdir} does.")
    number = names.index(name)
    keep = run.config.train.keep_checkpoints
    like = program_lib.abstract_carry(run)
    with Checkpoints(run.workdir / "checkpoints", keep=keep) as checkpoints:
        carry = checkpoints.restore(like)
    if carry is None:
        raise ValueError(f"export_lane: {run.workdir} holds no checkpoint yet.")
    inside = run.models()[number]
    own = inside.config.copy_and_resolve_references()
    for section, field in (("train", "start_from"), ("data", "hold_out")):
        own[section][field] = own[section][field].replace(
            "{workdir}", str(run.workdir.absolute())
        )
    alone = dataclasses.replace(inside, config=own, workdir=workdir)
    start_workdir(alone.config, workdir)
    write_dataset(alone)
    shutil.copy(inside.workdir / "metrics.jsonl", workdir / "metrics.jsonl")
    state = jax.tree.map(lambda leaf: leaf[number : number + 1], carry)
    with Checkpoints(workdir / "checkpoints", keep=keep) as checkpoints:
        checkpoints.save(int(carry.step), state)
    return alone
