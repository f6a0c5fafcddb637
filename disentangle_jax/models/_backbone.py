"""Networks of "Structure by Architecture" (SAE): one backbone, four latent schemes.

A stack of convolution blocks encodes and a stack of as many blocks decodes; 12 blocks
with 5 resolution changes for 64 px, 16 blocks with 6 for 128 px. They differ in how
the latent vector reaches the image:

* hourglass (AE, VAE, WAE): an MLP maps it to the first feature map;
* structural (SAE-n, AdaAE-n): n affine transforms of the features ("Str-Tfm");
* ladder (VLAE-n): n rungs whose output is concatenated to the features.

Where the paper's text and its published runs disagree (number of poolings, depth of
the transforms' MLPs) these follow the runs, whose parameter counts they reproduce.
"""

import dataclasses
from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax import types
from disentangle_jax.models import _layers
from disentangle_jax.types import Posterior

# Convolutions after which the encoder halves, and before which the decoder doubles,
# the resolution (counted from 1).
POOLED = {12: (1, 4, 7, 10, 12), 16: (1, 4, 7, 10, 13, 16)}
UPSAMPLED = {12: (2, 4, 7, 10, 12), 16: (1, 4, 7, 10, 13, 16)}

# Hidden widths of the MLPs: encoder head, hourglass decoder, Str-Tfm and generative
# rungs, inference rungs.
HEAD_WIDTHS = {12: (256, 128), 16: (512, 256, 128)}
HOURGLASS_WIDTHS = {12: (128, 256), 16: (128, 256, 512)}
TRANSFORM_WIDTHS = {12: (64, 128), 16: (64, 128, 256)}
RUNG_WIDTHS = {12: (128, 64), 16: (256, 128, 64)}

# Blocks whose features an inference rung of the ladder reads.
LADDER_READS = {
    (12, 2): (6, 12),
    (12, 3): (4, 8, 12),
    (12, 4): (4, 6, 9, 12),
    (12, 6): (2, 4, 6, 8, 10, 12),
    (12, 12): tuple(range(1, 13)),
    (16, 16): tuple(range(1, 17)),
}


