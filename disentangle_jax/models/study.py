"""Networks of "Challenging Common Assumptions": `conv64` and `fc1200`."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax import types
from disentangle_jax.models import blocks, layers
from disentangle_jax.models.definitions import define
from disentangle_jax.models.network import (
    Discrete,
    Network,
    check_discrete,
    join_discrete,
    split_posterior,
)
from disentangle_jax.types import Posterior


class _Variant(NamedTuple):
    """A published version of `Conv64`; ``convs`` are (channels, kernel, padding)."""

    convs: tuple[tuple[int, int, int], ...]
    hidden: tuple[int, ...]
    decoder_channels: tuple[int, int, int]
    initializer: str


_VARIANTS = {
    # disentanglement_lib, the study's code: the last two kernels are 2×2.
    "dlib": _Variant(
        ((32, 4, 1), (32, 4, 1), (64, 2, 0), (64, 2, 0)), (256,), (64, 32, 32), "glorot"
    ),
    # Burgess et al. 2018: 32 channels in all layers and two hidden layers of 256.
    "burgess": _Variant(((32, 4, 1),) * 4, (256, 256), (32, 32, 32), "glorot"),
    # Michlo et al.: padding 2, so 64 px become 33, 17, 9 and 5.
    "michlo": _Variant(
        ((32, 4, 2), (32, 4, 2), (64, 4, 2), (64, 4, 2)),
        (256,),
        (64, 32, 32),
        "xavier_normal",
    ),
}


def _halvings(image_shape: tuple[int, int, int]) -> int:
    return layers.halvings(min(image_shape[:2]), 4, smallest=4)


def _in_blocks(image_shape: tuple[int, int, int], channel_scale: float) -> bool:
    """Returns whether the layers next to the image are pairs of `blocks`.

    Only large images and few channels gain by it.
    """
    return min(image_shape[:2]) >= 64 and round(channel_scale * 32) <= 32


class Conv64(Network):
    """Four strided convolutions and four transposed ones.

    With discrete variables, another head of the encoder gives their logits, and the
    heads of the continuous variables see the features and the values of the discrete
    ones, as in `HierarchicalMLP`.

    Attributes:
      image_shape: ``(H, W, C)``. Images of 64 px and more are halved four times.
        Smaller ones are halved less often, so that the smallest feature map keeps its
        published 4×4: the convolutions nearest to it then have stride 1.
      discrete: number of categories of each discrete variable; may be empty.
      kernel_variant: ``"dlib"``, ``"burgess"`` or ``"michlo"``.
      stochastic: whether the encoder gives log-variances.
      spatial_broadcast: whether the decoder is that of Watters et al. 2019: latents
        tiled over the image, its coordinates, then convolutions with stride 1.
      channel_scale: multiplies the number of channels of each convolution.
      nonlinearity: name of the nonlinearity.
      remat: whether to recompute encoder and decoder in the backward pass.
    """

    image_shape: tuple[int, int, int]
    latent_dim: int
    discrete: tuple[int, ...]
    kernel_variant: str
    stochastic: bool
    spatial_broadcast: bool
    channel_scale: float
    nonlinearity: str
    initializer: str
    dtype: jnp.dtype
    remat: bool

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """One group per latent; with discrete variables, one for all continuous."""
        if self.discrete:
            return (self.latent_dim,) + (1,) * len(self.discrete)
        return (1,) * self.latent_dim

    @property
    def pixel_blocks(self) -> int:
        """Side of the blocks in which `decode` computes images on TPUs."""
        paired = _in_blocks(self.image_shape, self.channel_scale)
        return 4 if paired and not self.spatial_broadcast else 0

    def setup(self) -> None:
        def wrap(module: type[nn.Module], **options: Any) -> type[nn.Module]:
            return nn.remat(module, **options) if self.remat else module

        settings = dict(
            image_shape=self.image_shape,
            variant=_VARIANTS[self.kernel_variant],
            channel_scale=self.channel_scale,
            nonlinearity=self.nonlinearity,
            initializer=self.initializer,
            dtype=self.dtype,
        )
        # The function that makes the discrete values is no array: static for `remat`.
        self.encoder = wrap(_Encoder, static_argnums=(2,))(
            latent_dim=self.latent_dim,
            discrete=self.discrete,
            stochastic=self.stochastic,
            **settings,
        )
        decoder = _BroadcastDecoder if self.spatial_broadcast else _Decoder
        self.decoder = wrap(decoder)(**settings)

    def encode(
        self, x: jax.Array, *, discrete: Discrete = None, train: bool = False
    ) -> Posterior:
        """Images to means and log-variances ``[B, D]``, and logits ``[B, M]``.

        Args:
          x: ``[B, H, W, C]`` in [0, 1].
          discrete: ``[B, M]`` values of the discrete variables, or a function of the
            logits that returns them; None for the probabilities of the logits.
          train: has no effect.
        """
        del train
        makes = discrete
        if discrete is not None and not callable(discrete):
            makes = lambda logits: discrete  # noqa: E731
        return self.encoder(x, makes)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, D + M]`` to image logits ``[B, H, W, C]``."""
        del train
        return self.decoder(z)


