"""Curves of training: the loss, and what ``eval.every`` logged."""

import pathlib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from disentangle_jax import evaluation, training
from disentangle_jax.evaluation.sections import Lines

# Prefix of what ``eval.every`` logs.
_WATCHED = "eval/"
_KL = "eval/kl/"


def run_curves(workdir: pathlib.Path) -> Iterator[Lines]:
    """Yields the curves of one run: loss, KL per latent, scores."""
    rows = training.read_metrics(workdir)
    names = dict.fromkeys(name for row in rows for name in row)
    loss = {"training": _series(rows, "loss")}
    caption = "Mean training loss of the steps between two rows of metrics.jsonl"
    if f"{_WATCHED}loss" in names:
        loss["validation"] = _series(rows, f"{_WATCHED}loss")
        caption += ", and the loss of one batch of validation images"
    yield Lines(
        "loss",
        "Loss",
        f"{caption}.",
        loss,
        "step",
        "loss",
    )
    latents = {
        name.removeprefix(_KL): _series(rows, name)
        for name in names
        if name.startswith(_KL)
    }
    if latents:
        yield Lines(
            "kl_curves",
            "KL divergence per latent during training",
            "Of the posteriors of validation images, from the prior.",
            latents,
            "step",
            "KL (nats)",
        )
    scores = {name: _series(rows, _WATCHED + name) for name in _scores(names)}
    if scores:
        yield Lines(
            "score_curves",
            "Scores during training",
            "Of a few validation images; the table has those of all test images.",
            scores,
            "step",
            "score",
        )


def compared_curves(models: Mapping[str, Iterable[pathlib.Path]]) -> Iterator[Lines]:
    """Yields the curves of several models over their seeds.

    Args:
      models: the folders of each model's runs. Curves have the steps that all of them
        logged.
    """
    runs = {
        label: [training.read_metrics(folder) for folder in folders]
        for label, folders in models.items()
    }
    logged = [set().union(*rows) for seeds in runs.values() for rows in seeds]
    shared = set.intersection(*logged)
    losses = {"loss": "Training loss", f"{_WATCHED}loss": "Validation loss"}
    titles = losses | {
        _WATCHED + name: f"{name} during training" for name in _scores(sorted(shared))
    }
    for name, title in titles.items():
        if name in shared:
            yield Lines(
                name.replace("/", "_") + "_curves",
                title,
                "Mean over seeds, and one standard deviation to either side.",
                {label: _over_seeds(seeds, name) for label, seeds in runs.items()},
                "step",
                name.removeprefix(_WATCHED),
            )


def _scores(names: Iterable[str]) -> list[str]:
    """Returns the watched scores that are at most 1, by their own names."""
    own = [name.removeprefix(_WATCHED) for name in names if name.startswith(_WATCHED)]
    return [name for name in own if evaluation.describe_number(name).highest == 1]


def _series(rows: list[dict], name: str) -> tuple[list[int], list[float]]:
    """Returns the steps of the rows that have a value of `name`, and the values."""
    found = [(row["step"], row[name]) for row in rows if name in row]
    return (
        [step for step, _ in found],
        [np.nan if value is None else value for _, value in found],
    )


def _over_seeds(seeds: list[list[dict]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns steps ``[n]`` that all seeds logged, and their values ``[seeds, n]``."""
    series = [dict(zip(*_series(rows, name))) for rows in seeds]
    steps = np.array(sorted(set.intersection(*map(set, series))))
    return steps, np.array([[one[step] for step in steps] for one in series])
