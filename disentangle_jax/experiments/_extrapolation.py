"""Who extrapolates, the encoder or the decoder? ("Structure by Architecture", 3.2.)

A model is trained without some values of a factor (no spheres), then trained on
everything with only its encoder, only its decoder, or both updated. The error on test
images of the values that were missing tells which half was the obstacle.
"""

import json
import pathlib
from collections.abc import Mapping

import ml_collections
import numpy as np

from disentangle_jax import data, reports, training
from disentangle_jax.experiments import _systems
from disentangle_jax.experiments._protocol import (
    Protocol,
    Result,
    Stage,
    spread,
    without_experiment,
)
from disentangle_jax.types import unknown_name

# What is updated in the second stage, and what therefore stands still.
_UPDATES = {"encoder": ("decoder",), "decoder": ("encoder",), "both": ()}
_COLUMNS = ("neither", *_UPDATES)
_SHOWN = 6

# Mean squared error × 1000, Figs. 7 and 12: neither, encoder, decoder, both.
_PUBLISHED = {
    ("shape", (2,)): {
        "sae-12": (13.21, 7.7, 0.42, 0.34),
        "sae-6": (13.35, 7.99, 0.52, 0.36),
        "vlae-12": (18.37, 7.69, 1.55, 0.62),
        "vae": (12.97, 8.78, 0.44, 0.46),
        "beta_vae": (15.49, 8.31, 1.35, 0.52),
        "ae": (11.81, 7.31, 0.38, 0.35),
        "wae": (11.68, 7.87, 0.37, 0.35),
    },
    ("orientation", (0, 1, 13, 14)): {
        "sae-12": (4.88, 2.65, 0.77, 0.43),
        "vlae-12": (6.91, 3.83, 1.61, 0.77),
        "adaae-12": (4.8, 2.93, 0.59, 0.41),
        "ae": (4.98, 2.94, 0.62, 0.45),
        "wae": (4.79, 3.07, 0.69, 0.44),
        "vae": (5.17, 3.09, 1.01, 0.51),
        "beta_vae": (5.7, 3.97, 1.5, 0.82),
    },
}


