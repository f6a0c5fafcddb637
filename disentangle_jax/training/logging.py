"""Output of a run while it trains: metric rows, TensorBoard events, progress."""

import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Mapping
from typing import IO

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from disentangle_jax import files


class MetricsWriter:
    """Appends rows to ``metrics.jsonl`` and to TensorBoard's event files.

    A run that resumes at step ``t`` drops the rows after ``t`` that were written before
    it was killed, so that each step has one row.
    """

    def __init__(self, workdir: pathlib.Path, *, start_step: int):
        path = workdir / "metrics.jsonl"
        _keep_rows_until(path, start_step)
        self._rows = path.open("a")
        folder = workdir / "tensorboard"
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{os.getpid()}"
        self._events = RecordWriter((folder / name).open("wb"))
        self._write_event(Event(file_version="brain.Event:2"))
        if start_step:
            # Makes TensorBoard drop what came after the step that we resume from.
            session = SessionLog(status=SessionLog.START)
            self._write_event(Event(step=start_step + 1, session_log=session))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes one row; non-finite values become null, as JSON has no NaN."""
        row = {k: v if math.isfinite(v) else None for k, v in values.items()}
        self._rows.write(json.dumps({"step": step, **row}) + "\n")
        self._rows.flush()
        summary = Summary(
            value=[Summary.Value(tag=k, simple_value=v) for k, v in values.items()]
        )
        self._write_event(Event(step=step, summary=summary))

    def _write_event(self, event: Event) -> None:
        event.wall_time = time.time()
        self._events.write(event.SerializeToString())
        self._events.flush()

    def close(self) -> None:
        self._rows.close()
        self._events.close()


def read_metrics(workdir: pathlib.Path) -> list[dict]:
    """Returns the rows of ``metrics.jsonl``; a line cut by a kill is left out."""
    rows = []
    for line in (workdir / "metrics.jsonl").read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def _keep_rows_until(path: pathlib.Path, step: int) -> None:
    if not path.exists():
        return
    rows = [row for row in read_metrics(path.parent) if row["step"] <= step]
    files.write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


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
        self._start, self._began = start, time.monotonic()
        self._last_line = -math.inf
        self._every = 0.1 if self._bar else plain_every_seconds

    def update(self, done: int, note: str = "") -> None:
        """Shows that `done` of the total are done, unless it was shown just before."""
        now = time.monotonic()
        if done < self._total and now - self._last_line < self._every:
            return
        self._last_line = now
        elapsed = now - self._began
        rate = (done - self._start) / elapsed if elapsed > 0 else 0.0
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
