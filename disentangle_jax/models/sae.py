"""Networks of "Structure by Architecture" (SAE): one backbone, four latent schemes.

A stack of convolution blocks encodes, and a stack of as many blocks decodes: 12 blocks
with 5 resolution changes for 64 px, 16 blocks with 6 for 128 px. Smaller images have
one change less for each halving, so that the smallest feature map stays 2×2. The
networks differ in how the latent vector reaches the image:

* hourglass (AE, VAE, WAE): an MLP maps it to the first feature map;
* structural (SAE-n): n affine transforms of the features ("Str-Tfm"), each of the next
  part of the latent vector;
* adaptive (AdaAE-n): the same, but each transform reads the complete latent vector;
* ladder (VLAE-n): n rungs whose output is concatenated to the features.

The paper's text and its published runs disagree on the number of poolings and the depth
of the transforms' MLPs. We follow the runs and reproduce their parameter counts.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax import types
from disentangle_jax.models.backbone import (
    POOLED,
    Backbone,
    Block,
    Layout,
)
from disentangle_jax.models.definitions import define
from disentangle_jax.models.network import Network, split_posterior
from disentangle_jax.types import Posterior

# Hidden widths of the MLPs: encoder head, hourglass decoder, Str-Tfm and generative
# rungs, inference rungs.
HEAD_WIDTHS = {12: (256, 128), 16: (512, 256, 128)}
HOURGLASS_WIDTHS = {12: (128, 256), 16: (128, 256, 512)}
TRANSFORM_WIDTHS = {12: (64, 128), 16: (64, 128, 256)}
RUNG_WIDTHS = {12: (128, 64), 16: (256, 128, 64)}

# Blocks whose features the inference rungs of the ladder read.
LADDER_READS = {
    (12, 2): (6, 12),
    (12, 3): (4, 8, 12),
    (12, 4): (4, 6, 9, 12),
    (12, 6): (2, 4, 6, 8, 10, 12),
    (12, 12): tuple(range(1, 13)),
    (16, 16): tuple(range(1, 17)),
}


def transform_positions(blocks: int, variables: int) -> tuple[int, ...]:
    """Returns which convolutions, counted from 1, follow a Str-Tfm or a rung."""
    return tuple(range(1, blocks + 1, blocks // variables))


class AffineTransform(nn.Module):
    r"""The Str-Tfm layer: :math:`v \mapsto e^{\log\alpha} v + \beta` per channel.

    An MLP of the variable ``[B, d]`` gives :math:`\beta` and then :math:`\log\alpha`,
    each ``[B, C]``. The paper does not fix the sign of :math:`\alpha`; the published
    runs take the exponential. If the MLP outputs zero, the layer is the identity.
    """

    backbone: Backbone

    @nn.compact
    def __call__(self, features: jax.Array, u: jax.Array) -> jax.Array:
        widths = TRANSFORM_WIDTHS[self.backbone.blocks]
        output = self.backbone.mlp((*widths, 2 * features.shape[-1]), "mlp")(u)
        shift, log_scale = jnp.split(output[:, None, None, :], 2, axis=-1)
        return jnp.exp(log_scale) * features + shift


class GenerativeRung(nn.Module):
    """A rung of the ladder: the output of an MLP, tiled over space, adds channels."""

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

    The head is an MLP of the last feature map. The ladder instead has one MLP ("rung")
    on the spatial maximum of the features after each block of `LADDER_READS`; the
    deepest rung gives the first variable.
    """

    backbone: Backbone

    @nn.compact
    def __call__(self, x: jax.Array) -> Posterior:
        backbone = self.backbone
        halve = "pool" if backbone.resampling == "pool" else "stride"
        layout = backbone.layout
        reads: tuple[int, ...] = ()
        if layout.scheme == "ladder":
            reads = LADDER_READS[backbone.blocks, layout.variables]
        rungs: list[jax.Array] = []
        for i in range(1, backbone.blocks + 1):
            x = backbone.block(
                i,
                backbone.channels,
                kernel_size=5 if i == 1 else 3,
                resample=halve if i in backbone.pooled else None,
            )(x)
            if i in reads:
                rungs.append(self._rung(len(rungs) + 1, x.max((1, 2))))
        if reads:
            # Mean and log-standard-deviation of each rung, deepest first.
            mean, log_std = zip(*(jnp.split(r, 2, axis=-1) for r in reversed(rungs)))
            return Posterior(
                jnp.concatenate(mean, -1), 2 * jnp.concatenate(log_std, -1)
            )
        outputs = backbone.latent_dim * (2 if layout.stochastic else 1)
        head = backbone.mlp((*HEAD_WIDTHS[backbone.blocks], outputs), "head")
        y = head(x.reshape(x.shape[0], -1)).astype(jnp.float32)
        return split_posterior(y) if layout.stochastic else Posterior(y)

    def _rung(self, index: int, pooled: jax.Array) -> jax.Array:
        backbone = self.backbone
        outputs = 2 * backbone.latent_dim // backbone.layout.variables
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

    Before each convolution of `transform_positions`, the next contiguous variable of
    the latent vector (in AdaAE the complete vector) transforms the features (SAE's
    paper, Sec. 3) or, in the ladder, is concatenated to them. The first variable acts
    on the constant, so it is the deepest.
    """

    backbone: Backbone

    @nn.compact
    def __call__(self, z: jax.Array) -> jax.Array:
        backbone = self.backbone
        _, scheme, variables, _ = backbone.layout
        positions = transform_positions(backbone.blocks, variables)
        if scheme == "adaptive":
            parts = [z] * variables
        else:
            parts = jnp.split(z, variables, axis=-1)
        layer = GenerativeRung if scheme == "ladder" else AffineTransform

        # The input of a rung has fewer channels, by those that the rung adds, so that
        # every convolution reads the same number of them.
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
        resample=double if index in backbone.upsampled else None,
        last=last,
    )


class Autoencoder(Network):
    """An encoder and a decoder on the backbone: AE, VAE, WAE, SAE, AdaAE, VLAE."""

    backbone: Backbone

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Sizes of the contiguous variables of the latent vector."""
        return self.backbone.latent_groups

    def setup(self) -> None:
        self.encoder = Encoder(self.backbone)
        hourglass = self.backbone.layout.scheme == "hourglass"
        decoder = HourglassDecoder if hourglass else StructuralDecoder
        self.decoder = decoder(self.backbone)

    def encode(self, x: jax.Array, *, train: bool = False) -> Posterior:
        """Images ``[B, H, W, C]`` in [0, 1] to means (and log-variances) ``[B, D]``."""
        del train
        return self.encoder(x)

    def decode(self, z: jax.Array, *, train: bool = False) -> jax.Array:
        """Latents ``[B, D]`` to image logits ``[B, H, W, C]``."""
        del train
        return self.decoder(z)


