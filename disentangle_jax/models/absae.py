"""The autoencoder of AbsAE ("Leveraging Relational Information", App. A)."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.models import layers
from disentangle_jax.models.definitions import define
from disentangle_jax.models.network import Network, split_posterior
from disentangle_jax.types import Posterior

# (kernel, padding) of the encoder's strided convolutions; the decoder transposes them
# in reverse. 45 px go through 21, 9 and 4; 64 px through 32, 16, 8 and 4. Of the four
# convolutions, those that would make smaller maps have stride 1 instead.
_CONVS_45 = ((5, 0), (5, 0), (3, 0))
_CONVS_64 = ((4, 1), (4, 1), (4, 1), (4, 1))


def _halvings(image_shape: tuple[int, int, int]) -> int:
    return layers.halvings(image_shape[0], 4, smallest=4)


class AbsAE(Network):
    """The deterministic autoencoder, with batch norm and without convolution biases.

    LeakyReLU has slope 0.1, but 0.2 in the last encoder block of the 64 px network, as
    in the published code. The paper's tables reshape the decoder's input of the 64 px
    network to 6×6, which would give 96 px; ours is the encoder's 4×4.

    Batch statistics are functional state: apply with ``train=True`` and
    ``mutable=["batch_stats"]``. Without `train` the running averages are used.

    Attributes:
      image_shape: ``(45, 45, C)``; or at least 8 px, halved until the smallest map is
        4×4, at most four times.
      channels: features of each convolution.
      stochastic: whether the encoder also gives log-variances, as in the paper's
        beta-VAE and FactorVAE (Sec. 4.5).
    """

    image_shape: tuple[int, int, int]
    latent_dim: int
    channels: int
    initializer: str
    dtype: jnp.dtype
    stochastic: bool = False

    def setup(self) -> None:
        small = self.image_shape[0] == 45
        settings: dict[str, Any] = dict(
            convs=_CONVS_45 if small else _CONVS_64,
            halvings=3 if small else _halvings(self.image_shape),
            channels=self.channels,
            initializer=self.initializer,
            dtype=self.dtype,
        )
        heads = 2 if self.stochastic else 1
        self.encoder = _Encoder(latent_dim=heads * self.latent_dim, **settings)
        self.decoder = _Decoder(image_shape=self.image_shape, **settings)

    def encode(self, x: jax.Array, *, train: bool = False) -> Posterior:
        """Images ``[B, H, W, C]`` in [0, 1] to codes ``[B, D]``."""
        codes = self.encoder(x, train)
        return split_posterior(codes) if self.stochastic else Posterior(codes)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Codes ``[B, D]`` to image logits ``[B, H, W, C]``."""
        return self.decoder(z, train)


class _Part(nn.Module):
    """Fields and layers that encoder and decoder share."""

    convs: tuple[tuple[int, int], ...]
    halvings: int
    channels: int
    initializer: str
    dtype: jnp.dtype

    def mlp(self, x: jax.Array, outputs: int) -> jax.Array:
        widths, slope = (1024, outputs), "leaky_relu_0.1"
        return layers.MLP(widths, slope, self.initializer, self.dtype, name="mlp")(x)

    def convolve(
        self,
        x: jax.Array,
        i: int,
        features: int,
        shape: tuple[int, int],
        layer: type[nn.Module] = layers.Conv,
        **options: int,
    ) -> jax.Array:
        """Applies convolution `i`, with a kernel and a padding of `shape`.

        Without `layer` and options it keeps the size, whatever the padding.
        """
        kernel, padding = shape
        resizes = options or layer is not layers.Conv
        return layer(
            features,
            kernel,
            padding=(padding, padding) if resizes else layers.same_padding(kernel),
            initializer=self.initializer,
            use_bias=False,
            dtype=self.dtype,
            name=f"conv_{i}",
            **options,
        )(x)

    def normed(self, x: jax.Array, i: int, train: bool, slope: float) -> jax.Array:
        norm = layers.batch_norm(train, self.dtype, name=f"norm_{i}")
        return jax.nn.leaky_relu(norm(x), slope)


class _Encoder(_Part):
    latent_dim: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        for i, shape in enumerate(self.convs, start=1):
            stride: dict[str, Any] = {"stride": 2} if i <= self.halvings else {}
            x = self.convolve(x, i, self.channels, shape, **stride)
            x = self.normed(x, i, train, 0.2 if i == 4 else 0.1)
        x = self.mlp(x.reshape(x.shape[0], -1), self.latent_dim)
        return x.astype(jnp.float32)


class _Decoder(_Part):
    image_shape: tuple[int, int, int]

    @nn.compact
    def __call__(self, z: jax.Array, train: bool) -> jax.Array:
        small = self.image_shape[0] == 45
        side = 4 if small else self.image_shape[0] >> self.halvings
        x = self.mlp(z, side * side * self.channels)
        x = jax.nn.leaky_relu(x, 0.1).reshape(-1, side, side, self.channels)
        for i, shape in enumerate(reversed(self.convs), start=1):
            last = i == len(self.convs)
            features = self.image_shape[2] if last else self.channels
            doubles = i > len(self.convs) - self.halvings
            layer = layers.ConvTranspose if doubles else layers.Conv
            x = self.convolve(x, i, features, shape, layer)
            x = x if last else self.normed(x, i, train, 0.1)
        return x.astype(jnp.float32)


@define(
    reference="Leveraging Relational Information for Learning Weakly Disentangled "
    "Representations"
)
def absae(
    image_shape: tuple[int, int, int],
    *,
    latent_dim: int | None = None,
    channels: int | None = None,
    initializer: str = "torch",
    dtype: jnp.dtype = jnp.float32,
    stochastic: bool = False,
) -> AbsAE:
    """Builds `AbsAE`: 8 latents and 32 channels for grey images, else 16 and 64."""
    height, width, colours = image_shape
    halvings = _halvings(image_shape)
    fits = height == 45 or (halvings and height % (1 << halvings) == 0)
    if height != width or not fits:
        raise ValueError(
            "models.create: `image_shape` must be square with a side of 45, or of at "
            f"least 8 and a multiple of {max(2, 1 << halvings)} for 'absae', got "
            f"{image_shape}. Resize or pad the images."
        )
    return AbsAE(
        image_shape=image_shape,
        latent_dim=latent_dim or (8 if colours == 1 else 16),
        channels=channels or (32 if colours == 1 else 64),
        initializer=initializer,
        dtype=dtype,
        stochastic=stochastic,
    )
