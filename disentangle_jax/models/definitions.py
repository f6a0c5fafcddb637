"""How a network describes itself and is built by name."""

import dataclasses
import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax import registry, types
from disentangle_jax.models import initializers, layers

_NETWORKS = registry.Registry("network", "disentangle_jax.models")

# Names and groups are listed for each latent, before memory is estimated.
_MOST_LATENTS = 1_000_000


@dataclasses.dataclass(frozen=True)
class ModelDescription:
    """Describes a network.

    Attributes:
      reference: paper or code that the network follows.
      observation: ``"image"`` if the input is ``[B, H, W, C]`` in [0, 1], ``"counts"``
        if it is ``[B, V]`` word counts.
      overrides: options of the network with their defaults.
    """

    reference: str
    observation: str
    overrides: Mapping[str, Any]


def define(
    name: str | None = None, *, reference: str, observation: str = "image"
) -> Callable[[Callable[..., nn.Module]], Callable[..., nn.Module]]:
    """Returns a decorator for the function that builds a network.

    The function takes the shape of one observation. Its keyword-only parameters are
    what `create` accepts as overrides::

        @models.define(reference="Author et al. 2026")
        def tiny(image_shape, *, latent_dim=10):
            return Tiny(image_shape, latent_dim)

        models.create("my_package.networks:tiny", (64, 64, 3), latent_dim=5)

    Args:
      name: name of a network of this library; None for the name of the function.
      reference: see `ModelDescription`.
      observation: see `ModelDescription`.
    """

    def decorate(build: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
        parameters = inspect.signature(build).parameters.values()
        overrides = {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        description = ModelDescription(reference, observation, overrides)
        return _NETWORKS.add(build, description, name)

    return decorate


def names() -> tuple[str, ...]:
    """Returns the names of the library's networks."""
    return _NETWORKS.names()


def describe(name: str) -> ModelDescription:
    """Returns the description of a network, by its name or ``package.module:name``."""
    return _NETWORKS.get(name, "models.describe").description


def create(name: str, image_shape: Sequence[int], **overrides: Any) -> nn.Module:
    """Builds the network called `name` for observations of one shape.

    `Network` says which methods every network has. The caller samples::

        module = models.create("sae-12", (64, 64, 3))
        variables = module.init(key, jnp.zeros((1, 64, 64, 3)))
        posterior = module.apply(variables, x, method="encode")

    Args:
      name: one of `names`, or ``package.module:name`` of a function with `define`.
      image_shape: ``(H, W, C)``, or ``(V,)`` for networks of word counts.
      **overrides: changes to the published network, e.g. ``latent_dim``, ``channels``,
        ``nonlinearity``, ``initializer``, ``dtype`` (of the arithmetic; parameters
        stay float32) and ``remat``.
    """
    build = _NETWORKS.get(name, "models.create")
    description = build.description
    image_shape = tuple(image_shape)
    _check_shape(name, description.observation == "counts", image_shape)
    for override in overrides:
        if override not in description.overrides:
            raise types.unknown_name(
                f"models.create({name!r})", "overrides", override, description.overrides
            )
    for override, value in overrides.items():
        _check_size(name, override, value, description.overrides[override])
    if "nonlinearity" in overrides:
        layers.nonlinearity(overrides["nonlinearity"])
    if "dtype" in overrides:
        _check_dtype(name, overrides["dtype"])
    if overrides.get("initializer") is not None:
        initializers.initializer(overrides["initializer"])
    return build(image_shape, **overrides)


def _check_dtype(name: str, dtype: Any) -> None:
    try:
        fits = jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(
            f"models.create({name!r}): `dtype` must be a type of real numbers such as "
            f"bfloat16, got {dtype!r}."
        )


def _check_size(name: str, override: str, value: Any, default: Any) -> None:
    """Raises where a size of a network is not a positive integer."""
    if isinstance(value, tuple | list):
        for part in value:
            _check_size(name, override, part, default)
        return
    counts = type(default) is int or override == "latent_dim"
    maybe = default is None or isinstance(default, tuple)
    if not counts and not (maybe and isinstance(value, int | float)):
        return
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or int(value) < 1:
        raise ValueError(
            f"models.create({name!r}): `{override}` must be positive and whole, got "
            f"{value!r}."
        )
    if override == "latent_dim" and value > _MOST_LATENTS:
        raise ValueError(
            f"models.create({name!r}): `latent_dim` must be at most {_MOST_LATENTS:,}, "
            f"got {value:,}."
        )


def _check_shape(name: str, counts: bool, image_shape: tuple[int, ...]) -> None:
    if len(image_shape) != (1 if counts else 3):
        raise ValueError(
            f"models.create: `image_shape` must be "
            f"{'(V,), the vocabulary size,' if counts else '(H, W, C)'} for "
            f"{name!r}, got {image_shape}."
        )
    if not all(isinstance(n, int) and n > 0 for n in image_shape):
        raise ValueError(
            "models.create: `image_shape` must be positive integers, "
            f"got {image_shape}."
        )


def parameter_count(name: str, image_shape: Sequence[int], **overrides: Any) -> int:
    """Returns the number of trained parameters of a network. Allocates nothing."""
    module = create(name, image_shape, **overrides)
    x = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    variables = jax.eval_shape(module.init, jax.random.key(0), x)
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(variables["params"]))
