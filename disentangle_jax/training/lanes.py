"""The models of a run: seeds and hyperparameters as a leading axis of its state.

``config.lanes.seeds = 5`` and ``config.lanes.sweep = {"method.beta": (1.0, 4.0)}``
train the ten models of the product at once; ``config.lanes.rows`` lists other models. A
lane has its own parameters, keys, optimizer state and hyperparameters, and equals the
run of its config alone.
"""

import collections
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import ml_collections

from disentangle_jax import config as config_lib
from disentangle_jax import methods, rows
from disentangle_jax.types import unknown_name


class Lane(NamedTuple):
    """One model of a run.

    Attributes:
      name: of its folder; empty where the run has a single model.
      seed: of its parameters and noise.
      hyper: value of each hyperparameter, and of ``learning_rate``.
      fields: the fields in which it differs from the config, by their dotted names.
    """

    name: str
    seed: int
    hyper: dict[str, float]
    fields: dict[str, Any]


def expand(config: ml_collections.ConfigDict) -> tuple[Lane, ...]:
    """Returns the lanes of a config.

    Raises:
      ValueError: a value is out of range, or a field cannot be a lane.
    """
    settings = config.lanes
    named = settings.seeds > 1 or settings.sweep or settings.rows
    if "train.seed" in settings.sweep:
        raise ValueError(
            "config: `lanes.sweep` must not hold train.seed; set `lanes.seeds` to the "
            "number of seeds."
        )
    lanes: list[Lane] = []
    for row in rows.of(config):
        _check_fields(config, row)
        seed = row["train.seed"]
        config_lib.FIELDS["train.seed"].check("train.seed", seed)
        parts = [
            f"{field.split('.')[-1]}={value:g}"
            for field, value in row.items()
            if field != "train.seed"
        ]
        name = ",".join([*parts, f"seed={seed}"]) if named else ""
        lanes.append(Lane(name, seed, _hyper(config, row), row))
    [(name, count)] = collections.Counter(lane.name for lane in lanes).most_common(1)
    if count > 1:
        where = "lanes.rows" if settings.rows else "lanes.sweep"
        raise ValueError(
            f"config: the models of `{where}` must differ in their seeds or in the "
            f"first six digits of a value, got two that are named {name!r}."
        )
    if settings.chunk and len(lanes) % settings.chunk:
        raise ValueError(
            f"config: `lanes.chunk` must divide the {len(lanes)} lanes, or be 0 for "
            f"all at once, got {settings.chunk}."
        )
    return tuple(lanes)


def check_lanes(config: ml_collections.ConfigDict) -> None:
    """Raises where numbers or lanes of a config are wrong; needs no data."""
    config_lib.check_values(config)
    expand(config)


def _check_fields(config: ml_collections.ConfigDict, row: rows.Row) -> None:
    allowed = rows.lane_fields(config.method.name)
    for field in row:
        if field not in (*allowed, "train.seed"):
            where = "lanes.rows" if config.lanes.rows else "lanes.sweep"
            error = unknown_name("config", where, field, allowed)
            raise ValueError(
                f"{error} Other fields change the program: give each value a run."
            )


def _hyper(config: ml_collections.ConfigDict, row: rows.Row) -> dict[str, float]:
    """Returns the hyperparameters of a lane, checked."""
    method = config.method.name
    hyper = {}
    for name, described in methods.describe(method).hyperparameters.items():
        field = f"method.{name}"
        value = row.get(field, config.method.get(name, described.default))
        if value is None:
            raise ValueError(
                f"config: `{field}` must be set for {method!r}; add "
                f"--config.{field}=VALUE."
            )
        hyper[name] = described.check(field, value)
    field = "optimizer.learning_rate"
    rate = row.get(field, config.optimizer.learning_rate)
    positive = methods.Hyperparameter(None, positive=True)
    hyper["learning_rate"] = positive.check(field, rate)
    return hyper


def take(tree: Any, index: int) -> Any:
    """Returns one lane of a stacked state."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def over_lanes(
    function: Callable[..., Any], lanes: int, in_axes: Sequence[int | None]
) -> Callable[..., Any]:
    """Returns ``vmap(function)``; for a single lane the function itself, unbatched.

    Args:
      function: of one lane.
      lanes: number of lanes L.
      in_axes: 0 for arguments with a leading lane axis, None for others.
    """
    if lanes > 1:
        return jax.vmap(function, in_axes=tuple(in_axes))

    def alone(*args: Any) -> Any:
        own = [a if axis is None else take(a, 0) for a, axis in zip(args, in_axes)]
        return jax.tree.map(lambda leaf: leaf[None], function(*own))

    return alone