class _Part(nn.Module):
    """Fields and layers that encoder and decoders share."""

    image_shape: tuple[int, int, int]
    variant: _Variant
    channel_scale: float
    nonlinearity: str
    initializer: str
    dtype: jnp.dtype

    @property
    def halvings(self) -> int:
        return _halvings(self.image_shape)

    @property
    def paired(self) -> bool:
        """Whether the two layers next to the image are computed as a pair.

        A network that is being initialised runs layer by layer, because the layers
        make their parameters.
        """
        paired = _in_blocks(self.image_shape, self.channel_scale)
        return paired and not self.is_initializing()

    def activate(self, x: jax.Array) -> jax.Array:
        return layers.nonlinearity(self.nonlinearity)(x)

    def scaled(self, channels: int) -> int:
        return round(self.channel_scale * channels)

    def dense(self, features: int, name: str) -> layers.Dense:
        return layers.Dense(features, self.initializer, dtype=self.dtype, name=name)

    def hidden(self, x: jax.Array, widths: Sequence[int]) -> jax.Array:
        for i, width in enumerate(widths, start=1):
            x = self.activate(self.dense(width, f"dense_{i}")(x))
        return x

    def convolve(
        self, x: jax.Array, channels: Sequence[int], *, doubled: int
    ) -> jax.Array:
        """Applies 4×4 layers, with a nonlinearity between them and none at the end.

        The last `doubled` layers are transposed convolutions, which double the size.
        """
        convs = []
        for i, features in enumerate(channels, start=1):
            doubles = i > len(channels) - doubled
            layer = layers.ConvTranspose if doubles else layers.Conv
            convs.append(
                layer(
                    features,
                    4,
                    padding=(1, 1) if doubles else layers.same_padding(4),
                    initializer=self.initializer,
                    dtype=self.dtype,
                    name=f"conv_{i}",
                )
            )
        if pair := convs[-2:] if self.paired and doubled > 1 else []:
            convs = convs[:-2]
        for i, conv in enumerate(convs):
            x = conv(self.activate(x) if i else x)
        if pair:
            first, second = map(layers.weights, pair)
            x = blocks.conv_transpose_pair(
                self.activate(x), first, second, self.activate
            )
        return x.astype(jnp.float32)


class _Encoder(_Part):
    latent_dim: int
    discrete: tuple[int, ...]
    stochastic: bool

    @nn.compact
    def __call__(self, x: jax.Array, discrete: Discrete) -> Posterior:
        convs = []
        for i, (channels, kernel, padding) in enumerate(self.variant.convs, start=1):
            halves = i <= self.halvings
            convs.append(
                layers.Conv(
                    self.scaled(channels),
                    kernel,
                    stride=2 if halves else 1,
                    padding=(padding,) * 2 if halves else layers.same_padding(kernel),
                    initializer=self.initializer,
                    dtype=self.dtype,
                    name=f"conv_{i}",
                )
            )
        if self.paired:
            pair, convs = convs[:2], convs[2:]
            padding = pair[0].padding[0]
            first, second = map(layers.weights, pair)
            x = x.astype(self.dtype)
            x = blocks.conv_pair(x, first, second, self.activate, padding)
            x = self.activate(x)
        for conv in convs:
            x = self.activate(conv(x))
        x = self.hidden(x.reshape(x.shape[0], -1), self.variant.hidden)

        def head(name: str, width: int) -> jax.Array:
            return self.dense(width, name)(x).astype(jnp.float32)

        logits = None
        if self.discrete:
            logits = head("logits", sum(self.discrete))
            x = join_discrete(x, discrete, logits, self.discrete)
        mean = head("mean", self.latent_dim)
        log_var = head("log_var", self.latent_dim) if self.stochastic else None
        return Posterior(mean, log_var, logits)


