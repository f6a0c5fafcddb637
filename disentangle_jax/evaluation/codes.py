"""Evaluator of codes: disentanglement scores, traversals and heat maps."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from disentangle_jax import metrics, sampling
from disentangle_jax.evaluation.examples import Seen, single_dimensions
from disentangle_jax.evaluation.protocol import (
    GROUPED,
    Evaluated,
    define,
    metric_description,
)
from disentangle_jax.evaluation.sections import (
    Animation,
    HeatMap,
    Section,
    Sheet,
    latent_labels,
)
from disentangle_jax.evaluation.stored import listed_scores, scored_factors
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.training import Run

_TRAVERSED, _STEPS = 2, 9


@define(name="codes")
class Codes:
    """Scores of ``eval.scores``, and traversals of the latents of two test images.

    Scores are those of single dimensions, as in the literature; a discrete variable
    counts as one. Where continuous variables have several dimensions, ``dci_grouped``
    and so on are the scores of whole variables, which only models with the same number
    of variables can be compared by.
    """

    def __init__(self, run: Run):
        self._run = run

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        run, settings = self._run, self._run.config.eval
        arrays = {}
        if model.shows_images:
            arrays["traversals"] = traversals(model, seen.codes)
        if not settings.scores:
            return Evaluated(arrays=arrays)
        variables, names = run.method.latent_groups, tuple(settings.scores)
        dimensions = single_dimensions(variables, run.method.discrete)
        scores, errors = self._scores(model, seen, names, dimensions)
        names = tuple(name for name in names if metrics.describe(name).groups)
        if variables != dimensions and names:
            grouped, failed = self._scores(model, seen, names, variables)
            scores |= {f"{name}{GROUPED}": score for name, score in grouped.items()}
            errors |= {f"{name}{GROUPED}": reason for name, reason in failed.items()}
        return Evaluated(scores, errors=errors, arrays=arrays)

    def _scores(
        self,
        model: Trained,
        seen: Seen,
        names: tuple[str, ...],
        groups: tuple[int, ...],
    ) -> tuple[dict[str, metrics.Score], dict[str, str]]:
        """Returns scores of latent variables of such sizes, and why some failed."""
        codes, codes_test = seen.split(seen.codes)
        labelled = {}
        if self._run.test_set.factor_sizes:
            factors, factors_test = seen.split(seen.factors)
            labelled = {
                "factors": factors,
                "codes_test": codes_test,
                "factors_test": factors_test,
            }
        scores = metrics.evaluate(
            codes,
            scores=names,
            groups=groups,
            interventions=_interventions(model),
            seed=self._run.config.eval.seed,
            **labelled,
        )
        if not labelled:
            # Not NaN but absent: no score of factors exists for these images.
            for name in scores.errors:
                del scores[name]
        for name, score in scores.items():
            drawn = scores.descriptions[name].matrices
            score.matrices = {m: v for m, v in score.matrices.items() if m in drawn}
        return dict(scores), scores.errors

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[Section]:
        groups = scores["settings"]["latent_groups"]
        if "traversals" in arrays:
            yield from _traversal_sections(arrays["traversals"], groups)
        yield from _heat_maps(scores, groups)


class _Encoded:
    """A dataset that holds the codes of images: each is encoded when first asked for.

    Scores that fix factors draw millions of images, most of them several times.
    """

    def __init__(self, model: Trained):
        self._model, self._dataset = model, model.run.test_set
        self.factor_sizes = self._dataset.factor_sizes
        self.index_of, self.copies = self._dataset.index_of, self._dataset.copies
        latents = sum(model.run.method.latent_groups)
        self._codes = np.empty((len(self._dataset), latents), np.float32)
        self._known = np.zeros(len(self._dataset), bool)

    def images(self, indices: np.ndarray) -> np.ndarray:
        """Returns codes ``[n, D]``."""
        new = np.unique(indices[~self._known[indices]])
        if len(new):
            self._codes[new] = self._model.codes(self._dataset, new)
            self._known[new] = True
        return self._codes[indices]


def _interventions(model: Trained) -> tuple[Callable, _Encoded] | None:
    """Returns what interventional scores sample, as ``metrics.evaluate`` takes it."""
    if model.run.config.eval.interventions == "codes":
        return None
    return lambda codes: codes, _Encoded(model)


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
        ending = GROUPED if name.endswith(GROUPED) else ""
        for matrix, values in score["matrices"].items():
            if described is None or matrix + ending in shown:
                continue
            shown.add(matrix + ending)
            rows = [f"z{number}" for number in range(1, len(groups) + 1)]
            if len(values) != len(groups):
                rows = latent_labels(groups)
            title, caption = described.matrices[matrix]
            title += ", by variable" if ending else ""
            yield HeatMap(
                matrix + ending,
                title,
                caption,
                np.asarray(values),
                rows,
                scored_factors(scores, name),
            )
