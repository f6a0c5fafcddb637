"""Claims: which process may write to a folder, despite crashes and unequal clocks.

Synopsis::

    with claims.hold(workdir):      # raises Held: who writes there, and since when
        ...
"""

import contextlib
import os
import pathlib
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from disentangle_jax import files

# Seconds between heartbeats of a holder, and without one until its claim is taken.
HEARTBEAT = 10.0
STALE = 90.0


class Held(Exception):
    """Another process writes to the folder; the message names it."""


class Claim:
    """The right to write to a folder, kept by touching a file there.

    Claims are numbered, and the highest number is valid. A process that finds its
    holder dead makes the next one, by a hard link that only one process can make. A
    holder on this machine is dead if its process has ended. A holder on another
    machine, or one whose file is damaged, is dead if its file did not change while we
    watched it for ``STALE`` seconds, so clocks may differ.

    Args:
      folder: the folder; it is created.
      watched: when the files of other claims last changed; shared by repeated attempts.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        watched: dict[pathlib.Path, tuple[float, float]] | None = None,
    ):
        self._folder = folder
        self._watched = {} if watched is None else watched
        self._stop = threading.Event()

    def __enter__(self) -> "Claim":
        self._folder.mkdir(parents=True, exist_ok=True)
        newest = newest_claim(self._folder)
        if newest is not None and self._alive(newest):
            raise Held(claim_holder(newest))
        number = 1 if newest is None else int(newest.suffix[1:]) + 1
        path = self._folder / f"claim.{number}"
        content = {**me(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        if not files.write_once(path, files.json_bytes(content)):
            raise Held("another process, which started just now")
        if newest_claim(self._folder) != path:
            path.unlink()
            raise Held("another process, which started just now")
        if newest is not None:
            _give_up(newest)
        self._path: pathlib.Path = path
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._path.unlink(missing_ok=True)

    def _alive(self, path: pathlib.Path) -> bool:
        holder = _read(path)
        if holder.get("place") == me()["place"]:
            return process_start(holder["pid"]) == holder["started"]
        try:
            touched = path.stat().st_mtime
        except FileNotFoundError:
            return False
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


@contextlib.contextmanager
def hold(folder: pathlib.Path) -> Iterator[None]:
    """Holds a folder for this process while a block runs; blocks may be nested.

    Where the claim of another machine is found, this waits until it is touched, which
    shows that its holder lives, or until its holder is taken for dead.

    Raises:
      Held: another process holds it.
    """
    newest = newest_claim(folder)
    if newest is not None and _is_me(_read(newest)):
        yield
        return
    watched: dict[pathlib.Path, tuple[float, float]] = {}
    while True:
        before = dict(watched)
        claim = Claim(folder, watched)
        try:
            claim.__enter__()
            break
        except Held as holder:
            if not watched or (before and watched != before):
                raise
            if not before:
                print(f"{folder}: waiting whether {holder} still runs", flush=True)
        time.sleep(min(1.0, STALE / 4))
    try:
        yield
    finally:
        claim.__exit__()


def newest_claim(folder: pathlib.Path) -> pathlib.Path | None:
    """Returns the valid claim, or None."""
    paths = [p for p in folder.glob("claim.*") if p.suffix[1:].isdigit()]
    return max(paths, key=lambda p: int(p.suffix[1:]), default=None)


def claim_holder(path: pathlib.Path) -> str:
    """Returns a text that names the holder of a claim."""
    holder = _read(path)
    if not holder:
        return f"a process that {path} does not name, for the file is damaged"
    return f"process {holder['pid']} on {holder['host']}, since {holder.get('since')}"


def looks_alive(claim: pathlib.Path) -> bool:
    """Returns whether the holder of a claim seems to run, without watching it."""
    holder = _read(claim)
    if holder.get("place") == me()["place"]:
        return process_start(holder["pid"]) == holder["started"]
    try:
        return abs(time.time() - claim.stat().st_mtime) < STALE
    except FileNotFoundError:
        return False


def remove_left(folder: pathlib.Path) -> None:
    """Removes a claim whose process was killed after its last result."""
    claim = newest_claim(folder)
    if claim is not None and not looks_alive(claim):
        claim.unlink(missing_ok=True)


def stop_holder(path: pathlib.Path) -> bool:
    """Asks the holder of a claim to stop; returns False if it is on another machine."""
    holder = _read(path)
    if holder.get("place") != me()["place"]:
        return False
    os.kill(holder["pid"], signal.SIGTERM)
    return True


def _read(path: pathlib.Path) -> dict[str, Any]:
    """Returns what a claim says of its holder; nothing where it is damaged."""
    try:
        return files.read_json(path)
    except (OSError, files.Damaged):
        return {}


def _is_me(holder: dict[str, Any]) -> bool:
    own = me()
    return all(holder.get(name) == own[name] for name in ("place", "pid", "started"))


def _give_up(path: pathlib.Path) -> None:
    """Removes the claim of a dead holder; a damaged one is moved aside."""
    if path.exists() and not _read(path):
        print(f"warning: {path} is damaged; moved to {files.move_aside(path).name}")
    path.unlink(missing_ok=True)


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
