"""All scores of one model's codes at once, and their table."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from disentangle_jax.metrics.descriptions import (
    ScoreDescription,
    ScoreFunction,
    conventions,
    describe,
    get,
    names,
)
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Score,
    check_arrays,
    check_codes,
    codes_alone,
    to_numpy,
)
from disentangle_jax.metrics.intervals import Bootstrap
from disentangle_jax.metrics.tokens import first_components
from disentangle_jax.registry import split_names
from disentangle_jax.types import unknown_name

_NEEDS = ("factors", "codes", "full grid")  # what `evaluate` can supply


class Evaluation(dict[str, Score]):
    """``{name: Score}`` of several scores; prints as a table.

    The values of a score that could not be computed are NaN.

    Attributes:
      errors: ``{name: reason}`` of the scores that could not be computed.
      descriptions: ``{name: ScoreDescription}`` of all scores.
    """

    def __init__(
        self,
        scores: dict[str, Score],
        errors: dict[str, str],
        descriptions: dict[str, ScoreDescription],
    ):
        super().__init__(scores)
        self.errors = errors
        self.descriptions = descriptions

    def to_rows(self) -> list[dict[str, Any]]:
        """Returns a dict for each value: score, key, value, low and high.

        ``low`` and ``high`` are the ends of the interval, None without one; ``error``
        says why a score could not be computed, and ``settings`` how it was.
        """
        rows = []
        for name, score in self.items():
            for key, value in score.items():
                low, high = score.intervals.get(key, (None, None))
                rows.append({
                    "score": name, "key": key, "value": value, "low": low, "high": high,
                    "error": self.errors.get(name), "settings": score.settings,
                })  # fmt: skip
        return rows

    def to_pandas(self) -> Any:
        """Returns `to_rows` as a ``pandas.DataFrame``."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "to_pandas: pandas is not installed; install it, or use to_rows()."
            ) from None
        return pandas.DataFrame(self.to_rows())

    def __str__(self) -> str:
        return table(self)


def check_scores(
    scores: str | Sequence[str], function: str, argument: str = "scores"
) -> dict[str, ScoreFunction]:
    """Returns the functions of scores that `evaluate` takes, by their names.

    Args:
      scores: names, ``package.module:name`` for scores outside the library, options in
        parentheses (``dci(estimator=gbt_exact)``); one string with commas, or "all" for
        all fast and medium scores of codes and factors.
      function: the public function that was called, for the error.
      argument: its argument that holds the names.

    Raises:
      ValueError: a name is unknown, or names a score of other inputs.
    """
    if scores == "all":
        scores = names(needs=("factors", "codes"), cost=("fast", "medium"))
    elif isinstance(scores, str):
        scores = split_names(scores)
    known = names(needs=_NEEDS)
    found: dict[str, ScoreFunction] = {}
    for name in scores:
        text = name if isinstance(name, str) else ""
        if ":" not in text and text.partition("(")[0] not in known:
            raise unknown_name(function, argument, name, known)
        score = get(name, function, argument)
        if score.description.needs not in _NEEDS:
            raise ValueError(
                f"{function}: `{argument}` must name scores of codes and factors, and "
                f"{name!r} needs {score.description.needs}."
            )
        if found.setdefault(score.__name__, score) is not score:
            raise ValueError(
                f"{function}: `{argument}` must name different scores, got two called "
                f"{score.__name__!r}."
            )
    return found


def _check_options(
    options: Mapping[str, Mapping[str, Any]], functions: Mapping[str, ScoreFunction]
) -> None:
    dicts = isinstance(options, Mapping) and all(
        isinstance(own, Mapping) for own in options.values()
    )
    if not dicts:
        raise ValueError(
            "evaluate: `options` must hold a dict of arguments by the name of a score, "
            f'such as {{"mig": {{"bins": 40}}}}, got {options!r}.'
        )
    for name, own in options.items():
        if name not in functions:
            raise unknown_name("evaluate", "options", name, functions)
        parameters = inspect.signature(functions[name]).parameters.values()
        known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        known = [p for p in known if p not in ("codes_test", "factors_test")]
        for option in own:
            if option not in known:
                raise unknown_name("evaluate", f"options[{name!r}]", option, known)


