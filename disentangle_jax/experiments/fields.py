"""Which fields of a protocol's config reach its stages.

A stage changes fields of the common config. ``experiment.options`` changes them further
for single stages: ``{"wae": {"method": {"mmd_compat": "sae_code"}}}`` does so for the
stage ``wae`` and those below it, such as ``wae/first``. A field that no stage would use
is an error.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ml_collections
from flax.traverse_util import flatten_dict

from disentangle_jax import config as config_lib
from disentangle_jax import rows
from disentangle_jax.rows import Row
from disentangle_jax.types import unknown_name

if TYPE_CHECKING:
    from disentangle_jax.experiments.protocol import Stage

_TRAINING = ("model", "method", "optimizer", "train", "lanes")


def with_options(
    config: ml_collections.ConfigDict,
    stages: Sequence["Stage"],
    systems: Sequence[str] = (),
) -> list["Stage"]:
    """Returns the stages with the fields of ``experiment.options`` added to theirs.

    Args:
      config: config of the protocol.
      stages: its stages.
      systems: all that the protocol could train. A preset has options for some, and
        stays valid where ``experiment.models`` leaves them out.

    Raises:
      ValueError: an option names no stage or no field, or the rows of its stage change
        the same field.
    """
    names = {path for stage in stages for path in _paths(stage.name)} | {*systems}
    for name in config.experiment.options:
        if name not in names:
            raise unknown_name("config", "experiment.options", name, sorted(names))
    changed = []
    for stage in stages:
        fields = _options(config, stage.name)
        for field in fields:
            if any(_covers(key, field) for row in stage.rows for key in row):
                raise ValueError(
                    f"config: `experiment.options` of {stage.name!r} must not set "
                    f"{field!r}, which the protocol varies in this stage."
                )
        changed.append(stage._replace(fields={**stage.fields, **fields}))
    return changed


def check_used(
    config: ml_collections.ConfigDict,
    stages: Sequence["Stage"],
    given: Iterable[str],
    reads: Sequence[str],
) -> None:
    """Raises a ValueError where a field of the config has no effect.

    A field of `given` has none where every stage sets it; any other field that differs
    from its default, where every stage sets it to another value. A hyperparameter that
    a config file sets for single runs may be varied by the rows of the stages. Options
    on the command line may leave out the stages for which the file has a field.

    Args:
      config: config of the protocol.
      stages: its stages, with their options.
      given: names of fields that were given on the command line.
      reads: names of fields that the protocol reads itself.
    """
    name, values = config.experiment.name, rows.flat(config)
    usual = rows.flat(config_lib.default())
    given = set(given)
    chosen = any(field.startswith("experiment.") for field in given)
    for field, value in values.items():
        section = field.partition(".")[0]
        unchanged = field not in given and (chosen or usual.get(field) == value)
        if unchanged or section == "experiment" or field in reads:
            continue
        if not stages and section in _TRAINING:
            raise ValueError(
                f"{name}: `{field}` must not be given: the protocol trains nothing."
            )
        if not stages or not all(_sets(stage, field) for stage in stages):
            continue
        reached = [_value(s, field, row) for s in stages for row in s.rows or ({},)]
        varied = field in rows.lane_fields(values["method.name"])
        if field in given or (value not in reached and not varied):
            first = stages[0].name.partition("/")[0]
            raise ValueError(
                f"{name}: `{field}` must not be given: the protocol sets it in every "
                "stage. Change the options of `experiment`, or set it for one stage by "
                f"--config.experiment.options.{first}.{field}=VALUE."
            )


def check_lanes(stage: "Stage", lanes: Sequence[Row]) -> None:
    """Raises a ValueError where lanes of the config and a stage vary one field."""
    for field in lanes[0] if len(lanes) > 1 else ():
        if any(field in row for row in stage.rows):
            raise ValueError(
                f"config: `lanes` must not vary {field!r}, which the protocol varies "
                f"in the stage {stage.name!r}."
            )


def check_given(config: ml_collections.ConfigDict, *options: str) -> None:
    """Raises a ValueError where an option of the protocol is empty."""
    for option in options:
        if not config.experiment[option]:
            raise ValueError(
                f"{config.experiment.name}: `experiment.{option}` must not be empty."
            )


def check_empty(
    config: ml_collections.ConfigDict, *fields: str, instead: str = ""
) -> None:
    """Raises a ValueError where a field that the protocol sets itself is not empty.

    Args:
      config: config of the protocol.
      *fields: dotted names of fields.
      instead: the end of the message, which says what to do.
    """
    for field in fields:
        section, name = field.split(".")
        if config[section][name]:
            raise ValueError(
                f"{config.experiment.name}: `{field}` must be empty"
                f"{instead or ': the protocol sets it'}."
            )


def check_unused(
    config: ml_collections.ConfigDict, option: str, default: Any, why: str
) -> None:
    """Raises a ValueError where an option that has no effect is not its default."""
    value = config.experiment[option]
    if value != default:
        raise ValueError(
            f"{config.experiment.name}: `experiment.{option}` must stay {default!r}, "
            f"got {value!r}: it has no effect {why}."
        )


def _paths(name: str) -> list[str]:
    """Returns a stage's name and the folders above it: ``a/b`` and ``a``."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _options(config: ml_collections.ConfigDict, stage: str) -> dict[str, Any]:
    """Returns the fields of a stage's options; those of its own name come last."""
    found: dict[str, Any] = {}
    for name in reversed(_paths(stage)):
        if name in config.experiment.options:
            found |= rows.flat(config.experiment.options[name])
    return rows.checked(rows.flat(config), found, f"experiment.options of {stage!r}")


def _covers(key: str, field: str) -> bool:
    """Returns whether a change of `key`, a field or a section, changes `field`."""
    return field == key or field.startswith(f"{key}.")


def _sets(stage: "Stage", field: str) -> bool:
    """Returns whether all models of a stage change a field."""
    if any(_covers(key, field) for key in stage.fields):
        return True
    return bool(stage.rows) and all(field in row for row in stage.rows)


def _value(stage: "Stage", field: str, row: Row) -> Any:
    """Returns the value that one model of a stage sets a field to."""
    found = None
    for key, value in {**stage.fields, **row}.items():
        if field == key:
            found = value
        elif _covers(key, field):
            found = flatten_dict(dict(value), sep=".").get(field[len(key) + 1 :])
    return list(found) if isinstance(found, tuple) else found
