"""The form of a protocol: models in stages, then one page about all of them.

A config with a section ``experiment`` describes a protocol. Its other sections are what
the models have in common. A protocol lists its models as rows, stage by stage; rows
that share a compiled program are trained together as lanes of one run. Each run has a
folder of its own below the protocol's. It is resumed, evaluated and reported like any
other run, so that a protocol that was stopped continues where it stopped.
"""

import dataclasses
import functools
import json
import os
import pathlib
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import ml_collections

from disentangle_jax import evaluation, files, registry, reports, rows, training
from disentangle_jax.experiments import fields as fields_lib
from disentangle_jax.experiments.fields import check_empty as check_empty
from disentangle_jax.experiments.fields import check_given as check_given
from disentangle_jax.experiments.fields import check_unused as check_unused
from disentangle_jax.rows import Row
from disentangle_jax.types import unknown_name

PROTOCOLS = registry.Registry("protocol", "disentangle_jax.experiments")
K, V = TypeVar("K", bound=Hashable), TypeVar("V")


class ProtocolDescription(NamedTuple):
    """The description of a protocol.

    Attributes:
      question: what it asks, in one sentence.
      reference: the paper, with its tables and figures.
      options: fields of the section ``experiment`` and their defaults. Every protocol
        also has ``options``, which changes fields of single stages by their names; see
        :mod:`disentangle_jax.experiments.fields`.
      reads: fields outside this section that the protocol reads itself, so that they
        have an effect even where every stage changes them.
    """

    question: str
    reference: str
    options: Mapping[str, Any]
    reads: tuple[str, ...] = ()


def define(
    *,
    question: str,
    reference: str,
    options: Mapping[str, Any],
    reads: Sequence[str] = (),
) -> Callable:
    """Returns a decorator that describes a subclass of :class:`Protocol`.

    The library's protocols have the names of their modules.
    """
    options = {**options, "options": {}}
    description = ProtocolDescription(question, reference, options, tuple(reads))

    def decorate(protocol: type["Protocol"]) -> type["Protocol"]:
        name = protocol.__module__.rpartition(".")[2]
        return PROTOCOLS.add(protocol, description, name)

    return decorate


@dataclasses.dataclass(frozen=True)
class Model:
    """One evaluated model of a protocol.

    Attributes:
      run: the run of this model alone.
      load: returns the trained model.
    """

    run: training.Run
    load: Callable[[], evaluation.Trained]

    @property
    def hyper(self) -> dict[str, float]:
        """Its hyperparameters."""
        return self.run.lanes[0].hyper

    @functools.cached_property
    def scores(self) -> dict[str, Any]:
        """Its ``scores.json``."""
        return evaluation.read_scores(self.run.workdir)


Models = Mapping[str, list[Model]]


class Stage(NamedTuple):
    """Models of a protocol that are trained at the same time.

    Attributes:
      name: its folder below the protocol's.
      fields: fields that all of its models change, by dotted names. The name of a
        section, such as ``method``, replaces the whole section.
      rows: further fields that each of its models changes. Every row is trained with
        each lane (seed) of the config; no rows stand for one row without changes.
      after: name of an earlier stage whose parameters its models start from.
      before: called with the models of the earlier stages before this one is trained;
        writes the files that `fields` name.
    """

    name: str
    fields: Mapping[str, Any]
    rows: Sequence[Row] = ()
    after: str = ""
    before: Callable[[Models], None] | None = None


class Result(NamedTuple):
    """The results of a protocol.

    Attributes:
      title: title of the page.
      values: the numbers, for ``result.json``.
      parts: tables and figures of the page, in order.
      models: numbers of single models beside their scores, by their folders.
    """

    title: str
    values: dict[str, Any]
    parts: Sequence[evaluation.Section]
    models: Mapping[str, Mapping[str, float]] = {}


class Protocol:
    """Base class of protocols; override both methods and decorate with `define`."""

    def stages(
        self, config: ml_collections.ConfigDict, workdir: pathlib.Path
    ) -> list[Stage]:
        """Returns the stages in their order; empty for protocols that train nothing.

        Raises:
          ValueError: the config contradicts the protocol.
        """
        raise NotImplementedError

    def result(
        self, config: ml_collections.ConfigDict, workdir: pathlib.Path, models: Models
    ) -> Result:
        """Returns tables and figures of the evaluated models, given by stage."""
        raise NotImplementedError


class Pack(NamedTuple):
    """Rows of one stage that share a compiled program, as one run with lanes.

    Attributes:
      stage: its stage.
      name: its folder below the protocol's.
      config: config of the run, without ``train.start_from``.
      after: folder of the pack whose parameters it starts from, or "".
      models: number of models.
      steps: number of steps; 0 before the config was checked.
    """

    stage: Stage
    name: str
    config: ml_collections.ConfigDict
    after: str
    models: int
    steps: int = 0

    @property
    def work(self) -> float:
        """Number of examples that its models are trained on."""
        return float(self.steps * self.config.train.batch_size * self.models)


