"""Sweeps: thousands of models as rows of a manifest, trained in packs of lanes.

A config file that has ``sweep(add, preset)`` beside ``get_config(preset)`` is a sweep:
each ``add(fields, **labels)`` is one model, a row of changed fields, named by labels or
else by its changed fields. Models that share a compiled program, equal but for seeds
and hyperparameters, are trained together as the lanes of one run: a pack.

The folder of a sweep holds plain files, and any number of processes on any number of
machines may work on it at once::

    manifest.jsonl           the base config, then one line per model: id, pack, fields
    packs/0007/              an ordinary run with lanes, as disentangle_jax.main has
    packs/0007/claim.1       the process that runs it; touched while it runs
    packs/0007/failed.json   why it failed, until it is run again
    rows/ID.json             the result of one model, written once
    codes/ID.npz             some of its codes, for scores that compare models
    table.csv                all rows, written by `write_table`

Synopsis::

    sweep = sweep_lib.create(sweep_lib.expand("configs/studies/unsupervised.py:mini"),
                             "runs/mini")
    # On any number of machines: python -m launch.sweep run --workdir=runs/mini
    table = sweep_lib.collect(sweep)
"""

import contextlib
import csv
import hashlib
import json
import os
import pathlib
import tempfile
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections
import numpy as np

from disentangle_jax import config as config_lib
from disentangle_jax import evaluation, files, metrics, training
from disentangle_jax import rows as rows_lib
from disentangle_jax.training import memory

# Columns of the table of results, beside labels and scores.
_RESERVED = (
    *("id", "pack", "finite", "scores", "errors", "fields", "seconds"),
    *("versions", "device", "commit", "time"),
)
# Lanes of a pack by default. More make a step longer, not a model cheaper.
MOST_LANES = 64


