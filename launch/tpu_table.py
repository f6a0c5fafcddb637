"""The table of compiled programs, ``launch/tpu_table.csv``."""

import csv
import functools
import importlib.metadata
import io
import math
import pathlib
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import ml_collections

from disentangle_jax import config as config_lib
from disentangle_jax import files
from disentangle_jax.metrics.information import contingency
from disentangle_jax.metrics.information_gaps import posterior_log_ratios as log_ratios
from disentangle_jax.metrics.lanes import lane_tables

from . import chips, costs

TABLE = pathlib.Path(__file__).with_name("tpu_table.csv")


class Case(NamedTuple):
    """A row of the table for a training run.

    Attributes:
      name: name of the group of rows.
      config: file below ``configs/``, without its suffix.
      topology: slice that the program is compiled for.
      lanes: number of models of the program.
      batch: examples per chip; 0 for the config's batch, divided between the chips.
      changes: changed fields of the config.
    """

    name: str
    config: str
    topology: str = "v5e:1x1"
    lanes: int = 1
    batch: int = 0
    changes: tuple[str, ...] = ()


_DEVICE = ("train.input=device",)
_LARGE = ("train.batch_size=256",)
_COLOURS = ("data.name=rendered_shapes3d",)
CASES = (
    Case("conv64", "beta_vae"),
    Case("conv64", "beta_vae", lanes=32),
    Case("conv64", "beta_vae", changes=_LARGE),
    Case("conv64", "beta_vae", changes=_COLOURS),
    Case("conv64", "beta_vae", changes=(*_COLOURS, *_LARGE)),
    *(
        Case(name, name, changes=changes)
        for name in ("factor_vae", "beta_tc_vae", "ada_gvae")
        for changes in ((), _LARGE)
    ),
    *(Case("hfvae", "hfvae", batch=batch) for batch in (64, 256)),
    Case("sae-12", "sae"),
    Case("vlae-12", "vlae"),
    Case("conv64", "beta_vae", "v5e:16x16", batch=64),
    Case("conv64", "beta_vae", "v5e:2x2", 32),
    Case("conv64", "beta_vae", changes=_DEVICE),
    Case("beta_tc_vae", "beta_tc_vae", "v5e:16x16", batch=64),
    Case("conv64", "beta_vae", lanes=32, changes=_COLOURS),
    Case("factor_vae", "factor_vae", lanes=32),
    Case("conv64", "beta_vae", lanes=32, changes=("lanes.chunk=1",)),
    *(Case("conv64", "beta_vae", lanes=n) for n in (8, 64)),
    Case("sae-12", "sae", changes=("model.dtype=bfloat16",)),
)


def load(case: Case) -> ml_collections.ConfigDict:
    """Returns the config of a case."""
    file = pathlib.Path(__file__).parents[1] / "configs" / f"{case.config}.py"
    changes = [f"--config.{change}" for change in case.changes]
    config = config_lib.load(str(file), changes)
    if case.batch:
        count = math.prod(map(int, case.topology.partition(":")[2].split("x")))
        config.train.batch_size = case.batch * count
    return config


class Estimator(NamedTuple):
    """A row of the table for an estimator of the metrics.

    Attributes:
      name: name of the row.
      function: a jitted function.
      arguments: shapes of its arrays.
      static: its static arguments.
      lanes: number of models whose codes it evaluates at once.
      loops: iterations of its loop, which XLA's count of flops includes once.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    static: dict[str, Any]
    lanes: int = 1
    loops: int = 1


def estimators() -> tuple[Estimator, ...]:
    """Returns the estimators that run on the accelerator, at the study's sizes.

    These are 10,000 rows of 10 codes, 20 bins, the five factors of dSprites, and 1,000
    sampled codes for the analytic posterior.
    """
    rows, codes, sizes = 10_000, 10, (3, 6, 40, 32, 32)
    lanes, drawn = 64, 1000
    static = {"cells": 20, "sizes": sizes}

    def array(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    labels = array(rows, codes, dtype="int32")
    factors = array(rows, len(sizes), dtype="int32")
    spread = (array(rows, codes), array(rows, codes), factors, array(drawn, codes))
    picked = (array(drawn, len(sizes), dtype="int32"),) * 2
    many = array(lanes, rows, codes, dtype="int32")
    return (
        Estimator("mig tables", contingency, (labels, factors), static),
        Estimator(
            "mig tables", lane_tables, (many, factors), static, lanes, lanes // 4
        ),
        Estimator(
            "mig, analytic posterior", log_ratios, spread + picked, {}, 1, drawn // 16
        ),
    )


def cost_of_estimator(estimator: Estimator, topology: str) -> costs.Cost:
    """Compiles an estimator for one chip and returns its cost."""
    place = jax.sharding.SingleDeviceSharding(chips.devices(topology)[0])
    arguments = [
        jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=place)
        for a in estimator.arguments
    ]
    start = time.monotonic()
    lowered = estimator.function.lower(*arguments, **estimator.static)
    compiled = chips.compile_uncached(lowered)
    return costs.cost_of(compiled, time.monotonic() - start, chunks=estimator.loops)


def versions() -> dict[str, str]:
    """Returns the versions of the libraries that the figures depend on."""
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
    """Returns the rows of a table; none if the file does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_table(path: pathlib.Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows to a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    files.write_text(path, text.getvalue())


def draw_table(path: pathlib.Path) -> None:
    """Compiles the missing rows of the table at `path`, and writes after each."""
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
    order = [tuple(str(head[field]) for field in _KEY) for head, _ in jobs]
    for key, (head, compute) in zip(order, jobs, strict=True):
        if key not in known:
            print(", ".join(f"{name} {value}" for name, value in head.items() if value))
            known[key] = {**head, **compute(), **versions()}
            write_table(path, (known[other] for other in order if other in known))


def _case_row(case: Case, config: ml_collections.ConfigDict) -> dict[str, Any]:
    run = costs.prepare(config, case.topology, case.lanes)
    cost = costs.cost_of_run(run)
    print(costs.report(run, cost, case.topology), flush=True)
    return costs.row_of(run, cost, case.topology)


def _estimator_row(estimator: Estimator) -> dict[str, Any]:
    """Returns the figures of an estimator; a step is one call."""
    topology = "v5e:1x1"
    cost = cost_of_estimator(estimator, topology)
    found = costs.figures(cost, chips.chip_of(topology), estimator.lanes)
    return {"chips": 1, "lanes": estimator.lanes, **found}