class Experiment(NamedTuple):
    """A checked protocol: nothing was trained or written yet.

    Attributes:
      config: the complete config.
      workdir: folder of the protocol.
      protocol: the protocol.
      packs: its runs, in their order.
    """

    config: ml_collections.ConfigDict
    workdir: pathlib.Path
    protocol: Protocol
    packs: list[Pack]


def names() -> tuple[str, ...]:
    """Returns the names of the library's protocols, for ``experiment.name``."""
    return PROTOCOLS.names()


def describe(name: str) -> ProtocolDescription:
    """Returns the description of a protocol."""
    return PROTOCOLS.get(name, "experiments.describe").description


def prepare(
    config: ml_collections.ConfigDict, workdir: pathlib.Path, given: Iterable[str] = ()
) -> Experiment:
    """Checks a protocol, and the config of each of its runs.

    Args:
      config: a complete config with a section ``experiment``.
      workdir: folder of the protocol.
      given: names of the fields that were given on the command line.

    Raises:
      ValueError: the config contradicts the protocol, that of a stage is wrong, or a
        field would have no effect.
      FileNotFoundError: a dataset's file is missing; says what to fetch.
    """
    workdir = pathlib.Path(workdir)
    name = config.experiment.name
    definition = PROTOCOLS.get(name, "config", "experiment.name")
    options = definition.description.options
    for field in config.experiment:
        if field != "name" and field not in options:
            raise unknown_name(f"experiment {name!r}", "field", field, list(options))
    for field, value in options.items():
        if field not in config.experiment:
            config.experiment[field] = value
    training.check_workdir(config, workdir)
    protocol = definition()
    stages = fields_lib.with_options(
        config, protocol.stages(config, workdir), options.get("models", ())
    )
    fields_lib.check_used(config, stages, given, definition.description.reads)
    packs: list[Pack] = []
    for stage in stages:
        packs += _packs(config, stage, packs)
    for place, pack in enumerate(packs):
        # Files that earlier stages write do not exist yet: left out of the check.
        alone = rows.apply(pack.config, {"data.hold_out": ""})
        try:
            training.check_workdir(_started(pack, workdir).config, workdir / pack.name)
            checked = training.prepare(alone, workdir / "checked")
            evaluation.check(checked)
        except ValueError as error:
            raise ValueError(f"stage {pack.name}: {error}") from None
        packs[place] = pack._replace(steps=checked.config.train.num_steps)
    return Experiment(config, workdir, protocol, packs)


def _packs(
    config: ml_collections.ConfigDict, stage: Stage, earlier: Sequence[Pack]
) -> list[Pack]:
    base = config.copy_and_resolve_references()
    del base["experiment"]
    base = rows.apply(base, stage.fields)
    lanes = rows.of(base)
    fields_lib.check_lanes(stage, lanes)
    models = [{**lane, **row} for row in stage.rows or ({},) for lane in lanes]
    laned = len(models) > 1 or bool(base.lanes.rows)
    base = rows.apply(base, {"lanes.seeds": 1, "lanes.sweep": {}, "lanes.rows": ()})
    if laned:
        parts = rows.packs(base, models, lambda _, group: len(group))
        configs = [rows.together(base, part) for part in parts]
    else:
        parts, configs = [models], [rows.apply(base, models[0])]
    before = [pack.name for pack in earlier if pack.stage.name == stage.after]
    if stage.after and len(before) != len(parts):
        raise ValueError(
            f"stage {stage.name}: `after` must name an earlier stage with as many "
            f"programs ({len(parts)}), and {stage.after!r} has {len(before)}."
        )
    packs = []
    for number, (part, own) in enumerate(zip(parts, configs)):
        name = stage.name if len(parts) == 1 else f"{stage.name}/{number}"
        after = before[number] if stage.after else ""
        packs.append(Pack(stage, name, own, after, len(part)))
    return packs


def _started(pack: Pack, workdir: pathlib.Path) -> Pack:
    """Returns a pack that starts from the run before it, if there is one."""
    if not pack.after:
        return pack
    before = os.path.relpath(workdir / pack.after, workdir / pack.name)
    start = {"train.start_from": f"{{workdir}}/{before}"}
    return pack._replace(config=rows.apply(pack.config, start))


