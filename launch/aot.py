"""Compiles the real training step for TPUs that are not there, and reads its cost.

    python -m launch.aot --config=FILE[:PRESET] --topology=v5e:2x2 [--lanes=32]
    python -m launch.aot --table

  --config=configs/beta_vae.py    as for disentangle_jax.main, fields too:
  --config.SECTION.FIELD=VALUE    e.g. --config.train.input=device
  --topology=v5e:2x2              generation and shape of the slice; v5e:1x1 is one chip
  --lanes=32                      models of one program: that many seeds
  --table                         completes launch/tpu_table.csv: rows that are missing
                                  or of other versions of jax and libtpu are compiled;
                                  delete the file to draw it anew. Takes hours on
                                  two cores and goes on where it was interrupted.

Needs the TPU compiler (``pip install disentangle_jax[tpu]``) and no TPU. All figures
are per chip, of one step, from the program that the compiler made:

* flops: XLA's cost analysis of the compiled module.
* bytes: read and written by its instructions, in on-chip memory too; those of HBM
  apart (see ``launch/hlo.py``).
* memory: arguments, results and temporaries at their peak.
* bound: no step is faster than flops / peak and HBM bytes / bandwidth allow.
* estimate: the cycles the compiler expects, fusion after fusion, without collectives.
* padding waste: flops over those that the model's products need (`analytic_flops`).
"""

import argparse
import contextlib
import csv
import functools
import importlib.metadata
import io
import math
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

# Before jax and the TPU library: run on the CPU, ask no metadata server for a TPU, and
# take no lock on one.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

import jax
import ml_collections
from jax.experimental import topologies

from disentangle_jax import config as config_lib
from disentangle_jax import models, training
from disentangle_jax.metrics.information import contingency
from disentangle_jax.metrics.information_gaps import posterior_log_ratios as log_ratios
from disentangle_jax.metrics.lanes import lane_tables
from disentangle_jax.training import program as program_lib
from disentangle_jax.types import unknown_name
from launch import hlo

TABLE = pathlib.Path(__file__).with_name("tpu_table.csv")


class Chip(NamedTuple):
    """What one chip can do at most (Google Cloud's TPU documentation).

    Attributes:
      flops: bfloat16 operations a second.
      bandwidth: bytes a second from and to HBM.
      memory: bytes of HBM.
      clock: cycles a second of the matrix units, from `flops` and their number.
    """

    flops: float
    bandwidth: float
    memory: float
    clock: float

    @property
    def ridge(self) -> float:
        """Operations per byte from which on arithmetic, not memory, is the limit."""
        return self.flops / self.bandwidth


# 4 units of 128×128, then 2 of 256×256; each multiplies and adds once a cycle.
CHIPS = {
    "v5e": Chip(197e12, 819e9, 16e9, 197e12 / (4 * 128**2 * 2)),
    "v6e": Chip(918e12, 1640e9, 32e9, 918e12 / (2 * 256**2 * 2)),
}


class Cost(NamedTuple):
    """Cost of one compiled program on one chip.

    Attributes:
      flops: that XLA counts.
      bytes: accessed in HBM and on-chip memory.
      hbm_bytes: read from and written to HBM.
      cycles: that the compiler expects.
      peak_memory: bytes of arguments, results and temporaries in HBM.
      collectives: number and bytes of each kind.
      seconds: that compilation took.
    """

    flops: float
    bytes: float
    hbm_bytes: float
    cycles: float
    peak_memory: float
    collectives: dict[str, tuple[int, float]]
    seconds: float

    @property
    def all_reduce_bytes(self) -> float:
        """Bytes that are summed over chips."""
        return self.collectives.get("all-reduce", (0, 0.0))[1]

    @property
    def other_collective_bytes(self) -> float:
        """Bytes of all other collectives."""
        total = sum(moved for _, moved in self.collectives.values())
        return total - self.all_reduce_bytes

    @property
    def intensity(self) -> float:
        """Operations per byte of HBM."""
        return self.flops / self.hbm_bytes if self.hbm_bytes else math.inf


