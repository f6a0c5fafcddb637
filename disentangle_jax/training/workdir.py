"""The folder of a run: what it was started with, and whether it can be continued."""

import json
import os
import pathlib

import ml_collections

from disentangle_jax import config as config_lib
from disentangle_jax import files, rows
from disentangle_jax.training.processes import is_first

# Raised when checkpoints of earlier versions can no longer be read.
_FORMAT = 2


def check_writable(workdir: pathlib.Path) -> None:
    """Raises a ValueError where `workdir` is no folder that can be written to."""
    absolute = workdir.absolute()
    parent = next(p for p in (absolute, *absolute.parents) if p.exists())
    if not parent.is_dir():
        raise ValueError(
            f"workdir: {parent} is a file; give a folder with --workdir=DIR."
        )
    if not os.access(parent, os.W_OK):
        raise ValueError(
            f"workdir: {parent} is not writable; give another folder with "
            "--workdir=DIR."
        )


def check_workdir(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> None:
    """Raises where `workdir` cannot be written to or was begun with another config."""
    check_writable(workdir)
    if not (workdir / "config.json").exists():
        return
    stored = read_config(workdir)
    differing = rows.differences(rows.flat(stored), rows.flat(config), rows.WORKDIR)
    if differing:
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ValueError(
            f"workdir: {workdir} holds a run of another config "
            f"({', '.join(differing[:3])}{more}); give another --workdir, or the "
            "config it was started with."
        )


def start_workdir(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> None:
    """Creates the folder of a run and writes its config there."""
    if not is_first():
        return
    workdir.mkdir(parents=True, exist_ok=True)
    stored = {"format": _FORMAT, **json.loads(config.to_json())}
    files.write_json(workdir / "config.json", stored)


def read_config(workdir: str | os.PathLike) -> ml_collections.ConfigDict:
    """Returns the config that a workdir was started with."""
    path = pathlib.Path(workdir) / "config.json"
    if not path.exists():
        raise ValueError(
            f"workdir: {workdir} holds no run (no config.json); train one there "
            "first, or name the right --workdir."
        )
    stored = json.loads(path.read_text())
    if stored.pop("format", 1) != _FORMAT:
        raise ValueError(
            f"workdir: {workdir} holds a run of another version of the library, whose "
            "checkpoints this one does not read; give another --workdir."
        )
    return config_lib.complete(config_lib.from_json(stored))


def has_checkpoint(workdir: pathlib.Path) -> bool:
    """Returns whether a run saved its state there."""
    folder = workdir / "checkpoints"
    return folder.is_dir() and any(path.name.isdigit() for path in folder.iterdir())
