"""The evaluator protocol, and how evaluators are found by name.

An evaluator is a class that computes scores and arrays of a trained model and describes
the report sections that show them::

    @evaluation.define(scores={"zeros": Number("share of small codes", "higher")})
    class Zeros:
        def __init__(self, run):
            ...  # what all models of the run share, such as compiled functions

        def evaluate(self, model, seen):
            share = (abs(seen.codes) < 0.1).mean()
            score = metrics.Score({"zeros": share}, {"threshold": 0.1})
            return evaluation.Evaluated({"zeros": score})

        @staticmethod
        def sections(scores, arrays):
            yield evaluation.Bars(...)

``config.eval.evaluators = ("my_package.zeros:Zeros",)`` adds it to those that the
method names.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from disentangle_jax import metrics
from disentangle_jax.evaluation.examples import Seen
from disentangle_jax.evaluation.sections import Section
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.registry import Registry
from disentangle_jax.training import Run

_REGISTRY = Registry("evaluator", "disentangle_jax.evaluation")

# Ends the name of a score of whole latent variables, where a variable has several
# dimensions; the score of the single dimensions has the plain name.
GROUPED = "_grouped"


@dataclasses.dataclass(frozen=True)
class Number:
    """What a reported number means.

    Attributes:
      meaning: one phrase, with the unit and the direction.
      better: "higher", "lower", or "" for quantities without a direction.
      highest: largest possible value.
      compared: whether a comparison of models draws it; False for reference values.
    """

    meaning: str = ""
    better: str = ""
    highest: float = math.inf
    compared: bool = True

    @property
    def arrow(self) -> str:
        """``↑`` where higher is better, ``↓`` where lower is."""
        return {"higher": "↑", "lower": "↓"}.get(self.better, "")


class Pair(NamedTuple):
    """Two numbers that a comparison of models plots against each other.

    Attributes:
      name: name of the file.
      title: heading.
      caption: what the plot shows.
      x: number on the horizontal axis, as in :func:`score_rows`.
      y: number on the vertical axis.
      x_name: label of the horizontal axis.
      y_name: label of the vertical axis.
      missing: what to say where no run has both.
    """

    name: str
    title: str
    caption: str
    x: str
    y: str
    x_name: str
    y_name: str
    missing: str


@dataclasses.dataclass(frozen=True)
class Description:
    """Description of an evaluator.

    Attributes:
      scores: meaning of each number it reports, by its name in :func:`score_rows`, or
        by the part before the dot for all values of a score. Scores of
        ``disentangle_jax.metrics`` describe themselves.
      pairs: numbers that comparisons plot against each other.
      watched: arrays that ``eval.every`` logs beside the scores while a run trains:
        images, or ``[D]`` numbers of the latents. None for evaluators that are too slow
        for that.
    """

    scores: Mapping[str, Number]
    pairs: tuple[Pair, ...] = ()
    watched: tuple[str, ...] | None = None


class Evaluated(NamedTuple):
    """What an evaluator found about one model. Names must be unique in a run.

    Attributes:
      scores: numbers with their settings, for the entry ``metrics`` of ``scores.json``.
        Two-dimensional ``matrices`` are stored beside them.
      reconstruction: mean errors of the reconstruction.
      errors: why a score could not be computed, by name.
      details: further entries of ``scores.json``; values that JSON can hold.
      arrays: arrays that are stored in ``pictures.npz``.
    """

    scores: Mapping[str, metrics.Score] = {}
    reconstruction: Mapping[str, float] = {}
    errors: Mapping[str, str] = {}
    details: Mapping[str, Any] = {}
    arrays: Mapping[str, np.ndarray] = {}


class Evaluator(Protocol):
    """What a class decorated by :func:`define` provides."""

    description: Description

    def __init__(self, run: Run):
        """Prepares what all models of `run` share."""

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        """Evaluates one model; `seen` caches what evaluators share, such as codes."""

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterable[Section]:
        """Yields report sections from ``scores.json`` and ``pictures.npz`` alone."""


def define(
    *,
    name: str | None = None,
    scores: Mapping[str, Number | str] | None = None,
    pairs: Iterable[Pair] = (),
    watched: Iterable[str] | None = None,
) -> Callable[[type], type]:
    """Returns a class decorator that makes an :class:`Evaluator`.

    Args:
      name: short name of the library's evaluators; users' are ``package.module:Class``.
      scores: see :class:`Description`; a plain text is a meaning without direction.
      pairs: see :class:`Description`.
      watched: see :class:`Description`.
    """
    described = {
        key: number if isinstance(number, Number) else Number(number)
        for key, number in (scores or {}).items()
    }
    watched = None if watched is None else tuple(watched)
    description = Description(described, tuple(pairs), watched)
    return lambda definition: _REGISTRY.add(definition, description, name)


def names() -> tuple[str, ...]:
    """Returns the names of the library's evaluators."""
    return _REGISTRY.names()


def get(name: str) -> type[Evaluator]:
    """Returns the evaluator class called `name` or at ``package.module:Class``."""
    return _REGISTRY.get(name, "config", "eval.evaluators")


def describe(name: str) -> Description:
    """Returns the description of an evaluator."""
    return get(name).description


def evaluators(run: Run) -> tuple[str, ...]:
    """Returns the names of a run's evaluators: its method's and its config's."""
    return tuple(dict.fromkeys((*run.method.evaluators, *run.config.eval.evaluators)))


def check(run: Run) -> None:
    """Raises a ValueError where a run names an evaluator that it cannot have.

    An evaluator may have a static method ``check(run)`` that raises it.
    """
    for name in evaluators(run):
        getattr(get(name), "check", lambda run: None)(run)


def describe_number(
    score: str,
    key: str = "",
    evaluators: Iterable[str] | None = None,
    listed: Iterable[str] = (),
) -> Number:
    """Returns what a reported number means.

    Args:
      score: name of the score.
      key: which of its values; "" for the one that has the name of the score.
      evaluators: names of the evaluators that may have reported it; None for all of
        the library.
      listed: ``eval.scores`` of the config, for scores from outside the library.
    """
    name = score if key in ("", score) else f"{score}.{key}"
    for evaluator in names() if evaluators is None else evaluators:
        described = describe(evaluator).scores
        if name in described or score in described:
            return described.get(name) or described[score]
    metric = metric_description(score, listed)
    if metric is None:
        return Number()
    better = {True: "higher", False: "lower", None: ""}[metric.higher_is_better]
    meaning = metric.keys.get(key or score.removesuffix(GROUPED), "")
    if meaning and score.endswith(GROUPED):
        meaning += ", of whole latent variables"
    return Number(meaning, better, metric.range[1])


def metric_description(
    score: str, listed: Iterable[str]
) -> metrics.ScoreDescription | None:
    """Returns how a score of codes and factors describes itself; None for others.

    Args:
      score: its name in ``scores.json``.
      listed: ``eval.scores`` of the config, with ``package.module:name`` of outside
        scores.
    """
    score = score.removesuffix(GROUPED)
    for name in listed:
        if name.endswith(f":{score}"):
            return metrics.describe(name)
    return (
        metrics.describe(score) if score.partition("(")[0] in metrics.names() else None
    )