def _stages(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> list[Stage]:
    options = config.experiment
    _check(config)
    stages = []
    for name in options.models:
        first = without_experiment(config)
        _systems.set_system(first, name, options.beta)
        first.data.drop = {options.factor: tuple(options.novel_values)}
        stages.append(Stage(f"{name}/first", first))
        for updated, frozen in _UPDATES.items():
            second = first.copy_and_resolve_references()
            second.data.drop = {}
            second.train.num_steps = options.second_steps
            second.train.start_from = str(workdir / name / "first")
            second.optimizer.frozen = frozen
            stages.append(Stage(f"{name}/{updated}", second))
    return stages


def _check(config: ml_collections.ConfigDict) -> None:
    options = config.experiment
    if not options.models:
        raise ValueError("extrapolation: `experiment.models` must not be empty.")
    for field in ("hold_out", "drop"):
        if config.data[field]:
            raise ValueError(
                f"extrapolation: `data.{field}` must be empty: the protocol drops "
                "`experiment.novel_values` in its first stage, nothing in its second."
            )
    if config.optimizer.frozen or config.train.start_from:
        raise ValueError(
            "extrapolation: `optimizer.frozen` and `train.start_from` must be empty: "
            "the protocol sets them."
        )
    if config.lanes.sweep:
        raise ValueError(
            "extrapolation: `lanes.sweep` must be empty; sweep `lanes.seeds`."
        )
    if options.novel_split not in ("test", "train"):
        raise unknown_name(
            "extrapolation",
            "experiment.novel_split",
            options.novel_split,
            ("test", "train"),
        )
    dataset = training.load_split(config, "test")
    if options.factor not in dataset.factor_names:
        raise unknown_name(
            "extrapolation", "experiment.factor", options.factor, dataset.factor_names
        )
    size = dataset.factor_sizes[dataset.factor_names.index(options.factor)]
    values = set(options.novel_values)
    if not values or not values < set(range(size)):
        raise ValueError(
            "extrapolation: `experiment.novel_values` must be some, but not all, of 0 "
            f"… {size - 1}, got {tuple(options.novel_values)}."
        )


def _novel(config: ml_collections.ConfigDict) -> tuple[data.Dataset, np.ndarray]:
    """Returns the images that the first stage never saw the like of."""
    options = config.experiment
    dataset = training.load_split(config, options.novel_split)
    dataset = dataset.keep(**{options.factor: options.novel_values})
    rng = np.random.default_rng(config.eval.seed)
    return dataset, rng.permutation(dataset.indices)[: options.num_novel]


def _result(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    runs: Mapping[str, training.Run],
) -> Result:
    dataset, indices = _novel(config)
    errors: dict[str, dict[str, list[float]]] = {}
    strips: dict[str, list[np.ndarray]] = {}
    weak = []
    for name in config.experiment.models:
        errors[name], strips[name] = {}, []
        for column in _COLUMNS:
            run = runs[f"{name}/{'first' if column == 'neither' else column}"]
            found = []
            for number, model in enumerate(training.load_trained(run)):
                of_images = training.encode_images(model, dataset, indices)[1]["mse"]
                found.append(1000 * float(of_images.mean(dtype=np.float64)))
                if number == 0:
                    shown = dataset.images(indices[:_SHOWN])
                    strips[name].append(model.decode_all(model.encode(shown)))
            errors[name][column] = found
        folders = training.evaluated_folders(runs[f"{name}/both"])
        scores = [json.loads((f / "scores.json").read_text()) for f in folders]
        if any(_systems.untrained(found) for found in scores):
            weak.append(name)
    parts = [_table(config, errors, weak), *_strips(dataset, indices, strips)]
    values = {"mse_x1000": errors, "untrained": weak, "novel_images": len(indices)}
    what = config.experiment.factor
    return Result(f"Extrapolation to new values of {what}", values, parts)


def _table(
    config: ml_collections.ConfigDict,
    errors: Mapping[str, Mapping[str, list[float]]],
    weak: list[str],
) -> reports.Table:
    options = config.experiment
    published = _PUBLISHED.get((options.factor, tuple(options.novel_values)), {})
    rows = []
    for name, columns in errors.items():
        mark = " (untrained)" if name in weak else ""
        cells = [spread(columns[column], ".2f") for column in _COLUMNS]
        paper = " / ".join(f"{value:g}" for value in published.get(name, ())) or "-"
        rows.append([name + mark, *cells, paper])
    values = ", ".join(map(str, options.novel_values))
    return reports.Table(
        "errors",
        "Error on novel images (MSE × 1000), by what the second stage updated",
        f"Images with {options.factor} {values} of the {options.novel_split} split of "
        f"{config.data.name}; the first stage ({config.train.num_steps} steps) had "
        f"none of them, the second ({options.second_steps} steps) all. Mean ± standard "
        "deviation over seeds. The paper's are on 3D Shapes after 80,000 and 20,000 "
        "steps. `untrained`: above half the error of the mean image even with both "
        "updated; not to be ranked.",
        ("model", *_COLUMNS, "paper"),
        rows,
    )


def _strips(
    dataset: data.Dataset, indices: np.ndarray, strips: Mapping[str, list[np.ndarray]]
):
    originals = dataset.images(indices[:_SHOWN])
    for name, rows in strips.items():
        sheet = reports.grids.sheet(np.stack([originals, *rows]), ["image", *_COLUMNS])
        yield reports.Figure(
            f"novel_{name}",
            f"Novel images, {name}",
            "Test images of the values that the first stage lacked, and what the model "
            "makes of them by what the second stage updated (first seed).",
            reports.grids.png(sheet),
        )


PROTOCOL = Protocol(
    options={
        "models": ("sae-12", "sae-6", "vlae-12", "adaae-12", "ae", "wae", "vae",
                   "beta_vae"),
        "beta": 2.0,
        "factor": "shape",
        "novel_values": (2,),
        "second_steps": 20_000,
        "novel_split": "test",
        "num_novel": 3200,
    },
    stages=_stages,
    result=_result,
)  # fmt: skip
