"""Evaluator of codes: disentanglement scores, traversals, unused latents."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from disentangle_jax import losses, metrics
from disentangle_jax.evaluation.examples import Seen, single_dimensions
from disentangle_jax.evaluation.protocol import (
    GROUPED,
    Evaluated,
    define,
    metric_description,
)
from disentangle_jax.evaluation.sections import (
    Animation,
    Bars,
    HeatMap,
    Section,
    Sheet,
    latent_labels,
)
from disentangle_jax.evaluation.stored import listed_scores, scored_factors
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.training import Run
from disentangle_jax.types import Posterior

_TRAVERSED, _STEPS = 2, 9
# Below these a latent is inactive: KL divergence; for deterministic encoders, standard
# deviation of the code relative to the largest of all latents.
_ACTIVE_NATS, _ACTIVE_DEVIATION = 0.01, 0.01


@define(
    name="codes",
    scores={
        "kl": "mean KL divergence of the posterior from the prior, nats",
        "kl_active": f"latents with a KL divergence above {_ACTIVE_NATS} nats",
    },
    watched=("kl", "traversals"),
)
class Codes:
    """Scores of ``eval.scores``, and traversals of the latents of two test images.

    Scores are those of single dimensions, as in the literature; a discrete variable
    counts as one. Where continuous variables have several dimensions, ``dci_grouped``
    and so on are the scores of whole variables, which only models with the same number
    of variables can be compared by.

    ``kl`` and ``kl_active`` are those of stochastic encoders of images, over all test
    images, and the array ``kl`` ``[D]`` those of each latent, from a standard normal
    prior. The entry ``inactive_latents`` lists latents that the model does not use, by
    their KL divergence or, for deterministic encoders, by how little they vary.
    """

    def __init__(self, run: Run):
        self._run = run

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        run, settings = self._run, self._run.config.eval
        arrays: dict[str, np.ndarray] = {}
        scores: dict[str, metrics.Score] = {}
        details: dict[str, Any] = {}
        if model.shows_images:
            details["inactive_latents"] = inactive_latents(seen.posterior)
            arrays["traversals"] = traversals(model, seen.codes)
            if seen.posterior.log_var is not None:
                # Topic models have another prior, and report their KL themselves.
                arrays["kl"] = kl = _kl_per_latent(
                    seen.posterior.mean, seen.posterior.log_var
                )
                active = int((kl > _ACTIVE_NATS).sum())
                for name, value in (("kl", kl.sum()), ("kl_active", active)):
                    scores[name] = metrics.Score({name: float(value)}, {})
        if not settings.scores:
            return Evaluated(scores, arrays=arrays, details=details)
        variables, names = run.method.latent_groups, tuple(settings.scores)
        dimensions = single_dimensions(variables, run.method.discrete)
        found, errors = self._scores(model, seen, names, dimensions)
        scores |= found
        names = tuple(name for name in names if metrics.describe(name).groups)
        if variables != dimensions and names:
            grouped, failed = self._scores(model, seen, names, variables)
            scores |= {f"{name}{GROUPED}": score for name, score in grouped.items()}
            errors |= {f"{name}{GROUPED}": reason for name, reason in failed.items()}
        return Evaluated(scores, errors=errors, arrays=arrays, details=details)

    def _scores(
        self,
        model: Trained,
        seen: Seen,
        names: tuple[str, ...],
        groups: tuple[int, ...],
    ) -> tuple[dict[str, metrics.Score], dict[str, str]]:
        """Returns scores of latent variables of such sizes, and why some failed."""
        codes, codes_test = seen.split(seen.codes)
        labelled: dict[str, Any] = {}
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
        unused = scores.get("inactive_latents", ())  # Not in older files.
        if "traversals" in arrays:
            yield from _traversal_sections(arrays["traversals"], groups, unused)
        if "kl" in arrays:
            yield _kl_section(arrays["kl"], groups, unused)
        yield from _heat_maps(scores, groups, unused)


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


def _kl_per_latent(mean: jax.Array, log_var: jax.Array) -> np.ndarray:
    """Returns ``[D]`` mean KL divergences of the continuous latents, in nats."""
    mean = mean[:, : log_var.shape[1]]  # Discrete variables come last.
    return np.asarray(losses.gaussian_kl_per_dim(mean, log_var)).mean(axis=0)


def inactive_latents(posterior: Posterior) -> list[int]:
    """Returns the latents that a model does not use, of the continuous ones.

    Args:
      posterior: of test images.
    """
    if posterior.log_var is not None:
        kl = _kl_per_latent(posterior.mean, posterior.log_var)
        return np.flatnonzero(kl <= _ACTIVE_NATS).tolist()
    deviation = posterior.mean.std(axis=0)
    small = deviation <= _ACTIVE_DEVIATION * deviation.max()
    return np.flatnonzero(small).tolist()


def _labels(groups: Sequence[int], unused: Sequence[int]) -> list[str]:
    """Returns a name per latent dimension, which says where one is inactive."""
    return [
        f"{label} (inactive)" if place in unused else label
        for place, label in enumerate(latent_labels(groups))
    ]


def _variable_labels(groups: Sequence[int], unused: Sequence[int]) -> list[str]:
    """Returns a name per latent variable; one without an active latent is inactive."""
    starts = np.cumsum([0, *groups[:-1]])
    wholly = [
        number
        for number, (start, size) in enumerate(zip(starts, groups))
        if set(range(start, start + size)) <= set(unused)
    ]
    return _labels([1] * len(groups), wholly)


def _kl_section(kl: np.ndarray, groups: list[int], unused: Sequence[int]) -> Bars:
    names = latent_labels(groups)[: len(kl)]
    without = ", ".join(names[place] for place in unused) or "none"
    return Bars(
        "kl_per_latent",
        "KL divergence per latent",
        "Mean KL divergence of the posterior from the prior over test images. Inactive "
        f"latents (at most {_ACTIVE_NATS} nats): {without}.",
        {"KL": kl},
        "latent",
        "nats",
        _labels(groups, unused)[: len(kl)],
    )


def traversals(model: Trained, codes: np.ndarray) -> np.ndarray:
    """Returns images ``[2, D, steps, H, W, C]`` of the first two codes.

    Each latent runs from its minimum to its maximum over `codes`, or through its values
    where it is quantised; the entries of a discrete variable run from the code's own
    class to each other class.
    """
    walks = [model.traverse(code, codes, steps=_STEPS) for code in codes[:_TRAVERSED]]
    return np.stack(walks)


def _traversal_sections(
    walks: np.ndarray, groups: list[int], unused: Sequence[int]
) -> Iterator[Section]:
    bars = ""
    if max(groups) > 1:
        bars = " A bar on the left marks the latents that form one variable."
    for number, walk in enumerate(walks, start=1):
        yield Sheet(
            f"traversals_{number}",
            f"Latent traversals {number}",
            "Each row varies one latent from its minimum to its maximum over test "
            "images, or through all of its values where it is quantised; the other "
            "latents stay fixed." + bars,
            walk,
            _labels(groups, unused),
            groups,
        )
    grey = " The names of inactive latents are grey." if len(unused) else ""
    yield Animation(
        "traversals_moving",
        "Latent traversals, animated",
        "The first sheet of traversals as an animation: each tile varies one latent."
        + grey,
        walks[0],
        groups,
        unused,
    )


def _heat_maps(
    scores: Mapping[str, Any], groups: list[int], unused: Sequence[int]
) -> Iterator[HeatMap]:
    """Yields a heat map of each kind of matrix, from the first score that has it."""
    shown = set()
    for name, score in scores["metrics"].items():
        described = metric_description(name, listed_scores(scores))
        ending = GROUPED if name.endswith(GROUPED) else ""
        for matrix, values in score["matrices"].items():
            if described is None or matrix + ending in shown:
                continue
            shown.add(matrix + ending)
            rows = _labels(groups, unused)
            if len(values) == len(groups):
                rows = _variable_labels(groups, unused)
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
