"""All scores of a set of codes at once, and their table."""

import math
from collections.abc import Sequence

from disentangle_jax.metrics._inputs import ArrayLike, Score, check_arrays
from disentangle_jax.metrics._intervals import add_intervals
from disentangle_jax.metrics._registry import REGISTRY, names
from disentangle_jax.types import unknown_name


class Evaluation(dict):
    """``{name: Score}`` of several scores; prints as a table.

    A score that could not be computed is there with NaN values, and why is in

    Attributes:
      errors: ``{name: reason}``.
    """

    def __init__(self, scores: dict[str, Score], errors: dict[str, str]):
        super().__init__(scores)
        self.errors = errors

    def __str__(self) -> str:
        return table(self)


def evaluate(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    scores: str | Sequence[str] = "all",
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    intervals: bool = False,
    resamples: int = 200,
    seed: int = 0,
) -> Evaluation:
    """Scores codes against factors: anyone's arrays, no model and no dataset needed.

    Args:
      codes: ``[N, D]`` NumPy, JAX or torch array.
      factors: ``[N, K]`` factor values.
      scores: names of the registry (a sequence, or one string with commas), or "all"
        for every score that needs no more than codes and factors, but for those of cost
        "slow" (the downstream tasks and fairness), which are computed when named.
      codes_test: ``[M, D]`` held-out codes, for the scores that measure an accuracy.
      factors_test: ``[M, K]`` factors of the held-out codes.
      groups: sizes of multi-dimensional latent variables; scores without a definition
        for them are computed over single dimensions, as their settings show.
      intervals: also compute bootstrap 95 % intervals, where a score has them: the
        scores of tables and covariances by resampling the training rows, accuracies by
        resampling the scored rows under the fitted classifier.
      resamples: number of resamples.
      seed: seeds every random choice.

    Returns:
      ``{name: Score}``, in the order asked for; see `Evaluation`. A score that cannot
      be computed on these arrays does not fail the rest: it is NaN, with its reason in
      ``errors``.
    """
    arrays = check_arrays(
        "evaluate", codes, factors, codes_test=codes_test, factors_test=factors_test,
        groups=groups,
    )  # fmt: skip
    known = names(needs=("factors", "codes", "full grid"))
    if scores == "all":
        scores = names(needs=("factors", "codes"), cost=("fast", "medium"))
    elif isinstance(scores, str):
        scores = tuple(s.strip() for s in scores.split(","))
    for name in scores:
        if name not in known:
            raise unknown_name("evaluate", "scores", name, known)
    results, errors = {}, {}
    for name in scores:
        entry = REGISTRY[name]
        more = {"groups": groups} if entry.groups and groups is not None else {}
        try:
            results[name] = entry.function(
                codes, factors, codes_test=codes_test, factors_test=factors_test,
                seed=seed, **more,
            )  # fmt: skip
        except (ValueError, ArithmeticError) as error:
            results[name] = Score(dict.fromkeys(entry.keys, math.nan), {})
            errors[name] = str(error)
    if intervals:
        add_intervals(results, arrays, resamples=resamples, seed=seed)
    return Evaluation(results, errors)


def table(evaluation: Evaluation) -> str:
    """Returns a text table of an evaluation: value, interval, range, settings."""
    rows = [("score", "value", "95 %", "range", "settings")]
    for name, score in evaluation.items():
        entry = REGISTRY[name]
        low, high = entry.range
        for i, (key, value) in enumerate(score.items()):
            arrow = {True: "↑", False: "↓", None: " "}[entry.higher_is_better]
            interval = score.intervals.get(key)
            rows.append((
                name if key == name else f"{name}.{key}",
                f"{value:.4f}",
                "" if interval is None else f"{interval[0]:.4f} … {interval[1]:.4f}",
                f"{low:g} … {high:g} {arrow}" if i == 0 else "",
                ", ".join(f"{k}={v}" for k, v in score.settings.items())
                if i == 0 else "",
            ))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    if not any(row[2] for row in rows[1:]):
        rows = [(row[0], row[1], "", *row[3:]) for row in rows]
        widths[2] = 0
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), row[1].rjust(widths[1])]
        cells += [row[i].ljust(widths[i]) for i in (2, 3) if widths[i]]
        lines.append("  ".join([*cells, row[4]]).rstrip())
    lines += [f"not computed: {why}" for why in evaluation.errors.values()]
    return "\n".join(lines)
