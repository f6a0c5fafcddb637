"""Sweeps: thousands of models as rows of a manifest, trained in packs of lanes.

A config file that has ``sweep(add, preset)`` beside ``get_config(preset)`` is a sweep:
each ``add(fields, **labels)`` is one model, the config with some fields changed. The
models that share a compiled program, equal but for seeds and numbers of the objective,
are trained together as the lanes of one run: a pack.

The folder of a sweep holds plain files, and any number of processes on any number of
machines may work on it at once::

    manifest.jsonl           the base config, then one line per model: id, pack, fields
    packs/0007/              an ordinary run with lanes, as disentangle_jax.main has
    packs/0007/claim.1       who runs it; touched while it runs
    packs/0007/failed.json   why it failed, until it is run again
    rows/ID.json             the result of one model: written once, whole, or not at all
    codes/ID.npz             some of its codes, for scores that compare models
    table.csv                all rows, written by :func:`write_table`

Synopsis::

    sweep = sweep_lib.create(sweep_lib.expand("configs/studies/unsupervised.py:mini"),
                             "runs/mini")
    # Here, there and everywhere: python -m launch.sweep run --workdir=runs/mini
    table = sweep_lib.collect(sweep)
"""

import contextlib
import csv
import hashlib
import json
import os
import pathlib
import runpy
import tempfile
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections
import numpy as np
from flax.traverse_util import flatten_dict

from disentangle_jax import config as config_lib
from disentangle_jax import methods, training
from disentangle_jax.training import memory
from disentangle_jax.training.lanes import lane_fields
from disentangle_jax.types import unknown_name

# How a model is run, not what it is: the same model if these differ.
_NOT_THE_MODEL = (
    "data.data_dir",
    "lanes.",
    "train.log_every",
    "train.checkpoint_every",
    "train.keep_checkpoints",
    "train.prefetch",
    "train.mesh",
)
# Lanes of a pack unless said otherwise. More make a step longer, not a model cheaper.
MOST_LANES = 64


class Model(NamedTuple):
    """One row of the manifest.

    Attributes:
      id: hash of its resolved config, the same on every machine.
      labels: what tables and plots call it: dataset, method, strength, seed.
      fields: what it changes in the base config, by dotted names.
    """

    id: str
    labels: dict[str, Any]
    fields: dict[str, Any]


class Expansion(NamedTuple):
    """A sweep as its config file describes it.

    Attributes:
      file: of the config, with the preset.
      base: the config that all models share.
      models: in the order they were added.
    """

    file: str
    base: ml_collections.ConfigDict
    models: list[Model]


class Pack(NamedTuple):
    """Models of one program, trained as lanes of one run.

    Attributes:
      number: from 0.
      models: its lanes, in their order.
      config: of the run.
    """

    number: int
    models: list[Model]
    config: ml_collections.ConfigDict


class Sweep(NamedTuple):
    """A sweep in its folder.

    Attributes:
      workdir: the folder.
      header: first line of the manifest: file, base config, lanes of a pack.
      packs: all models, by pack.
    """

    workdir: pathlib.Path
    header: dict[str, Any]
    packs: list[Pack]

    @property
    def models(self) -> list[Model]:
        return [model for pack in self.packs for model in pack.models]

    def folder(self, pack: Pack) -> pathlib.Path:
        """Returns the folder of the pack's run."""
        return self.workdir / "packs" / f"{pack.number:04d}"

    def row_path(self, model: Model) -> pathlib.Path:
        """Returns where the result of a model belongs."""
        return self.workdir / "rows" / f"{model.id}.json"

    def codes_path(self, model: Model) -> pathlib.Path:
        """Returns where the kept codes of a model belong."""
        return self.workdir / "codes" / f"{model.id}.npz"