def run(experiment: Experiment) -> pathlib.Path:
    """Runs what is missing of a protocol and draws its page; returns its path."""
    config, workdir, protocol, packs = experiment
    training.start_workdir(config, workdir)
    models: dict[str, list[Model]] = {}
    runs: dict[str, training.Run] = {}

    @functools.lru_cache(maxsize=1)
    def load(name: str) -> list[evaluation.Trained]:
        return list(evaluation.load_models(runs[name]))

    total = sum(pack.models for pack in packs)
    spent = done = 0.0
    for number, pack in enumerate(packs, start=1):
        left = ""
        if done:
            ahead = sum(other.work for other in packs[number - 1 :])
            left = f", about {training.duration(spent / done * ahead)} left in all"
        print(
            f"stage {number} of {len(packs)}: {pack.name}, {pack.models} of {total} "
            f"models{left}",
            flush=True,
        )
        began = time.monotonic()
        if pack.stage.before is not None:
            pack.stage.before(models)
        prepared = training.prepare(_started(pack, workdir).config, workdir / pack.name)
        runs[pack.name] = prepared
        models.setdefault(pack.stage.name, []).extend(
            Model(alone, lambda name=pack.name, place=place: load(name)[place])
            for place, alone in enumerate(prepared.models())
        )
        evaluated = evaluation.is_complete(prepared)
        if not evaluated:
            training.train(prepared, watch=evaluation.watch(prepared))
            evaluation.evaluate(prepared)
        undrawn = [f for f in evaluation.folders(prepared) if not reports.is_drawn(f)]
        if evaluated and not undrawn:
            print("already trained and evaluated")
            continue
        for folder in undrawn:
            reports.write(folder)
        spent += time.monotonic() - began
        done += pack.work
    return _write_result(config, workdir, protocol.result(config, workdir, models))


def _write_result(
    config: ml_collections.ConfigDict, workdir: pathlib.Path, result: Result
) -> pathlib.Path:
    written = {
        "values": result.values,
        "models": result.models,
        "config": json.loads(config.to_json()),
        **training.recipe(),
    }
    files.write_json(workdir / "result.json", written)
    for part in result.parts:
        if isinstance(part, reports.Table):
            print(f"\n{part.title}\n{part.text()}")
        if isinstance(part, reports.Text):
            print(f"\n{part.title}\n{part.text}")
    return reports.write_parts(workdir, result.title, result.parts, written)


# --- for the protocols ----------------------------------------------------------------


def folder(model: Model, workdir: pathlib.Path) -> str:
    """Returns the folder of a model below the protocol's, as in `Result.models`."""
    return model.run.workdir.relative_to(workdir).as_posix()


def kept(
    model: Model,
    name: str,
    settings: Mapping[str, Any],
    compute: Callable[[], dict[str, Any]],
) -> dict[str, Any]:
    """Returns values about a model from a file in its folder, computed where missing.

    Args:
      model: the model.
      name: name of the file, without ``.json``.
      settings: what the values depend on beside the model and its evaluation. Values
        of other settings are computed again.
      compute: returns the values; what JSON can hold.
    """
    path = model.run.workdir / f"{name}.json"
    made_of = rows.fingerprint(rows.flat(model.run.config))
    recipe = json.loads(json.dumps({"model": made_of, **settings}))
    if path.exists():
        stored = json.loads(path.read_text())
        if stored["settings"] == recipe:
            return stored["values"]
    values = compute()
    written = {"values": values, "settings": recipe, **training.recipe()}
    files.write_json(path, written)
    return values


def deviations(*lines: str) -> reports.Text:
    """Returns the section of a page that lists where it differs from the paper."""
    return reports.Text(
        "deviations",
        "Differences from the paper",
        "Everything that we know to differ from the published experiment.",
        "\n".join(f"- {line}" for line in lines),
    )


def grouped(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """Returns values in lists by their key, in the order of first appearance."""
    groups: dict[K, list[V]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """Returns ``mean ± standard deviation`` (n − 1) of values over seeds."""
    mean, deviation = reports.plots.mean_and_deviation(list(values))
    text = format(mean, form)
    return text if deviation is None else f"{text} ± {format(deviation, form)}"


def untrained(scores: Mapping[str, Any]) -> bool:
    """Returns whether a model's error is above half that of the mean image.

    Such a model has learned too little to be ranked.
    """
    errors = scores["reconstruction"]
    return errors["mse"] > 0.5 * errors["mse_of_mean_image"]


def marked(name: str, is_untrained: bool) -> str:
    """Returns the name of models in a table, with a mark where one is untrained."""
    return f"{name} (untrained)" if is_untrained else name


def value(scores: Mapping[str, Any], score: str, key: str | None = None) -> float:
    """Returns one number of a ``scores.json``; its headline where `key` is None."""
    values = scores["metrics"][score]["values"]
    return next(iter(values.values())) if key is None else values[key]
