"""Pairs of strided convolutions on blocks of pixels, for TPUs.

A matrix unit multiplies 128 channels at a time, and a layer of 32 fills a quarter of
it. A 4×4 convolution with stride 2 is a 2×2 convolution with stride 1 on 2×2 blocks of
pixels taken as channels. Two of them in a row therefore are two 2×2 convolutions:

* from 4×4 blocks of the image to 2×2 blocks of the features between the layers, whose
  kernel holds that of the first layer four times, among zeros. The blocks of the
  features begin before the first feature, so that the others begin with the image;
* from these blocks to the pixels of the second layer.

The blocks between the layers also hold pixels that lie outside of the features, where
the second layer expects zeros. Transposed convolutions are the adjoint of all this.
Both functions take the platform's faster form; parameters are those of the layers.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.models import convolution
from disentangle_jax.models.matrix_convolution import (
    Pair,
    block_kernel,
    to_blocks,
    to_pixels,
)

Activation = Callable[[jax.Array], jax.Array]


class Weights(NamedTuple):
    """Kernel ``[4, 4, I, O]`` and bias of a layer.

    The kernel of a transposed convolution is that of the convolution it transposes.
    """

    kernel: jax.Array
    bias: jax.Array


def conv_pair(
    x: jax.Array,
    first: Weights,
    second: Weights,
    activate: Activation,
    padding: int,
) -> jax.Array:
    """Returns the second of two 4×4 convolutions with stride 2, ``[B, H', W', O]``.

    Args:
      x: ``[B, H, W, I]``; H and W are multiples of 4.
      first: of the first layer.
      second: of the second layer.
      activate: elementwise function between the layers.
      padding: of each layer, before and after the image, along both axes; at most 2.
    """
    settings = dict(activate=activate, padding=padding)
    return _dispatch(_native_pair, _block_pair, settings, x, first, second)


def conv_transpose_pair(
    x: jax.Array, first: Weights, second: Weights, activate: Activation
) -> jax.Array:
    """Returns the second of two 4×4 transposed convolutions, ``[B, 4 H, 4 W, O]``.

    Args:
      x: ``[B, H, W, I]``.
      first: of the first layer.
      second: of the second layer.
      activate: elementwise function between the layers.
    """
    settings = dict(activate=activate)
    return _dispatch(
        _native_transpose_pair, _block_transpose_pair, settings, x, first, second
    )


def _dispatch(
    native: Callable, blocks: Callable, settings: dict, *args: jax.Array | Weights
) -> jax.Array:
    return jax.lax.platform_dependent(
        *args,
        tpu=functools.partial(blocks, **settings),
        default=functools.partial(native, **settings),
    )


def _native_pair(
    x: jax.Array, first: Weights, second: Weights, *, activate: Activation, padding: int
) -> jax.Array:
    for layer in (first, second):
        y = convolution.conv(x, layer.kernel, stride=2, padding=(padding, padding))
        y = _add_bias(y, layer.bias)
        x = activate(y)
    return y


def _native_transpose_pair(
    x: jax.Array, first: Weights, second: Weights, *, activate: Activation
) -> jax.Array:
    for layer in (first, second):
        y = convolution.conv_transpose(x, layer.kernel, padding=(1, 1))
        y = _add_bias(y, layer.bias)
        x = activate(y)
    return y


def _block_pair(
    x: jax.Array, first: Weights, second: Weights, *, activate: Activation, padding: int
) -> jax.Array:
    h, w = x.shape[1:3]
    size = h // 2 + padding - 1, w // 2 + padding - 1
    blocks = to_blocks(x, 4, 0, (h // 4, w // 4))
    y = _conv(blocks, *_four_kernels(first.kernel, padding))
    y = _between(y, first.bias, activate, padding, size)
    return _add_bias(_conv(y, block_kernel(second.kernel)), second.bias)


def _block_transpose_pair(
    x: jax.Array, first: Weights, second: Weights, *, activate: Activation
) -> jax.Array:
    h, w = x.shape[1:3]
    y = _adjoint(x, block_kernel(first.kernel))
    y = _between(y, first.bias, activate, 1, (2 * h, 2 * w))
    blocks = _adjoint(y, *_four_kernels(second.kernel, 1))
    return _add_bias(to_pixels(blocks, 4, 0, (4 * h, 4 * w)), second.bias)


def _between(
    y: jax.Array, bias: jax.Array, activate: Activation, padding: int, size: Pair
) -> jax.Array:
    """Adds the bias, activates, and clears the pixels outside of features of `size`."""
    y = activate(_add_bias(y, jnp.tile(bias, 4)))
    rows, columns = (
        (place >= 0) & (place < m)
        for m, count in zip(size, y.shape[1:3])
        for place in [2 * np.arange(count)[:, None] + np.arange(2)[None] - padding]
    )
    inside = rows[:, None, :, None] & columns[None, :, None, :]
    inside = np.repeat(inside.reshape(*y.shape[1:3], 4), len(bias), axis=-1)
    return y * jnp.asarray(inside[None], y.dtype)


def _four_kernels(kernel: jax.Array, padding: int) -> tuple[jax.Array, Pair]:
    """Maps ``[4, 4, I, O]`` to ``[2, 2, 16 I, 4 O]``, from 4×4 to 2×2 blocks.

    Returns:
      the kernel, and how many blocks of zeros precede and follow those of the image.
    """
    *_, inputs, outputs = kernel.shape
    before, start = -(-3 * padding // 4), -3 * padding % 4
    # Of the 8 pixels of two blocks, feature i of a block reads 4 from start + 2 i on.
    copies = np.stack([np.eye(8, 4, -start - 2 * i) for i in (0, 1)], axis=1)
    copies = copies.reshape(2, 4, 2, 4)  # block, its pixel, feature, tap of the kernel
    place = np.einsum("arik,bcjl,xy->abrcxijkly", copies, copies, np.eye(inputs))
    # As products of matrices, which are exact, this is fewer operations than by pads.
    place = place.reshape(64 * inputs, 64 * inputs)
    four = jnp.tile(kernel.reshape(16 * inputs, outputs), (4, 4))
    four *= np.kron(np.eye(4), np.ones((16 * inputs, outputs))).astype(kernel.dtype)
    kernels = jnp.matmul(
        place.astype(kernel.dtype), four, precision=jax.lax.Precision.HIGHEST
    )
    after = padding + (padding - 5) // 2 + 3 - before
    return kernels.reshape(2, 2, 16 * inputs, 4 * outputs), (before, after)


def _conv(x: jax.Array, kernel: jax.Array, padding: Pair = (0, 0)) -> jax.Array:
    return convolution.conv(x, kernel, stride=1, padding=padding)


def _adjoint(g: jax.Array, kernel: jax.Array, padding: Pair = (0, 0)) -> jax.Array:
    return convolution.conv_transpose(g, kernel, stride=1, padding=padding)


def _add_bias(y: jax.Array, bias: jax.Array) -> jax.Array:
    return y + jnp.broadcast_to(bias, y.shape)
