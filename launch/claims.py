"""Who runs a pack: claims that survive crashes, requeues and clocks that differ."""

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

# Seconds between signs of life of a pack, and without one until others take it over.
HEARTBEAT = 10.0
STALE = 90.0


class Held(Exception):
    """Somebody else runs the pack."""


class Claim:
    """The right to run a pack, kept by touching a file while it runs.

    Claims are numbered. The highest number holds; who finds it dead makes the next,
    by a link that only one can make. A holder on this machine is dead when its process
    is; one elsewhere when its file was not touched for ``STALE`` seconds of watching,
    so that clocks that differ do no harm.

    Synopsis::

        with Claim(folder, watched):      # raises Held
            ...
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
            raise Held("another process, since a moment")
        if newest_claim(self._folder) != path:
            path.unlink()
            raise Held("another process, since a moment")
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
            with contextlib.suppress(OSError):  # A full disk, a network that hiccups.
                os.utime(self._path)


def newest_claim(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the claim that holds, or None."""
    paths = [p for p in folder.glob("claim.*") if p.suffix[1:].isdigit()]
    return max(paths, key=lambda p: int(p.suffix[1:]), default=None)


def claim_holder(path: pathlib.Path) -> str:
    """Returns who made a claim, in words."""
    try:
        holder = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return "another process"
    return f"process {holder['pid']} on {holder['host']}"


def looks_alive(claim: pathlib.Path) -> bool:
    """Whether the holder of a claim seems to live, at one look."""
    try:
        holder, touched = json.loads(claim.read_text()), claim.stat().st_mtime
    except (OSError, json.JSONDecodeError):
        return False
    if holder["place"] == me()["place"]:
        return process_start(holder["pid"]) == holder["started"]
    return abs(time.time() - touched) < STALE


def stop_holder(path: pathlib.Path) -> bool:
    """Asks the holder of a claim to stop; False where it is on another machine."""
    holder = json.loads(path.read_text())
    if holder["place"] != me()["place"]:
        return False
    os.kill(holder["pid"], signal.SIGTERM)
    return True


def me() -> dict[str, Any]:
    """Returns what tells this process from all others."""
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
    """Returns when a process of this machine started, None if it is no more.

    A zombie, ended but not yet collected by its parent, is no more. Where there is no
    ``/proc``, processes are told by their number alone.
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
    # The name, in parentheses, may hold anything; the other fields follow it.
    fields = text.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return None if state in "ZX" else started