def expand(file: str, overrides: Iterable[str] = ()) -> Expansion:
    """Returns the models of a config file with ``sweep(add, preset)``.

    Args:
      file: path, then ``:`` and the preset where one is wanted.
      overrides: texts of the form ``--config.train.num_steps=100``; they change the
        config before the sweep changes it.

    Raises:
      ValueError: the file has no sweep, a field does not exist, or a model is twice.
    """
    base = config_lib.load(file, overrides)
    path, _, preset = file.partition(":")
    describe = runpy.run_path(path).get("sweep")
    if describe is None:
        raise ValueError(
            f"--config: {path} has no `sweep(add, preset)`; it is a single run for "
            "python -m disentangle_jax.main. See configs/studies/."
        )
    common = flatten_dict(json.loads(base.to_json()), sep=".")
    models: dict[str, Model] = {}

    def add(fields: Mapping[str, Any], **labels: Any) -> None:
        model = _model(common, dict(fields), labels)
        if model.id in models:
            raise ValueError(
                f"sweep: {fields} was added twice; each model must differ in a field."
            )
        models[model.id] = model

    describe(add, preset)
    if not models:
        raise ValueError(f"sweep: {file} adds no model.")
    return Expansion(file, base, list(models.values()))


def _model(
    common: Mapping[str, Any], fields: dict[str, Any], labels: dict[str, Any]
) -> Model:
    method = fields.get("method.name", common["method.name"])
    for name in lane_fields(method):
        if name in fields:
            fields[name] = float(fields[name])
    open_sections = ("model.", "method.", "data.options.", "train.schedules.")
    for name in fields:
        if name not in common and not name.startswith(open_sections):
            raise unknown_name("sweep", "fields", name, common)
    resolved = _resolved(common, fields)
    text = json.dumps(resolved, sort_keys=True)
    return Model(hashlib.sha256(text.encode()).hexdigest()[:16], labels, fields)


