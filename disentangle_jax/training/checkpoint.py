"""Checkpoints of a run: asynchronous, atomic, with a fallback to older ones.

Orbax writes each checkpoint to a temporary folder and renames it when complete, so a
run that is killed at any moment leaves complete checkpoints only. A hash of every array
is stored with it. If a checkpoint cannot be read later, or differs from what was saved,
the newest good one is used, those after it are moved aside with a warning, and nothing
is deleted.
"""

import gc
import hashlib
import logging as python_logging
import pathlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.experimental import multihost_utils

from disentangle_jax import files
from disentangle_jax.training.processes import is_first

_Tree = TypeVar("_Tree")


class UnreadableCheckpoint(ValueError):
    """No checkpoint of a folder could be read, though it holds some."""


class Checkpoints:
    """The checkpoints of one run.

    Synopsis::

        with Checkpoints(workdir / "checkpoints", keep=3) as checkpoints:
            state = checkpoints.restore(like=abstract_state)
            ...
            checkpoints.save(step, state)
    """

    def __init__(self, directory: pathlib.Path, *, keep: int):
        self._directory = pathlib.Path(directory).absolute()
        self._keep = keep
        self._manager = self._open()

    def _open(self) -> ocp.CheckpointManager:
        options = ocp.CheckpointManagerOptions(max_to_keep=self._keep, create=True)
        return ocp.CheckpointManager(self._directory, options=options)

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, *_: object) -> None:
        self._manager.close()

    def latest_step(self) -> int | None:
        """Returns the step of the newest checkpoint, or None."""
        return self._manager.latest_step()

    def save(self, step: int, state: Any, *, pending: dict | None = None) -> None:
        """Saves `state`, in the background; a step that is saved is left alone.

        Args:
          step: of the state.
          state: a pytree of arrays.
          pending: JSON values that :meth:`pending` returns for this step.
        """
        if step in self._manager.all_steps():
            return
        stored = {**_digests(state), "pending": pending or {}}
        stored["sha256"] = files.content_hash(stored)
        items = ocp.args.Composite(
            state=ocp.args.StandardSave(state), digests=ocp.args.JsonSave(stored)
        )
        self._manager.save(step, args=items)

    def wait(self) -> None:
        """Returns when everything saved so far is on disk."""
        self._manager.wait_until_finished()

    def pending(self, step: int) -> dict:
        """Returns what was saved as `pending` with the state of a step."""
        if step not in self._manager.all_steps():
            return {}
        items = ocp.args.Composite(digests=ocp.args.JsonRestore())
        return self._manager.restore(step, args=items).digests.get("pending", {})

    def restore(self, like: _Tree) -> _Tree | None:
        """Returns the newest readable state, or None where nothing was ever saved.

        Args:
          like: the wanted structure, shapes and shardings (a pytree).

        Raises:
          UnreadableCheckpoint: there are checkpoints, but none can be read.
        """
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, like)
        failures: dict[int, str] = {}
        for step in sorted(self._manager.all_steps(), reverse=True):
            state = None
            with _quiet_failures():
                try:
                    state = self._read(step, abstract)
                except Exception as error:  # Orbax raises bare Exception on bad chunks.
                    failures[step] = _first_line(error)
                if step in failures:
                    gc.collect()  # Ends reads given up, but for those in flight.
            if step in failures:
                continue
            self._move_aside(failures, used=step)
            return state
        if failures:
            step, reason = next(iter(failures.items()))
            raise UnreadableCheckpoint(
                f"checkpoints: none of {self._directory} can be read (step {step}: "
                f"{reason}). Use another --workdir, or move the folder "
                "away to start afresh."
            )
        return None

    def _read(self, step: int, abstract: Any) -> Any:
        """Returns the state of a step, or raises where it is not what was saved."""
        items = ocp.args.Composite(
            state=ocp.args.StandardRestore(abstract), digests=ocp.args.JsonRestore()
        )
        found = self._manager.restore(step, args=items)
        stored = found.digests
        total = stored.pop("sha256", None)  # Older checkpoints have none.
        if total is not None and total != files.content_hash(stored):
            raise ValueError("its hashes differ from what was saved")
        for name, digest in _digests(found.state).items():
            if stored.get(name, digest) != digest:
                raise ValueError(f"{name} differs from what was saved")
        return found.state

    def _move_aside(self, failures: dict[int, str], *, used: int) -> None:
        if not failures:
            return
        for step, error in failures.items():
            aside = self._directory.with_name(f"damaged-checkpoint-{step}")
            number = 1
            while aside.exists():  # The same step was damaged before.
                number += 1
                aside = aside.with_name(f"damaged-checkpoint-{step}.{number}")
            if is_first():
                (self._directory / str(step)).rename(aside)
            warnings.warn(
                f"checkpoint of step {step} is damaged ({error}); moved "
                f"to {aside} and continuing from step {used}",
                stacklevel=3,
            )
        multihost_utils.sync_global_devices("damaged checkpoints are moved")
        self._manager.close()
        self._manager = self._open()


def _digests(state: Any) -> dict[str, str]:
    """Returns a hash of the content of each array of `state`, by its path.

    Arrays that other processes hold parts of have none.
    """
    return {
        jax.tree_util.keystr(path): hashlib.blake2b(
            np.ascontiguousarray(jax.device_get(leaf)).tobytes(), digest_size=16
        ).hexdigest()
        for path, leaf in jax.tree.leaves_with_path(state)
        if getattr(leaf, "is_fully_addressable", True)
    }


@contextmanager
def _quiet_failures() -> Iterator[None]:
    """Silences the messages of parallel reads that stop at a damaged file.

    asyncio logs some of them; others raise when they are deleted, where no code can
    catch them.
    """
    logger = python_logging.getLogger("asyncio")
    level, hook = logger.level, sys.unraisablehook
    logger.setLevel(python_logging.CRITICAL)
    # Signals, which are no Exceptions, are not silenced.
    sys.unraisablehook = lambda u: isinstance(u.exc_value, Exception) or hook(u)
    try:
        yield
    finally:
        logger.setLevel(level)
        sys.unraisablehook = hook


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:120] if str(error) else type(error).__name__
