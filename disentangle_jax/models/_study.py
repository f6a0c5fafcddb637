"""Networks of "Challenging Common Assumptions": `conv64`, `fc1200` and the critic."""

from collections.abc import Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax import types
from disentangle_jax.models import _layers
from disentangle_jax.models._hfvae import (
    Discrete,
    category_probabilities,
    check_discrete,
    discrete_values,
)
from disentangle_jax.types import Posterior


class _Variant(NamedTuple):
    """One reading of the 4-layer network; ``convs`` are (channels, kernel, padding)."""

    convs: tuple[tuple[int, int, int], ...]
    hidden: tuple[int, ...]
    decoder_channels: tuple[int, int, int]
    initializer: str


_VARIANTS = {
    # disentanglement_lib, the study's own: the last two kernels are 2×2.
    "dlib": _Variant(
        ((32, 4, 1), (32, 4, 1), (64, 2, 0), (64, 2, 0)), (256,), (64, 32, 32), "glorot"
    ),
    # Burgess et al. 2018: 32 channels throughout and two hidden layers of 256.
    "burgess": _Variant(((32, 4, 1),) * 4, (256, 256), (32, 32, 32), "glorot"),
    # Michlo et al.: padding 2, so that 64 px become 33, 17, 9 and 5.
    "michlo": _Variant(
        ((32, 4, 2), (32, 4, 2), (64, 4, 2), (64, 4, 2)),
        (256,),
        (64, 32, 32),
        "xavier_normal",
    ),
}


