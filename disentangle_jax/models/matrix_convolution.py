r"""Convolutions as matrix products, for CPUs.

The taps of the kernel are divided between the two sides of one product:

.. math::
    y[p] = \sum_b \Big( \sum_a x[p + a + b] \, K[a + b] \Big)

Copies of x shifted by each tap a are laid side by side as channels ("gather"). They are
multiplied by the matrix ``[(a, c), (b, o)]``, whose column blocks are then shifted by
each tap b and summed ("scatter"). With all taps on the left this is im2col. With the
columns of the kernel on the left and its rows on the right, 3×3 taps copy 3 instead of
9 times the features. The adjoint and the gradient of the kernel are products of the
same two pieces, so they are as fast. A stride of 2 is a stride of 1 on 2×2 blocks of
pixels taken as channels.

Shifted copies are sums of zero-padded arrays, not concatenations, because XLA
vectorises the loops over sums.
"""

import itertools
from typing import cast

import jax
import jax.numpy as jnp

from disentangle_jax.models.compilation import fence

Pair = tuple[int, int]
Axes = tuple[int, ...]  # of an image: 1 for its rows, 2 for its columns


def matmul_conv(
    x: jax.Array, kernel: jax.Array, *, stride: int, padding: Pair
) -> jax.Array:
    """Computes `convolution.conv` as a matrix product."""
    n = kernel.shape[0]
    height, width = ((m + sum(padding) - n) // stride + 1 for m in x.shape[1:3])
    size = height, width
    if stride == 2:
        x = _blocks(x, n, padding[0], size)
        return matmul_conv(x, block_kernel(kernel), stride=1, padding=(0, 0))
    left, right = divide_taps(kernel.shape)
    gathered = _gather(x, n, left, padding[0], size, 1)
    y = _product(gathered, _as_matrix(kernel, left, right))
    return _scatter(y, n, right, padding[0], size, 1)


def matmul_adjoint(
    g: jax.Array, kernel: jax.Array, *, stride: int, padding: Pair, size: Pair
) -> jax.Array:
    """Applies the adjoint in x of `matmul_conv`, for x of `size`."""
    n = kernel.shape[0]
    if stride == 2:
        kernel = block_kernel(kernel)
        height, width = (m + kernel.shape[0] - 1 for m in g.shape[1:3])
        x = matmul_adjoint(g, kernel, stride=1, padding=(0, 0), size=(height, width))
        return to_pixels(x, 2, padding[0], size)
    left, right = divide_taps(kernel.shape)
    matrix = _as_matrix(kernel, left, right)
    y = _product(_gather(g, n, right, padding[0], size, -1), matrix.T)
    return _scatter(y, n, left, padding[0], size, -1)


def matmul_kernel_gradient(
    x: jax.Array, g: jax.Array, *, kernel_size: int, stride: int, padding: Pair
) -> jax.Array:
    """Applies the adjoint in the kernel of `matmul_conv`."""
    n, size = kernel_size, (g.shape[1], g.shape[2])
    if stride == 2:
        blocks = matmul_kernel_gradient(
            _blocks(x, n, padding[0], size),
            g,
            kernel_size=-(-n // 2),
            stride=1,
            padding=(0, 0),
        )
        return _pixel_kernel(blocks, n)
    shape = (n, n, x.shape[-1], g.shape[-1])
    left, right = divide_taps(shape)
    gathered_x = _gather(x, n, left, padding[0], size, 1)
    gathered_g = _gather(g, n, right, padding[0], (x.shape[1], x.shape[2]), -1)
    # The rows are multiplied in two halves: one sum over all would run on one thread.
    halves = 2 if gathered_x.size // gathered_x.shape[-1] % 2 == 0 else 1
    a, b = (m.reshape(halves, -1, m.shape[-1]) for m in (gathered_x, gathered_g))
    matrix = jax.lax.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))).sum(0)
    return _from_matrix(matrix, shape, left, right)


def _product(x: jax.Array, matrix: jax.Array) -> jax.Array:
    """Returns ``x @ matrix``, by two axes each: with more, XLA would transpose x."""
    return (x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], -1)


def divide_taps(shape: tuple[int, ...]) -> tuple[Axes, Axes]:
    """Divides the axes of the taps between left and right so as to copy least."""
    n, _, inputs, outputs = shape
    return min(
        (((1, 2), ()), ((2,), (1,)), ((), (1, 2))),
        key=lambda sides: n ** len(sides[0]) * inputs + n ** len(sides[1]) * outputs,
    )


def _as_matrix(kernel: jax.Array, left: Axes, right: Axes) -> jax.Array:
    """Maps ``[k, k, I, O]`` to ``[(left taps, I), (right taps, O)]``."""
    n, _, inputs, _ = kernel.shape
    order = (*(axis - 1 for axis in left), 2, *(axis - 1 for axis in right), 3)
    return kernel.transpose(order).reshape(n ** len(left) * inputs, -1)


def _from_matrix(
    matrix: jax.Array, shape: tuple[int, ...], left: Axes, right: Axes
) -> jax.Array:
    """Applies the inverse of `_as_matrix`, for a kernel of `shape`."""
    order = (*(axis - 1 for axis in left), 2, *(axis - 1 for axis in right), 3)
    ordered = matrix.reshape([shape[axis] for axis in order])
    return ordered.transpose([order.index(axis) for axis in range(4)])


