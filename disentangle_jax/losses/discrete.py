"""Discrete variables of a code, and the densities that regularisers give them."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.types import Scalar, unknown_name


class Concrete(NamedTuple):
    r"""Draws of a Concrete variable, and their posteriors (a pytree).

    Attributes:
      log_y: ``[B, K]`` logarithms of the draws, from
        :func:`disentangle_jax.distributions.exp_concrete_sample`.
      logits: ``[B, K]`` unnormalised log-probabilities.
      temperature: :math:`\lambda > 0`.
    """

    log_y: jax.Array
    logits: jax.Array
    temperature: Scalar

    def log_posterior(self) -> jax.Array:
        """Log-density ``[B]`` of each draw under its own posterior."""
        return distributions.exp_concrete_log_prob(*self)

    def log_prior(self) -> jax.Array:
        """Log-density ``[B]`` of each draw under a uniform Concrete distribution."""
        return self._replace(logits=jnp.zeros_like(self.logits)).log_posterior()


class Categorical(NamedTuple):
    r"""A categorical variable, whose values are weighted instead of drawn (a pytree).

    Every log-density of a code with such a variable is the weighted mean over its
    values. One-hot weights stand for a draw; the probabilities of the posterior give
    the exact expectation. The weights of several variables multiply.

    Attributes:
      weights: ``[B, K]`` weights of the values; each row adds up to 1.
      logits: ``[B, K]`` unnormalised log-probabilities of the posteriors.
    """

    weights: jax.Array
    logits: jax.Array

    def log_posterior(self) -> jax.Array:
        """Mean log-probability ``[B]`` under the example's own posterior."""
        return (self.weights * jax.nn.log_softmax(self.logits)).sum(axis=1)

    def log_prior(self) -> jax.Array:
        """Log-probability ``[B]`` under the uniform distribution."""
        categories = self.weights.shape[1]
        return jnp.full_like(self.weights[:, 0], -math.log(categories))


Discrete = Concrete | Categorical


def _at_the_largest(draws: Concrete) -> Categorical:
    logits = draws.logits
    largest = jax.nn.one_hot(
        draws.log_y.argmax(axis=1), logits.shape[1], dtype=logits.dtype
    )
    return Categorical(largest, logits)


def _expected(draws: Concrete) -> Categorical:
    return Categorical(jax.nn.softmax(draws.logits), draws.logits)


CONCRETE_DENSITIES: dict[str, Callable[[Concrete], Discrete]] = {
    "relaxed": lambda draws: draws,
    "pmf": _at_the_largest,
    "exact": _expected,
    "exact_stopped": _expected,
}


def with_density(concrete: Sequence[Concrete], density: str) -> list[Discrete]:
    """Returns Concrete variables with the density that regularisers shall use.

    Couples the batch: no.

    Args:
      concrete: draws of Concrete variables.
      density: ``concrete_density`` of :func:`hfvae`, which describes the choices.

    Returns:
      The draws themselves for ``"relaxed"``, else :class:`Categorical` variables.
    """
    if density not in CONCRETE_DENSITIES:
        raise unknown_name("losses", "concrete_density", density, CONCRETE_DENSITIES)
    return [CONCRETE_DENSITIES[density](draws) for draws in concrete]


def joint_categories(arrays: Sequence[jax.Array], operation: Callable) -> jax.Array:
    """``[N, M]`` results for every combination of the columns of ``[N, K]`` arrays."""

    def combine(first: jax.Array, second: jax.Array) -> jax.Array:
        every = operation(first[:, :, None], second[:, None, :])
        return every.reshape(len(first), -1)

    return functools.reduce(combine, arrays)


def no_pairs(z: jax.Array, columns: int) -> jax.Array:
    """Zeros ``[R, B]``, the initial value of a loop over elements.

    They are computed from the codes, so that ``shard_map`` knows that they vary over
    devices, as the values that the loop adds do.
    """
    zeros = jnp.where(jnp.zeros((len(z), 1), bool), z[:, :1], 0.0)
    return jnp.broadcast_to(zeros, (len(z), columns))


def concrete_pairs(draws: Concrete) -> jax.Array:
    """``[R, B]`` log-density of each of R draws under each of B posteriors.

    The result is that of :func:`distributions.exp_concrete_log_prob` for all pairs. The
    loop over categories avoids an array of all pairs and categories.
    """
    log_y, logits, temperature = draws
    categories = logits.shape[1]

    def score(category: tuple[jax.Array, jax.Array]) -> jax.Array:
        log_y, logits = category
        return logits[None, :] - temperature * log_y[:, None]

    every, start = (log_y.T, logits.T), no_pairs(log_y, len(logits))
    highest, _ = jax.lax.scan(
        lambda high, one: (jnp.maximum(high, score(one)), None),
        *jax.lax.stop_gradient((start - jnp.inf, every)),
    )
    total, _ = jax.lax.scan(
        jax.checkpoint(
            lambda total, one: (total + jnp.exp(score(one) - highest), None),
            prevent_cse=False,
        ),
        start,
        every,
    )
    return (
        math.lgamma(categories)
        + (categories - 1) * jnp.log(temperature)
        + logits.sum(axis=1)[None, :]
        - temperature * log_y.sum(axis=1)[:, None]
        - categories * (jnp.log(total) + highest)
    )
