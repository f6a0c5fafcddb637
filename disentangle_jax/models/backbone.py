"""The convolution blocks that the networks of "Structure by Architecture" share."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.models import layers
from disentangle_jax.models.normalization import central_pixel

# Convolutions after which the encoder halves, and before which the decoder doubles,
# the resolution at the published image sizes (counted from 1).
POOLED = {12: (1, 4, 7, 10, 12), 16: (1, 4, 7, 10, 13, 16)}
UPSAMPLED = {12: (2, 4, 7, 10, 12), 16: (1, 4, 7, 10, 13, 16)}


class Layout(NamedTuple):
    """The latent scheme of a network.

    Attributes:
      name: name of the network.
      scheme: ``"hourglass"``, ``"structural"``, ``"adaptive"`` or ``"ladder"``.
      variables: number of Str-Tfm layers or rungs; 0 for the hourglass.
      stochastic: whether the encoder gives log-variances.
    """

    name: str
    scheme: str
    variables: int = 0
    stochastic: bool = False


@dataclasses.dataclass(frozen=True)
class Backbone:
    """Settings that the modules of one autoencoder share.

    Attributes:
      layout: the latent scheme.
      image_shape: ``(H, W, C)``.
      blocks: 12 or 16.
      latent_dim: D.
      channels: features of each convolution.
      norm_groups: number of channel groups of GroupNorm, which removes the mean of each
        group. Narrow networks may train better with fewer groups.
      resampling: ``"pool"`` (max-pooling and bilinear upsampling) or ``"stride"``
        (strided and transposed convolutions, as in the robot-finger runs).
      nonlinearity: name of the nonlinearity.
      initializer: name of the initialiser.
      dtype: dtype of the arithmetic; parameters and results are float32.
      remat: whether to recompute each block in the backward pass to save memory.
    """

    layout: Layout
    image_shape: tuple[int, int, int]
    blocks: int
    latent_dim: int
    channels: int
    norm_groups: int
    resampling: str
    nonlinearity: str
    initializer: str
    dtype: jnp.dtype
    remat: bool

    @property
    def halvings(self) -> int:
        """How often the encoder halves the resolution.

        As often as published (5 or 6 times), but for smaller images one time less for
        each halving of the image, so that the smallest feature map stays 2×2: on 1×1
        maps group normalisation would remove most of what they hold.
        """
        published = len(POOLED[self.blocks])
        return layers.halvings(self.image_shape[0], published, smallest=2)

    @property
    def pooled(self) -> tuple[int, ...]:
        """Convolutions after which the encoder halves the resolution."""
        return POOLED[self.blocks][: self.halvings]

    @property
    def upsampled(self) -> tuple[int, ...]:
        """Convolutions before which the decoder doubles the resolution."""
        return UPSAMPLED[self.blocks][-self.halvings :]

    @property
    def coarsest(self) -> int:
        """Side of the smallest feature map: 2 at the published image sizes."""
        return self.image_shape[0] >> self.halvings

    @property
    def rung_features(self) -> int:
        """Channels that a generative rung of the ladder adds: 16 of 64, 32 of 128."""
        return self.channels // 4 if self.layout.scheme == "ladder" else 0

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Sizes of the contiguous variables of the latent vector."""
        if self.layout.scheme in ("structural", "ladder"):
            variables = self.layout.variables
            return (self.latent_dim // variables,) * variables
        return (1,) * self.latent_dim

    def mlp(self, widths: Sequence[int], name: str) -> layers.MLP:
        return layers.MLP(
            tuple(widths), self.nonlinearity, self.initializer, self.dtype, name=name
        )

    def block(
        self,
        index: int,
        features: int,
        *,
        resample: str | None,
        kernel_size: int = 3,
        last: bool = False,
    ) -> "Block":
        module = nn.remat(Block) if self.remat else Block
        return module(
            features,
            self.norm_groups,
            kernel_size,
            resample,
            last,
            self.nonlinearity,
            self.initializer,
            self.dtype,
            name=f"block_{index}",
        )


class Block(nn.Module):
    """A block of the backbone: convolution, resampling, GroupNorm, nonlinearity.

    Attributes:
      features: output channels.
      norm_groups: number of channel groups of GroupNorm.
      kernel_size: side of the kernel; padding keeps the size.
      resample: None; ``"pool"`` (2×2 max after the convolution) or ``"stride"`` to
        halve; ``"upsample"`` (bilinear 2× before the convolution) or ``"transpose"``
        (4×4 transposed convolution with stride 2) to double.
      last: whether this is the output layer, without norm and nonlinearity.
      nonlinearity: name of the nonlinearity.
      initializer: name of the initialiser.
      dtype: dtype of the arithmetic.
    """

    features: int
    norm_groups: int
    kernel_size: int
    resample: str | None
    last: bool
    nonlinearity: str
    initializer: str
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        conv = self._conv()

        def resampled(y: jax.Array) -> jax.Array:
            return layers.max_pool(y) if self.resample == "pool" else y

        if self.last:
            return resampled(conv(x))
        # The norm adds the bias, with which pooling commutes.
        y = resampled(conv(x, add_bias=False))
        kernel, bias = layers.weights(conv)
        pixel = central_pixel(lambda *a: resampled(conv.convolve(*a)), x, kernel)
        norm = layers.GroupNorm(self.norm_groups, dtype=self.dtype, name="norm")
        return layers.nonlinearity(self.nonlinearity)(norm(y, offset=bias, pixel=pixel))

    def _conv(self) -> layers.Conv | layers.ConvTranspose:
        settings: dict[str, Any] = {
            "initializer": self.initializer,
            "dtype": self.dtype,
            "name": "conv",
        }
        if self.resample == "transpose":
            return layers.ConvTranspose(self.features, 4, padding=(1, 1), **settings)
        return layers.Conv(
            self.features,
            self.kernel_size,
            stride=2 if self.resample == "stride" else 1,
            padding=(self.kernel_size // 2, self.kernel_size // 2),
            upsampled=self.resample == "upsample",
            **settings,
        )
