"""Schedules: factors by which a hyperparameter is multiplied during training.

A config names them as tuples, ``config.train.schedules.beta = ("linear", 0.0, 1.0, 0,
1000)``: the name of a function below, then its arguments. Any hyperparameter of the
method, and ``learning_rate``, can be scheduled.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from disentangle_jax.types import unknown_name

Schedule = Callable[[jax.Array], jax.Array]


def linear(start: float, end: float, begin: int, steps: int) -> Schedule:
    """Changes linearly from `start` to `end` in `steps` steps, from step `begin` on."""
    return optax.linear_schedule(start, end, steps, begin)


def cosine(start: float, end: float, begin: int, steps: int) -> Schedule:
    """As :func:`linear`, along half a cosine wave."""
    ramp = optax.linear_schedule(0.0, 1.0, steps, begin)
    return lambda step: (
        start + (end - start) * 0.5 * (1 - jnp.cos(math.pi * ramp(step)))
    )


def sigmoid(start: float, end: float, begin: int, steps: int) -> Schedule:
    """As :func:`linear`, along a logistic curve: 1 / (1 + exp(6 - 12 r))."""
    ramp = optax.linear_schedule(0.0, 1.0, steps, begin)
    return lambda step: start + (end - start) * jax.nn.sigmoid(12 * ramp(step) - 6)


def cyclic(period: int, begin: int = 0) -> Schedule:
    """Rises from 0 to 1 along a cosine and starts again, every `period` steps."""
    if period < 1:
        raise ValueError("its period must be at least 1")

    def factor(step: jax.Array) -> jax.Array:
        phase = jnp.mod(jnp.maximum(step - begin, 0), period) / period
        return 0.5 * (1 - jnp.cos(math.pi * phase))

    return factor


_SCHEDULES = {f.__name__: f for f in (linear, cosine, sigmoid, cyclic)}


def scheduled(
    schedules: Mapping[str, Sequence], hyper: Mapping[str, Any], step: jax.Array
) -> dict[str, Any]:
    """Returns the hyperparameters at `step`; `schedules` are ``train.schedules``."""
    return {
        name: value * create(name, schedules[name])(step)
        if name in schedules
        else value
        for name, value in hyper.items()
    }


def create(name: str, spec: Sequence) -> Schedule:
    """Returns the schedule that a config gives for the hyperparameter `name`."""
    field = f"train.schedules.{name}"
    if isinstance(spec, str) or not spec:
        raise ValueError(
            f"config: `{field}` must be a tuple, the name of a schedule and its "
            f"arguments, got {spec!r}."
        )
    kind, *arguments = spec
    if kind not in _SCHEDULES:
        raise unknown_name(f"config: `{field}`", "schedule", kind, _SCHEDULES)
    numbers = all(
        isinstance(a, int | float) and math.isfinite(a) and not isinstance(a, bool)
        for a in arguments
    )
    try:
        if not numbers:
            raise TypeError("its arguments must be finite numbers")
        return _SCHEDULES[kind](*arguments)
    except (TypeError, ValueError) as error:
        raise ValueError(f"config: `{field}`: {error}, got {spec}.") from None
