"""Methods by name."""

import inspect

import flax.linen as nn
import optax

from disentangle_jax import losses
from disentangle_jax.methods._method import Method
from disentangle_jax.methods._one_objective import one_objective
from disentangle_jax.types import unknown_name

_OBJECTIVES = {
    "ae": losses.ae,
    "vae": losses.vae,
    "beta_vae": losses.beta_vae,
}

# Keyword arguments of an objective that are not numbers of its method.
_NOT_HYPER = ("reconstruction", "kl", "axis_name")


def names() -> tuple[str, ...]:
    """Returns the names of all training methods."""
    return tuple(_OBJECTIVES)


def hyperparameters(name: str) -> dict[str, float | None]:
    """Returns the hyperparameters of the method `name` and their defaults.

    None stands for a hyperparameter that has no default: it must be given.
    """
    if name not in _OBJECTIVES:
        raise unknown_name("methods.hyperparameters", "name", name, _OBJECTIVES)
    parameters = inspect.signature(_OBJECTIVES[name]).parameters.values()
    return {
        p.name: None if p.default is p.empty else p.default
        for p in parameters
        if p.kind is p.KEYWORD_ONLY and p.name not in _NOT_HYPER
    }


def create(
    name: str, model: nn.Module, optimizer: optax.GradientTransformation
) -> Method:
    """Returns the method `name` on the networks of `model`.

    Args:
      name: one of :func:`names`.
      model: see :func:`one_objective`.
      optimizer: see :func:`one_objective`.
    """
    if name not in _OBJECTIVES:
        raise unknown_name("methods.create", "name", name, _OBJECTIVES)
    return one_objective(model, _OBJECTIVES[name], optimizer)
