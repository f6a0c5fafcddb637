"""Unseen combinations of factors ("Structured Disentangled Representations", Sec. 5.5).

A model is trained on everything. One of its continuous latents, a feature that nobody
labelled, is read off; images with certain classes *and* an extreme value of the feature
(a thick 7, a narrow 0) are taken out; models are trained anew on the rest and meet the
removed combinations for the first time in the test. What is seen of a class and what is
seen of the feature must then be put together in a way that training never showed.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import ml_collections
import numpy as np

from disentangle_jax import data, reports, training
from disentangle_jax.experiments._protocol import (
    Protocol,
    Result,
    Stage,
    spread,
    without_experiment,
)
from disentangle_jax.types import unknown_name

_SIDES = ("low", "high")
_SHOWN = 10
_TESTED = 20_000  # Test images that are read off, at most,
_MOST = 5000  # and those of each kind that errors are averaged over.


def _stages(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> list[Stage]:
    options = config.experiment
    _check(config)
    baseline = without_experiment(
        config, method__name=options.baseline, model__discrete=()
    )
    baseline.method = {"name": options.baseline, "beta": options.baseline_beta}
    held_out = str(workdir / "held_out.npy")
    whole = without_experiment(config)
    pruned = without_experiment(config, data__hold_out=held_out)
    pruned_baseline = baseline.copy_and_resolve_references()
    pruned_baseline.data.hold_out = held_out

    def before() -> None:
        if not pathlib.Path(held_out).exists():
            _prune(config, workdir)

    method = config.method.name
    return [
        Stage(f"all-{method}", whole),
        Stage(f"pruned-{method}", pruned, before),
        Stage(f"all-{options.baseline}", baseline),
        Stage(f"pruned-{options.baseline}", pruned_baseline, before),
    ]


def _check(config: ml_collections.ConfigDict) -> None:
    options = config.experiment
    if config.data.hold_out:
        raise ValueError(
            "zero_shot: `data.hold_out` must be empty: the protocol chooses what is "
            "held out."
        )
    if config.lanes.sweep:
        raise ValueError("zero_shot: `lanes.sweep` must be empty; sweep `lanes.seeds`.")
    if not 0 < options.share < 0.5:
        raise ValueError(
            f"zero_shot: `experiment.share` must lie in (0, 0.5), got {options.share}."
        )
    test_set = training.load_split(config, "test")
    if options.label not in test_set.factor_names:
        raise unknown_name(
            "zero_shot", "experiment.label", options.label, test_set.factor_names
        )
    classes = test_set.factor_sizes[test_set.factor_names.index(options.label)]
    if not options.combinations:
        raise ValueError("zero_shot: `experiment.combinations` must not be empty.")
    for value, side in options.combinations:
        if not 0 <= value < classes or side not in _SIDES:
            raise ValueError(
                f"zero_shot: `experiment.combinations` must be pairs of a class below "
                f"{classes} and one of {_SIDES}, got {(value, side)}."
            )


class Feature(NamedTuple):
    """A learned feature, and where its extremes begin.

    Attributes:
      latent: which number of the code it is.
      sign: 1 or -1, such that larger means more ink.
      correlation: with the ink, of ranks within classes, in [0, 1].
      bounds: ``{class: (low, high)}``, quantiles of the feature within the class.
    """

    latent: int
    sign: int
    correlation: float
    bounds: dict[int, tuple[float, float]]


def choose_feature(
    codes: np.ndarray, ink: np.ndarray, labels: np.ndarray, share: float
) -> Feature:
    """Returns the latent that follows some measure most, within classes.

    The measure is the amount of ink, the mean brightness of an image: stroke width for
    digits, size for sprites; or the feature of another model, to find it again. Rank
    correlations with each latent are averaged over the classes.

    Args:
      codes: ``[N, D]`` continuous latents.
      ink: ``[N]``, the measure.
      labels: ``[N]`` classes.
      share: of each class beyond each bound.
    """
    classes = np.unique(labels)
    ranked = np.zeros(codes.shape[1])
    for value in classes:
        inside = labels == value
        ranks = np.apply_along_axis(_ranks, 0, codes[inside])
        ranked += _correlation(ranks, _ranks(ink[inside])) / len(classes)
    latent = int(np.abs(ranked).argmax())
    sign = 1 if ranked[latent] >= 0 else -1
    feature = sign * codes[:, latent]
    bounds = {
        int(value): tuple(
            float(q) for q in np.quantile(feature[labels == value], [share, 1 - share])
        )
        for value in classes
    }
    return Feature(latent, sign, abs(float(ranked[latent])), bounds)


def in_combinations(
    feature: Feature,
    codes: np.ndarray,
    labels: np.ndarray,
    combinations: tuple[tuple[int, str], ...],
) -> np.ndarray:
    """Returns which images ``[N]`` have one of the removed combinations."""
    values = feature.sign * codes[:, feature.latent]
    chosen = np.zeros(len(codes), bool)
    for label, side in combinations:
        low, high = feature.bounds[label]
        beyond = values <= low if side == "low" else values >= high
        chosen |= (labels == label) & beyond
    return chosen


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)


def _correlation(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    columns = columns - columns.mean(0)
    values = values - values.mean()
    scale = np.sqrt((columns**2).sum(0) * (values**2).sum())
    return columns.T @ values / np.maximum(scale, 1e-12)


def _test_images(config: ml_collections.ConfigDict) -> data.Dataset:
    """Returns test images like those that training draws from, at most as needed."""
    test_set = training.load_split(config, "test")
    if config.data.drop:
        test_set = test_set.drop(**config.data.drop)
    order = np.random.default_rng(config.eval.seed).permutation(test_set.indices)
    return test_set.narrow(order[:_TESTED])


def _read_off(
    config: ml_collections.ConfigDict, model: training.Trained, dataset: data.Dataset
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns continuous codes, ink and classes of the images of a set."""
    indices = dataset.indices
    codes, _ = training.encode_images(model, dataset, indices)
    method = model.run.method
    codes = codes[:, : sum(method.latent_groups) - sum(method.discrete)]
    size = model.run.config.eval.batch_size
    ink = np.concatenate(
        [
            dataset.images(indices[start : start + size]).mean(axis=(1, 2, 3))
            for start in range(0, len(indices), size)
        ]
    )
    column = dataset.factor_names.index(config.experiment.label)
    return codes, ink, dataset.factors(indices)[:, column]