def _convention_scores(
    convention: str, scores: str | Sequence[str]
) -> str | Sequence[str]:
    """Returns the names of scores, "all" replaced by those of the convention."""
    if convention not in conventions():
        raise unknown_name("evaluate", "convention", convention, conventions())
    if scores != "all":
        return scores
    known = names(needs=("factors", "codes"), cost=("fast", "medium"))
    return [name for name in known if convention in describe(name).conventions]


def _convention_options(score: ScoreFunction, convention: str) -> dict[str, Any]:
    """Returns the arguments of a convention that the score's name does not set."""
    known = score.description.conventions
    if convention not in known:
        raise ValueError(
            f"{score.__name__}: skipped, since the convention {convention} does not "
            f"define it ({', '.join(known) or 'no convention'} does)."
        )
    chosen = getattr(score, "keywords", {})
    return {k: v for k, v in known[convention].items() if k not in chosen}


def _convention_setting(
    score: ScoreFunction, convention: str | None, options: Mapping[str, Any]
) -> dict[str, str]:
    """Returns the setting that states the convention, and which options differ."""
    if convention is None:
        return {}
    changed = ", ".join([*getattr(score, "keywords", {}), *options])
    return {"convention": f"{convention} except {changed}" if changed else convention}


def _components(
    codes: ArrayLike,
    codes_test: ArrayLike | None,
    interventions: tuple[Callable, Any] | None,
    groups: Sequence[int],
) -> tuple[ArrayLike, ArrayLike | None, tuple[Callable, Any] | None]:
    """Returns what `evaluate` takes, with a scalar for each latent variable."""
    project = first_components(codes, groups)
    if interventions is not None:
        encode, dataset = interventions
        interventions = (lambda images: project(encode(images))), dataset
    codes_test = codes_test if codes_test is None else project(codes_test)
    return project(codes), codes_test, interventions


