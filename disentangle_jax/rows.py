"""Many models as rows: one config, and the fields that each model changes.

A row maps dotted names of fields to values, ``{"method.beta": 4.0, "train.seed": 1}``.
Lanes (``lanes.seeds``, ``lanes.sweep``, ``lanes.rows``), sweeps (``sweep(add)``) and
the stages of a protocol are all lists of rows. :func:`program` says which rows share a
compiled program, :func:`identity` which fields make the model.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from flax.traverse_util import flatten_dict
from ml_collections import ConfigDict

from disentangle_jax import config as config_lib
from disentangle_jax import methods
from disentangle_jax.types import unknown_name

Row = Mapping[str, Any]

# What fields affect (config.Field) that must be equal for: one model, whatever its
# seed; one workdir, which may be continued; one result, which need not be computed
# again.
MODEL = ("model", "length")
WORKDIR = ("model", "seed", "rows")
RESULT = ("model", "length", "seed", "evaluation")

_OPEN = ("model.", "method.", "data.options.", "data.drop.", "train.schedules.")


def flat(config: ConfigDict | Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a config by dotted names, with the values JSON has."""
    stored = json.loads(config.to_json()) if isinstance(config, ConfigDict) else config
    return flatten_dict(stored, sep=".")


def identity(fields: Row, affecting: Sequence[str]) -> dict[str, Any]:
    """Returns the fields that affect something: ``MODEL``, ``WORKDIR`` or ``RESULT``.

    Args:
      fields: of :func:`flat`, perhaps with those of a row on top.
      affecting: see :class:`disentangle_jax.config.Field`.
    """
    return {
        name: value
        for name, value in fields.items()
        if config_lib.affects(name) in affecting
    }


