"""Claims: which process runs a pack, despite crashes, requeues and unequal clocks."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import threading
import time
from typing import Any

from disentangle_jax.files import write_once

# Seconds between heartbeats of a pack, and without one until another process takes it.
HEARTBEAT = 10.0
STALE = 90.0


class Held(Exception):
    """Another process runs the pack."""


class Claim:
    """The right to run a pack, kept by touching a file while the pack runs.

    Claims are numbered, and the highest number is valid. A process that finds its
    holder dead makes the next one, by a hard link that only one process can make. A
    holder on this machine is dead if its process has ended. A holder on another machine
    is dead if its file did not change while we watched it for ``STALE`` seconds, so
    clocks may differ. For example::

        with Claim(folder, watched):      # raises Held
            ...

    Args:
      folder: folder of the pack.
      watched: when the files of other claims last changed; shared by repeated attempts.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        watched: dict[pathlib.Path, tuple[float, float]] | None = None,
    ):
        self._folder = folder
        self._watched = {} if watched is None else watched
        self._path: pathlib.Path | None = None
        self._stop = threading.Event()

    def __enter__(self) -> "Claim":
        self._folder.mkdir(parents=True, exist_ok=True)
        newest = newest_claim(self._folder)
        if newest is not None and self._alive(newest):
            raise Held(claim_holder(newest))
        number = 1 if newest is None else int(newest.suffix[1:]) + 1
        path = self._folder / f"claim.{number}"
        if not write_once(path, json.dumps(me()).encode()):
            raise Held("another process, which started just now")
        if newest_claim(self._folder) != path:
            path.unlink()
            raise Held("another process, which started just now")
        if newest is not None:
            newest.unlink(missing_ok=True)
        self._path = path
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._path.unlink(missing_ok=True)

    def _alive(self, path: pathlib.Path) -> bool:
        try:
            holder, touched = json.loads(path.read_text()), path.stat().st_mtime
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        if holder["place"] == me()["place"]:
            return process_start(holder["pid"]) == holder["started"]
        seen, since = self._watched.get(path, (None, 0.0))
        if seen != touched:
            self._watched[path] = (touched, time.monotonic())
            return True
        return time.monotonic() - since < STALE

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT):
            newest = newest_claim(self._folder)
            if newest != self._path:
                print(
                    f"{self._folder}: another process took over; stopping", flush=True
                )
                os.kill(os.getpid(), signal.SIGTERM)
                return
            with contextlib.suppress(OSError):  # E.g. a network error: try again.
                os.utime(self._path)


def newest_claim(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the valid claim, or None."""
    paths = [p for p in folder.glob("claim.*") if p.suffix[1:].isdigit()]
    return max(paths, key=lambda p: int(p.suffix[1:]), default=None)


def claim_holder(path: pathlib.Path) -> str:
    """Returns a text that names the holder of a claim."""
    try:
        holder = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return "another process"
    return f"process {holder['pid']} on {holder['host']}"


def looks_alive(claim: pathlib.Path) -> bool:
    """Returns whether the holder of a claim seems to run, without watching it."""
    try:
        holder, touched = json.loads(claim.read_text()), claim.stat().st_mtime
    except (OSError, json.JSONDecodeError):
        return False
    if holder["place"] == me()["place"]:
        return process_start(holder["pid"]) == holder["started"]
    return abs(time.time() - touched) < STALE


def stop_holder(path: pathlib.Path) -> bool:
    """Asks the holder of a claim to stop; returns False if it is on another machine."""
    holder = json.loads(path.read_text())
    if holder["place"] != me()["place"]:
        return False
    os.kill(holder["pid"], signal.SIGTERM)
    return True


def me() -> dict[str, Any]:
    """Returns the identity of this process."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id")
    namespace = pathlib.Path("/proc/self/ns/pid")
    place = [socket.gethostname()]
    place += [boot.read_text().strip()] if boot.exists() else []
    place += [os.readlink(namespace)] if namespace.exists() else []
    return {
        "host": socket.gethostname(),
        "place": " ".join(place),
        "pid": os.getpid(),
        "started": process_start(os.getpid()),
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
    }


def process_start(pid: int) -> str | None:
    """Returns when a process of this machine started; None if it has ended.

    A zombie, which its parent has not yet waited for, has ended. Without ``/proc``,
    processes are identified by their id alone.
    """
    if not pathlib.Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            return "running"
        return "running"
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may contain any character; the other fields follow it.
    fields = text.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return None if state in "ZX" else started
