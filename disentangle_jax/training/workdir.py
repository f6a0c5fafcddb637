"""The folder of a run: what it was started with, and whether it can be continued."""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator

import ml_collections

from disentangle_jax import claims, files, rows
from disentangle_jax import config as config_lib
from disentangle_jax.training.processes import is_first

# Raised when checkpoints of earlier versions can no longer be read.
_FORMAT = 3


class InUse(Exception):
    """Another process writes to the folder."""


@contextlib.contextmanager
def writing(workdir: pathlib.Path) -> Iterator[None]:
    """Lets only this process write to `workdir` while a block runs; may be nested.

    Of several processes that train one run together, the first one holds the folder.

    Raises:
      InUse: another process writes there; the message names it.
    """
    if not is_first():
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(claims.hold(workdir))
        except claims.Held as holder:
            raise InUse(
                f"workdir: {workdir} is in use by {holder}; wait until it ends, or "
                "give another --workdir."
            ) from None
        yield


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
    old, new = dict(rows.flat(stored)), dict(rows.flat(config))
    if new.get("train.input") == "auto":  # The stored config has what it became.
        new["train.input"] = old["train.input"]
    differing = rows.differences(old, new, rows.WORKDIR)
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
    stored = files.read_json(path)
    if stored.pop("format", 1) != _FORMAT:
        raise ValueError(
            f"workdir: {workdir} holds a run of another version of the library, whose "
            "checkpoints this one does not read; give another --workdir."
        )
    return config_lib.complete(config_lib.from_json(stored))


def named_place(path: str, workdir: pathlib.Path) -> pathlib.Path:
    """Returns a path of a config, in which ``{workdir}`` is the folder of its run.

    A folder of several runs that refer to each other so can be copied and moved.
    """
    return pathlib.Path(os.path.normpath(path.replace("{workdir}", str(workdir))))


def has_checkpoint(workdir: pathlib.Path) -> bool:
    """Returns whether a run saved its state there."""
    folder = workdir / "checkpoints"
    return folder.is_dir() and any(path.name.isdigit() for path in folder.iterdir())
