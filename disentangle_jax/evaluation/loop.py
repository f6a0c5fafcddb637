"""Evaluates the models of a trained run and writes their scores and arrays.

Each model's folder gets two files: ``scores.json``, every number with its settings, and
``pictures.npz``, the arrays that the report draws.
"""

import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from disentangle_jax import files, metrics, rows, training
from disentangle_jax.evaluation import protocol, stored
from disentangle_jax.evaluation.examples import Examples, Seen
from disentangle_jax.evaluation.protocol import Evaluator
from disentangle_jax.evaluation.trained import Trained, load_models
from disentangle_jax.training import Run

# What scores without the ending "_grouped" compare with the factors. Earlier versions
# compared whole variables and did not write this.
_SCORED = "dimensions"


def evaluate(run: Run) -> dict[str, Any]:
    """Evaluates the last checkpoint of `run` on its test split.

    Codes are posterior means. The first ``eval.num_train`` random test examples fit
    what a score has to fit, the next ``eval.num_test`` test it. What is computed is up
    to the evaluators that the method and ``eval.evaluators`` name.

    Returns:
      The scores. Where the run has lanes: the scores of each lane by its name; their
      files are in the folders of the lanes.
    """
    with training.writing(run.workdir):
        found = [scores for _, scores in evaluate_models(run)]
    if not run.laned:
        return found[0]
    return {lane.name: scores for lane, scores in zip(run.lanes, found, strict=True)}


def evaluate_models(
    run: Run, *, again: bool = True
) -> Iterator[tuple[Trained, dict[str, Any]]]:
    """Yields each model of `run` with its scores, as soon as these are written.

    Args:
      run: a trained run.
      again: whether to recompute scores that a model's folder already holds for its
        config and its step.
    """
    evaluators = {name: protocol.get(name)(run) for name in protocol.evaluators(run)}
    examples = Examples(run)
    for number, model in enumerate(load_models(run)):
        if run.laned:
            print(f"lane {number + 1} of {len(run.lanes)}: {run.lanes[number].name}")
            training.start_workdir(model.run.config, model.run.workdir)
        scores = None if again else _stored(model.run, int(model.state.step))
        yield model, scores or _evaluate(model, evaluators, Seen(model, examples))


def folders(run: Run) -> list[pathlib.Path]:
    """Returns the folders that :func:`evaluate` writes to: one per model."""
    return [own.workdir for own in run.models()]


def is_complete(run: Run) -> bool:
    """Returns whether all models of `run` are trained to the end and evaluated."""
    steps = run.config.train.num_steps
    return all(_stored(own, steps) is not None for own in run.models())


def _stored(run: Run, step: int) -> dict[str, Any] | None:
    """Returns the scores in a model's folder; None unless they are up to date.

    Arrays that are missing or damaged make them out of date too.
    """
    try:
        scores = stored.read_scores(run.workdir)
        arrays = stored.read_arrays(run.workdir)
    except ValueError:
        return None
    old, new = rows.flat(scores["config"]), rows.flat(run.config)
    current = (
        not rows.differences(old, new, rows.RESULT)
        and scores["settings"]["step"] == step
        and scores["settings"].get("scores") == _SCORED
        and scores["evaluators"] == list(protocol.evaluators(run))
        and scores["arrays"] == list(arrays)
    )
    return scores if current else None


def _evaluate(
    model: Trained, evaluators: dict[str, Evaluator], seen: Seen
) -> dict[str, Any]:
    run = model.run
    scores: dict[str, Any] = {
        "reconstruction": {},
        "metrics": {},
        "errors": {},
        "evaluators": list(evaluators),
        "settings": {
            "split": _split(run),
            "num_train": seen.num_train,
            "num_test": len(seen.indices) - seen.num_train,
            "codes": "mean",
            "scores": _SCORED,
            "step": int(model.state.step),
            "seed": run.config.train.seed,
            "factors": list(run.test_set.factor_names),
            "latent_groups": list(run.method.latent_groups),
        },
        "config": json.loads(run.config.to_json()),
        **training.recipe(),
    }
    arrays: dict[str, np.ndarray] = {}
    for name, evaluator in evaluators.items():
        found = evaluator.evaluate(model, seen)
        entries = {key: _entry(score) for key, score in found.scores.items()}
        places: tuple[tuple[dict[str, Any], Mapping[str, Any]], ...] = (
            (scores["reconstruction"], found.reconstruction),
            (scores["metrics"], entries),
            (scores["errors"], found.errors),
            (scores, found.details),
            (arrays, found.arrays),
        )
        for place, new in places:
            for key, value in new.items():
                if key in place:
                    raise ValueError(
                        f"evaluate: the evaluator {name!r} reports {key!r}, which "
                        "stands in the results already; rename it."
                    )
                place[key] = value
    # The arrays first: where scores.json is, everything is. A report is of its scores.
    scores["arrays"] = list(arrays)
    (run.workdir / stored.REPORT).unlink(missing_ok=True)
    if arrays:
        files.write_arrays(run.workdir / stored.ARRAYS, arrays)
    else:
        (run.workdir / stored.ARRAYS).unlink(missing_ok=True)
    files.write_json(run.workdir / stored.SCORES, scores)
    return stored.read_scores(run.workdir)


def _split(run: Run) -> str:
    """Returns where the evaluated examples are from, in words."""
    if run.config.data.split_recipe == "none":
        return "the whole dataset, which the model was trained on"
    return "test"


def _entry(score: metrics.Score) -> dict[str, Any]:
    """Returns a score as ``scores.json`` holds it."""
    return {
        "values": _without_nan(score),
        "settings": _without_nan(score.settings),
        "matrices": {
            name: np.asarray(matrix).tolist() for name, matrix in score.matrices.items()
        },
    }


def _without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `values` with None for NaN and infinities, which JSON does not have."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }
