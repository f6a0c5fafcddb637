"""Which half of a model extrapolates: the encoder or the decoder?

A model is trained without some values of a factor (no spheres). It is then trained on
everything, with only its encoder, only its decoder, or both updated. The error on test
images with the missing values shows which half was the obstacle ("Structure by
Architecture", Sec. 3.2).
"""

from collections.abc import Iterator, Mapping

import ml_collections
import numpy as np

from disentangle_jax import data, evaluation, reports, training
from disentangle_jax.experiments import protocol, published, systems
from disentangle_jax.types import unknown_name

# What the second stage updates, and what it therefore freezes.
_UPDATES = {"encoder": ("decoder",), "decoder": ("encoder",), "both": ()}
_COLUMNS = ("neither", *_UPDATES)
_SPLITS = ("test", "train")
_SHOWN = 6

# Errors of each seed by model and column.
Errors = dict[str, dict[str, list[float]]]


@protocol.define(
    question="Is the encoder or the decoder the obstacle to new values of a factor?",
    reference="Leeb et al., Structure by Architecture: Structured Representations "
    "without Regularization, Secs. 3.2 and 4.2, Figs. 7 and 12",
    options={
        "models": ("sae-12", "sae-6", "vlae-12", "adaae-12", "ae", "wae", "vae",
                   "beta_vae"),
        "beta": 2.0,
        "factor": "shape",
        "novel_values": (2,),
        "second_steps": 20_000,
        "num_novel": 3200,
    },
)  # fmt: skip
class Extrapolation(protocol.Protocol):
    """A first stage per model, and three that continue it."""

    def stages(self, config, workdir):
        options = config.experiment
        _check(config)
        stages = []
        for name in options.models:
            fields = systems.fields(name)
            if systems.base(name) == "beta_vae":
                fields["method.beta"] = float(options.beta)
            drop = {options.factor: tuple(options.novel_values)}
            first = f"{name}/first"
            stages.append(protocol.Stage(first, {**fields, "data.drop": drop}))
            for updated, frozen in _UPDATES.items():
                changed = {
                    "train.num_steps": options.second_steps,
                    "optimizer.frozen": frozen,
                }
                second = {**fields, **changed}
                stages.append(protocol.Stage(f"{name}/{updated}", second, after=first))
        return stages

    def result(self, config, workdir, models):
        novel = {split: _novel(config, split) for split in _SPLITS}
        errors: dict[str, Errors] = {split: {} for split in _SPLITS}
        strips: dict[str, list[np.ndarray]] = {}
        numbers: dict[str, dict[str, float]] = {}
        dataset, indices = novel["test"]
        shown = dataset.images(indices[:_SHOWN])
        for name in config.experiment.models:
            strips[name] = []
            for column in _COLUMNS:
                stage = models[f"{name}/{'first' if column == 'neither' else column}"]
                for split, images in novel.items():
                    found = [_error(model, *images) for model in stage]
                    errors[split].setdefault(name, {})[column] = found
                for model, error in zip(stage, errors["test"][name][column]):
                    folder = protocol.folder(model, workdir)
                    numbers[folder] = {"novel_mse_x1000": error}
                first = stage[0].load()
                strips[name].append(first.decode_all(first.encode(shown)))
        weak = [
            name
            for name in config.experiment.models
            if any(protocol.untrained(model.scores) for model in models[f"{name}/both"])
        ]
        parts = [
            *(_table(config, split, errors[split], weak) for split in _SPLITS),
            *_strips(shown, strips),
            _deviations(config),
        ]
        values = {
            "mse_x1000": errors["test"],
            "mse_x1000_of_training_images": errors["train"],
            "untrained": weak,
            "novel_images": len(indices),
        }
        factor = config.experiment.factor
        return protocol.Result(
            f"Extrapolation to new values of {factor}", values, parts, numbers
        )


def _check(config: ml_collections.ConfigDict) -> None:
    options = config.experiment
    protocol.check_given(config, "models")
    if "beta_vae" not in map(systems.base, options.models):
        protocol.check_unused(config, "beta", 2.0, "without a beta_vae")
    protocol.check_empty(
        *(config, "data.hold_out", "data.drop"),
        instead=": the protocol drops `experiment.novel_values` in its first stage, "
        "nothing in its second",
    )
    protocol.check_empty(config, "optimizer.frozen", "train.start_from")
    protocol.check_empty(config, "lanes.sweep", instead="; sweep `lanes.seeds`")
    dataset = training.load_split(config, "test")
    names = dataset.factor_names
    if options.factor not in names:
        raise unknown_name("extrapolation", "experiment.factor", options.factor, names)
    size = dataset.factor_sizes[names.index(options.factor)]
    values = set(options.novel_values)
    if not values or not values < set(range(size)):
        raise ValueError(
            "extrapolation: `experiment.novel_values` must be some, but not all, of 0 "
            f"… {size - 1}, got {tuple(options.novel_values)}."
        )


