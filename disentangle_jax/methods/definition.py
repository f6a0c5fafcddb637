"""Descriptions of methods, and methods by name."""

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import flax.linen as nn
import optax

from disentangle_jax import losses
from disentangle_jax.methods.method import Method
from disentangle_jax.registry import Registry
from disentangle_jax.types import unknown_name

_METHODS = Registry("method", "disentangle_jax.methods")

# What `create` passes to builders that ask for it by name.
_CONTEXT = ("likelihood", "axis_name", "dataset_size", "factor_sizes", "latent_groups")

Builder = TypeVar("Builder", bound=Callable[..., Method])


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    """A scalar of a method that may be traced, so that each lane can have its own.

    Attributes:
      default: its value where none is given; None if it must be given.
      low: the smallest allowed value.
      high: the largest allowed value.
      positive: whether the value must also be greater than 0.
      doc: what the hyperparameter does.
    """

    default: float | None = None
    low: float = 0.0
    high: float = math.inf
    positive: bool = False
    doc: str = ""

    def check(self, field: str, value: float | None) -> float:
        """Returns `value` as a float if it is allowed.

        Args:
          field: the field of the config that holds the value, for the error message.
          value: the value to check.

        Raises:
          ValueError: the value is missing, out of range or not finite.
        """
        if value is None:
            raise ValueError(
                f"config: `{field}` must be set; add --config.{field}=VALUE."
            )
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        above = is_number and (value > 0 or not self.positive)
        if not (above and self.low <= value <= self.high and math.isfinite(value)):
            sign = "non-negative" if self.low == 0 else f"at least {self.low:g}"
            sign = "positive" if self.positive else sign
            bound = "" if self.high == math.inf else f" and at most {self.high:g}"
            raise ValueError(
                f"config: `{field}` must be {sign}{bound} and finite, got {value!r}."
            )
        return float(value)


@dataclasses.dataclass(frozen=True)
class MethodDescription:
    """Describes a method; lists, checks and help texts are derived from it.

    Attributes:
      summary: the first line of the method's docstring.
      reference: the paper that introduced the method.
      hyperparameters: its hyperparameters by name, without ``learning_rate``.
      options: its options and their defaults. Each value needs its own compiled
        program.
      needs: what :func:`create` passes to the builder, for example ``dataset_size``.
    """

    summary: str
    reference: str
    hyperparameters: Mapping[str, Hyperparameter]
    options: Mapping[str, Any]
    needs: tuple[str, ...]


def define(
    *,
    hyperparameters: Mapping[str, Hyperparameter] | None = None,
    reference: str = "",
    name: str | None = None,
) -> Callable[[Builder], Builder]:
    """Returns a decorator that describes the builder of a method.

    A builder is a function or a class that is called as ``builder(model, optimizer,
    *, …)`` and returns a :class:`Method`. Its keyword-only parameters with defaults are
    the method's options. It also receives each of the following that it names:

    * ``likelihood``: a :class:`losses.Likelihood`; a default replaces Bernoulli;
    * ``axis_name``: the mapped axis over which the batch is split under ``pmap``;
    * ``dataset_size``: number of training examples;
    * ``factor_sizes``: number of values of each factor;
    * ``latent_groups``: sizes of the contiguous latent variables of the model.

    A method outside of this package is created by ``package.module:name``::

        @methods.define(
            hyperparameters={"sigma": methods.Hyperparameter(0.1, doc="noise")},
            reference="Vincent et al. 2008",
        )
        class Denoising(methods.GradientMethod):
            def loss(self, networks, key, step, batch, hyper):
                x = batch["image"]
                noisy = x + hyper["sigma"] * jax.random.normal(key, x.shape)
                logits = networks.decode(networks.encode(noisy).mean)
                error = self.likelihood.loss(x, logits).mean()
                return error, {"reconstruction": error}

    Args:
      hyperparameters: see :class:`MethodDescription`.
      reference: see :class:`MethodDescription`.
      name: name of the method in this package; None for the builder's own name.
    """

    def decorate(builder: Builder) -> Builder:
        parameters = inspect.signature(builder).parameters
        choices = {}
        for parameter in parameters.values():
            if parameter.kind != parameter.KEYWORD_ONLY or parameter.name in _CONTEXT:
                continue
            if parameter.default is parameter.empty:
                raise ValueError(
                    f"methods.define: `{parameter.name}` of {builder.__name__!r} must "
                    f"have a default or be one of {', '.join(_CONTEXT)}."
                )
            choices[parameter.name] = parameter.default
        likelihood = getattr(parameters.get("likelihood"), "default", None)
        reconstruction = getattr(likelihood, "name", "bernoulli")
        description = MethodDescription(
            summary=(inspect.getdoc(builder) or "").partition("\n")[0],
            reference=reference,
            hyperparameters=dict(hyperparameters or {}),
            options={"reconstruction": reconstruction, **choices},
            needs=tuple(need for need in _CONTEXT if need in parameters),
        )
        return _METHODS.add(builder, description, name)

    return decorate


def names() -> tuple[str, ...]:
    """Returns the names of this package's methods."""
    return _METHODS.names()


def describe(name: str) -> MethodDescription:
    """Returns the description of the method `name`."""
    return _METHODS.get(name, "methods.describe").description


def hyperparameters(name: str) -> dict[str, float | None]:
    """Returns the hyperparameters of the method `name` with their defaults.

    The default is None where a value must be given.
    """
    known = _METHODS.get(name, "methods.hyperparameters").description.hyperparameters
    return {key: hyperparameter.default for key, hyperparameter in known.items()}


def options(name: str) -> dict[str, Any]:
    """Returns the options that :func:`create` takes for `name`, with defaults."""
    return dict(_METHODS.get(name, "methods.options").description.options)


def create(
    name: str,
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    dataset_size: int | None = None,
    factor_sizes: Sequence[int] = (),
    axis_name: str | None = None,
    **choices: Any,
) -> Method:
    """Returns the method `name` on the networks of `model`.

    Args:
      name: one of :func:`names`, or ``package.module:name`` of another method.
      model: see :class:`Method`.
      optimizer: see :class:`Method`; without the learning rate.
      dataset_size: number of training examples, for the estimators of the aggregate
        posterior.
      factor_sizes: number of values of each factor, for methods that use labels.
      axis_name: see :class:`Method`.
      **choices: see :func:`options`. ``reconstruction`` names a likelihood.
    """
    builder = _METHODS.get(name, "methods.create")
    known = options(name)
    for choice in choices:
        if choice not in known:
            raise unknown_name(f"methods.create({name!r})", "option", choice, known)
    chosen = {**known, **choices}
    likelihood = losses.likelihood(
        chosen.pop("reconstruction"),
        function="methods.create",
        argument="reconstruction",
    )
    context = {
        # Networks of other packages need not be of our class.
        "likelihood": likelihood.on_blocks(getattr(model, "pixel_blocks", 0)),
        "axis_name": axis_name,
        "dataset_size": dataset_size,
        "factor_sizes": tuple(factor_sizes),
        "latent_groups": tuple(model.latent_groups),
    }
    needed = {need: context[need] for need in builder.description.needs}
    return builder(model, optimizer, **needed, **chosen)
