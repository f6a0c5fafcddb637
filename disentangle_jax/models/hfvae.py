"""The MLPs of HFVAE ("Structured Disentangled Representations")."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from disentangle_jax.models import layers
from disentangle_jax.models.definitions import define
from disentangle_jax.models.network import (
    Discrete,
    Network,
    category_probabilities,
    check_discrete,
    join_discrete,
)
from disentangle_jax.types import Posterior


class HierarchicalMLP(Network):
    """Continuous variables that depend on Concrete (discrete) ones, from one MLP.

    Hidden layers `widths` see the image and give the logits of the discrete variables.
    Means and log-standard-deviations each have a hidden layer of their own, on these
    features and the discrete variables. The decoder mirrors the encoder. Widths for
    MNIST are those of the authors' public example. The paper's appendix is not public,
    so those for 64 px (two layers of 1200, a head of 400, tanh in the decoder) follow
    the fully connected network of beta-VAE.

    `latent_groups` divides the D continuous variables into groups, followed by one
    group for each discrete variable.

    Attributes:
      discrete: number of categories of each discrete variable; may be empty.
      groups: sizes of the groups of continuous variables; they add up to D.
      widths: units of the hidden layers that see the image.
      head_width: units of each head's hidden layer and of the decoder's first.
      nonlinearity: name of the encoder's nonlinearity.
      decoder_nonlinearity: name of the decoder's nonlinearity.
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
        """Groups of continuous variables, then one group per discrete variable."""
        return self.groups + (1,) * len(self.discrete)

    def setup(self):
        def mlp(nonlinearity, *widths):
            return layers.MLP(widths, nonlinearity, self.initializer, self.dtype)

        relu, pixels = self.nonlinearity, math.prod(self.image_shape)
        self.features = mlp(relu, *self.widths)
        if self.discrete:
            self.logits = layers.Dense(
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
            ones depend, e.g. a Concrete sample in training or observed one-hot labels;
            or a function of the logits that returns them; None for the probabilities
            of the logits.
          train: has no effect.
        """
        del train
        activate = layers.nonlinearity(self.nonlinearity)
        h = activate(self.features(x.reshape(x.shape[0], -1)))
        logits = None
        if self.discrete:
            logits = self.logits(h).astype(jnp.float32)
            h = join_discrete(h, discrete, logits, self.discrete)
        mean = self.mean(h).astype(jnp.float32)
        return Posterior(mean, 2 * self.log_std(h).astype(jnp.float32), logits)

    def probabilities(self, logits: jax.Array) -> jax.Array:
        """Applies the softmax to each discrete variable's part of ``[B, M]``."""
        return category_probabilities(logits, self.discrete)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, D + M]`` to image logits ``[B, H, W, C]``."""
        del train
        return self.decoder(z).astype(jnp.float32).reshape(-1, *self.image_shape)


@define(
    "hfvae-mlp", reference="Esmaeili et al., Structured Disentangled Representations"
)
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
    """Builds `HierarchicalMLP` with the sizes stated there.

    By default the continuous variables are one group if there are discrete ones, and
    one group each otherwise.
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
