"""Reads what an evaluation wrote: ``scores.json`` and ``pictures.npz``."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from disentangle_jax import files
from disentangle_jax.evaluation.protocol import Number, describe_number

SCORES, ARRAYS, REPORT = "scores.json", "pictures.npz", "report.html"


class Row(NamedTuple):
    """One number of a ``scores.json``.

    Attributes:
      name: ``score``, or ``score.key`` where a score has several values.
      value: None where it is not finite.
      number: what it means.
    """

    name: str
    value: float | None
    number: Number


def read_scores(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the ``scores.json`` of an evaluated model.

    Raises:
      ValueError: there is none, it is damaged, or an older version wrote it.
    """
    path = pathlib.Path(folder) / SCORES
    if not path.exists():
        raise ValueError(f"workdir: {folder} was not evaluated yet; evaluate it first.")
    scores = files.read_json(path)
    if "evaluators" not in scores:
        raise ValueError(
            f"workdir: {folder} was evaluated by an older version; run evaluate again."
        )
    return scores


def read_arrays(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """Returns the arrays that evaluators stored; none where there is no file."""
    path = pathlib.Path(folder) / ARRAYS
    return files.read_arrays(path) if path.exists() else {}


def listed_scores(scores: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns ``eval.scores`` of the config that a ``scores.json`` holds."""
    return tuple(scores["config"].get("eval", {}).get("scores", ()))


def scored_factors(scores: Mapping[str, Any], score: str) -> list[str]:
    """Returns the factors that a score was computed with: those that are not constant.

    They are the columns of its matrices.
    """
    left_out = scores["metrics"][score]["settings"].get("constant_factors_left_out", ())
    names = scores["settings"]["factors"]
    return [name for place, name in enumerate(names) if place not in left_out]


def score_rows(scores: Mapping[str, Any]) -> list[Row]:
    """Returns a row for each number of a ``scores.json``, with its meaning."""
    numbers = {(name, ""): value for name, value in scores["reconstruction"].items()}
    for name, score in scores["metrics"].items():
        for key, value in score["values"].items():
            numbers[name, "" if key == name else key] = value
    return [
        Row(
            f"{name}.{key}" if key else name,
            value,
            describe_number(name, key, scores["evaluators"], listed_scores(scores)),
        )
        for (name, key), value in numbers.items()
    ]
