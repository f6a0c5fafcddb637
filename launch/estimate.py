"""Estimates the cost of a sweep from a measured step or from compiled TPU programs."""

import csv
import json
import pathlib
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import ml_collections
import numpy as np

from disentangle_jax import models, training
from disentangle_jax import sweep as sweep_lib
from disentangle_jax.training import program as program_lib
from disentangle_jax.training.feed import device_batches

from . import work

_TABLE = pathlib.Path(__file__).with_name("tpu_table.csv")
# Rendered datasets of the same image shape, to time a step if the data are missing.
_STAND_INS = ("rendered_dsprites", "xysquares")
# Number of lanes to measure on a CPU, where time is proportional to it.
_CPU_LANES = 2
_MEASURED_STEPS = 3

# Cost of the study for its authors in GPU years (Locatello et al. 2019, Sec. 5).
PUBLISHED_GPU_YEARS = 2.52


class Measured(NamedTuple):
    """A measured step of a pack's program on this machine.

    Attributes:
      data: dataset of the measurement.
      image_shape: shape of its images.
      parameters: number of parameters per model.
      lanes: number of models of the measured program.
      compile_seconds: time to compile the program, or to read it from the cache.
      step_seconds: time of one step of all lanes.
    """

    data: str
    image_shape: tuple[int, ...]
    parameters: int
    lanes: int
    compile_seconds: float
    step_seconds: float


class Line(NamedTuple):
    """The packs of one program.

    Attributes:
      labels: labels of the first model, except its seed.
      packs: number of packs.
      models: number of models of all packs.
      lanes: number of models of the first, and largest, pack.
      measured: the measured step; None if it could not be measured.
      why: the reason if not.
      seconds: time of all packs one after another; None if not measured.
    """

    labels: dict
    packs: int
    models: int
    lanes: int
    measured: Measured | None
    why: str
    seconds: float | None


def measure(config: ml_collections.ConfigDict) -> Measured:
    """Compiles a pack's program and times a few of its steps.

    On a CPU only some lanes of the pack are measured, because the time of a step is
    proportional to their number.
    """
    config = config.copy_and_resolve_references()
    if jax.default_backend() == "cpu":
        config.lanes.rows = config.lanes.rows[:_CPU_LANES]
    dispatches = 1 + _MEASURED_STEPS
    config.train.num_steps = dispatches * config.train.steps_per_dispatch
    config.train.log_every = config.train.checkpoint_every = config.train.num_steps
    with tempfile.TemporaryDirectory() as folder:
        run = training.prepare(config, folder)
    program = program_lib.build(run)
    carry = program_lib.first_carry(run)
    step = jax.jit(
        program.steps, donate_argnums=0, compiler_options=models.compiler_options()
    )
    times = []
    for number, batches in enumerate(device_batches(run, 0)):
        inputs = {
            "step": np.int32(number * config.train.steps_per_dispatch),
            "batches": batches,
            "constants": program.constants,
        }
        start = time.perf_counter()
        carry, _ = jax.block_until_ready(step(carry, inputs))
        times.append(time.perf_counter() - start)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(carry.state.params))
    return Measured(
        config.data.name,
        run.train_set.image_shape,
        parameters // len(run.lanes),
        len(run.lanes),
        times[0],
        min(times[1:]) / config.train.steps_per_dispatch,
    )


def _with_stand_in(config: ml_collections.ConfigDict) -> Measured:
    """Measures with the dataset, or a rendered one if its files are missing."""
    try:
        return measure(config)
    except FileNotFoundError:
        config = config.copy_and_resolve_references()
        grey = config.data.name in ("dsprites", "smallnorb")
        config.data.name = _STAND_INS[0 if grey else 1]
        config.data.options = {}
        return measure(config)