def _resolved(common: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns every field that makes a model what it is."""
    every = {**common, **fields}
    return {k: v for k, v in every.items() if not k.startswith(_NOT_THE_MODEL)}


def create(
    expansion: Expansion,
    workdir: str | os.PathLike,
    *,
    lanes: int | None = None,
) -> Sweep:
    """Writes the manifest of a new sweep, or finds that it is there, and returns it.

    Args:
      expansion: the models.
      workdir: folder of the sweep.
      lanes: most models of a pack; None for as many as the memory of this machine's
        devices holds, at most ``MOST_LANES``.

    Raises:
      ValueError: the folder holds another sweep.
    """
    workdir = pathlib.Path(workdir)
    path = workdir / "manifest.jsonl"
    if not path.exists():
        packs = pack_models(expansion, lanes)
        header = {
            "sweep": expansion.file,
            "models": len(expansion.models),
            "packs": len(packs),
            "config": json.loads(expansion.base.to_json()),
        }
        lines = [header]
        for number, models in enumerate(packs):
            lines += [{"pack": number, **model._asdict()} for model in models]
        for folder in ("packs", "rows", "codes"):
            (workdir / folder).mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        # Of two launchers at once one writes it, and both read what it wrote.
        write_once(path, text.encode())
    sweep = load(workdir)
    stored, wanted = {m.id for m in sweep.models}, {m.id for m in expansion.models}
    if stored != wanted:
        raise ValueError(
            f"workdir: {workdir} holds another sweep ({len(stored - wanted)} of its "
            f"{len(stored)} models are not in {expansion.file}, which has "
            f"{len(wanted - stored)} others); give another --workdir."
        )
    return sweep


def load(workdir: str | os.PathLike) -> Sweep:
    """Returns the sweep of a folder."""
    workdir = pathlib.Path(workdir)
    path = workdir / "manifest.jsonl"
    if not path.exists():
        raise ValueError(
            f"workdir: {workdir} holds no sweep (no manifest.jsonl); start one there "
            "with --config=FILE, or name the right --workdir."
        )
    header, *lines = map(json.loads, path.read_text().splitlines())
    base = training.config_from_json(header["config"])
    grouped: dict[int, list[Model]] = {}
    for line in lines:
        number = line.pop("pack")
        grouped.setdefault(number, []).append(Model(**line))
    packs = [
        Pack(number, models, pack_config(base, models))
        for number, models in sorted(grouped.items())
    ]
    return Sweep(workdir, header, packs)


def pack_models(expansion: Expansion, lanes: int | None = None) -> list[list[Model]]:
    """Returns the models by pack: those of a program together, in equal parts.

    Args:
      expansion: the models.
      lanes: see :func:`create`.
    """
    common = flatten_dict(json.loads(expansion.base.to_json()), sep=".")
    groups: dict[str, list[Model]] = {}
    for model in expansion.models:
        groups.setdefault(_program(common, model), []).append(model)
    # Memory is a matter of networks and objective more than of the dataset: looked at
    # once for all datasets of a method.
    fitting: dict[str, int] = {}
    packs = []
    for program, models in groups.items():
        fields = json.loads(program).items()
        kind = json.dumps([f for f in fields if not f[0].startswith("data.")])
        if lanes is None and kind not in fitting:
            found = fitting_lanes(expansion.base, models)
            if found is not None:
                fitting[kind] = found
        packs += _equal_parts(models, lanes or fitting.get(kind, MOST_LANES))
    return packs


def _program(common: Mapping[str, Any], model: Model) -> str:
    """Returns a text that is equal for the models that share a compiled program."""
    resolved = _resolved(common, model.fields)
    varied = (*lane_fields(resolved["method.name"]), "train.seed")
    return json.dumps(
        {k: v for k, v in resolved.items() if k not in varied}, sort_keys=True
    )


def _equal_parts(models: list[Model], most: int) -> list[list[Model]]:
    """Splits models into parts of at most `most`, of one size where that divides.

    Parts of one size share their compiled program; so a size that divides the number
    is taken even if it makes up to twice as many parts.
    """
    count = len(models)
    fewest = -(-count // most)
    parts = next((n for n in range(fewest, 2 * fewest) if count % n == 0), fewest)
    size = -(-count // parts)
    return [models[start : start + size] for start in range(0, count, size)]


def fitting_lanes(
    base: ml_collections.ConfigDict, models: Sequence[Model]
) -> int | None:
    """Returns how many models like these fit into the memory of this machine's devices.

    At most ``MOST_LANES``; None where the data are not on this machine, so that it
    cannot be told.
    """
    nowhere = pathlib.Path(tempfile.gettempdir()) / uuid.uuid4().hex
    count = MOST_LANES
    while count > 1:
        lanes = [
            Model("", {}, {**models[0].fields, "train.seed": seed})
            for seed in range(count)
        ]
        try:
            memory.check(training.prepare(pack_config(base, lanes), nowhere))
        except training.TooLarge:
            count = -(-count // 2)
        except FileNotFoundError:
            return None
        else:
            break
    return count


def pack_config(
    base: ml_collections.ConfigDict, models: Sequence[Model]
) -> ml_collections.ConfigDict:
    """Returns the config of the run whose lanes are `models`."""
    config = base.copy_and_resolve_references()
    with config.ignore_type():
        for field, value in models[0].fields.items():
            *sections, name = field.split(".")
            section = config
            for part in sections:
                section = section[part]
            section[name] = tuple(value) if isinstance(value, list) else value
    common = flatten_dict(json.loads(config.to_json()), sep=".")
    numbers = methods.hyperparameters(config.method.name)
    rows = []
    for model in models:
        row = {}
        for field in lane_fields(config.method.name):
            default = common.get(field, numbers.get(field.partition(".")[2]))
            row[field] = model.fields.get(field, default)
        row["train.seed"] = model.fields.get("train.seed", common["train.seed"])
        rows.append(row)
    differing = [
        field
        for field in rows[0]
        if field == "train.seed" or len({row[field] for row in rows}) > 1
    ]
    config.lanes.rows = tuple({f: row[f] for f in differing} for row in rows)
    return config


# Files that are written once.


def write_once(path: pathlib.Path, content: bytes) -> bool:
    """Writes a file that is never there in part; returns False if it was there.

    The content goes to a name of its own and is then linked to `path`, which fails
    where that exists: of several writers, on several machines too, one wins.
    """
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    except FileExistsError:
        return False
    finally:
        partial.unlink(missing_ok=True)
    return True


def write_arrays(path: pathlib.Path, arrays: Mapping[str, np.ndarray]) -> None:
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with partial.open("wb") as file:
            np.savez(file, **arrays)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


class CorruptRow(ValueError):
    """A file of a result is not what was written."""


_ROW_HEAD, _ROW_SUM = b'{"row": ', b', "sha256": "'


def write_row(path: pathlib.Path, row: Mapping[str, Any]) -> bool:
    """Writes the result of a model with its checksum; False if it was there."""
    body = json.dumps(row).encode()
    check = hashlib.sha256(body).hexdigest().encode()
    return write_once(path, _ROW_HEAD + body + _ROW_SUM + check + b'"}\n')


def read_row(path: pathlib.Path) -> dict[str, Any]:
    """Returns the result of a model.

    Raises:
      CorruptRow: the file is cut or changed.
    """
    text = path.read_bytes()
    body, _, check = text.removeprefix(_ROW_HEAD).rpartition(_ROW_SUM)
    if check[:64].decode("ascii", "replace") != hashlib.sha256(body).hexdigest():
        raise CorruptRow(
            f"rows: {path} is cut or was changed; `resume` moves it aside and makes "
            "it anew."
        )
    return json.loads(body)


class Rows(NamedTuple):
    """The results of a sweep so far.

    Attributes:
      found: by id of the model.
      corrupt: files that cannot be trusted.
    """

    found: dict[str, dict[str, Any]]
    corrupt: list[pathlib.Path]


def read_rows(sweep: Sweep) -> Rows:
    """Returns the results that are there, of the sweep's models only."""
    known = {model.id for model in sweep.models}
    found, corrupt = {}, []
    folder = sweep.workdir / "rows"
    with os.scandir(folder) if folder.exists() else contextlib.nullcontext(()) as files:
        paths = [
            pathlib.Path(file.path)
            for file in files
            if file.name.endswith(".json") and file.name[:-5] in known
        ]
    for path in paths:
        try:
            found[path.stem] = read_row(path)
        except CorruptRow:
            corrupt.append(path)
        except FileNotFoundError:  # Moved aside meanwhile.
            continue
    return Rows(found, corrupt)


def move_corrupt(paths: Iterable[pathlib.Path]) -> None:
    """Moves damaged rows aside, so that they are made anew; deletes nothing."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.rename(path.with_name(f"{path.stem}.corrupt-{uuid.uuid4().hex[:6]}"))


def collect(sweep: Sweep) -> list[dict[str, Any]]:
    """Returns one flat dict per model whose row is there, in the manifest's order.

    Columns: id, the labels, pack, finite, seconds, then scores under their names. Rows
    of a partial sweep are fine; damaged rows are left out.
    """
    found = read_rows(sweep).found
    table = []
    for model in sweep.models:
        row = found.get(model.id)
        if row is None:
            continue
        flat = {"id": row["id"], **model.labels}
        flat |= {name: row[name] for name in ("pack", "finite", "seconds")}
        table.append(flat | row["scores"])
    return table


def write_table(table: Sequence[Mapping[str, Any]], path: pathlib.Path) -> pathlib.Path:
    """Writes collected rows as CSV: a column per score, empty where there is none."""
    columns = list(dict.fromkeys(name for row in table for name in row))
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with partial.open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writeheader()
            writer.writerows(table)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def read_codes(
    sweep: Sweep, ids: Iterable[str]
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yields the kept codes of models, those that are there and whole."""
    for name in ids:
        path = sweep.workdir / "codes" / f"{name}.npz"
        with contextlib.suppress(OSError, ValueError, zipfile.BadZipFile):
            yield name, _arrays(path)


def _arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files}