class Model(NamedTuple):
    """One row of the manifest.

    Attributes:
      id: hash of its resolved config, the same on every machine.
      labels: its names in tables and plots: dataset, method, strength, seed.
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
    if "posterior" not in base.eval.evaluators:  # The analyses of `study` need it.
        base.eval.evaluators = (*base.eval.evaluators, "posterior")
    path, preset = config_lib.find(file)
    describe = config_lib.run_file(str(path)).get("sweep")
    if describe is None:
        raise ValueError(
            f"--config: {path} has no `sweep(add, preset)`; it is a single run for "
            "python -m disentangle_jax.main. See configs/studies/."
        )
    common = rows_lib.flat(base)
    models: dict[str, Model] = {}
    columns = {*_RESERVED, *metrics.names()}
    for name in evaluation.names():
        columns |= evaluation.describe(name).scores.keys()

    def add(fields: Mapping[str, Any], **labels: Any) -> None:
        for label in labels:
            if label in columns:
                raise ValueError(
                    f"sweep: `{label}` must not be a label: the table of results has a "
                    "column of that name."
                )
        row = rows_lib.checked(common, fields, "sweep")
        if {**common, **row}["train.num_epochs"]:
            raise ValueError(
                "sweep: `train.num_epochs` must be 0; give `train.num_steps`, by which "
                "the cost of a sweep is estimated."
            )
        labels = rows_lib.as_stored(labels, "sweep")
        model = Model(rows_lib.fingerprint({**common, **row}), labels, row)
        if model.id in models:
            raise ValueError(
                f"sweep: {fields} was added twice; each model must differ in a field."
            )
        models[model.id] = model

    try:
        describe(add, preset)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(
            f"--config: sweep of {path} fails with {type(error).__name__}: {error}."
        ) from error
    if not models:
        raise ValueError(f"sweep: {file} adds no model.")
    named = rows_lib.labels(common, [model.fields for model in models.values()])
    made = [
        model if model.labels else model._replace(labels=labels)
        for model, labels in zip(models.values(), named, strict=True)
    ]
    return Expansion(file, base, made)


def create(
    expansion: Expansion,
    workdir: str | os.PathLike,
    *,
    lanes: int | None = None,
) -> Sweep:
    """Writes the manifest of a new sweep, or finds that it is there, and returns it.

    A sweep that lacks some of the models is extended: they become new packs, and what
    is done stays.

    Args:
      expansion: the models.
      workdir: folder of the sweep.
      lanes: largest number of models in a pack; None for as many as fit into the
        memory of this machine's devices, at most ``MOST_LANES``.

    Raises:
      ValueError: the folder holds another sweep.
    """
    workdir = pathlib.Path(workdir)
    path = workdir / "manifest.jsonl"
    if not path.exists():
        training.check_writable(workdir)
        packs = list(enumerate(pack_models(expansion, lanes)))
        manifest = _manifest(expansion, packs)
        for folder in ("packs", "rows", "codes"):
            (workdir / folder).mkdir(parents=True, exist_ok=True)
        # Of two launchers at once one writes it, and both read what it wrote.
        files.write_once(path, manifest.encode())
    sweep = load(workdir)
    stored, wanted = {m.id for m in sweep.models}, {m.id for m in expansion.models}
    if stored - wanted:
        raise ValueError(
            f"workdir: {workdir} holds another sweep ({len(stored - wanted)} of its "
            f"{len(stored)} models are not in {expansion.file}, which has "
            f"{len(wanted - stored)} others); give another --workdir."
        )
    if wanted - stored:
        files.write_text(path, _extended(sweep, expansion, lanes))
        sweep = load(workdir)
    return sweep


def _manifest(expansion: Expansion, packs: Sequence[tuple[int, list[Model]]]) -> str:
    """Returns the text of a manifest."""
    header = {
        "sweep": expansion.file,
        "models": len(expansion.models),
        "packs": len(packs),
        "config": json.loads(expansion.base.to_json()),
    }
    lines = []
    for number, models in packs:
        training.check_lanes(
            rows_lib.together(expansion.base, [model.fields for model in models])
        )
        lines += [{"pack": number, **model._asdict()} for model in models]
    header["sha256"] = _manifest_hash(header, lines)
    return "".join(json.dumps(line) + "\n" for line in [header, *lines])


def _extended(sweep: Sweep, expansion: Expansion, lanes: int | None) -> str:
    """Returns a manifest with the packs of `sweep`, and new ones of new models."""
    known = {model.id for model in sweep.models}
    # What varies may have changed, and with it what labels say.
    labels = {model.id: model.labels for model in expansion.models}
    packs = [
        (pack.number, [m._replace(labels=labels[m.id]) for m in pack.models])
        for pack in sweep.packs
    ]
    new = [model for model in expansion.models if model.id not in known]
    first = max(number for number, _ in packs) + 1
    made = pack_models(expansion._replace(models=new), lanes)
    return _manifest(expansion, [*packs, *enumerate(made, start=first)])


def load(workdir: str | os.PathLike) -> Sweep:
    """Returns the sweep of a folder."""
    workdir = pathlib.Path(workdir)
    path = workdir / "manifest.jsonl"
    if not path.exists():
        raise ValueError(
            f"workdir: {workdir} holds no sweep (no manifest.jsonl); start one there "
            "with --config=FILE, or name the right --workdir."
        )
    try:
        header, *lines = map(json.loads, path.read_bytes().splitlines())
        whole = header.pop("sha256") == _manifest_hash(header, lines)
    except (ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise ValueError(
            f"sweep: {path} is damaged, was changed, or is of an older version; bring "
            "back a copy, or move it away and launch the sweep again: rows that are "
            "there are kept."
        )
    base = config_lib.from_json(header["config"])
    grouped: dict[int, list[Model]] = {}
    for line in lines:
        number = line.pop("pack")
        grouped.setdefault(number, []).append(Model(**line))
    packs = [
        Pack(number, models, rows_lib.together(base, [m.fields for m in models]))
        for number, models in sorted(grouped.items())
    ]
    return Sweep(workdir, header, packs)


def _manifest_hash(header: Mapping[str, Any], lines: Sequence[Mapping]) -> str:
    """Returns a hash of a manifest: its number of models, their ids and fields."""
    return hashlib.sha256(json.dumps([header, *lines]).encode()).hexdigest()


def pack_models(expansion: Expansion, lanes: int | None = None) -> list[list[Model]]:
    """Returns the models by pack: those of a program together, in equal parts.

    Args:
      expansion: the models.
      lanes: see :func:`create`.
    """
    # Memory depends on networks and objective more than on the dataset: it is looked
    # at once for all datasets of a method.
    fitting: dict[str, int] = {}

    def most(program: str, group: list[rows_lib.Row]) -> int:
        if lanes is not None:
            return lanes
        fields = json.loads(program).items()
        kind = json.dumps([f for f in fields if not f[0].startswith("data.")])
        if kind not in fitting:
            found = fitting_lanes(expansion.base, group[0])
            if found is None:
                return MOST_LANES
            fitting[kind] = found
        return fitting[kind]

    packs = rows_lib.packs(expansion.base, [m.fields for m in expansion.models], most)
    by_row = {id(model.fields): model for model in expansion.models}
    return [[by_row[id(row)] for row in pack] for pack in packs]


def fitting_lanes(base: ml_collections.ConfigDict, row: rows_lib.Row) -> int | None:
    """Returns how many models like `row` fit into the memory of this machine's devices.

    At most ``MOST_LANES``; None where the data are not on this machine, so that it is
    not known.
    """
    nowhere = pathlib.Path(tempfile.gettempdir()) / uuid.uuid4().hex
    count = MOST_LANES
    while count > 1:
        lanes = [{**row, "train.seed": seed} for seed in range(count)]
        try:
            config = rows_lib.together(base, lanes)
            memory.check_memory(training.prepare(config, nowhere))
        except training.TooLarge:
            count = -(-count // 2)
        except FileNotFoundError:
            return None
        else:
            break
    return count


class CorruptRow(ValueError):
    """A file of a result is not what was written."""


_ROW_HEAD, _ROW_SUM = b'{"row": ', b', "sha256": "'


def write_row(path: pathlib.Path, row: Mapping[str, Any]) -> bool:
    """Writes the result of a model with its checksum; False if it was there."""
    body = json.dumps(row).encode()
    check = hashlib.sha256(body).hexdigest().encode()
    return files.write_once(path, _ROW_HEAD + body + _ROW_SUM + check + b'"}\n')


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
            row = read_row(path)
            if row["id"] != path.stem:
                raise CorruptRow(f"rows: {path} holds the result of {row['id']}.")
            found[path.stem] = row
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
    with files.new_file(path) as partial, partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(table)
    return path


def read_codes(
    sweep: Sweep, ids: Iterable[str]
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yields the kept codes of models, those that are there and whole."""
    for name in ids:
        path = sweep.workdir / "codes" / f"{name}.npz"
        try:
            yield name, files.read_arrays(path)
        except FileNotFoundError:
            continue
        except files.Damaged as error:
            warnings.warn(f"{error} Its model is left out.", stacklevel=2)
