"""Networks of AbsAE and ReL ("Leveraging Relational Information", App. A)."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax.models import _layers
from disentangle_jax.types import Posterior

# (kernel, padding) of the encoder's strided convolutions; the decoder transposes them
# in reverse. 45 px go through 21, 9 and 4; 64 px through 32, 16, 8 and 4.
_CONVS_45 = ((5, 0), (5, 0), (3, 0))
_CONVS_64 = ((4, 1), (4, 1), (4, 1), (4, 1))


class AbsAE(nn.Module):
    """The deterministic autoencoder, with batch norm and without convolution biases.

    LeakyReLU has slope 0.1, but 0.2 in the last encoder block of the 64 px network, as
    in the published code. The paper's tables reshape the decoder's input of the 64 px
    network to 6×6, which would give 96 px: here it is the encoder's 4×4.

    Batch statistics are functional state: apply with ``train=True`` and
    ``mutable=["batch_stats"]``; without `train` the running averages are used.

    Attributes:
      image_shape: ``(45, 45, C)``, or sides that are multiples of 16.
      latent_dim: D.
      channels: features of each convolution.
      initializer: its name.
      dtype: dtype of the arithmetic; parameters and results are float32.
      stochastic: whether the encoder gives log-variances too: the networks of the
        paper's beta-VAE and FactorVAE (Sec. 4.5), which are AbsAE's.
    """

    image_shape: tuple[int, int, int]
    latent_dim: int
    channels: int
    initializer: str
    dtype: jnp.dtype
    stochastic: bool = False

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Each latent is a variable of its own."""
        return (1,) * self.latent_dim

    @property
    def _convs(self) -> tuple[tuple[int, int], ...]:
        return _CONVS_45 if self.image_shape[0] == 45 else _CONVS_64

    def setup(self):
        settings = dict(
            convs=self._convs,
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
        if not self.stochastic:
            return Posterior(codes)
        return Posterior(*jnp.split(codes, 2, axis=1))

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Codes ``[B, D]`` to image logits ``[B, H, W, C]``."""
        return self.decoder(z, train)

    def __call__(self, x: jax.Array, *, train: bool = False) -> jax.Array:
        """Image logits of the codes."""
        return self.decode(self.encode(x, train=train).mean, train=train)


class _Encoder(nn.Module):
    convs: tuple[tuple[int, int], ...]
    channels: int
    initializer: str
    dtype: jnp.dtype
    latent_dim: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        for i, (kernel, padding) in enumerate(self.convs, start=1):
            x = _layers.Conv(
                self.channels,
                kernel,
                stride=2,
                padding=(padding, padding),
                initializer=self.initializer,
                use_bias=False,
                dtype=self.dtype,
                name=f"conv_{i}",
            )(x)
            x = _layers.batch_norm(train, self.dtype, name=f"norm_{i}")(x)
            x = jax.nn.leaky_relu(x, 0.2 if i == 4 else 0.1)
        return _layers.MLP(
            (1024, self.latent_dim),
            "leaky_relu_0.1",
            self.initializer,
            self.dtype,
            name="mlp",
        )(x.reshape(x.shape[0], -1)).astype(jnp.float32)


class _Decoder(nn.Module):
    convs: tuple[tuple[int, int], ...]
    channels: int
    initializer: str
    dtype: jnp.dtype
    image_shape: tuple[int, int, int]

    @nn.compact
    def __call__(self, z: jax.Array, train: bool) -> jax.Array:
        side = 4 if self.image_shape[0] == 45 else self.image_shape[0] // 16
        x = _layers.MLP(
            (1024, side * side * self.channels),
            "leaky_relu_0.1",
            self.initializer,
            self.dtype,
            name="mlp",
        )(z)
        x = jax.nn.leaky_relu(x, 0.1).reshape(-1, side, side, self.channels)
        for i, (kernel, padding) in enumerate(reversed(self.convs), start=1):
            last = i == len(self.convs)
            x = _layers.ConvTranspose(
                self.image_shape[2] if last else self.channels,
                kernel,
                padding=(padding, padding),
                initializer=self.initializer,
                use_bias=False,
                dtype=self.dtype,
                name=f"conv_{i}",
            )(x)
            if not last:
                x = _layers.batch_norm(train, self.dtype, name=f"norm_{i}")(x)
                x = jax.nn.leaky_relu(x, 0.1)
        return x.astype(jnp.float32)


class PriorDiscriminator(nn.Module):
    """AbsAE's discriminator: codes ``[B, D]`` to the log-odds ``[B]`` of "prior".

    Tanh layers of 1024 units and a linear output. The paper counts three layers and
    the published code builds four hidden ones, which is the default here.
    """

    width: int = 1024
    depth: int = 4
    initializer: str = "torch"
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        widths = (self.width,) * self.depth + (1,)
        mlp = _layers.MLP(widths, "tanh", self.initializer, self.dtype, name="mlp")
        return mlp(z).astype(jnp.float32)[:, 0]


class RelationNetwork(nn.Module):
    """ReL: the code of a relation's result from its operands, ``[B, I] -> [B, D]``.

    The input is the concatenation of the operands' codes, or of one code and the
    one-hot relation. Layers as in `PriorDiscriminator`; the output is linear, whereas
    the paper's text has a sigmoid, since codes are not confined to [0, 1].
    """

    latent_dim: int
    width: int = 1024
    depth: int = 4
    initializer: str = "torch"
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        widths = (self.width,) * self.depth + (self.latent_dim,)
        mlp = _layers.MLP(widths, "tanh", self.initializer, self.dtype, name="mlp")
        return mlp(inputs).astype(jnp.float32)


def absae(
    image_shape: tuple[int, int, int],
    *,
    latent_dim: int | None = None,
    channels: int | None = None,
    initializer: str = "torch",
    dtype: jnp.dtype = jnp.float32,
    stochastic: bool = False,
) -> AbsAE:
    """Builds `AbsAE`; 8 latents and 32 channels for grey images, 16 and 64 else."""
    height, width, colours = image_shape
    if height != width or not (height == 45 or height % 16 == 0):
        raise ValueError(
            "models.create: `image_shape` must be square with a side of 45 or of a "
            f"multiple of 16 for 'absae', got {image_shape}. Resize or pad the images."
        )
    return AbsAE(
        image_shape=image_shape,
        latent_dim=latent_dim or (8 if colours == 1 else 16),
        channels=channels or (32 if colours == 1 else 64),
        initializer=initializer,
        dtype=dtype,
        stochastic=stochastic,
    )