class _Decoder(_Part):
    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        height, width = (side >> self.halvings for side in self.image_shape[:2])
        # The first feature map has as many channels as the encoder's last one.
        first = self.scaled(self.variant.convs[-1][0])
        x = self.hidden(z, (*self.variant.hidden, height * width * first))
        x = x.reshape(-1, height, width, first)
        hidden = map(self.scaled, self.variant.decoder_channels)
        channels = (*hidden, self.image_shape[2])
        return self.convolve(x, channels, doubled=self.halvings)


class _BroadcastDecoder(_Part):
    """Watters et al. 2019: tile the latents, add coordinates in [-1, 1], convolve."""

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        height, width, colours = self.image_shape
        plane = (z.shape[0], height, width)
        rows = jnp.linspace(-1.0, 1.0, height, dtype=self.dtype)[None, :, None, None]
        columns = jnp.linspace(-1.0, 1.0, width, dtype=self.dtype)[None, None, :, None]
        tiled = z.astype(self.dtype)[:, None, None, :]
        x = jnp.concatenate(
            [
                jnp.broadcast_to(tiled, (*plane, z.shape[-1])),
                jnp.broadcast_to(rows, (*plane, 1)),
                jnp.broadcast_to(columns, (*plane, 1)),
            ],
            axis=-1,
        )
        hidden = self.scaled(64)
        return self.convolve(x, (hidden, hidden, colours), doubled=0)


class FullyConnected(Network):
    """Two ReLU layers encode and three layers decode; heads are linear.

    Attributes:
      width: units of each hidden layer.
      decoder_nonlinearity: name of the decoder's nonlinearity, tanh in the study.
    """

    image_shape: tuple[int, int, int]
    latent_dim: int
    width: int
    decoder_nonlinearity: str
    initializer: str
    dtype: jnp.dtype

    def setup(self) -> None:
        def mlp(nonlinearity: str, *widths: int) -> layers.MLP:
            return layers.MLP(widths, nonlinearity, self.initializer, self.dtype)

        pixels = math.prod(self.image_shape)
        self.encoder = mlp("relu", self.width, self.width, 2 * self.latent_dim)
        widths = (self.width,) * 3
        self.decoder = mlp(self.decoder_nonlinearity, *widths, pixels)

    def encode(self, x: jax.Array, *, train: bool = False) -> Posterior:
        """Images ``[B, H, W, C]`` in [0, 1] to means and log-variances ``[B, D]``."""
        del train
        heads = self.encoder(x.reshape(x.shape[0], -1))
        return split_posterior(heads.astype(jnp.float32))

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, D]`` to image logits ``[B, H, W, C]``."""
        del train
        return self.decoder(z).astype(jnp.float32).reshape(-1, *self.image_shape)


@define(reference="Locatello et al., Challenging Common Assumptions")
def conv64(
    image_shape: tuple[int, int, int],
    *,
    latent_dim: int = 10,
    discrete: Sequence[int] = (),
    kernel_variant: str = "dlib",
    stochastic: bool = True,
    spatial_broadcast: bool = False,
    channel_scale: float = 1.0,
    nonlinearity: str = "relu",
    initializer: str | None = None,
    dtype: jnp.dtype = jnp.float32,
    remat: bool = False,
) -> Conv64:
    """Builds `Conv64` after checking the sizes."""
    if kernel_variant not in _VARIANTS:
        raise types.unknown_name(
            "models.create", "kernel_variant", kernel_variant, list(_VARIANTS)
        )
    halvings = _halvings(image_shape)
    if not halvings or any(side % (1 << halvings) for side in image_shape[:2]):
        raise ValueError(
            "models.create: `image_shape` must have sides that are multiples of "
            f"{max(2, 1 << halvings)}, and at least 8, for 'conv64', which halves them "
            f"{max(1, halvings)} times, got {image_shape}. Resize or pad the images."
        )
    return Conv64(
        initializer=initializer or _VARIANTS[kernel_variant].initializer,
        image_shape=image_shape,
        latent_dim=latent_dim,
        discrete=check_discrete(discrete),
        kernel_variant=kernel_variant,
        stochastic=stochastic,
        spatial_broadcast=spatial_broadcast,
        channel_scale=channel_scale,
        nonlinearity=nonlinearity,
        dtype=dtype,
        remat=remat,
    )


@define(reference="Locatello et al., Challenging Common Assumptions")
def fc1200(
    image_shape: tuple[int, int, int],
    *,
    latent_dim: int = 10,
    width: int = 1200,
    decoder_nonlinearity: str = "tanh",
    initializer: str = "glorot",
    dtype: jnp.dtype = jnp.float32,
) -> FullyConnected:
    """Builds `FullyConnected`."""
    return FullyConnected(
        image_shape, latent_dim, width, decoder_nonlinearity, initializer, dtype
    )
