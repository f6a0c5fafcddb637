"""Evaluator of codes: disentanglement scores, traversals and heat maps."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from disentangle_jax import metrics, sampling
from disentangle_jax.evaluation.examples import Seen
from disentangle_jax.evaluation.protocol import Evaluated, define, metric_description
from disentangle_jax.evaluation.sections import (
    Animation,
    HeatMap,
    Section,
    Sheet,
    latent_labels,
)
from disentangle_jax.evaluation.stored import listed_scores
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.training import Run

_TRAVERSED, _STEPS = 2, 9


@define(name="codes")
class Codes:
    """Scores of ``eval.scores``, and traversals of the latents of two test images."""

    def __init__(self, run: Run):
        self._run = run

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        run, settings = self._run, self._run.config.eval
        arrays = {}
        if model.shows_images:
            arrays["traversals"] = traversals(model, seen.codes)
        if not settings.scores:
            return Evaluated(arrays=arrays)
        codes, codes_test = seen.split(seen.codes)
        labelled = {}
        if run.test_set.factor_sizes:
            factors, factors_test = seen.split(seen.factors)
            labelled = {
                "factors": factors,
                "codes_test": codes_test,
                "factors_test": factors_test,
            }
        scores = metrics.evaluate(
            codes,
            scores=tuple(settings.scores),
            groups=run.method.latent_groups,
            seed=settings.seed,
            **labelled,
        )
        if not labelled:
            # Not NaN but absent: no score of factors exists for these images.
            for name in scores.errors:
                del scores[name]
        for name, score in scores.items():
            drawn = metric_description(name, settings.scores).matrices
            score.matrices = {m: v for m, v in score.matrices.items() if m in drawn}
        return Evaluated(scores, errors=scores.errors, arrays=arrays)

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[Section]:
        groups = scores["settings"]["latent_groups"]
        if "traversals" in arrays:
            yield from _traversal_sections(arrays["traversals"], groups)
        yield from _heat_maps(scores, groups)


def traversals(model: Trained, codes: np.ndarray) -> np.ndarray:
    """Returns images ``[2, D, steps, H, W, C]`` of the first two codes.

    Each latent runs from its minimum to its maximum over `codes`; the entries of a
    discrete variable run from the code's own class to each other class.
    """
    values = sampling.min_max_values(jnp.asarray(codes), steps=_STEPS)
    walks = [
        sampling.traverse_values(
            jnp.asarray(code), values, discrete=model.run.method.discrete
        )
        for code in codes[:_TRAVERSED]
    ]
    return model.decode_all(jnp.stack(walks))


def _traversal_sections(walks: np.ndarray, groups: list[int]) -> Iterator[Section]:
    bars = ""
    if max(groups) > 1:
        bars = " A bar on the left marks the latents that form one variable."
    for number, walk in enumerate(walks, start=1):
        yield Sheet(
            f"traversals_{number}",
            f"Latent traversals {number}",
            "Each row varies one latent from its minimum to its maximum over test "
            "images; the other latents stay fixed." + bars,
            walk,
            latent_labels(groups),
            groups,
        )
    yield Animation(
        "traversals_moving",
        "Latent traversals, animated",
        "The first sheet of traversals as an animation: each tile varies one latent.",
        walks[0],
        groups,
    )


def _heat_maps(scores: Mapping[str, Any], groups: list[int]) -> Iterator[HeatMap]:
    """Yields a heat map of each kind of matrix, from the first score that has it."""
    shown = set()
    for name, score in scores["metrics"].items():
        described = metric_description(name, listed_scores(scores))
        for matrix, values in score["matrices"].items():
            if described is None or matrix in shown:
                continue
            shown.add(matrix)
            left_out = score["settings"].get("constant_factors_left_out", ())
            factors = [
                factor
                for place, factor in enumerate(scores["settings"]["factors"])
                if place not in left_out
            ]
            # Scores that do not support groups have a row per dimension.
            rows = [f"z{number}" for number in range(1, len(groups) + 1)]
            if len(values) != len(groups):
                rows = latent_labels(groups)
            title, caption = described.matrices[matrix]
            yield HeatMap(matrix, title, caption, np.asarray(values), rows, factors)
