"""What a method is."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from disentangle_jax.types import Posterior, State

Batch = Mapping[str, jax.Array]
Hyper = Mapping[str, jax.Array | float]
Terms = dict[str, jax.Array]


@dataclasses.dataclass(frozen=True)
class Method:
    """Networks, objective and the update(s) of one step, as pure functions.

    Attributes:
      init: ``(key, batch) -> State``; only the shapes of `batch` matter.
      step: ``(key, state, batch, hyper) -> (state, terms)``. `hyper` maps each
        hyperparameter, and ``learning_rate``, to a scalar that may be traced, so that
        it can be a lane. `terms` are scalars; ``terms["loss"]`` is what is minimised.
      encode: ``(state, x) -> Posterior`` for ``x [B, H, W, C]`` in [0, 1].
      decode: ``(state, z) -> logits`` ``[B, H, W, C]``.
      latent_groups: sizes of the contiguous latent variables.
    """

    init: Callable[[jax.Array, Batch], State]
    step: Callable[[jax.Array, State, Batch, Hyper], tuple[State, Terms]]
    encode: Callable[[State, jax.Array], Posterior]
    decode: Callable[[State, jax.Array], jax.Array]
    latent_groups: tuple[int, ...]


def as_unit_interval(image: jax.Array) -> jax.Array:
    """Returns uint8 images as float32 in [0, 1]; float images pass unchanged.

    Images travel to the device as bytes, a quarter of the traffic, and become floats
    inside the compiled step.
    """
    if image.dtype == jnp.uint8:
        return image.astype(jnp.float32) / 255.0
    return image


def split_variables(variables: Mapping[str, Any]) -> tuple[dict, dict]:
    """Splits a linen variable dict into parameters and the rest."""
    model_state = {name: value for name, value in variables.items() if name != "params"}
    return variables["params"], model_state