def _gather(
    x: jax.Array, n: int, axes: Axes, padding: int, size: Pair, sign: int
) -> jax.Array:
    """Lays copies of x, shifted by each tap along `axes`, side by side as channels."""
    channels, copies = x.shape[-1], n ** len(axes)
    total = None
    for i, taps in enumerate(itertools.product(range(n), repeat=len(axes))):
        place = (i * channels, (copies - 1 - i) * channels)
        copy = _shift(x, axes, taps, padding, size, sign, place)
        total = copy if total is None else total + copy
    return cast(jax.Array, total)  # There is at least one tap.


def _scatter(
    y: jax.Array, n: int, axes: Axes, padding: int, size: Pair, sign: int
) -> jax.Array:
    """Sums the blocks of y's channels, each shifted by its tap along `axes`."""
    channels = y.shape[-1] // n ** len(axes)
    total = None
    for i, taps in enumerate(itertools.product(range(n), repeat=len(axes))):
        block = y[..., i * channels : (i + 1) * channels]
        block = _shift(block, axes, taps, padding, size, sign, (0, 0))
        total = block if total is None else total + block
    return cast(jax.Array, total)  # There is at least one tap.


def _shift(
    x: jax.Array,
    axes: Axes,
    taps: tuple[int, ...],
    padding: int,
    size: Pair,
    sign: int,
    place: Pair,
) -> jax.Array:
    """``y[p] = x[p + sign (tap - padding)]`` along `axes`, zero outside x.

    `size` is that of y along `axes`; `place` is the number of channels to add before
    and after.
    """
    config = [(0, 0, 0)] * 3 + [(*place, 0)]
    for axis, tap in zip(axes, taps):
        low = sign * (padding - tap)
        config[axis] = (low, size[axis - 1] - x.shape[axis] - low, 0)
    return jax.lax.pad(x, jnp.zeros((), x.dtype), config)


def tap_products(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Multiplies each pixel by each tap, ``[B, H, W, k k O]``; see `sum_taps`."""
    # The fence is for the gradient, which both derivatives read.
    return fence(_product(x, _as_matrix(kernel, (), (1, 2))))


def sum_taps(y: jax.Array, n: int, padding: Pair) -> jax.Array:
    """Shifts and sums the products of `tap_products`, which gives the convolution.

    A linear map of each channel separately, such as upsampling, may stand between the
    two functions.
    """
    height, width = (m + sum(padding) - n + 1 for m in y.shape[1:3])
    return _scatter(y, n, (1, 2), padding[0], (height, width), 1)


# --- pixels to blocks -----------------------------------------------------------------


def to_blocks(x: jax.Array, side: int, padding: int, count: Pair) -> jax.Array:
    """Takes blocks of pixels as channels, ``[B, *count, side side C]``.

    Args:
      x: ``[B, H, W, C]``.
      side: side of a block.
      padding: rows and columns of zeros before the first pixel of x.
      count: number of blocks along each axis; x is padded or cropped at its end.
    """
    batch, *_, channels = x.shape
    h, w = count
    config = [(0, 0, 0)]
    for m, blocks in zip(x.shape[1:3], count):
        config.append((padding, side * blocks - m - padding, 0))
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), [*config, (0, 0, 0)])
    x = x.reshape(batch, h, side, w, side, channels).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, h, w, side * side * channels)


def to_pixels(blocks: jax.Array, side: int, padding: int, size: Pair) -> jax.Array:
    """Applies the adjoint of `to_blocks`, for an image of `size`."""
    batch, h, w, channels = blocks.shape
    channels //= side * side
    x = blocks.reshape(batch, h, w, side, side, channels).transpose(0, 1, 3, 2, 4, 5)
    x = x.reshape(batch, side * h, side * w, channels)
    config = [(0, 0, 0)]
    for m, count in zip(size, (h, w)):
        config.append((-padding, m + padding - side * count, 0))
    return jax.lax.pad(x, jnp.zeros((), x.dtype), [*config, (0, 0, 0)])


def _blocks(x: jax.Array, n: int, padding: int, size: Pair) -> jax.Array:
    """Takes as many 2×2 blocks as an n×n kernel needs for an output of `size`."""
    h, w = (m + -(-n // 2) - 1 for m in size)
    return to_blocks(x, 2, padding, (h, w))


def block_kernel(kernel: jax.Array) -> jax.Array:
    """Maps ``[k, k, I, O]`` to the kernel ``[⌈k/2⌉, ⌈k/2⌉, 4 I, O]`` on blocks."""
    n, _, inputs, outputs = kernel.shape
    half, odd = -(-n // 2), n % 2
    kernel = jnp.pad(kernel, ((0, odd), (0, odd), (0, 0), (0, 0)))
    kernel = kernel.reshape(half, 2, half, 2, inputs, outputs)
    return kernel.transpose(0, 2, 1, 3, 4, 5).reshape(half, half, 4 * inputs, outputs)


def _pixel_kernel(blocks: jax.Array, n: int) -> jax.Array:
    """Applies the adjoint of `block_kernel`, for an n×n kernel."""
    half, _, inputs, outputs = blocks.shape
    kernel = blocks.reshape(half, half, 2, 2, inputs // 4, outputs)
    kernel = kernel.transpose(0, 2, 1, 3, 4, 5)
    return kernel.reshape(2 * half, 2 * half, inputs // 4, outputs)[:n, :n]