def autoencoder(
    layout: Layout,
    image_shape: tuple[int, int, int],
    *,
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
    """Builds a network of this module; the default sizes are the paper's.

    `blocks` is 16 by default if there are 16 variables, or if the network is an
    hourglass for 128 px or more and the side is a multiple of 64; otherwise it is 12.
    With 12 or 16 blocks, D is 12 or 32 and there are 64 or 128 channels.
    """
    if blocks is None:
        side = image_shape[0]
        large = layout.scheme == "hourglass" and side >= 128 and side % 64 == 0
        blocks = 16 if large or layout.variables == 16 else 12
    if blocks not in POOLED:
        raise ValueError(f"models.create: `blocks` must be 12 or 16, got {blocks}.")
    backbone = Backbone(
        layout,
        (image_shape[0], image_shape[1], image_shape[2]),
        blocks,
        {12: 12, 16: 32}[blocks] if latent_dim is None else latent_dim,
        {12: 64, 16: 128}[blocks] if channels is None else channels,
        *(norm_groups, resampling, nonlinearity, initializer, dtype, remat),
    )
    _check(backbone)
    return Autoencoder(backbone)


def _check(backbone: Backbone) -> None:
    """Raises a ValueError if the sizes do not fit together."""
    name, scheme, variables, _ = backbone.layout
    height, width, _ = backbone.image_shape
    blocks, channels = backbone.blocks, backbone.channels
    factor = 1 << backbone.halvings
    if height != width or height < 4 or height % factor:
        raise ValueError(
            f"models.create: `image_shape` must be square with a side that is a "
            f"multiple of {factor} for {name!r}, whose {blocks} blocks halve the "
            f"resolution {backbone.halvings} times, got {backbone.image_shape}. "
            f"Resize or pad the images."
        )
    if backbone.resampling not in ("pool", "stride"):
        raise types.unknown_name(
            "models.create", "resampling", backbone.resampling, ("pool", "stride")
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
    if scheme in ("structural", "ladder") and backbone.latent_dim % variables:
        raise ValueError(
            f"models.create: `latent_dim` must be divisible by the {variables} "
            f"variables of {name!r}, got {backbone.latent_dim}."
        )
    groups = backbone.norm_groups
    if groups < 1:
        raise ValueError(
            f"models.create: `norm_groups` must be positive, got {groups}."
        )
    multiple = (4 if scheme == "ladder" else 1) * groups
    if channels % multiple:
        raise ValueError(
            f"models.create: `channels` must be a multiple of {multiple} for {name!r}, "
            f"whose features are normalised in {groups} groups, got {channels}."
        )


def _define(layout: Layout) -> None:
    """Defines a network of this module under the name of its layout."""
    build = functools.partial(autoencoder, layout)
    build.__module__ = __name__
    define(layout.name, reference="Structure by Architecture, Secs. 3 and A.2")(build)


_VARIABLES = (2, 3, 4, 6, 12, 16)
_LAYOUTS = (
    Layout("ae", "hourglass"),
    Layout("wae", "hourglass"),
    Layout("vae", "hourglass", stochastic=True),
    *(Layout(f"sae-{n}", "structural", n) for n in _VARIABLES),
    *(Layout(f"adaae-{n}", "adaptive", n) for n in (12, 16)),
    *(Layout(f"vlae-{n}", "ladder", n, stochastic=True) for n in _VARIABLES),
)
for _layout in _LAYOUTS:
    _define(_layout)
