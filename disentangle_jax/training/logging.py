"""Output of a run while it trains: the rows of ``metrics.jsonl``, and progress."""

import json
import math
import os
import pathlib
import sys
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping
from typing import IO

# Bytes that are read at once from the end of metrics.jsonl.
_BLOCK = 1 << 16


class MetricsWriter:
    """Appends rows to ``metrics.jsonl``.

    A run that resumes at step ``t`` drops the rows after ``t`` that were written before
    it was killed, so that each step has one row. The file is open while a row is
    written only, so that a run may have thousands of lanes.
    """

    def __init__(self, workdir: pathlib.Path, *, start_step: int):
        self._rows = workdir / "metrics.jsonl"
        self._rows.touch()
        _keep_rows_until(self._rows, start_step)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes one row; non-finite values become null, as JSON has no NaN."""
        row = {k: v if math.isfinite(v) else None for k, v in values.items()}
        with self._rows.open("ab") as file:
            file.write(_line({"step": step, **row}))


def read_metrics(workdir: pathlib.Path) -> list[dict]:
    """Returns the rows of ``metrics.jsonl``; warns of damaged lines, left out."""
    path = workdir / "metrics.jsonl"
    rows, damaged = [], []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            row = _row(line)
            if row is not None:
                rows.append(row)
            elif line.endswith(b"\n"):  # A kill cuts the last line, without an end.
                damaged.append(number)
    if damaged:
        warnings.warn(
            f"{path}: {len(damaged)} lines are damaged, the first is line "
            f"{damaged[0]}; they are left out",
            stacklevel=2,
        )
    return rows


def last_row(workdir: pathlib.Path) -> dict | None:
    """Returns the last whole row of ``metrics.jsonl``, or None; reads its end only."""
    path = workdir / "metrics.jsonl"
    if not path.exists():
        return None
    return next((row for row, _ in _from_the_end(path) if row is not None), None)


def _line(row: dict) -> bytes:
    """Returns a line of ``metrics.jsonl``: a row, and a checksum of it."""
    text = json.dumps(row)
    return f'{text[:-1]}, "crc32": {zlib.crc32(text.encode())}}}\n'.encode()


def _row(line: bytes) -> dict | None:
    """Returns the row of a line, without its checksum; None where it is damaged."""
    text, found, check = line.rpartition(b', "crc32": ')
    if not found or check != b"%d}\n" % zlib.crc32(text + b"}"):
        return None
    return json.loads(text + b"}")


def _from_the_end(path: pathlib.Path) -> Iterator[tuple[dict | None, int]]:
    """Yields the rows of a file, the last one first, and where their lines end."""
    with path.open("rb") as file:
        start = file.seek(0, os.SEEK_END)
        rest = b""
        while start > 0:
            size = min(_BLOCK, start)
            start -= size
            file.seek(start)
            block = file.read(size) + rest
            first, *lines = block.splitlines(keepends=True)
            end = start + len(block)
            for line in reversed(lines):
                yield _row(line), end
                end -= len(line)
            rest = first
        if rest:
            yield _row(rest), len(rest)


def _keep_rows_until(path: pathlib.Path, step: int) -> None:
    """Cuts the file after its last row of at most `step`."""
    kept = (end for row, end in _from_the_end(path) if row and row["step"] <= step)
    os.truncate(path, next(kept, 0))


class Progress:
    """A progress bar on a terminal; a plain line now and then elsewhere."""

    def __init__(
        self,
        label: str,
        total: int,
        *,
        start: int = 0,
        unit: str = "steps",
        stream: IO[str] | None = None,
        plain_every_seconds: float = 10.0,
    ):
        self._label, self._total, self._unit = label, total, unit
        self._stream = stream or sys.stdout
        self._bar = self._stream.isatty()
        self._began = time.monotonic()
        self._measured = start, self._began
        self._last_line = -math.inf
        self._every = 0.1 if self._bar else plain_every_seconds

    def update(self, done: int, note: str = "") -> None:
        """Shows that `done` of the total are done, unless it was shown just before."""
        now = time.monotonic()
        if done < self._total and now - self._last_line < self._every:
            return
        self._last_line = now
        elapsed = now - self._began
        start, since = self._measured
        rate = (done - start) / (now - since) if now > since else 0.0
        eta = f"ETA {duration((self._total - done) / rate)}" if rate > 0 else "ETA ?"
        if done >= self._total:
            eta = f"took {duration(elapsed)}"
        parts = [f"{self._label} {done}/{self._total} {self._unit}", note, eta]
        text = "  ".join(part for part in parts if part)
        if self._bar:
            filled = int(24 * done / max(self._total, 1))
            bar = "█" * filled + "·" * (24 - filled)
            end = "\n" if done >= self._total else ""
            self._stream.write(f"\r\033[K{bar} {text}{end}")
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def measure_from(self, done: int) -> None:
        """Estimates the time left from here on, and shows the next update."""
        self._measured = done, time.monotonic()
        self._last_line = -math.inf

    def interrupt(self) -> None:
        """Ends a half-drawn bar, so that a message starts on its own line."""
        if self._bar:
            self._stream.write("\n")
            self._stream.flush()


def duration(seconds: float) -> str:
    """Returns `seconds` for people: ``42 s``, ``3 min 5 s``, ``2 h 10 min``."""
    seconds = max(0, round(seconds))
    for size, name, smaller, small_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {name}" + (
                f" {rest} {small_name}" if rest else ""
            )
    return f"{seconds} s"