def lines(
    sweep: sweep_lib.Sweep, report: Callable[[str], None] | None = None
) -> list[Line]:
    """Returns the packs by program, each with a measured step.

    Args:
      sweep: the sweep; finished models are not counted.
      report: called with progress messages.
    """
    open_packs = [pack for pack in sweep.packs if work.missing(sweep, pack)]
    groups: dict[str, list[sweep_lib.Pack]] = {}
    for pack in open_packs:
        config = json.loads(pack.config.to_json())
        rows = config["lanes"].pop("rows")
        for field in rows[0]:
            section, name = field.split(".")
            config[section].pop(name)
        groups.setdefault(json.dumps(config, sort_keys=True), []).append(pack)
    found = []
    for number, packs in enumerate(groups.values()):
        if report is not None:
            report(f"measuring program {number + 1} of {len(groups)}")
        count = sum(len(pack.models) for pack in packs)
        labels = {k: v for k, v in packs[0].models[0].labels.items() if k != "seed"}
        labels.pop("strength", None)
        measured, why, seconds = None, "", None
        try:
            measured = _with_stand_in(packs[0].config)
        except (ValueError, OSError) as error:
            why = str(error)
        if measured is not None:
            steps = packs[0].config.train.num_steps
            seconds = steps * measured.step_seconds * count / measured.lanes
            if jax.default_backend() != "cpu":
                seconds = steps * measured.step_seconds * len(packs)
            seconds += measured.compile_seconds
        lanes = len(packs[0].models)
        found.append(Line(labels, len(packs), count, lanes, measured, why, seconds))
    return found


def describe(found: list[Line], parallelism: int) -> str:
    """Returns the estimate as text: one line per program, then the total."""
    rows = [
        ("program", "packs", "lanes", "image", "parameters", "compile", "step", "all")
    ]
    for line in found:
        name = " ".join(str(value) for value in line.labels.values())
        packs, lanes = str(line.packs), str(line.lanes)
        if line.measured is None:
            rows.append((name, packs, lanes, "", "", "", "", f"unknown: {line.why}"))
            continue
        m = line.measured
        shape = "×".join(map(str, m.image_shape))
        stand_in = "" if m.data in name.split() else f" (by {m.data})"
        rows.append((
            name, packs, lanes, shape + stand_in, f"{m.parameters:,}",
            f"{m.compile_seconds:.1f} s",
            f"{1e3 * m.step_seconds / m.lanes:.2f} ms per model",
            training.duration(line.seconds),
        ))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in rows
    ]
    known = [line for line in found if line.seconds is not None]
    total = sum(line.seconds for line in known)
    count = sum(line.models for line in known)
    device = jax.devices()[0].device_kind
    text.append(
        f"{sum(line.models for line in found)} models in "
        f"{sum(line.packs for line in found)} packs of {len(found)} programs."
    )
    text.append(
        f"Training {count} of them takes {training.duration(total)} on one machine "
        f"like this ({device}), {training.duration(total / parallelism)} on "
        f"{parallelism} at once: an estimate from {_MEASURED_STEPS} measured steps of "
        "each program. Evaluation is not included."
    )
    return "\n".join(text)


class Cost(NamedTuple):
    """Chip hours of training on TPU v5e, from compiled programs.

    Attributes:
      estimate: by the compiler's estimate of cycles.
      bound: the least that peak flops and memory bandwidth allow.
    """

    estimate: float
    bound: float


def tpu_hours(method: str, num_models: int, num_steps: int) -> Cost:
    """Returns the cost of models of the study's networks on one TPU v5e chip.

    The figures are those of one lane with batch 64 in ``launch/tpu_table.csv``. Methods
    that only add arithmetic on codes (beta-VAE, AnnealedVAE, DIP-VAE) use its row
    ``conv64``.
    """
    name = method if method in ("factor_vae", "beta_tc_vae") else "conv64"
    with _TABLE.open() as file:
        row = next(
            row
            for row in csv.DictReader(file)
            if row["name"] == name
            and (row["topology"], row["lanes"], row["batch"]) == ("v5e:1x1", "1", "64")
            and not row["changes"]
        )
    steps = num_models * num_steps / 3600
    return Cost(steps / float(row["estimate_per_s"]), steps / float(row["bound_per_s"]))
