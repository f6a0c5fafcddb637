"""The interface of every network, and variables that are discrete."""

import itertools
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.types import Posterior

# Values of the discrete variables, or a function that computes them from their logits.
Discrete = jax.Array | Callable[[jax.Array], jax.Array] | None


class Network(nn.Module):
    """Base class of the networks that `models.create` builds.

    A subclass has the field ``latent_dim`` (D) and the methods
    ``encode(x, *, train=False) -> Posterior`` and
    ``decode(z, *, train=False) -> logits``. If it has discrete variables, its field
    ``discrete`` holds their numbers of categories, and `decode` takes the D continuous
    values and then one (relaxed) one-hot vector per discrete variable, ``[B, D + M]``.

    The library's networks also share the fields ``image_shape`` (``(H, W, C)``),
    ``initializer`` (a name of `initializers`) and ``dtype``, the dtype of the
    arithmetic; parameters and results are always float32.
    """

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Sizes of the contiguous variables of the latent vector; 1 each by default."""
        return (1,) * self.latent_dim

    @property
    def pixel_blocks(self) -> int:
        """Side of the blocks in which `decode` computes images on TPUs; 0 for none.

        The loss is faster on the same blocks; see ``losses.Likelihood.on_blocks``.
        """
        return 0

    def __call__(self, x: jax.Array, *, train: bool = False) -> jax.Array:
        """Logits of the posterior mean and class probabilities; ``init`` calls it."""
        posterior = self.encode(x, train=train)
        z = posterior.mean
        if posterior.logits is not None:
            classes = category_probabilities(posterior.logits, self.discrete)
            z = jnp.concatenate([z, classes], axis=-1)
        return self.decode(z, train=train)


def split_posterior(heads: jax.Array) -> Posterior:
    """Takes the halves of ``[B, 2 D]`` as means and log-variances."""
    return Posterior(*jnp.split(heads, 2, axis=-1))


def category_probabilities(logits: jax.Array, discrete: Sequence[int]) -> jax.Array:
    """Applies the softmax to the logits of each discrete variable.

    Args:
      logits: ``[B, M]``.
      discrete: number of categories of each variable; they add up to M.
    """
    ends = list(itertools.accumulate(discrete))[:-1]
    parts = jnp.split(logits, ends, axis=-1)
    return jnp.concatenate([jax.nn.softmax(p, axis=-1) for p in parts], axis=-1)


def join_discrete(
    features: jax.Array, given: Discrete, logits: jax.Array, discrete: Sequence[int]
) -> jax.Array:
    """Puts the values of the discrete variables in front of features ``[B, F]``.

    Args:
      features: ``[B, F]``.
      given: ``[B, M]`` values, a function of the logits that returns them, or None
        for the probabilities of the logits.
      logits: ``[B, M]``.
      discrete: number of categories of each variable.
    """
    if given is None:
        given = category_probabilities(logits, discrete)
    elif callable(given):
        given = given(logits)
    return jnp.concatenate([given.astype(features.dtype), features], axis=-1)


def check_discrete(discrete: Sequence[int]) -> tuple[int, ...]:
    """Returns the numbers of categories as a tuple; raises if one is below 2."""
    if any(n < 2 for n in discrete):
        raise ValueError(
            "models.create: `discrete` must hold the number of categories, at least 2, "
            f"of each discrete variable, got {tuple(discrete)}."
        )
    return tuple(discrete)