def evaluate(
    codes: ArrayLike,
    factors: ArrayLike | None = None,
    *,
    scores: str | Sequence[str] = "all",
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    tokens: str = "whole",
    interventions: tuple[Callable, Any] | None = None,
    convention: str | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    intervals: bool | str = False,
    resamples: int = 200,
    seed: int = 0,
) -> Evaluation:
    """Scores codes against factors. The arrays suffice; no model or dataset is needed.

    Args:
      codes: ``[N, D]`` NumPy, JAX or torch array.
      factors: ``[N, K]`` factor values; None where there are none, which leaves the
        scores of codes alone. Continuous factors are recognised (see `metrics`).
      scores: names of scores (a sequence, or one string with commas), among them
        ``package.module:name`` for scores outside the library; or "all" for every score
        that needs only codes and factors, except those of cost "slow" (the downstream
        tasks and fairness), which are computed only if named.
      codes_test: ``[M, D]`` held-out codes, for the scores that measure an accuracy.
      factors_test: ``[M, K]`` factors of the held-out codes.
      groups: sizes of multi-dimensional latent variables (tokens). `explicitness`,
        `dci_es` and `fairness` use the code as a whole, and `rmig` is defined for
        single dimensions only; their settings show no groups.
      tokens: how multi-dimensional variables are scored: "whole" as vectors, by the
        definition of each score; or "pca", each as its first principal component, as in
        the papers of DisDiff and EncDiff (see `metrics.first_components`).
      interventions: ``(encode_fn, dataset)`` from which interventional scores sample
        images with chosen factors; None: from the rows of `codes`.
      convention: name of a library whose settings each score takes (bins, normaliser,
        estimator, rescaling, …), so that values can be compared with those of papers
        that used it: "dlib" (disentanglement_lib), "disent", "ubisoft" or "infomec"
        (latent_quantization). "all" then means the scores that the library has; others
        are skipped with a reason in ``errors``. ``settings["convention"]`` states it,
        and `metrics.describe(name).conventions` the settings. Where the library returns
        NaN or fails, as for constant latents, the value is that of our definition.
      options: further arguments of scores, ``{"mig": {"bins": 40}}``; they take
        precedence over those of the convention.
      intervals: also compute bootstrap 95 % intervals of the scores that have them: of
        tables and covariances by resampling the training rows, of accuracies by
        resampling the scored rows under the fitted classifier. "refit" adds those of
        all other values (disentanglement and completeness of DCI, explicitness,
        InfoMEC, …): the score is computed again on each resample of the training rows,
        so that it takes `resamples` times as long. At 10,000 rows with the factors of
        dSprites, 200 resamples of DCI take about 7 minutes on two cores, and those of
        explicitness one.
      resamples: number of resamples.
      seed: seed of every random choice.

    Returns:
      ``{name: Score}`` in the requested order; see `Evaluation`. A score that cannot be
      computed on these arrays does not fail the others: its values are NaN, and the
      reason is in ``errors``, as for every value that is NaN.
    """
    if tokens not in ("whole", "pca"):
        raise unknown_name("evaluate", "tokens", tokens, ("whole", "pca"))
    tokens_setting = {}
    if tokens == "pca" and groups is not None:
        tokens_setting = {"tokens": f"first principal components of {tuple(groups)}"}
        codes, codes_test, interventions = _components(
            codes, codes_test, interventions, groups
        )
        groups = None
    if factors is None:
        arrays = codes_alone(check_codes("evaluate", "codes", codes))
    else:
        arrays = check_arrays(
            "evaluate", codes, factors, codes_test, factors_test, groups
        )
    if convention is not None:
        scores = _convention_scores(convention, scores)
    if intervals not in (False, True, "refit"):
        raise unknown_name("evaluate", "intervals", intervals, ("refit",))
    functions, options = check_scores(scores, "evaluate"), options or {}
    _check_options(options, functions)
    descriptions = {name: score.description for name, score in functions.items()}
    bootstrap = Bootstrap(arrays, resamples=resamples, seed=seed)
    results, errors = {}, {}
    for name, score in functions.items():
        described, own = descriptions[name], options.get(name, {})
        shared: dict[str, Any] = {"seed": seed}
        if described.groups and groups is not None:
            shared["groups"] = groups
        sampled = interventions if described.interventional else None
        try:
            if factors is None and described.needs != "codes":
                raise ValueError(f"{name}: needs factors, and there are none.")
            if convention is not None:
                shared |= _convention_options(score, convention)
            compute = functools.partial(
                score, codes_test=codes_test, factors_test=factors_test,
                **{**shared, **own},
            )  # fmt: skip
            results[name] = compute(*(sampled or (codes, factors)))
            results[name].settings |= tokens_setting
            results[name].settings |= _convention_setting(score, convention, own)
        except (ValueError, ArithmeticError) as error:
            results[name] = Score(dict.fromkeys(described.keys, math.nan), {})
            errors[name] = str(error)
        undefined = [key for key, value in results[name].items() if math.isnan(value)]
        if undefined and name not in errors:
            errors[name] = (
                f"{name}: {', '.join(undefined)} is not defined for these codes and "
                "factors, as where a code is constant."
            )
        if intervals:
            bootstrap.add_intervals(results[name], described.interval)
        given = factors is not None and not sampled and name not in errors
        if intervals == "refit" and given:
            z, y = (to_numpy("evaluate", "codes", array) for array in (codes, factors))
            bootstrap.add_refitted_intervals(results[name], compute, z, y)
    return Evaluation(results, errors, descriptions)


def table(evaluation: Evaluation) -> str:
    """Returns a text table of an evaluation: value, interval, range, settings."""
    rows = [("score", "value", "95 %", "range", "settings")]
    for name, score in evaluation.items():
        description = evaluation.descriptions[name]
        low, high = description.range
        for i, (key, value) in enumerate(score.items()):
            arrow = {True: "↑", False: "↓", None: " "}[description.higher_is_better]
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
