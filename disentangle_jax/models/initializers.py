"""Initial distributions of parameters by name: published results depend on them."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from disentangle_jax import types

Init = Callable[[jax.Array, tuple[int, ...], jnp.dtype], jax.Array]


class Initializer(NamedTuple):
    """Initial distributions of a layer's weights and biases.

    Attributes:
      kernel: ``(fan_in, fan_out) -> init`` for weights.
      bias: ``(fan_in) -> init`` for biases.
    """

    kernel: Callable[[int, int], Init]
    bias: Callable[[int], Init]


def _symmetric_uniform(bound: float) -> Init:
    def init(
        key: jax.Array, shape: Sequence[int], dtype: DTypeLike = jnp.float32
    ) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


def _normal(std: float) -> Init:
    def init(
        key: jax.Array, shape: Sequence[int], dtype: DTypeLike = jnp.float32
    ) -> jax.Array:
        return std * jax.random.normal(key, shape, dtype)

    return init


def _zeros(fan_in: int) -> Init:
    del fan_in
    return jax.nn.initializers.zeros


_INITIALIZERS = {
    # PyTorch's default: kaiming-uniform with a = sqrt(5), i.e. U(±1/sqrt(fan_in)),
    # for weights and biases alike.
    "torch": Initializer(
        kernel=lambda fan_in, fan_out: _symmetric_uniform(1 / math.sqrt(fan_in)),
        bias=lambda fan_in: _symmetric_uniform(1 / math.sqrt(fan_in)),
    ),
    # TensorFlow 1's default: glorot-uniform weights, zero biases.
    "glorot": Initializer(
        kernel=lambda fan_in, fan_out: _symmetric_uniform(
            math.sqrt(6 / (fan_in + fan_out))
        ),
        bias=_zeros,
    ),
    # Michlo et al.: xavier-normal weights, zero biases.
    "xavier_normal": Initializer(
        kernel=lambda fan_in, fan_out: _normal(math.sqrt(2 / (fan_in + fan_out))),
        bias=_zeros,
    ),
    # The original ladder autoencoder: N(0, 0.02²) weights, zero biases.
    "normal_0.02": Initializer(
        kernel=lambda fan_in, fan_out: _normal(0.02), bias=_zeros
    ),
    "zeros": Initializer(kernel=lambda fan_in, fan_out: _zeros(fan_in), bias=_zeros),
}


def initializer(name: str) -> Initializer:
    """Returns the initialiser called `name`: torch, glorot, xavier_normal, …"""
    if name not in _INITIALIZERS:
        raise types.unknown_name(
            "models.create", "initializer", name, list(_INITIALIZERS)
        )
    return _INITIALIZERS[name]
