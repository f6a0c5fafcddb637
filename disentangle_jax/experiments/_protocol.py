"""What the papers' protocols share: stages that are ordinary runs, then one page.

A config with a section ``experiment`` describes a protocol. Its other sections are what
the stages have in common. Each stage is a run in a folder of its own below the
protocol's: it is resumed, evaluated and reported as any other run, and the protocol
goes on where it was.
"""

import json
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections

from disentangle_jax import reports, training
from disentangle_jax.types import unknown_name


class Stage(NamedTuple):
    """One run of a protocol.

    Attributes:
      name: its folder below the protocol's.
      config: of the run, without the section ``experiment``.
      before: makes what the stage needs of earlier ones, files that its config names.
    """

    name: str
    config: ml_collections.ConfigDict
    before: Callable[[], None] | None = None


class Result(NamedTuple):
    """What a protocol found.

    Attributes:
      title: of the page.
      values: the numbers, for ``result.json``.
      parts: tables and figures of the page, in order.
    """

    title: str
    values: dict[str, Any]
    parts: Sequence[reports.Table | reports.Figure]


class Protocol(NamedTuple):
    """A protocol of a paper.

    Attributes:
      options: fields of the section ``experiment`` and their defaults.
      stages: ``(config, workdir) -> stages`` in their order; raises a ValueError where
        the config contradicts the protocol. Empty for protocols that train nothing.
      result: ``(config, workdir, runs) -> Result`` from the finished runs, by name.
    """

    options: Mapping[str, Any]
    stages: Callable[[ml_collections.ConfigDict, pathlib.Path], list[Stage]]
    result: Callable[
        [ml_collections.ConfigDict, pathlib.Path, Mapping[str, training.Run]], Result
    ]


class Experiment(NamedTuple):
    """A checked protocol: nothing was trained or written yet.

    Attributes:
      config: the complete config.
      workdir: folder of the protocol.
      protocol: what it does.
      stages: its runs.
    """

    config: ml_collections.ConfigDict
    workdir: pathlib.Path
    protocol: Protocol
    stages: list[Stage]


def without_experiment(
    config: ml_collections.ConfigDict, **fields: Any
) -> ml_collections.ConfigDict:
    """Returns the config of a run: without ``experiment``, some fields changed.

    Args:
      config: of the protocol.
      **fields: new values, by ``section__field`` (``train__num_steps=100``).
    """
    run = config.copy_and_resolve_references()
    del run["experiment"]
    for name, value in fields.items():
        section, field = name.split("__")
        with run.unlocked(), run[section].ignore_type():
            run[section][field] = value
    return run


def check_experiment(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    protocols: Mapping[str, Protocol],
) -> Experiment:
    """Checks a protocol and all of its stages; see :func:`experiments.prepare`."""
    options = dict(config.experiment)
    name = options.pop("name")
    if name not in protocols:
        raise unknown_name("config", "experiment.name", name, protocols)
    protocol = protocols[name]
    for field in options:
        if field not in protocol.options:
            known = list(protocol.options)
            raise unknown_name(f"experiment {name!r}", "field", field, known)
    for field, value in protocol.options.items():
        if field not in config.experiment:
            config.experiment[field] = value
    training.check_workdir(config, workdir)
    stages = protocol.stages(config, workdir)
    for stage in stages:
        # What other stages make is not there yet, so it is left out of the check.
        alone = stage.config.copy_and_resolve_references()
        alone.data.hold_out = alone.train.start_from = ""
        try:
            training.check_workdir(stage.config, workdir / stage.name)
            training.prepare(alone, workdir / "checked")
        except ValueError as error:
            raise ValueError(f"stage {stage.name}: {error}") from None
    return Experiment(config, workdir, protocol, stages)


def run_experiment(experiment: Experiment) -> pathlib.Path:
    """Runs what is missing of a protocol and draws its page; returns its path."""
    config, workdir, protocol, stages = experiment
    workdir.mkdir(parents=True, exist_ok=True)
    training.write_json(workdir / "config.json", json.loads(config.to_json()))
    runs: dict[str, training.Run] = {}
    spent, done = 0.0, 0.0
    for number, stage in enumerate(stages, start=1):
        left = ""
        if done:
            ahead = sum(_work(other.config) for other in stages[number - 1 :])
            left = f", about {training.duration(spent / done * ahead)} left in all"
        print(f"stage {number} of {len(stages)}: {stage.name}{left}", flush=True)
        began = time.monotonic()
        if stage.before is not None:
            stage.before()
        run = training.prepare(stage.config, workdir / stage.name)
        runs[stage.name] = run
        if _is_evaluated(run):
            print("already trained and evaluated")
            continue
        training.train(run)
        training.evaluate(run)
        for folder in training.evaluated_folders(run):
            reports.write(folder)
        spent += time.monotonic() - began
        done += _work(stage.config)
    return _write_result(config, workdir, protocol.result(config, workdir, runs))


def _work(config: ml_collections.ConfigDict) -> float:
    """Returns a stage's share of the whole: images that its models are trained on."""
    models = config.lanes.seeds
    for values in config.lanes.sweep.values():
        models *= len(values)
    return config.train.num_steps * config.train.batch_size * models


def _is_evaluated(run: training.Run) -> bool:
    wanted = json.loads(run.config.eval.to_json())
    for folder in training.evaluated_folders(run):
        if not (folder / "scores.json").exists():
            return False
        scores = json.loads((folder / "scores.json").read_text())
        at_end = scores["settings"]["step"] == run.config.train.num_steps
        if not at_end or scores["config"]["eval"] != wanted:
            return False
    return True


def _write_result(
    config: ml_collections.ConfigDict, workdir: pathlib.Path, result: Result
) -> pathlib.Path:
    written = {
        "values": result.values,
        "config": json.loads(config.to_json()),
        **training.recipe(),
    }
    training.write_json(workdir / "result.json", written)
    for part in result.parts:
        if isinstance(part, reports.Table):
            print(f"\n{part.title}\n{part.text()}")
    return reports.write_parts(workdir, result.title, result.parts, written)


def spread(values: Sequence[float], form: str = ".3f") -> str:
    """Returns ``mean ± standard deviation`` (n − 1) of values over seeds."""
    mean, deviation = reports.plots.mean_and_deviation(list(values))
    text = format(mean, form)
    return text if deviation is None else f"{text} ± {format(deviation, form)}"
