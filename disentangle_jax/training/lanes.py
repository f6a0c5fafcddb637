"""Many models in one program: seeds and hyperparameters as a leading axis.

``config.lanes.seeds = 5`` and ``config.lanes.sweep = {"method.beta": (1.0, 4.0)}``
train the ten models of the product at once; ``config.lanes.rows`` lists models that are
no product. A lane has its own parameters, keys, optimizer state and hyperparameters,
and equals the run of its config alone.
"""

import itertools
import math
from typing import Any, NamedTuple

import jax
import ml_collections

from disentangle_jax import methods
from disentangle_jax.types import unknown_name

# Hyperparameters that must not be zero, beside learning rates.
_POSITIVE = ("threshold", "temperature", "tau", "covariance_scale")


class Lane(NamedTuple):
    """One model of a run.

    Attributes:
      name: of its folder; empty where the run has a single model.
      seed: of its parameters and noise.
      hyper: value of each hyperparameter, and of ``learning_rate``.
      fields: the fields of the config that make it differ, by their dotted names.
    """

    name: str
    seed: int
    hyper: dict[str, float]
    fields: dict[str, Any]


def expand(config: ml_collections.ConfigDict) -> tuple[Lane, ...]:
    """Returns the lanes of a config: its rows, or the product of seeds and sweep.

    Raises:
      ValueError: a value is out of range, or a field cannot be a lane.
    """
    if config.lanes.seeds < 1:
        raise ValueError(
            f"config: `lanes.seeds` must be at least 1, got {config.lanes.seeds}."
        )
    listed = bool(config.lanes.rows)
    can_be_lanes = lane_fields(config.method.name)
    lanes = []
    for fields in _listed(config) if listed else _product(config):
        for field in fields:
            if field not in (*can_be_lanes, "train.seed"):
                where = "lanes.rows" if listed else "lanes.sweep"
                error = unknown_name("config", where, field, can_be_lanes)
                raise ValueError(
                    f"{error} Other fields change the program: give each value a run."
                )
        seed = fields["train.seed"]
        hyper = {name: value for name, value in fields.items() if name != "train.seed"}
        name = ""
        if config.lanes.seeds > 1 or config.lanes.sweep or listed:
            parts = [
                f"{field.split('.')[-1]}={value:g}" for field, value in hyper.items()
            ]
            name = ",".join([*parts, f"seed={seed}"])
        lanes.append(Lane(name, seed, _hyper(config, hyper), fields))
    if listed and len({lane.name for lane in lanes}) < len(lanes):
        raise ValueError(
            "config: `lanes.rows` must differ in their seeds or the first six digits "
            "of their values: some have the same name."
        )
    chunk = config.lanes.chunk
    if chunk < 0 or (chunk and len(lanes) % chunk):
        raise ValueError(
            f"config: `lanes.chunk` must divide the {len(lanes)} lanes, or be 0 for "
            f"all at once, got {chunk}."
        )
    return tuple(lanes)


def lane_fields(method: str) -> tuple[str, ...]:
    """Returns the fields of a config, beside the seed, that lanes of `method` vary."""
    numbers = [f"method.{name}" for name in methods.hyperparameters(method)]
    return (*numbers, "optimizer.learning_rate")


def _product(config: ml_collections.ConfigDict) -> list[dict[str, Any]]:
    """Returns the fields of each lane of the product of sweep and seeds."""
    sweep = {field: tuple(config.lanes.sweep[field]) for field in config.lanes.sweep}
    for field, values in sweep.items():
        if not values:
            raise ValueError(f"config: `lanes.sweep.{field}` must not be empty.")
    seeds = range(config.train.seed, config.train.seed + config.lanes.seeds)
    return [
        dict(zip((*sweep, "train.seed"), chosen, strict=True))
        for chosen in itertools.product(*sweep.values(), seeds)
    ]


def _listed(config: ml_collections.ConfigDict) -> list[dict[str, Any]]:
    """Returns the fields of each lane of ``lanes.rows``, checked."""
    if config.lanes.seeds > 1 or config.lanes.sweep:
        raise ValueError(
            "config: `lanes.rows` lists every lane; leave out `lanes.seeds` and "
            "`lanes.sweep`."
        )
    rows = [dict(row) for row in config.lanes.rows]
    for row in rows:
        if row.keys() != rows[0].keys() or "train.seed" not in row:
            raise ValueError(
                "config: `lanes.rows` must all give 'train.seed' and the same other "
                f"fields, got {sorted(rows[0])} and {sorted(row)}."
            )
    return rows


def config_of(
    config: ml_collections.ConfigDict, lane: Lane
) -> ml_collections.ConfigDict:
    """Returns the config of the run that equals `lane`."""
    alone = config.copy_and_resolve_references()
    for field, value in lane.fields.items():
        section, name = field.split(".")
        alone[section][name] = value
    if not config.lanes.same_batches:
        alone.data.seed = lane.seed
    alone.lanes.update(seeds=1, chunk=0, rows=())
    alone.lanes.sweep = {}
    return alone


def take(tree: Any, index: int) -> Any:
    """Returns one lane of a stacked state."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def _hyper(
    config: ml_collections.ConfigDict, fields: dict[str, float]
) -> dict[str, float]:
    """Returns the hyperparameters of a lane, checked."""
    method = config.method.name
    hyper = methods.hyperparameters(method)
    hyper |= {name: config.method[name] for name in hyper if name in config.method}
    hyper["learning_rate"] = config.optimizer.learning_rate
    hyper |= {field.split(".")[1]: value for field, value in fields.items()}
    for name, value in hyper.items():
        if value is None:
            raise ValueError(
                f"config: `method.{name}` must be set for {method!r}; add "
                f"--config.method.{name}=VALUE."
            )
        positive = name.endswith("learning_rate") or name in _POSITIVE
        high = 1.0 if name == "ratio" else math.inf
        low_enough = value > 0 if positive else value >= 0
        if not (low_enough and value <= high and math.isfinite(value)):
            sign = "positive" if positive else "non-negative"
            bound = "" if high == math.inf else f" and at most {high:g}"
            section = "optimizer" if name == "learning_rate" else "method"
            raise ValueError(
                f"config: `{section}.{name}` must be {sign}{bound} and finite, got "
                f"{value}."
            )
        hyper[name] = float(value)
    return hyper
