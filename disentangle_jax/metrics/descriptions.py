"""How a score describes itself, and how scores are found by name."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar, cast

from disentangle_jax.metrics.inputs import Score
from disentangle_jax.registry import Registry
from disentangle_jax.types import unknown_name

Function = TypeVar("Function", bound=Callable)
_COSTS = ("fast", "medium", "slow")
_SCORES = Registry("score", "disentangle_jax.metrics")


@dataclasses.dataclass(frozen=True)
class ScoreDescription:
    """What is known about a score. Lists, tables, checks and help derive from it.

    Attributes:
      keys: each key that the score returns and its meaning; the first is the headline.
      range: smallest and largest possible headline.
      higher_is_better: direction; None for quantities without one.
      needs: the inputs. "factors": codes and factors; "full grid": the same, with every
        combination of factor values exactly once; "codes": codes alone; or a phrase
        for other inputs.
      interventional: whether the score also takes an encoder and a dataset, from which
        it samples images with chosen factors.
      deterministic: whether the value is the same for every seed.
      cost: "fast" (below about a second at 10,000 rows and 10 latents on two cores),
        "medium" (seconds) or "slow" (longer).
      groups: whether the score takes ``groups=``.
      invariant_to: maps of single latents that leave the score unchanged, up to
        rounding: "permutation", "shift", "scale" (per latent), "global_scale".
      options: arguments of the score that a name in parentheses may set, and the values
        of each: ``dci(estimator=gbt_exact)``.
      matrices: title and caption of the heat map of each entry of ``Score.matrices``
        that is stored beside the score.
      conventions: by the name of another library, the arguments with which the score
        is that library's: ``{"ubisoft": {"bins": 10}}``.
      interval: function ``(score, bootstrap) -> {key: [R] values}`` of the score on R
        resamples (see `metrics.intervals`); None if the score has no interval.
      reference: the paper that defines the score.
    """

    keys: Mapping[str, str]
    range: tuple[float, float] = (0.0, 1.0)
    higher_is_better: bool | None = True
    needs: str = "factors"
    interventional: bool = False
    deterministic: bool = True
    cost: str = "fast"
    groups: bool = False
    invariant_to: tuple[str, ...] = ("permutation", "shift", "scale")
    options: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    matrices: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)
    conventions: Mapping[str, Mapping[str, Any]] = dataclasses.field(
        default_factory=dict
    )
    interval: Callable | None = None
    reference: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.keys, Mapping) or not self.keys:
            raise ValueError(
                "define: `keys` must map each key of the score to its meaning, got "
                f"{self.keys!r}."
            )
        if self.cost not in _COSTS:
            raise ValueError(
                f"define: `cost` must be one of {', '.join(_COSTS)}, got {self.cost!r}."
            )

    @property
    def meaning(self) -> str:
        """What the headline means."""
        return next(iter(self.keys.values()))


class ScoreFunction(Protocol):
    """A score: what the decorator of `define` returns."""

    __name__: str
    description: ScoreDescription

    def __call__(self, *arrays: Any, **options: Any) -> Score: ...


def define(**fields: Any) -> Callable[[Function], Function]:
    """Returns a decorator that describes a score.

    The score is a function ``(codes, factors, *, codes_test=None, factors_test=None,
    seed=0)``, with ``groups=None`` if its description says so, that returns a `Score`.
    Scores outside the library are named ``package.module:name``.

    Args:
      **fields: the attributes of `ScoreDescription`; only ``keys`` is required.
    """
    return _SCORES.decorator(ScoreDescription(**fields))


def get(name: str, function: str = "get", argument: str = "name") -> ScoreFunction:
    """Returns the score called `name` (or ``package.module:name``).

    A name such as ``dci(estimator=gbt_exact)`` returns the score with these options;
    its ``__name__`` then contains them.
    """
    plain, bracket, text = name.partition("(")
    score = _SCORES.get(plain, function, argument)
    if not isinstance(score.description, ScoreDescription):
        raise ValueError(
            f"{function}: `{argument}` must name a score, and {name!r} is none: "
            "decorate it with `metrics.define`."
        )
    return _with_options(score, name, text, function, argument) if bracket else score


def _with_options(
    score: ScoreFunction, name: str, text: str, function: str, argument: str
) -> ScoreFunction:
    """Returns a score with the options of ``option=value, …)``."""
    options = {}
    for part in text.removesuffix(")").split(","):
        option, equals, value = (word.strip() for word in part.partition("="))
        if not (text.endswith(")") and equals):
            raise ValueError(
                f"{function}: `{argument}` must be a name or name(option=value), got "
                f"{name!r}."
            )
        known = score.description.options
        if option not in known:
            raise unknown_name(f"{function}: {name}", "option", option, known)
        if value not in known[option]:
            raise unknown_name(f"{function}: {name}", option, value, known[option])
        options[option] = value
    chosen = cast(ScoreFunction, functools.partial(score, **options))
    listed = ", ".join(f"{option}={value}" for option, value in options.items())
    chosen.__name__ = f"{score.__name__}({listed})"
    chosen.description = score.description
    return chosen


def names(
    *, needs: Iterable[str] | None = None, cost: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Returns the names of the library's scores: all, or those with such needs, cost.

    Args:
      needs: keep the scores whose ``needs`` are among these.
      cost: keep the scores whose ``cost`` is among these.
    """
    needs = None if needs is None else set(needs)
    cost = None if cost is None else set(cost)
    return tuple(
        name
        for name in sorted(_SCORES.names())
        if (needs is None or describe(name).needs in needs)
        and (cost is None or describe(name).cost in cost)
    )


def conventions() -> tuple[str, ...]:
    """Returns the names of the conventions that a score of the library defines."""
    return tuple(sorted({c for name in names() for c in describe(name).conventions}))


def describe(name: str) -> ScoreDescription:
    """Returns the description of the score called `name` (or ``module:name``)."""
    return get(name, "describe").description
