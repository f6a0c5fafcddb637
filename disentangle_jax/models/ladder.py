"""The small network of the original variational ladder autoencoder (Zhao et al.)."""

import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.models import layers
from disentangle_jax.models.definitions import define
from disentangle_jax.models.network import Network
from disentangle_jax.types import Posterior


class OriginalLadder(Network):
    """Three rungs for 28 px; each encoder rung has its own layers.

    Unlike the ladder on SAE's backbone, rungs do not share pooled features: rung 1
    convolves the image, rungs 2 and 3 are dense networks on the main path. In the
    decoder, rung outputs join the main path by a gated sum whose gates start at 0.1.
    All layers have batch norm and LeakyReLU of slope 0.1: the published decoder calls
    it ReLU, but its helper leaks too. The standard deviation is
    :math:`\\sigma(h) + 0.001`.

    The latent vector holds the rungs, deepest first. Batch statistics are functional
    state: apply with ``train=True`` and ``mutable=["batch_stats"]``.

    Attributes:
      image_shape: ``(H, W, C)``, the sides multiples of 4.
      latent_dim: D, divided equally among the three rungs.
      channels: features of the two convolutions.
      width: units of each dense layer.
    """

    image_shape: tuple[int, int, int]
    latent_dim: int
    channels: tuple[int, int]
    width: int
    initializer: str
    dtype: jnp.dtype

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """One variable per rung, the deepest first."""
        return (self.latent_dim // 3,) * 3

    def setup(self) -> None:
        settings: dict[str, Any] = dict(
            channels=self.channels,
            width=self.width,
            initializer=self.initializer,
            dtype=self.dtype,
        )
        self.encoder = _Encoder(rung_dim=self.latent_dim // 3, **settings)
        self.decoder = _Decoder(image_shape=self.image_shape, **settings)

    def encode(self, x: jax.Array, *, train: bool = False) -> Posterior:
        """Images ``[B, H, W, C]`` in [0, 1] to means and log-variances ``[B, D]``."""
        return self.encoder(x, train)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, D]`` to image logits ``[B, H, W, C]``."""
        return self.decoder(z, train)


class _LadderPart(nn.Module):
    channels: tuple[int, int]
    width: int
    initializer: str
    dtype: jnp.dtype

    def dense(self, features: int, name: str) -> layers.Dense:
        return layers.Dense(features, self.initializer, dtype=self.dtype, name=name)

    def normed(self, layer: nn.Module, x: jax.Array, train: bool) -> jax.Array:
        """Applies the layer, batch norm and LeakyReLU."""
        norm = layers.batch_norm(train, self.dtype, name=f"{layer.name}_norm")
        return jax.nn.leaky_relu(norm(layer(x)), 0.1)

    def dense_pair(self, x: jax.Array, name: str, train: bool) -> jax.Array:
        for i in (1, 2):
            x = self.normed(self.dense(self.width, f"{name}_{i}"), x, train)
        return x


class _Encoder(_LadderPart):
    rung_dim: int = 2

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> Posterior:
        main = self._convolved(x, "main_1", train)
        rungs = [self._heads(self._convolved(x, "rung_1", train), "rung_1")]
        main = self.dense(self.width, "main_1_out")(main)
        rungs.append(self._heads(self.dense_pair(main, "rung_2", train), "rung_2"))
        main = self.dense_pair(main, "main_2", train)
        main = self.dense(self.width, "main_2_out")(main)
        rungs.append(self._heads(self.dense_pair(main, "rung_3", train), "rung_3"))
        means, stds = zip(*reversed(rungs))
        return Posterior(
            jnp.concatenate(means, axis=-1),
            2 * jnp.log(jnp.concatenate(stds, axis=-1)),
        )

    def _convolved(self, x: jax.Array, name: str, train: bool) -> jax.Array:
        for i, features in enumerate(self.channels, start=1):
            conv = layers.Conv(
                features,
                4,
                stride=2,
                padding=(1, 1),
                initializer=self.initializer,
                dtype=self.dtype,
                name=f"{name}_conv_{i}",
            )
            x = self.normed(conv, x, train)
        return x.reshape(x.shape[0], -1)

    def _heads(self, h: jax.Array, name: str) -> tuple[jax.Array, jax.Array]:
        mean = self.dense(self.rung_dim, f"{name}_mean")(h).astype(jnp.float32)
        std = self.dense(self.rung_dim, f"{name}_std")(h).astype(jnp.float32)
        return mean, jax.nn.sigmoid(std) + 1e-3


class _Decoder(_LadderPart):
    image_shape: tuple[int, int, int] = (28, 28, 1)

    @nn.compact
    def __call__(self, z: jax.Array, train: bool) -> jax.Array:
        z3, z2, z1 = jnp.split(z, 3, axis=-1)
        main = self.dense_pair(z3, "main_3", train)
        main = self.dense(self.width, "main_3_out")(main)
        main = self._join(main, z2, "rung_2", train)
        main = self.dense_pair(main, "main_2", train)
        main = self.dense(self.width, "main_2_out")(main)
        main = self._join(main, z1, "rung_1", train)
        height, width, colours = self.image_shape
        first, second = self.channels
        coarse = (height // 4, width // 4, second)
        spread = self.dense(math.prod(coarse), "main_1")
        x = self.normed(spread, main, train).reshape(-1, *coarse)
        x = self.normed(self._deconv(first, "conv_1"), x, train)
        return self._deconv(colours, "conv_2")(x).astype(jnp.float32)

    def _join(self, main: jax.Array, z: jax.Array, name: str, train: bool) -> jax.Array:
        gate = self.param(
            f"{name}_gate", nn.initializers.constant(0.1), (self.width,), jnp.float32
        )
        rung = self.normed(self.dense(self.width, name), z, train)
        return main + gate.astype(rung.dtype)[None, :] * rung

    def _deconv(self, features: int, name: str) -> layers.ConvTranspose:
        return layers.ConvTranspose(
            features,
            4,
            padding=(1, 1),
            initializer=self.initializer,
            dtype=self.dtype,
            name=name,
        )


@define(
    "vlae-original",
    reference="Zhao et al., Learning Hierarchical Features from Generative Models",
)
def vlae_original(
    image_shape: tuple[int, int, int],
    *,
    latent_dim: int = 6,
    channels: tuple[int, int] = (64, 128),
    width: int = 1024,
    initializer: str = "normal_0.02",
    dtype: jnp.dtype = jnp.float32,
) -> OriginalLadder:
    """Builds `OriginalLadder`: three rungs of two dimensions, as on MNIST."""
    if image_shape[0] % 4 or image_shape[1] % 4:
        raise ValueError(
            "models.create: `image_shape` must have sides that are multiples of 4 for "
            f"'vlae-original', which halves them twice, got {image_shape}."
        )
    if latent_dim % 3:
        raise ValueError(
            "models.create: `latent_dim` must be divisible by the 3 rungs of "
            f"'vlae-original', got {latent_dim}."
        )
    first, second = channels
    return OriginalLadder(
        image_shape, latent_dim, (first, second), width, initializer, dtype
    )
