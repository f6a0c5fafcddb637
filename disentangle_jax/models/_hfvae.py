"""The MLPs of HFVAE ("Structured Disentangled Representations")."""

import itertools
import math
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.models import _layers
from disentangle_jax.types import Posterior


def category_probabilities(logits: jax.Array, discrete: Sequence[int]) -> jax.Array:
    """Softmax of each discrete variable's part of ``[B, M]``.

    Args:
      logits: ``[B, M]``.
      discrete: number of categories of each variable, M together.
    """
    ends = list(itertools.accumulate(discrete))[:-1]
    parts = jnp.split(logits, ends, axis=-1)
    return jnp.concatenate([jax.nn.softmax(p, axis=-1) for p in parts], axis=-1)


# Values of the discrete variables, or what makes them of their logits.
Discrete = jax.Array | Callable[[jax.Array], jax.Array] | None


def discrete_values(
    given: Discrete, logits: jax.Array, discrete: Sequence[int]
) -> jax.Array:
    """Returns ``[B, M]`` values of the discrete variables: see ``encode``."""
    if given is None:
        return category_probabilities(logits, discrete)
    return given(logits) if callable(given) else given


def check_discrete(discrete: Sequence[int]) -> tuple[int, ...]:
    """Returns numbers of categories as a tuple, or raises where one is below 2."""
    if any(n < 2 for n in discrete):
        raise ValueError(
            "models.create: `discrete` must hold the number of categories, at least 2, "
            f"of each discrete variable, got {tuple(discrete)}."
        )
    return tuple(discrete)


class HierarchicalMLP(nn.Module):
    """Continuous and Concrete variables from one MLP, the former given the latter.

    Hidden layers `widths` see the image and give the logits of the discrete variables;
    means and log-standard-deviations each come from their own hidden layer on these
    features and the discrete variables. The decoder mirrors it. Widths for MNIST are
    the authors' public example; those for 64 px (two layers of 1200, a head of 400,
    tanh in the decoder) follow the fully connected network of the beta-VAE line, since
    the paper's appendix is not public.

    The latent vector of ``decode`` is ``[B, D + M]``: the D continuous variables, then
    a (relaxed) one-hot vector for each discrete variable, M numbers together. The
    elements that `latent_groups` divides are the D continuous ones and, one each, the
    discrete ones.

    Attributes:
      image_shape: ``(H, W, C)``.
      latent_dim: D.
      discrete: number of categories of each discrete variable; may be empty.
      groups: sizes of the groups of continuous variables, which add up to D.
      widths: hidden layers that see the image.
      head_width: hidden layer of each head, and the first of the decoder.
      nonlinearity: that of the encoder, by name.
      decoder_nonlinearity: that of the decoder, by name.
      initializer: its name.
      dtype: dtype of the arithmetic; parameters and results are float32.
    """

    image_shape: tuple[int, int, int]
    latent_dim: int
    discrete: tuple[int, ...]
    groups: tuple[int, ...]
    widths: tuple[int, ...]
    head_width: int
    nonlinearity: str
    decoder_nonlinearity: str
    initializer: str
    dtype: jnp.dtype

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Groups of elements: the continuous ones, then one per discrete variable."""
        return self.groups + (1,) * len(self.discrete)

    def setup(self):
        def mlp(nonlinearity, *widths):
            return _layers.MLP(widths, nonlinearity, self.initializer, self.dtype)

        relu, pixels = self.nonlinearity, math.prod(self.image_shape)
        self.features = mlp(relu, *self.widths)
        if self.discrete:
            self.logits = _layers.Dense(
                sum(self.discrete), self.initializer, dtype=self.dtype
            )
        self.mean = mlp(relu, self.head_width, self.latent_dim)
        self.log_std = mlp(relu, self.head_width, self.latent_dim)
        self.decoder = mlp(
            self.decoder_nonlinearity, self.head_width, *self.widths[::-1], pixels
        )

    def encode(
        self, x: jax.Array, *, discrete: Discrete = None, train: bool = False
    ) -> Posterior:
        """Images to means, log-variances ``[B, D]`` and logits ``[B, M]``.

        Args:
          x: ``[B, H, W, C]`` in [0, 1].
          discrete: ``[B, M]`` values of the discrete variables on which the continuous
            ones depend: a Concrete draw in training, one-hot labels where observed; or
            a function that makes them of the logits; None for the probabilities that
            the logits give.
          train: no layer behaves differently in training.
        """
        del train
        activate = _layers.nonlinearity(self.nonlinearity)
        h = activate(self.features(x.reshape(x.shape[0], -1)))
        logits = None
        if self.discrete:
            logits = self.logits(h).astype(jnp.float32)
            classes = discrete_values(discrete, logits, self.discrete)
            h = jnp.concatenate([classes.astype(h.dtype), h], axis=-1)
        mean = self.mean(h).astype(jnp.float32)
        return Posterior(mean, 2 * self.log_std(h).astype(jnp.float32), logits)

    def probabilities(self, logits: jax.Array) -> jax.Array:
        """Softmax of each discrete variable's part of ``[B, M]``."""
        return category_probabilities(logits, self.discrete)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, D + M]`` to image logits ``[B, H, W, C]``."""
        del train
        return self.decoder(z).astype(jnp.float32).reshape(-1, *self.image_shape)

    def __call__(self, x: jax.Array, *, train: bool = False) -> jax.Array:
        """Image logits of the posterior means and probabilities."""
        posterior = self.encode(x, train=train)
        z = posterior.mean
        if self.discrete:
            classes = category_probabilities(posterior.logits, self.discrete)
            z = jnp.concatenate([z, classes], axis=-1)
        return self.decode(z, train=train)


def hfvae_mlp(
    image_shape: tuple[int, int, int],
    *,
    latent_dim: int = 10,
    discrete: Sequence[int] = (10,),
    groups: Sequence[int] | None = None,
    widths: Sequence[int] | None = None,
    head_width: int | None = None,
    nonlinearity: str = "relu",
    decoder_nonlinearity: str | None = None,
    initializer: str = "torch",
    dtype: jnp.dtype = jnp.float32,
) -> HierarchicalMLP:
    """Builds `HierarchicalMLP`, sizes as stated there.

    The continuous variables are one group beside the discrete ones; where there are no
    discrete ones each is a group, i.e. a variable, of its own.
    """
    if groups is None:
        groups = (latent_dim,) if discrete else (1,) * latent_dim
    groups = tuple(groups)
    if sum(groups) != latent_dim:
        raise ValueError(
            f"models.create: `groups` must add up to `latent_dim` = {latent_dim}, got "
            f"{groups}."
        )
    large = image_shape[0] >= 64
    return HierarchicalMLP(
        image_shape=image_shape,
        latent_dim=latent_dim,
        discrete=check_discrete(discrete),
        groups=groups,
        widths=tuple(widths or ((1200, 1200) if large else (400,))),
        head_width=head_width or (400 if large else 200),
        nonlinearity=nonlinearity,
        decoder_nonlinearity=decoder_nonlinearity or ("tanh" if large else "relu"),
        initializer=initializer,
        dtype=dtype,
    )