def _prune(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> None:
    """Writes which training images are removed, and the feature that decided it."""
    options = config.experiment
    name = f"all-{config.method.name}"
    run = training.prepare(without_experiment(config), workdir / name)
    model = next(training.load_trained(run))
    codes, ink, labels = _read_off(config, model, run.train_set)
    feature = choose_feature(codes, ink, labels, options.share)
    removed = in_combinations(feature, codes, labels, options.combinations)
    training.write_json(
        workdir / "feature.json",
        {
            "latent": feature.latent,
            "sign": feature.sign,
            "correlation": feature.correlation,
            "bounds": {str(k): v for k, v in feature.bounds.items()},
            "removed": int(removed.sum()),
            "of": len(removed),
        },
    )
    partial = workdir / "held_out.partial.npy"
    np.save(partial, run.train_set.indices[removed])
    partial.replace(workdir / "held_out.npy")


def _result(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    runs: Mapping[str, training.Run],
) -> Result:
    options, method = config.experiment, config.method.name
    judge = next(training.load_trained(runs[f"all-{method}"]))
    test_set = _test_images(config)
    codes, _, labels = _read_off(config, judge, test_set)
    feature = _read_feature(workdir)
    unseen = in_combinations(feature, codes, labels, options.combinations)
    rng = np.random.default_rng(config.eval.seed)
    asked = {
        "unseen": rng.permutation(test_set.indices[unseen])[:_MOST],
        "seen": rng.permutation(test_set.indices[~unseen])[:_MOST],
    }
    values, pictures = {}, {}
    for name, run in runs.items():
        found = []
        for number, model in enumerate(training.load_trained(run)):
            errors = {}
            for kind, indices in asked.items():
                _, of_images = training.encode_images(model, test_set, indices)
                errors[kind] = {k: float(v.mean()) for k, v in of_images.items()}
            found.append(errors)
            if number == 0:
                images = test_set.images(asked["unseen"][:_SHOWN])
                pictures[name] = model.decode_all(model.encode(images))
        values[name] = found
    parts = [
        _error_table(values, options, feature.correlation),
        _picture(test_set, asked["unseen"], pictures),
        _histogram(config, runs, test_set, feature, codes, unseen, labels),
    ]
    written = {
        "errors": values,
        "feature": feature._asdict() | {"bounds": str(feature.bounds)},
        "unseen_test_images": int(unseen.sum()),
        "unseen_mean_image_mse": _mean_image_error(judge.run, asked["unseen"]),
    }
    return Result(f"Unseen combinations on {config.data.name}", written, parts)


def _read_feature(workdir: pathlib.Path) -> Feature:
    stored = json.loads((workdir / "feature.json").read_text())
    bounds = {int(k): tuple(v) for k, v in stored["bounds"].items()}
    return Feature(stored["latent"], stored["sign"], stored["correlation"], bounds)


def _mean_image_error(run: training.Run, indices: np.ndarray) -> float:
    rng = np.random.default_rng(0)
    mean = (run.train_set.images(rng.choice(run.train_set.indices, 2000)) / 255).mean(0)
    return float(np.square(run.test_set.images(indices) / 255 - mean).mean())


def _error_table(
    values: Mapping[str, list], options: ml_collections.ConfigDict, feature: float
) -> reports.Table:
    rows = []
    for name, found in values.items():
        for kind in found[0]["seen"]:
            row = [name, kind]
            for part in ("seen", "unseen"):
                row.append(spread([errors[part][kind] for errors in found], ".3g"))
            ratio = [e["unseen"][kind] / e["seen"][kind] for e in found]
            rows.append([*row, spread(ratio, ".3g")])
    told = ", ".join(f"{side} {value}" for value, side in options.combinations)
    return reports.Table(
        "errors",
        "Reconstruction error on seen and unseen combinations",
        f"Removed from the training set of `pruned` models: {told} (class of "
        f"{options.label}, and the extreme {options.share:.0%} of the feature within "
        "it). `all` models saw them in training: what the images cost where nothing "
        "has to be generalised. Means over test images, mean ± standard deviation over "
        f"seeds. The feature follows the ink with a rank correlation of {feature:.2f} "
        "within classes.",
        ("model", "error", "seen", "unseen", "unseen / seen"),
        rows,
    )


def _picture(
    test_set: data.Dataset, indices: np.ndarray, pictures: Mapping[str, np.ndarray]
) -> reports.Figure:
    rows = [test_set.images(indices[:_SHOWN]), *pictures.values()]
    sheet = reports.grids.sheet(np.stack(rows), ["image", *pictures])
    return reports.Figure(
        "unseen",
        "Images of the removed combinations",
        "Test images that `pruned` models have not met the like of, and what each "
        "model makes of them (first seed).",
        reports.grids.png(sheet),
    )


def _histogram(
    config: ml_collections.ConfigDict,
    runs: Mapping[str, training.Run],
    test_set: data.Dataset,
    feature: Feature,
    first_codes: np.ndarray,
    unseen: np.ndarray,
    labels: np.ndarray,
) -> reports.Figure:
    """The feature, found again in the retrained model, for each removed combination."""
    model = next(training.load_trained(runs[f"pruned-{config.method.name}"]))
    codes, _, _ = _read_off(config, model, test_set)
    first = feature.sign * first_codes[:, feature.latent]
    again = choose_feature(codes, first, labels, config.experiment.share)
    values = again.sign * codes[:, again.latent]
    groups = {}
    for label, side in config.experiment.combinations:
        groups[f"{label}, seen"] = values[(labels == label) & ~unseen]
        groups[f"{label}, {side}: unseen"] = values[(labels == label) & unseen]
    return reports.Figure(
        "feature",
        "The feature in the retrained model",
        f"Values of its latent z{again.latent + 1}, which follows "
        f"z{feature.latent + 1} of the first model most (rank correlation "
        f"{again.correlation:.2f} within classes), on test images of the pruned "
        "classes. A model that generalises puts "
        "the removed images beyond the others, where training had none of the class.",
        reports.plots.histograms(groups, "value of the latent"),
    )


PROTOCOL = Protocol(
    options={
        "label": "label",
        "combinations": ((7, "high"), (0, "low")),
        "share": 0.3,
        "baseline": "beta_vae",
        "baseline_beta": 4.0,
    },
    stages=_stages,
    result=_result,
)