def fingerprint(fields: Row, affecting: Sequence[str] = RESULT) -> str:
    """Returns a short hash of :func:`identity`, the same on every machine."""
    text = json.dumps(identity(fields, affecting), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def differences(old: Row, new: Row, affecting: Sequence[str]) -> list[str]:
    """Returns in words which fields of two configs differ, of those of `affecting`."""
    old, new = identity(old, affecting), identity(new, affecting)
    return [
        f"{name} was {old.get(name)!r}, now {new.get(name)!r}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def apply(config: ConfigDict, row: Row) -> ConfigDict:
    """Returns a copy of `config` with the fields of `row` changed."""
    config = config.copy_and_resolve_references()
    with config.unlocked(), config.ignore_type():
        for field, value in row.items():
            *sections, name = field.split(".")
            section = config
            for part in sections:
                section = section[part]
            section[name] = tuple(value) if isinstance(value, list) else value
    return config


def lane_fields(method: str) -> tuple[str, ...]:
    """Returns the fields, beside the seed, in which lanes of `method` may differ."""
    numbers = [f"method.{name}" for name in methods.hyperparameters(method)]
    return (*numbers, "optimizer.learning_rate")


def checked(common: Row, row: Row, function: str) -> dict[str, Any]:
    """Returns `row` as it is stored, or raises where a field does not exist.

    Args:
      common: fields of the config, of :func:`flat`.
      row: the fields that a model changes.
      function: the function that was called, for the error.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"{function}: `fields` must be a dict, got {row!r}.")
    for name in row:
        if name not in common and not str(name).startswith(_OPEN):
            raise unknown_name(function, "fields", name, common)
    row = as_stored(row, function)
    method = cast(str, row.get("method.name", common["method.name"]))
    for name in lane_fields(method):
        if name in row:
            if not isinstance(row[name], int | float):
                raise ValueError(
                    f"{function}: `{name}` must be a number, got {row[name]!r}."
                )
            row[name] = float(row[name])
    return row


def as_stored(values: Mapping[str, Any], function: str) -> dict[str, Any]:
    """Returns values as JSON has them, or raises where it has no such values."""
    try:
        return json.loads(json.dumps(dict(values)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{function}: {values} cannot be stored: {error}.") from None


def of(config: ConfigDict) -> list[dict[str, Any]]:
    """Returns the rows of a run: those of ``lanes.rows``, or sweep × seeds."""
    lanes = config.lanes
    config_lib.FIELDS["lanes.seeds"].check("lanes.seeds", lanes.seeds)
    if not lanes.rows:
        for field, values in lanes.sweep.items():
            if not values:
                raise ValueError(f"config: `lanes.sweep.{field}` must not be empty.")
        seeds = range(config.train.seed, config.train.seed + lanes.seeds)
        return [
            dict(zip((*lanes.sweep, "train.seed"), chosen, strict=True))
            for chosen in itertools.product(*lanes.sweep.values(), seeds)
        ]
    if lanes.seeds > 1 or lanes.sweep:
        raise ValueError(
            "config: `lanes.rows` lists every lane; leave out `lanes.seeds` and "
            "`lanes.sweep`."
        )
    if not all(isinstance(row, Mapping) for row in lanes.rows):
        raise ValueError(
            "config: `lanes.rows` must be dicts of fields, such as {'train.seed': 3}, "
            f"got {lanes.rows}."
        )
    rows = [dict(row) for row in lanes.rows]
    for row in rows:
        if row.keys() != rows[0].keys() or "train.seed" not in row:
            raise ValueError(
                "config: `lanes.rows` must all give 'train.seed' and the same other "
                f"fields, got {sorted(rows[0])} and {sorted(row)}."
            )
    return rows


def labels(common: Row, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Returns names of models for tables and plots, from the fields that they change.

    Args:
      common: fields that the rows change, of :func:`flat`.
      rows: the models.

    Returns:
      For each model ``dataset``, ``method``, ``strength`` and ``seed``. The strength is
      the value of the method's field that varies among its models (a text if several
      do, 0 if none does); other fields that vary are added to the name of the method.
    """
    full = [{**common, **row} for row in rows]
    changed = list(dict.fromkeys(field for row in rows for field in row))
    values: dict[tuple[str, str], set[str]] = {}
    for fields in full:
        for field in changed:
            found = values.setdefault((fields["method.name"], field), set())
            found.add(repr(fields.get(field)))
    named = ("data.name", "method.name", "train.seed")

    def of(fields: Row) -> dict[str, Any]:
        method = fields["method.name"]
        varying = [f for f in changed if len(values[method, f]) > 1 and f not in named]
        own = [f for f in varying if f.startswith("method.") and f in fields]
        others = [f for f in varying if not f.startswith("method.")]
        texts = [f"{f.rpartition('.')[2]}={fields.get(f)}" for f in (*own, *others)]
        strength = fields[own[0]] if len(own) == 1 else ", ".join(texts[: len(own)])
        return {
            "dataset": fields["data.name"],
            "method": ", ".join([method, *texts[len(own) :]]),
            "strength": strength or 0,
            "seed": fields["train.seed"],
        }

    return [of(fields) for fields in full]


def hyperparameters(methods: Sequence[str], rows: Sequence[Row]) -> dict[str, str]:
    """Returns the names of the hyperparameters that the models of each method vary.

    Args:
      methods: label of the method of each model, as :func:`labels` returns it.
      rows: the models.
    """
    values: dict[str, dict[str, set[str]]] = {}
    for method, row in zip(methods, rows):
        found = values.setdefault(method, {})
        for field, value in row.items():
            found.setdefault(field, set()).add(repr(value))
    return {
        method: ", ".join(
            field.removeprefix("method.")
            for field, seen in found.items()
            if field.startswith("method.") and len(seen) > 1
        )
        for method, found in values.items()
    }


def program(fields: Row) -> str:
    """Returns a text that is equal for configs that share a compiled program.

    Args:
      fields: of :func:`flat` with those of a row on top.
    """
    varied = (*lane_fields(fields["method.name"]), "train.seed")
    return json.dumps(
        {k: v for k, v in identity(fields, RESULT).items() if k not in varied},
        sort_keys=True,
    )


def packs(
    config: ConfigDict,
    rows: Iterable[Row],
    most: Callable[[str, list[Row]], int],
) -> list[list[Row]]:
    """Returns rows in packs: rows of one program together, in parts of one size.

    Args:
      config: what the rows change.
      rows: the models.
      most: ``(program, rows) -> int``, how many of the rows of a program fit a pack.
    """
    common = flat(config)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(program({**common, **row}), []).append(row)
    return [
        part
        for text, group in groups.items()
        for part in _equal_parts(group, most(text, group))
    ]


def _equal_parts(rows: list[Row], most: int) -> list[list[Row]]:
    """Splits rows into parts of at most `most`, of one size where that divides.

    Parts of one size share their compiled program; so a size that divides the number
    is taken even if it makes up to twice as many parts.
    """
    count = len(rows)
    fewest = -(-count // most)
    parts = next((n for n in range(fewest, 2 * fewest) if count % n == 0), fewest)
    size = -(-count // parts)
    return [rows[start : start + size] for start in range(0, count, size)]


def together(config: ConfigDict, rows: Sequence[Row]) -> ConfigDict:
    """Returns the config of the run whose lanes are `rows`, which share a program."""
    merged = apply(config, rows[0])
    common = flat(config)
    defaults = methods.hyperparameters(merged.method.name)
    values = {
        field: [
            row.get(field, common.get(field, defaults.get(field.partition(".")[2])))
            for row in rows
        ]
        for field in (*lane_fields(merged.method.name), "train.seed")
    }
    differing = [
        field
        for field, column in values.items()
        if field == "train.seed" or len(set(column)) > 1
    ]
    merged.lanes.update(seeds=1, sweep={})
    merged.lanes.rows = tuple(
        {field: values[field][number] for field in differing}
        for number in range(len(rows))
    )
    return merged


def alone(config: ConfigDict, row: Row) -> ConfigDict:
    """Returns the config of the run of one row by itself."""
    single = apply(config, row)
    if not config.lanes.same_batches:
        single.data.seed = single.train.seed
    single.lanes.update(seeds=1, chunk=0, rows=())
    single.lanes.sweep = {}
    return single
