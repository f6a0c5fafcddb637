"""The networks of HFVAE ("Structured Disentangled Representations")."""

import math
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
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

    def setup(self) -> None:
        def mlp(nonlinearity: str, *widths: int) -> layers.MLP:
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


class HierarchicalConv(Network):
    """Convolutions with batch norm, for faces at 64 px.

    The network of a co-author's example for CelebA in probtorch's history, not the
    paper's, whose appendix is not public: 4×4 convolutions of stride 2, a hidden layer,
    batch norm after each, and a decoder that mirrors them. That example has Gaussian
    latents alone; discrete variables are joined as in `HierarchicalMLP`.

    Batch statistics are functional state: apply with ``train=True`` and
    ``mutable=["batch_stats"]``. Without `train` the running averages are used.

    Attributes:
      discrete: number of categories of each discrete variable; may be empty.
      channels: of the encoder's convolutions, each of which halves the image.
      width: units of the hidden layer.
    """

    image_shape: tuple[int, int, int]
    latent_dim: int
    discrete: tuple[int, ...]
    channels: tuple[int, ...]
    width: int
    initializer: str
    dtype: jnp.dtype

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """One group per latent; with discrete variables, one for all continuous."""
        if self.discrete:
            return (self.latent_dim,) + (1,) * len(self.discrete)
        return (1,) * self.latent_dim

    def setup(self) -> None:
        def dense(width: int) -> layers.Dense:
            return layers.Dense(width, self.initializer, dtype=self.dtype)

        def conv(
            layer: type[layers.Conv] | type[layers.ConvTranspose],
            width: int,
            **options: Any,
        ) -> layers.Conv | layers.ConvTranspose:
            settings = {"padding": (1, 1), "initializer": self.initializer, **options}
            return layer(width, 4, dtype=self.dtype, **settings)

        self.convs = [conv(layers.Conv, c, stride=2) for c in self.channels]
        self.hidden = dense(self.width)
        if self.discrete:
            self.logits = dense(sum(self.discrete))
        self.mean, self.log_std = dense(self.latent_dim), dense(self.latent_dim)
        self.decoder_hidden = dense(self.width), dense(math.prod(self._smallest))
        outputs = (*self.channels[-2::-1], self.image_shape[2])
        self.transposed = [conv(layers.ConvTranspose, c) for c in outputs]
        count = 2 * len(self.channels) + 2
        self.norms = [
            nn.BatchNorm(momentum=0.9, epsilon=1e-5, dtype=self.dtype)
            for _ in range(count)
        ]

    @property
    def _smallest(self) -> tuple[int, int, int]:
        """Shape of the smallest feature map."""
        height, width = (side >> len(self.channels) for side in self.image_shape[:2])
        return height, width, self.channels[-1]

    def encode(
        self, x: jax.Array, *, discrete: Discrete = None, train: bool = False
    ) -> Posterior:
        """Images to means and log-variances ``[B, D]``, and logits ``[B, M]``.

        Args:
          x: ``[B, H, W, C]`` in [0, 1].
          discrete: as in `HierarchicalMLP.encode`.
          train: whether batch norm uses the statistics of the batch.
        """
        norms = iter(self.norms[: len(self.convs) + 1])
        for conv in self.convs:
            x = layers.relu(next(norms)(conv(x), use_running_average=not train))
        x = self.hidden(x.reshape(x.shape[0], -1))
        h = layers.relu(next(norms)(x, use_running_average=not train))
        logits = None
        if self.discrete:
            logits = self.logits(h).astype(jnp.float32)
            h = join_discrete(h, discrete, logits, self.discrete)
        mean = self.mean(h).astype(jnp.float32)
        return Posterior(mean, 2 * self.log_std(h).astype(jnp.float32), logits)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, D + M]`` to image logits ``[B, H, W, C]``."""
        norms = iter(self.norms[len(self.convs) + 1 :])
        for layer in self.decoder_hidden:
            z = layers.relu(next(norms)(layer(z), use_running_average=not train))
        x = z.reshape(-1, *self._smallest)
        for conv in self.transposed[:-1]:
            x = layers.relu(next(norms)(conv(x), use_running_average=not train))
        return self.transposed[-1](x).astype(jnp.float32)


@define(
    "hfvae-conv",
    reference="a co-author's CelebA example in probtorch (not the paper's network)",
)
def hfvae_conv(
    image_shape: tuple[int, int, int],
    *,
    latent_dim: int = 20,
    discrete: Sequence[int] = (2,),
    channels: Sequence[int] = (64, 128, 128, 256),
    width: int = 512,
    initializer: str = "torch",
    dtype: jnp.dtype = jnp.float32,
) -> HierarchicalConv:
    """Builds `HierarchicalConv` after checking the sizes."""
    multiple = 1 << len(channels)
    if any(side % multiple for side in image_shape[:2]):
        raise ValueError(
            "models.create: `image_shape` must have sides that are multiples of "
            f"{multiple} for 'hfvae-conv', got {image_shape}. Resize or pad the images."
        )
    return HierarchicalConv(
        image_shape=image_shape,
        latent_dim=latent_dim,
        discrete=check_discrete(discrete),
        channels=tuple(channels),
        width=width,
        initializer=initializer,
        dtype=dtype,
    )