def compile_uncached(lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    """Compiles, and keeps the result out of the persistent cache.

    JAX would warn that it cannot read it back, for which it takes a real TPU.
    """
    name = "jax_persistent_cache_min_compile_time_secs"
    before = jax.config.values[name]
    jax.config.update(name, math.inf)
    try:
        return lowered.compile()
    finally:
        jax.config.update(name, before)


def bound_seconds(cost: Cost, chip: Chip) -> float:
    """Returns the least time a chip needs: the roofline.

    .. math:: \\max(\\text{flops} / \\text{peak}, \\text{bytes} / \\text{bandwidth})
    """
    return max(cost.flops / chip.flops, cost.hbm_bytes / chip.bandwidth)


def devices(topology: str) -> list[jax.Device]:
    """Returns the devices of a slice that need not exist, such as ``v5e:2x2``.

    Raises:
      ValueError: the name is wrong, or the TPU compiler is not installed.
    """
    chip_of(topology)
    if not has_compiler():
        raise ValueError(
            "--topology: the TPU compiler is missing; pip install disentangle_jax[tpu]."
        )
    try:
        described = topologies.get_topology_desc(platform="tpu", topology_name=topology)
    except Exception as error:  # The library raises its own kinds.
        first = str(error).splitlines()[0]
        raise ValueError(
            f"--topology: must be a slice like v5e:2x2 or v5e:16x16, got {topology!r} "
            f"({first})."
        ) from None
    return list(described.devices)


def has_compiler() -> bool:
    """Returns whether libtpu is installed."""
    try:
        importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def chip_of(topology: str) -> Chip:
    """Returns the chip of a topology's name."""
    generation = topology.partition(":")[0]
    if generation not in CHIPS:
        raise unknown_name("--topology", "generation", generation, CHIPS)
    return CHIPS[generation]


def cost_of_run(run: training.Run) -> Cost:
    """Compiles the program that `training.train` would dispatch for `run`."""
    program = program_lib.build(run)
    carry = program_lib.abstract_carry(run, program)
    inputs = program_lib.abstract_inputs(run, program)
    start = time.monotonic()
    lowered = jax.jit(program.steps, donate_argnums=0).lower(carry, inputs)
    compiled = compile_uncached(lowered)
    return cost_of(
        compiled,
        time.monotonic() - start,
        steps=run.config.train.steps_per_dispatch,
        chunks=len(run.lanes) // program_lib.lanes_at_once(run),
    )


def cost_of(
    compiled: jax.stages.Compiled, seconds: float, *, steps: int = 1, chunks: int = 1
) -> Cost:
    """Returns what one step of a compiled program costs on each chip.

    XLA's count of flops takes the body of a loop once, whatever its number of passes.

    Args:
      compiled: the program.
      seconds: that its compilation took.
      steps: passes of its outer loop.
      chunks: passes of the loop within.
    """
    counted = compiled.cost_analysis()
    memory = compiled.memory_analysis()
    module = hlo.parse(compiled.as_text())
    peak = (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
    )
    return Cost(
        counted.get("flops", 0.0) * chunks,
        hlo.accessed_bytes(module, hbm_only=False) / steps,
        hlo.accessed_bytes(module, hbm_only=True) / steps,
        hlo.estimated_cycles(module) / steps,
        peak,
        {
            kind: (count // steps, moved / steps)
            for kind, (count, moved) in hlo.collectives(module).items()
        },
        seconds,
    )


# --- what a step needs at least -------------------------------------------------------


def analytic_flops(run: training.Run) -> float:
    """Returns the operations that the products of one model's step need.

    With E and D the products of encoder and decoder for one example forward
    (`models.summary`), a step of B examples needs ``B (3 E - first + 3 D)``: each
    layer's product once forward, once for the gradient by its weights, once for the
    gradient by its input, but the first layer's input is the image and needs none.
    Methods of pairs take 2 B examples; few labels encode B more. The critic of
    FactorVAE, C forward, adds ``7 C - 2 first`` for each example: joint and permuted
    codes forward (2), the gradient of the total correlation by the codes (1), of the
    critic's loss by its weights (2) and inputs (2).
    """
    settings = dict(run.config.model)
    with contextlib.redirect_stdout(io.StringIO()):
        layers = models.summary(
            settings.pop("name"), run.train_set.image_shape, **settings
        )
    decoder = sum(layer.flops for layer in layers if "decoder" in layer.path)
    encoder = layers.flops - decoder
    first = next(layer.flops for layer in layers if layer.flops)
    rows = run.config.train.batch_size
    encoded, decoded = {
        "images": (1, 1),
        "documents": (1, 1),
        "pairs": (2, 2),
        "labels": (2, 1),
    }[run.method.feed]
    decoded /= run.config.method.get("batches", 1)
    total = rows * (encoded * (3 * encoder - first) + decoded * 3 * decoder)
    shapes = jax.eval_shape(program_lib.build(run).init).state.params
    if "critic" in shapes:
        lane_axes = 1 if run.laned else 0
        kernels = [
            leaf.shape[lane_axes:]
            for path, leaf in jax.tree_util.tree_leaves_with_path(shapes["critic"])
            if path[-1].key == "kernel"
        ]
        critic = [2 * math.prod(shape) for shape in kernels]
        total += decoded * rows * (7 * sum(critic) - 2 * critic[0])
    return float(total)


def gradient_bytes(run: training.Run) -> float:
    """Returns the bytes of the gradients of all models of one chip."""
    params = jax.eval_shape(program_lib.build(run).init).state.params
    total = sum(
        math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(params)
    )
    return total / run.mesh.shape["lanes"]


def batch_bytes(run: training.Run) -> int:
    """Returns the bytes of images that the host sends for one step, to all chips."""
    inputs = program_lib.abstract_inputs(run, program_lib.build(run))["batches"]
    total = sum(
        math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(inputs)
    )
    return total // run.config.train.steps_per_dispatch


# --- one program ----------------------------------------------------------------------


def prepare(
    config: ml_collections.ConfigDict, topology: str, lanes: int
) -> training.Run:
    """Returns the checked run of `config` on the chips of `topology`."""
    if lanes:
        config.lanes.seeds = lanes
    with tempfile.TemporaryDirectory() as workdir:
        return training.prepare(config, workdir, devices=devices(topology))


def row_of(run: training.Run, cost: Cost, topology: str) -> dict[str, Any]:
    """Returns the figures of one program, as the table has them."""
    chip, config = chip_of(topology), run.config
    lanes, chips = len(run.lanes), run.mesh.size
    here = lanes / chips  # Models' worth of work on one chip.
    per_day = 86400 * lanes / config.train.num_steps
    analytic = analytic_flops(run)
    figures = _figures(cost, chip, here)
    return {
        "batch": config.train.batch_size,
        "chips": chips,
        "lanes": lanes,
        **figures,
        "analytic_flops": f"{analytic:.4g}",
        "padding_waste": f"{cost.flops / here / analytic:.3f}",
        "gradient_bytes": f"{gradient_bytes(run):.0f}",
        "all_reduce_bytes": f"{cost.all_reduce_bytes:.0f}",
        "other_collective_bytes": f"{cost.other_collective_bytes:.0f}",
        "host_bytes": batch_bytes(run),
        "bound_models_per_day": f"{per_day * float(figures['bound_per_s']):.4g}",
        "estimate_models_per_day": f"{per_day * float(figures['estimate_per_s']):.4g}",
    }


def _figures(cost: Cost, chip: Chip, here: float) -> dict[str, Any]:
    """Returns what training and estimators have in common; `here` models a chip."""
    return {
        "flops": f"{cost.flops:.5g}",
        "bytes": f"{cost.bytes:.5g}",
        "hbm_bytes": f"{cost.hbm_bytes:.5g}",
        "flops_per_model": f"{cost.flops / here:.5g}",
        "bytes_per_model": f"{cost.bytes / here:.5g}",
        "intensity": f"{cost.intensity:.1f}",
        "ridge": f"{chip.ridge:.1f}",
        "peak_memory_mb": f"{cost.peak_memory / 1e6:.1f}",
        "fits": "yes" if cost.peak_memory <= chip.memory else "no",
        "bound_per_s": f"{1 / bound_seconds(cost, chip):.4g}",
        "estimate_per_s": f"{chip.clock / cost.cycles:.4g}",
    }


def report(run: training.Run, cost: Cost, topology: str) -> str:
    """Returns the figures of one program, for reading."""
    chip, row = chip_of(topology), row_of(run, cost, topology)
    config = run.config
    side = "memory" if cost.intensity < chip.ridge else "arithmetic"
    kinds = [
        f"{kind} ×{count}, {moved / 1e6:.3f} MB"
        for kind, (count, moved) in sorted(cost.collectives.items())
    ]
    across, along = run.mesh.shape["lanes"], run.mesh.shape["data"]
    lines = [
        f"{config.method.name} of {config.model.name} on {config.data.name}: "
        f"{row['lanes']} model(s), batch {row['batch']}, input {config.train.input}",
        f"{topology}: {row['chips']} chip(s) as {across} lanes × {along} data; "
        f"compiled in {cost.seconds:.0f} s; per chip and step:",
        f"  flops             {cost.flops / 1e9:.3f} G, per model "
        f"{float(row['flops_per_model']) / 1e9:.3f} G",
        f"  analytic flops    {float(row['analytic_flops']) / 1e9:.3f} G per model, "
        f"padding waste {row['padding_waste']}",
        f"  bytes accessed    {cost.bytes / 1e6:.1f} MB, of HBM "
        f"{cost.hbm_bytes / 1e6:.1f} MB",
        f"  intensity         {row['intensity']} flop/byte of HBM; the ridge is at "
        f"{row['ridge']}: bound by {side}",
        f"  peak memory       {row['peak_memory_mb']} MB of "
        f"{chip.memory / 1e6:.0f} MB, fits: {row['fits']}",
        f"  collectives       {'; '.join(kinds) or 'none'} (gradients "
        f"{float(row['gradient_bytes']) / 1e6:.3f} MB)",
        f"  from the host     {row['host_bytes']} bytes",
        f"  at most           {row['bound_per_s']} steps/s, "
        f"{row['bound_models_per_day']} models of {config.train.num_steps} steps a day",
        f"  compiler expects  {row['estimate_per_s']} steps/s, "
        f"{row['estimate_models_per_day']} models a day",
    ]
    return "\n".join(lines)


# --- the table ------------------------------------------------------------------------


class Case(NamedTuple):
    """A row of the table that is a training run.

    Attributes:
      name: of the group of rows.
      config: file below ``configs/``.
      topology: what it is compiled for.
      lanes: models of the program.
      batch: rows per chip; 0 for the config's batch, divided between the chips.
      changes: fields of the config that differ.
    """

    name: str
    config: str
    topology: str = "v5e:1x1"
    lanes: int = 1
    batch: int = 0
    changes: tuple[str, ...] = ()


_DEVICE = ("train.input=device",)
_BF16 = ("model.dtype=bfloat16",)
CASES = (
    Case("conv64", "beta_vae"),
    Case("conv64", "beta_vae", lanes=32),
    Case("conv64", "beta_vae", lanes=32, changes=("lanes.chunk=32",)),
    Case("conv64", "beta_vae", lanes=32, changes=("lanes.chunk=4",)),
    *(Case("conv64", "beta_vae", lanes=n) for n in (64, 1280, 8)),
    Case("conv64", "beta_vae", changes=_DEVICE),
    *(
        Case("conv64", "beta_vae", f"v5e:{s}", batch=64)
        for s in ("2x2", "4x4", "8x8", "16x16")
    ),
    Case("conv64", "beta_vae", "v5e:16x16", 1, 64, _DEVICE),
    Case("conv64", "beta_vae", "v5e:2x2", 32),
    Case("beta_tc_vae", "beta_tc_vae"),
    *(
        Case("beta_tc_vae", "beta_tc_vae", f"v5e:{s}", batch=64)
        for s in ("4x4", "16x16")
    ),
    *(Case("factor_vae", "factor_vae", lanes=n) for n in (1, 32)),
    Case("factor_vae", "factor_vae", "v5e:16x16", batch=64),
    *(Case("sae-12", "sae", lanes=n) for n in (1, 32)),
    Case("sae-12", "sae", changes=_BF16),
    Case("sae-12", "sae", "v5e:16x16", batch=128),
    *(Case("vlae-12", "vlae", lanes=n) for n in (1, 32)),
    Case("vlae-12", "vlae", "v5e:16x16", batch=128),
)


def load(case: Case) -> ml_collections.ConfigDict:
    """Returns the config of a case."""
    file = pathlib.Path(__file__).parents[1] / "configs" / f"{case.config}.py"
    changes = [f"--config.{change}" for change in case.changes]
    config = config_lib.load(str(file), changes)
    if case.batch:
        chips = math.prod(map(int, case.topology.partition(":")[2].split("x")))
        config.train.batch_size = case.batch * chips
    return config


class Estimator(NamedTuple):
    """A row of the table that is an estimator of the metrics.

    Attributes:
      name: of the row.
      function: a jitted function.
      arguments: shapes of its arrays.
      static: its static arguments.
      lanes: code sets that it treats at once.
      loops: passes of its loop, which XLA's counts take once.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    static: dict[str, Any]
    lanes: int = 1
    loops: int = 1


def estimators() -> tuple[Estimator, ...]:
    """Returns the estimators that run on the accelerator, at the study's sizes.

    10,000 rows of 10 codes, 20 bins, the five factors of dSprites; the analytic
    posterior at 1,000 drawn codes.
    """
    rows, codes, sizes = 10_000, 10, (3, 6, 40, 32, 32)
    sets, drawn = 64, 1000
    static = {"cells": 20, "sizes": sizes}

    def array(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    labels = array(rows, codes, dtype="int32")
    factors = array(rows, len(sizes), dtype="int32")
    spread = (array(rows, codes), array(rows, codes), factors, array(drawn, codes))
    picked = (array(drawn, len(sizes), dtype="int32"),) * 2
    many = array(sets, rows, codes, dtype="int32")
    return (
        Estimator("mig tables", contingency, (labels, factors), static),
        Estimator("mig tables", lane_tables, (many, factors), static, sets, sets // 4),
        Estimator(
            "mig, analytic posterior", log_ratios, spread + picked, {}, 1, drawn // 16
        ),
    )


def cost_of_estimator(estimator: Estimator, topology: str) -> Cost:
    """Compiles an estimator for one chip."""
    place = jax.sharding.SingleDeviceSharding(devices(topology)[0])
    arguments = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place)
        for a in estimator.arguments
    ]
    start = time.monotonic()
    lowered = estimator.function.lower(*arguments, **estimator.static)
    compiled = compile_uncached(lowered)
    return cost_of(compiled, time.monotonic() - start, chunks=estimator.loops)


def estimator_row(estimator: Estimator, cost: Cost, topology: str) -> dict[str, Any]:
    """Returns the figures of an estimator; a step is one call."""
    chip = chip_of(topology)
    return {
        "chips": 1,
        "lanes": estimator.lanes,
        **_figures(cost, chip, estimator.lanes),
    }


def versions() -> dict[str, str]:
    """Returns the versions that the figures depend on."""
    return {name: importlib.metadata.version(name) for name in ("jax", "libtpu")}


_KEY = ("name", "topology", "lanes", "batch", "changes")
_COLUMNS = (
    *("name", "changes", "topology", "chips", "lanes", "batch", "flops", "bytes"),
    *("hbm_bytes", "flops_per_model", "bytes_per_model", "analytic_flops"),
    *("padding_waste", "intensity", "ridge", "peak_memory_mb", "fits"),
    *("gradient_bytes", "all_reduce_bytes", "other_collective_bytes", "host_bytes"),
    *("bound_per_s", "bound_models_per_day"),
    *("estimate_per_s", "estimate_models_per_day", "jax", "libtpu"),
)


def read_table(path: pathlib.Path) -> list[dict[str, str]]:
    """Returns the rows of a table; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_table(path: pathlib.Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows to a file, at once."""
    partial = path.with_suffix(".partial")
    with partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(path)


def draw_table(path: pathlib.Path) -> None:
    """Compiles what the table at `path` lacks, row by row."""
    jobs: list[tuple[dict[str, Any], Callable[[], dict[str, Any]]]] = []
    for estimator in estimators():
        head = {"name": estimator.name, "topology": "v5e:1x1", "batch": ""}
        head |= {"lanes": estimator.lanes, "changes": ""}
        jobs.append((head, functools.partial(_estimator_row, estimator)))
    for case in CASES:
        config = load(case)
        head = {
            "name": case.name,
            "topology": case.topology,
            "lanes": case.lanes,
            "batch": config.train.batch_size,
            "changes": " ".join(case.changes),
        }
        jobs.append((head, functools.partial(_case_row, case, config)))
    known = {}
    for row in read_table(path):
        if all(row[name] == version for name, version in versions().items()):
            known[tuple(row[field] for field in _KEY)] = row
    rows: list[dict[str, Any]] = []
    order = [tuple(str(head[field]) for field in _KEY) for head, _ in jobs]
    for key, (head, compute) in zip(order, jobs, strict=True):
        if key not in known:
            print(", ".join(f"{name} {value}" for name, value in head.items() if value))
            known[key] = {**head, **compute(), **versions()}
            rows = [known[other] for other in order if other in known]
            write_table(path, rows)


def _case_row(case: Case, config: ml_collections.ConfigDict) -> dict[str, Any]:
    run = prepare(config, case.topology, case.lanes)
    cost = cost_of_run(run)
    print(report(run, cost, case.topology), flush=True)
    return row_of(run, cost, case.topology)


def _estimator_row(estimator: Estimator) -> dict[str, Any]:
    topology = "v5e:1x1"
    return estimator_row(estimator, cost_of_estimator(estimator, topology), topology)


# --- the command ----------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that all errors are told in one way."""

    def error(self, message: str):
        raise ValueError(f"{message}; see --help.")


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if {"-h", "--help"} & set(argv):
        print(__doc__.strip())
        return 0
    # The programs run nowhere, and what builds them runs here.
    jax.config.update("jax_platforms", "cpu")
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    parser.add_argument("--topology", default="v5e:1x1")
    parser.add_argument("--lanes", type=int, default=0)
    parser.add_argument("--table", action="store_true")
    overrides = [arg for arg in argv if arg.startswith("--config.")]
    try:
        args = parser.parse_args([arg for arg in argv if arg not in overrides])
        if args.table:
            devices("v5e:1x1")
            draw_table(TABLE)
            return 0
        if args.config is None:
            raise ValueError("--config=FILE or --table is required; see --help.")
        if args.lanes < 0:
            raise ValueError(f"--lanes: must be positive, got {args.lanes}.")
        config = config_lib.load(args.config, overrides)
        run = prepare(config, args.topology, args.lanes)
    except (ValueError, TypeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        cost = cost_of_run(run)
    except jax.errors.JaxRuntimeError as error:  # Above all: it needs too much memory.
        print(f"error: the compiler says {error}", file=sys.stderr)
        return 1
    print(report(run, cost, args.topology))
    return 0


if __name__ == "__main__":
    sys.exit(main())