class Conv64(nn.Module):
    """Four strided convolutions and four transposed ones, with ReLU.

    With discrete variables their logits are another head of the encoder, and the heads
    of the continuous ones see the features beside the values of the discrete ones, as
    in :class:`HierarchicalMLP`, which explains the latent vector.

    Attributes:
      image_shape: ``(H, W, C)``, the sides multiples of 16.
      latent_dim: D.
      kernel_variant: ``"dlib"``, ``"burgess"`` or ``"michlo"``.
      discrete: number of categories of each discrete variable; may be empty.
      stochastic: whether the encoder gives log-variances.
      spatial_broadcast: whether the decoder is Watters et al.'s (2019): latents tiled
        over the image beside its coordinates, then convolutions with stride 1.
      channel_scale: multiplies the number of channels of each convolution.
      nonlinearity: its name.
      initializer: its name; None for that of the variant.
      dtype: dtype of the arithmetic; parameters and results are float32.
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
        """Each latent is a variable of its own; a group beside discrete ones."""
        if self.discrete:
            return (self.latent_dim,) + (1,) * len(self.discrete)
        return (1,) * self.latent_dim

    def setup(self):
        def wrap(module, **options):
            return nn.remat(module, **options) if self.remat else module

        settings = dict(
            image_shape=self.image_shape,
            variant=_VARIANTS[self.kernel_variant],
            channel_scale=self.channel_scale,
            nonlinearity=self.nonlinearity,
            initializer=self.initializer,
            dtype=self.dtype,
        )
        # What makes the discrete values is no array: static for `remat`.
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
          discrete: ``[B, M]`` values of the discrete variables, or a function that
            makes them of the logits; None for the probabilities that these give.
          train: no layer behaves differently in training.
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

    def __call__(self, x: jax.Array, *, train: bool = False) -> jax.Array:
        """Image logits of the posterior mean, and of the probabilities."""
        posterior = self.encode(x, train=train)
        z = posterior.mean
        if self.discrete:
            classes = category_probabilities(posterior.logits, self.discrete)
            z = jnp.concatenate([z, classes], axis=-1)
        return self.decode(z, train=train)


class _Encoder(nn.Module):
    image_shape: tuple[int, int, int]
    variant: _Variant
    channel_scale: float
    nonlinearity: str
    initializer: str
    dtype: jnp.dtype
    latent_dim: int
    discrete: tuple[int, ...]
    stochastic: bool

    @nn.compact
    def __call__(self, x: jax.Array, discrete: Discrete) -> Posterior:
        activate = _layers.nonlinearity(self.nonlinearity)
        for i, (channels, kernel, padding) in enumerate(self.variant.convs, start=1):
            x = _layers.Conv(
                round(self.channel_scale * channels),
                kernel,
                stride=2,
                padding=(padding, padding),
                initializer=self.initializer,
                dtype=self.dtype,
                name=f"conv_{i}",
            )(x)
            x = activate(x)
        x = x.reshape(x.shape[0], -1)
        for i, width in enumerate(self.variant.hidden, start=1):
            dense = _layers.Dense(
                width, self.initializer, dtype=self.dtype, name=f"dense_{i}"
            )
            x = activate(dense(x))

        def head(name: str, width: int) -> jax.Array:
            dense = _layers.Dense(width, self.initializer, dtype=self.dtype, name=name)
            return dense(x).astype(jnp.float32)

        logits = None
        if self.discrete:
            logits = head("logits", sum(self.discrete))
            classes = discrete_values(discrete, logits, self.discrete)
            x = jnp.concatenate([classes.astype(x.dtype), x], axis=-1)
        mean = head("mean", self.latent_dim)
        log_var = head("log_var", self.latent_dim) if self.stochastic else None
        return Posterior(mean, log_var, logits)


class _Decoder(nn.Module):
    image_shape: tuple[int, int, int]
    variant: _Variant
    channel_scale: float
    nonlinearity: str
    initializer: str
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        activate = _layers.nonlinearity(self.nonlinearity)
        height, width = self.image_shape[0] // 16, self.image_shape[1] // 16
        # The first feature map has as many channels as the encoder's last.
        first = round(self.channel_scale * self.variant.convs[-1][0])
        x = z
        for i, n in enumerate((*self.variant.hidden, height * width * first), start=1):
            dense = _layers.Dense(
                n, self.initializer, dtype=self.dtype, name=f"dense_{i}"
            )
            x = activate(dense(x))
        x = x.reshape(-1, height, width, first)
        channels = [
            round(self.channel_scale * c) for c in self.variant.decoder_channels
        ]
        for i, features in enumerate((*channels, self.image_shape[2]), start=1):
            if i > 1:
                x = activate(x)
            x = _layers.ConvTranspose(
                features,
                4,
                padding=(1, 1),
                initializer=self.initializer,
                dtype=self.dtype,
                name=f"conv_{i}",
            )(x)
        return x.astype(jnp.float32)


class _BroadcastDecoder(nn.Module):
    """Watters et al. 2019: tile the latents, add coordinates in [-1, 1], convolve."""

    image_shape: tuple[int, int, int]
    variant: _Variant
    channel_scale: float
    nonlinearity: str
    initializer: str
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        activate = _layers.nonlinearity(self.nonlinearity)
        height, width, channels = self.image_shape
        plane = (z.shape[0], height, width)
        rows = jnp.linspace(-1.0, 1.0, height, dtype=self.dtype)[None, :, None, None]
        columns = jnp.linspace(-1.0, 1.0, width, dtype=self.dtype)[None, None, :, None]
        x = jnp.concatenate(
            [
                jnp.broadcast_to(
                    z.astype(self.dtype)[:, None, None, :], (*plane, z.shape[-1])
                ),
                jnp.broadcast_to(rows, (*plane, 1)),
                jnp.broadcast_to(columns, (*plane, 1)),
            ],
            axis=-1,
        )
        hidden = round(self.channel_scale * 64)
        for i, features in enumerate((hidden, hidden, channels), start=1):
            if i > 1:
                x = activate(x)
            x = _layers.Conv(
                features,
                4,
                padding=(1, 2),
                initializer=self.initializer,
                dtype=self.dtype,
                name=f"conv_{i}",
            )(x)
        return x.astype(jnp.float32)


class FullyConnected(nn.Module):
    """`fc1200`: two ReLU layers encode, three tanh layers decode, linear heads.

    Attributes:
      image_shape: ``(H, W, C)``.
      latent_dim: D.
      width: units of each hidden layer.
      initializer: its name.
      dtype: dtype of the arithmetic; parameters and results are float32.
    """

    image_shape: tuple[int, int, int]
    latent_dim: int
    width: int
    initializer: str
    dtype: jnp.dtype

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Each latent is a variable of its own."""
        return (1,) * self.latent_dim

    def setup(self):
        def mlp(nonlinearity, *widths):
            return _layers.MLP(widths, nonlinearity, self.initializer, self.dtype)

        pixels = self.image_shape[0] * self.image_shape[1] * self.image_shape[2]
        self.encoder = mlp("relu", self.width, self.width, 2 * self.latent_dim)
        self.decoder = mlp("tanh", self.width, self.width, self.width, pixels)

    def encode(self, x: jax.Array, *, train: bool = False) -> Posterior:
        """Images ``[B, H, W, C]`` in [0, 1] to means and log-variances ``[B, D]``."""
        del train  # No layer behaves differently in training.
        heads = self.encoder(x.reshape(x.shape[0], -1)).astype(jnp.float32)
        return Posterior(*jnp.split(heads, 2, axis=-1))

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, D]`` to image logits ``[B, H, W, C]``."""
        del train
        return self.decoder(z).astype(jnp.float32).reshape(-1, *self.image_shape)

    def __call__(self, x: jax.Array, *, train: bool = False) -> jax.Array:
        """Image logits of the posterior mean."""
        return self.decode(self.encode(x, train=train).mean, train=train)


class FactorCritic(nn.Module):
    """FactorVAE's critic: ``[B, D]`` to the log-odds ``[B]`` of "joint".

    Six layers of 1000 units with LeakyReLU of slope 0.2 and two logits, whose
    difference is the log-odds (Kim and Mnih 2018, Sec. 3; slope of TensorFlow's
    default, as in disentanglement_lib).
    """

    width: int = 1000
    depth: int = 6
    initializer: str = "glorot"
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        logits = _layers.MLP(
            (self.width,) * self.depth + (2,),
            "leaky_relu_0.2",
            self.initializer,
            self.dtype,
            name="mlp",
        )(z).astype(jnp.float32)
        return logits[:, 0] - logits[:, 1]


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
    if image_shape[0] % 16 or image_shape[1] % 16:
        raise ValueError(
            "models.create: `image_shape` must have sides that are multiples of 16 for "
            f"'conv64', which halves them four times, got {image_shape}. Resize or pad "
            "the images."
        )
    return Conv64(
        image_shape=image_shape,
        latent_dim=latent_dim,
        discrete=check_discrete(discrete),
        kernel_variant=kernel_variant,
        stochastic=stochastic,
        spatial_broadcast=spatial_broadcast,
        channel_scale=channel_scale,
        nonlinearity=nonlinearity,
        initializer=initializer or _VARIANTS[kernel_variant].initializer,
        dtype=dtype,
        remat=remat,
    )


def fc1200(
    image_shape: tuple[int, int, int],
    *,
    latent_dim: int = 10,
    width: int = 1200,
    initializer: str = "glorot",
    dtype: jnp.dtype = jnp.float32,
) -> FullyConnected:
    """Builds `FullyConnected`."""
    return FullyConnected(image_shape, latent_dim, width, initializer, dtype)