def transform_positions(blocks: int, variables: int) -> tuple[int, ...]:
    """Returns the convolutions that a Str-Tfm or a rung precedes, counted from 1."""
    return tuple(range(1, blocks + 1, blocks // variables))


@dataclasses.dataclass(frozen=True)
class Backbone:
    """What the modules of one autoencoder share.

    Attributes:
      image_shape: ``(H, W, C)``.
      scheme: ``"hourglass"``, ``"structural"``, ``"adaptive"`` (every Str-Tfm reads the
        complete latent vector: AdaAE) or ``"ladder"``.
      variables: number of Str-Tfm layers or rungs; 0 for the hourglass.
      stochastic: whether the encoder gives log-variances.
      latent_dim: D.
      blocks: 12 or 16.
      channels: features of each convolution.
      norm_groups: in which GroupNorm takes the channels. It removes the level of each:
        narrow networks may train better with fewer groups.
      resampling: ``"pool"`` (max-pooling and bilinear upsampling) or ``"stride"``
        (strided and transposed convolutions: the robot-finger runs).
      nonlinearity: its name.
      initializer: its name.
      dtype: dtype of the arithmetic; parameters and results are float32.
      remat: whether to recompute each block in the backward pass to save memory.
    """

    image_shape: tuple[int, int, int]
    scheme: str
    variables: int
    stochastic: bool
    latent_dim: int
    blocks: int
    channels: int
    norm_groups: int
    resampling: str
    nonlinearity: str
    initializer: str
    dtype: jnp.dtype
    remat: bool

    @property
    def coarsest(self) -> int:
        """Side of the smallest feature map: 2 at the published image sizes."""
        return self.image_shape[0] >> len(POOLED[self.blocks])

    @property
    def rung_features(self) -> int:
        """Channels that a generative rung of the ladder adds: 16 of 64, 32 of 128."""
        return self.channels // 4 if self.scheme == "ladder" else 0

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Sizes of the contiguous variables of the latent vector."""
        if self.scheme in ("structural", "ladder"):
            return (self.latent_dim // self.variables,) * self.variables
        return (1,) * self.latent_dim

    def mlp(self, widths: Sequence[int], name: str) -> _layers.MLP:
        return _layers.MLP(
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
    """Resample, convolve, pool, GroupNorm, nonlinearity: a block of the backbone.

    Attributes:
      features: output channels.
      norm_groups: of GroupNorm.
      kernel_size: side of the kernel; padding keeps the size.
      resample: None; ``"pool"`` (2×2 max after the convolution) or ``"stride"`` to
        halve; ``"upsample"`` (bilinear 2× before the convolution) or ``"transpose"``
        (4×4 transposed convolution with stride 2) to double.
      last: whether this is the output layer, without norm and nonlinearity.
      nonlinearity: its name.
      initializer: its name.
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
        if self.resample == "transpose":
            x = _layers.ConvTranspose(
                self.features,
                4,
                padding=(1, 1),
                initializer=self.initializer,
                dtype=self.dtype,
                name="conv",
            )(x)
        else:
            x = _layers.Conv(
                self.features,
                self.kernel_size,
                stride=2 if self.resample == "stride" else 1,
                padding=(self.kernel_size // 2, self.kernel_size // 2),
                upsampled=self.resample == "upsample",
                initializer=self.initializer,
                dtype=self.dtype,
                name="conv",
            )(x)
            if self.resample == "pool":
                x = _layers.max_pool(x)
        if self.last:
            return x
        x = _layers.GroupNorm(self.norm_groups, dtype=self.dtype, name="norm")(x)
        return _layers.nonlinearity(self.nonlinearity)(x)


class AffineTransform(nn.Module):
    r"""The Str-Tfm layer: :math:`v \mapsto e^{\log\alpha} v + \beta` per channel.

    An MLP of the variable ``[B, d]`` gives :math:`\beta` and :math:`\log\alpha`, in
    this order, each ``[B, C]``. The paper leaves the sign of :math:`\alpha` open; the
    published runs take the exponential. An MLP that outputs zero makes this the
    identity.
    """

    backbone: Backbone

    @nn.compact
    def __call__(self, features: jax.Array, u: jax.Array) -> jax.Array:
        widths = TRANSFORM_WIDTHS[self.backbone.blocks]
        output = self.backbone.mlp((*widths, 2 * features.shape[-1]), "mlp")(u)
        shift, log_scale = jnp.split(output[:, None, None, :], 2, axis=-1)
        return jnp.exp(log_scale) * features + shift


class GenerativeRung(nn.Module):
    """The ladder's rung: an MLP's output, tiled over space, joins the channels."""

    backbone: Backbone

    @nn.compact
    def __call__(self, features: jax.Array, u: jax.Array) -> jax.Array:
        widths = TRANSFORM_WIDTHS[self.backbone.blocks]
        added = self.backbone.rung_features
        output = self.backbone.mlp((*widths, added), "mlp")(u)
        tiled = jnp.broadcast_to(
            output[:, None, None, :], (*features.shape[:-1], added)
        )
        return jnp.concatenate([features, tiled], axis=-1)


class Encoder(nn.Module):
    """Images ``[B, H, W, C]`` to a posterior over ``[B, D]``.

    The head is an MLP of the last feature map; the ladder has instead one MLP ("rung")
    on the spatial maximum of the features after each block of `LADDER_READS`, the
    deepest rung giving the first variable.
    """

    backbone: Backbone

    @nn.compact
    def __call__(self, x: jax.Array) -> Posterior:
        backbone = self.backbone
        halve = "pool" if backbone.resampling == "pool" else "stride"
        reads = LADDER_READS.get((backbone.blocks, backbone.variables), ())
        reads = reads if backbone.scheme == "ladder" else ()
        rungs = []
        for i in range(1, backbone.blocks + 1):
            x = backbone.block(
                i,
                backbone.channels,
                kernel_size=5 if i == 1 else 3,
                resample=halve if i in POOLED[backbone.blocks] else None,
            )(x)
            if i in reads:
                rungs.append(self._rung(len(rungs) + 1, x.max((1, 2))))
        if reads:
            # Mean and log-standard-deviation of each rung, deepest first.
            mean, log_std = zip(*(jnp.split(r, 2, axis=-1) for r in reversed(rungs)))
            return Posterior(
                jnp.concatenate(mean, -1), 2 * jnp.concatenate(log_std, -1)
            )
        outputs = backbone.latent_dim * (2 if backbone.stochastic else 1)
        head = backbone.mlp((*HEAD_WIDTHS[backbone.blocks], outputs), "head")
        y = head(x.reshape(x.shape[0], -1)).astype(jnp.float32)
        if not backbone.stochastic:
            return Posterior(y)
        return Posterior(*jnp.split(y, 2, axis=-1))

    def _rung(self, index: int, pooled: jax.Array) -> jax.Array:
        backbone = self.backbone
        outputs = 2 * backbone.latent_dim // backbone.variables
        widths = (*RUNG_WIDTHS[backbone.blocks], outputs)
        return backbone.mlp(widths, f"rung_{index}")(pooled).astype(jnp.float32)


class HourglassDecoder(nn.Module):
    """Latents ``[B, D]`` to image logits, through an MLP and the blocks."""

    backbone: Backbone

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        backbone = self.backbone
        side, channels = backbone.coarsest, backbone.channels
        widths = (*HOURGLASS_WIDTHS[backbone.blocks], side * side * channels)
        x = backbone.mlp(widths, "mlp")(z).reshape(-1, side, side, channels)
        for i in range(1, backbone.blocks + 1):
            x = _decoder_block(backbone, i, backbone.channels)(x)
        return x.astype(jnp.float32)


class StructuralDecoder(nn.Module):
    """Latents ``[B, D]`` to image logits, from a learned constant feature map.

    Before each convolution of `transform_positions` the next contiguous variable of
    the latent vector transforms the features (SAE's paper, Sec. 3; the whole vector
    does in AdaAE), or is concatenated to them (ladder). The first variable acts on the
    constant, so it is the deepest.
    """

    backbone: Backbone

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        backbone = self.backbone
        positions = transform_positions(backbone.blocks, backbone.variables)
        if backbone.scheme == "adaptive":
            parts = [z] * backbone.variables
        else:
            parts = jnp.split(z, backbone.variables, axis=-1)
        layer = GenerativeRung if backbone.scheme == "ladder" else AffineTransform

        # What enters a rung leaves room for the channels that the rung adds, so that
        # every convolution reads the same number.
        narrow = backbone.channels - backbone.rung_features
        side = backbone.coarsest
        constant = self.param(
            "constant", nn.initializers.normal(1.0), (side, side, narrow), jnp.float32
        )
        x = jnp.broadcast_to(
            constant.astype(backbone.dtype), (z.shape[0], *constant.shape)
        )
        for i in range(1, backbone.blocks + 1):
            if i in positions:
                k = positions.index(i)
                x = layer(backbone, name=f"transform_{k + 1}")(x, parts[k])
            features = narrow if i + 1 in positions else backbone.channels
            x = _decoder_block(backbone, i, features)(x)
        return x.astype(jnp.float32)


def _decoder_block(backbone: Backbone, index: int, features: int) -> Block:
    double = "upsample" if backbone.resampling == "pool" else "transpose"
    last = index == backbone.blocks
    return backbone.block(
        index,
        backbone.image_shape[-1] if last else features,
        resample=double if index in UPSAMPLED[backbone.blocks] else None,
        last=last,
    )


class Autoencoder(nn.Module):
    """An encoder and a decoder on the backbone: AE, VAE, WAE, SAE, AdaAE, VLAE."""

    backbone: Backbone

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Sizes of the contiguous variables of the latent vector."""
        return self.backbone.latent_groups

    def setup(self):
        self.encoder = Encoder(self.backbone)
        hourglass = self.backbone.scheme == "hourglass"
        decoder = HourglassDecoder if hourglass else StructuralDecoder
        self.decoder = decoder(self.backbone)

    def encode(self, x: jax.Array, *, train: bool = False) -> Posterior:
        """Images ``[B, H, W, C]`` in [0, 1] to means (and log-variances) ``[B, D]``."""
        del train  # No layer behaves differently in training.
        return self.encoder(x)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, D]`` to image logits ``[B, H, W, C]``."""
        del train
        return self.decoder(z)

    def __call__(self, x: jax.Array, *, train: bool = False) -> jax.Array:
        """Image logits of the posterior mean."""
        return self.decode(self.encode(x, train=train).mean, train=train)


def autoencoder(
    image_shape: tuple[int, int, int],
    *,
    name: str,
    scheme: str,
    variables: int,
    stochastic: bool,
    blocks: int | None = None,
    latent_dim: int | None = None,
    channels: int | None = None,
    norm_groups: int = 8,
    resampling: str = "pool",
    nonlinearity: str = "mish",
    initializer: str = "torch",
    dtype: jnp.dtype = jnp.float32,
    remat: bool = False,
) -> Autoencoder:
    """Builds one of the networks of this file; sizes default to the paper's.

    `blocks` defaults to 16 where the name says so, or for an hourglass of 128 px and
    more whose side is a multiple of 64; else to 12. Then D is 12 or 32 and there are
    64 or 128 channels.
    """
    height, width, _ = image_shape
    if blocks is None:
        large = scheme == "hourglass" and height >= 128 and height % 64 == 0
        blocks = 16 if large or variables == 16 else 12
    if blocks not in POOLED:
        raise ValueError(f"models.create: `blocks` must be 12 or 16, got {blocks}.")
    latent_dim = {12: 12, 16: 32}[blocks] if latent_dim is None else latent_dim
    channels = {12: 64, 16: 128}[blocks] if channels is None else channels
    factor = 1 << len(POOLED[blocks])
    if height != width or height % factor or height < factor:
        raise ValueError(
            f"models.create: `image_shape` must be square with a side that is a "
            f"multiple of {factor} for {name!r}, whose {blocks} blocks halve the "
            f"resolution {len(POOLED[blocks])} times, got {image_shape}. Resize or pad "
            f"the images."
        )
    if resampling not in ("pool", "stride"):
        raise types.unknown_name(
            "models.create", "resampling", resampling, ("pool", "stride")
        )
    if scheme != "hourglass" and blocks % variables:
        raise ValueError(
            f"models.create: `blocks` must be a multiple of the {variables} variables "
            f"of {name!r}, got {blocks}."
        )
    if scheme == "ladder" and (blocks, variables) not in LADDER_READS:
        raise ValueError(
            f"models.create: `blocks` must be {16 if variables == 16 else 12} for "
            f"{name!r}, got {blocks}."
        )
    if scheme in ("structural", "ladder") and latent_dim % variables:
        raise ValueError(
            f"models.create: `latent_dim` must be divisible by the {variables} "
            f"variables of {name!r}, got {latent_dim}."
        )
    multiple = (4 if scheme == "ladder" else 1) * norm_groups
    if norm_groups < 1:
        raise ValueError(
            f"models.create: `norm_groups` must be positive, got {norm_groups}."
        )
    if channels % multiple:
        raise ValueError(
            f"models.create: `channels` must be a multiple of {multiple} for {name!r}, "
            f"whose features are normalised in {norm_groups} groups, got {channels}."
        )
    return Autoencoder(
        Backbone(
            image_shape=tuple(image_shape),
            scheme=scheme,
            variables=variables,
            stochastic=stochastic,
            latent_dim=latent_dim,
            blocks=blocks,
            channels=channels,
            norm_groups=norm_groups,
            resampling=resampling,
            nonlinearity=nonlinearity,
            initializer=initializer,
            dtype=dtype,
            remat=remat,
        )
    )
