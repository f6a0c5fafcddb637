"""Runs the packs of a sweep and reports its progress."""

import contextlib
import pathlib
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from absl import logging

from disentangle_jax import claims, evaluation, files, reports, training
from disentangle_jax import sweep as sweep_lib
from disentangle_jax.commands import process


def set_up_process() -> None:
    """Applies the process-wide settings of a process that trains."""
    logging.set_verbosity(logging.FATAL)  # Orbax logs what it raises.
    warnings.showwarning = lambda message, *_: print(f"warning: {message}")
    training.use_compilation_cache()
    training.keep_freed_memory()


class Failed(Exception):
    """Some packs of a sweep could not be run; the message says why."""


def work(
    sweep: sweep_lib.Sweep,
    *,
    packs: Iterable[int] | None = None,
    report: Callable[[str], None] = print,
) -> None:
    """Runs packs whose rows are missing, until all rows are there.

    Packs that others run are left to them; at the end this waits for them, and takes
    over those whose process has died.

    Args:
      sweep: the sweep.
      packs: numbers of the packs to run; None for all.
      report: called with each message.

    Raises:
      Failed: some packs failed; each has reported why. The others were run.
      training.Interrupted: a signal stopped it, with the state saved.
    """
    wanted = sweep.packs if packs is None else [sweep.packs[n] for n in packs]
    watched: dict[pathlib.Path, tuple[float, float]] = {}
    failures: dict[int, str] = {}
    waiting = list(wanted)
    first = True
    while waiting:
        held = []
        for pack in waiting:
            if not missing(sweep, pack):
                claims.remove_left(sweep.folder(pack))
                continue
            try:
                with claims.Claim(sweep.folder(pack), watched):
                    run_pack(sweep, pack)
            except claims.Held as holder:
                held.append(pack)
                if first:
                    report(f"pack {pack.number}: run by {holder}")
            except Exception as error:
                failures[pack.number] = _record_failure(sweep, pack, error)
                report(f"pack {pack.number} failed: {failures[pack.number]}")
        waiting = held
        first = False
        if waiting:
            time.sleep(min(2.0, claims.HEARTBEAT))
    if failures:
        numbers = ", ".join(map(str, sorted(failures)))
        raise Failed(
            f"{len(failures)} of {len(wanted)} packs failed ({numbers}); the others "
            "are done. When the cause is removed, `resume` runs what is missing."
        )


def missing(sweep: sweep_lib.Sweep, pack: sweep_lib.Pack) -> list[sweep_lib.Model]:
    """Returns the models of a pack that have no row."""
    return [model for model in pack.models if not sweep.row_path(model).exists()]


def run_pack(sweep: sweep_lib.Sweep, pack: sweep_lib.Pack) -> None:
    """Trains and evaluates a pack, continuing it, and writes its missing rows.

    To be called by the process that holds its claim.
    """
    folder = sweep.folder(pack)
    wanted = {model.id for model in missing(sweep, pack)}
    if not wanted:
        return
    (folder / "failed.json").unlink(missing_ok=True)
    began = time.monotonic()
    run = training.prepare(pack.config, folder)
    evaluation.check(run)
    training.train(run, watch=evaluation.watch(run))
    trained_in = (time.monotonic() - began) / len(pack.models)
    began = time.monotonic()
    evaluated = evaluation.evaluate_models(run, again=False)
    for model, (trained, scores) in zip(pack.models, evaluated, strict=True):
        if model.id not in wanted:
            continue
        row = {
            "id": model.id,
            **model.labels,
            "pack": pack.number,
            # A lane whose loss became non-finite keeps the step of its last good state.
            "finite": int(trained.state.step) == run.config.train.num_steps,
            "scores": {row.name: row.value for row in reports.score_rows(scores)},
            "errors": scores["errors"],
            "fields": model.fields,
            "seconds": round(trained_in + time.monotonic() - began, 3),
            **{k: scores[k] for k in ("versions", "device", "commit", "time")},
        }
        kept = evaluation.read_arrays(trained.run.workdir)
        kept = {name: kept[name] for name in ("codes", "kl") if name in kept}
        files.write_arrays(sweep.codes_path(model), kept, compress=False)
        sweep_lib.write_row(sweep.row_path(model), row)
        began = time.monotonic()


def _record_failure(
    sweep: sweep_lib.Sweep, pack: sweep_lib.Pack, error: Exception
) -> str:
    """Notes why a pack failed, beside it, and returns it in one line."""
    why = f"{type(error).__name__}: {error}".splitlines()[0]
    why = process.system_failure(error) or why
    note = {
        "why": why,
        "by": claims.me(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "traceback": "".join(traceback.format_exception(error)),
    }
    with contextlib.suppress(OSError):
        files.write_json(sweep.folder(pack) / "failed.json", note)
    return why


class Status(NamedTuple):
    """How far a sweep is.

    Attributes:
      models: of the sweep.
      done: rows that are there.
      running: models of packs that a living process runs, and that have no row.
      failed: models of packs that failed, and that nobody runs.
      corrupt: rows that are there and damaged.
      seconds_left: until all but the failed are there, at the speed so far; None where
        nothing is logged or nobody works. Before the first row is there, it counts the
        training alone.
      failures: why, by number of the pack.
    """

    models: int
    done: int
    running: int
    failed: int
    corrupt: int
    seconds_left: float | None
    failures: dict[int, str]

    @property
    def missing(self) -> int:
        """Models that nobody has begun, or whose process died."""
        return self.models - self.done - self.running - self.failed


def status(sweep: sweep_lib.Sweep) -> Status:
    """Returns how far a sweep is, from its files alone."""
    rows = sweep_lib.read_rows(sweep)
    running = failed = 0
    trained, steps = [], []  # Of running packs: models × share of steps, seconds.
    failures = {}
    for pack in sweep.packs:
        open_models = [m for m in pack.models if m.id not in rows.found]
        if not open_models:
            continue
        folder = sweep.folder(pack)
        claim = claims.newest_claim(folder)
        if claim is not None and claims.looks_alive(claim):
            running += len(open_models)
            share, seconds = _progress(folder, pack)
            trained.append(len(open_models) * share)
            steps += [seconds] if share else []
        elif (folder / "failed.json").exists():
            failed += len(open_models)
            note = files.read_json_or_move(folder / "failed.json")
            failures[pack.number] = (note or {"why": "the reason was damaged"})["why"]
    left = None
    each = [row["seconds"] for row in rows.found.values()] or steps
    if trained and each:
        # What is trained has still to be evaluated, which the rows' seconds include.
        training_part = min(1.0, np.mean(steps) / np.mean(each)) if steps else 1.0
        models = len(sweep.models) - len(rows.found) - failed
        models -= training_part * sum(trained)
        left = float(models * np.mean(each) / len(trained))
    return Status(
        len(sweep.models), len(rows.found), running, failed, len(rows.corrupt), left,
        failures,
    )  # fmt: skip


def _progress(folder: pathlib.Path, pack: sweep_lib.Pack) -> tuple[float, float]:
    """Returns the share of its steps that a running pack has done, of 1.

    Also the seconds that the training of one of its models takes, at the last rate,
    which counts the examples of all models.
    """
    paths = sorted((folder / "lanes").glob("*/metrics.jsonl"))[:1]
    for path in paths:
        row = training.last_row(path.parent)
        settings = pack.config.train
        if row is not None and settings.num_steps:  # 0 where epochs are given.
            examples = settings.num_steps * settings.batch_size
            seconds = examples / row["images_per_second"]
            return row["step"] / settings.num_steps, seconds
    return 0.0, 0.0