def _novel(
    config: ml_collections.ConfigDict, split: str
) -> tuple[data.Dataset, np.ndarray]:
    """Returns images with the values that the first stage was trained without."""
    options = config.experiment
    dataset = training.load_split(config, split)
    dataset = dataset.keep(**{options.factor: options.novel_values})
    rng = np.random.default_rng(config.eval.seed)
    return dataset, rng.permutation(dataset.indices)[: options.num_novel]


def _error(model: protocol.Model, dataset: data.Dataset, indices: np.ndarray) -> float:
    """Returns 1000 times the mean squared error."""
    errors = evaluation.encode_images(model.load(), dataset, indices)[1]["mse"]
    return 1000 * float(errors.mean(dtype=np.float64))


def _table(
    config: ml_collections.ConfigDict, split: str, errors: Errors, weak: list[str]
) -> reports.Table:
    options, dataset = config.experiment, config.data.name
    paper = {
        row["model"]: " / ".join(row[column] for column in _COLUMNS)
        for row in published.table(
            "structure_by_architecture_extrapolation",
            dataset=published.original(dataset),
            factor=options.factor,
            novel_values=" ".join(map(str, options.novel_values)),
        )
    }
    values = ", ".join(map(str, options.novel_values))
    name, images, note = {
        "test": ("errors", "novel test images", ""),
        "train": (
            "errors_of_training_images",
            "novel training images",
            " The second stage was trained on these images; the authors' notebook "
            "evaluates on them although the paper says that they were never seen.",
        ),
    }[split]
    return reports.Table(
        name,
        f"Error on {images} (MSE × 1000), by what the second stage updated",
        f"Images with {options.factor} {values} of the {split} split of {dataset}."
        f"{note} The first stage ({config.train.num_steps} steps) was trained without "
        f"such images, the second ({options.second_steps} steps) with all. "
        "Mean ± standard deviation over seeds. The paper's values are those of 3D "
        "Shapes after 80,000 and 20,000 steps. `untrained`: above half the error of "
        "the mean image even with both updated; not to be ranked.",
        ("model", *_COLUMNS, "paper"),
        [
            [
                protocol.marked(name, name in weak),
                *(protocol.spread(columns[column], ".2f") for column in _COLUMNS),
                paper.get(name, "-"),
            ]
            for name, columns in errors.items()
        ],
    )


def _strips(
    originals: np.ndarray, strips: Mapping[str, list[np.ndarray]]
) -> Iterator[reports.Figure]:
    for name, rows in strips.items():
        sheet = reports.grids.sheet(np.stack([originals, *rows]), ["image", *_COLUMNS])
        yield reports.Figure(
            f"novel_{name}",
            f"Novel images, {name}",
            "Test images with the values that the first stage was trained without, and "
            "their reconstructions by what the second stage updated (first seed).",
            reports.grids.png(sheet),
        )


def _deviations(config: ml_collections.ConfigDict) -> reports.Text:
    options, train = config.experiment, config.train
    lines = [
        "The paper does not state seeds or whether Adam starts afresh in the second "
        "stage. Here it "
        + (
            "continues with its state, as the authors' framework probably does."
            if train.start_optimizer
            else "starts afresh."
        ),
        "The authors' runs of the second setting (angles) have ELU activations; those "
        "of the first (shape) may have, with a rate of 1e-4. Here all have Mish and "
        f"{config.optimizer.learning_rate:g}, as the paper states for its other runs.",
    ]
    if (train.num_steps, options.second_steps) != (80_000, 20_000):
        lines.append(
            f"{train.num_steps} and {options.second_steps} steps; the paper has 80,000 "
            "and 20,000."
        )
    if config.data.name != "shapes3d":
        lines.append(f"{config.data.name}; the paper has 3D Shapes.")
    if config.data.split_recipe == "paper":
        lines.append(
            "Split 70/10/20 as the paper states; the authors' code has 72/8/20 "
            "(data.split_recipe=sae_code)."
        )
    if config.model.get("channels", 64) != 64 or train.batch_size != 128:
        lines.append(
            f"{config.model.get('channels', 64)} channels and batch "
            f"{train.batch_size}; the paper has 64 and 128."
        )
    return protocol.deviations(*lines)
