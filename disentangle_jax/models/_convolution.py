r"""Convolutions and their transposes, with one meaning on every platform.

Accelerators get XLA's own convolutions. On CPU those are slow where they are
transposed, where they have few outputs, and under `vmap` over kernels; there a
convolution is one matrix product, with the kernel's taps divided between its two sides:

.. math::
    y[p] = \sum_b \Big( \sum_a x[p + a + b] \, K[a + b] \Big)

Copies of x shifted by each tap a are laid side by side as channels ("gather"), one
product with the matrix ``[(a, c), (b, o)]`` follows, and its column blocks are shifted
by each tap b and summed ("scatter"). With all taps on the left this is im2col; with the
columns of the kernel on the left and its rows on the right, 3×3 taps cost copies of 3
instead of 9 times the features. The adjoint and the gradient of the kernel are products
with the same two pieces, so they are as fast. A stride of 2 is a stride of 1 on 2×2
blocks of pixels taken as channels.

Shifted copies are sums of zero-padded arrays, not concatenations, since XLA's loops
over the former are vectorised. The wide layers stay native, forward and, for stride 1,
backward: with `models.compiler_options` XLA's convolution uses all threads and copies
nothing.
"""

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp

_DIMENSIONS = ("NHWC", "HWIO", "NHWC")
_UNROLLED_LANES = 16  # on CPU, at most; the program grows with them
Axes = tuple[int, ...]  # of an image: 1 its rows, 2 its columns


def conv(
    x: jax.Array, kernel: jax.Array, *, stride: int, padding: tuple[int, int]
) -> jax.Array:
    """Correlates ``[B, H, W, I]`` with ``[k, k, I, O]``, zero-padded.

    Args:
      x: ``[B, H, W, I]``.
      kernel: ``[k, k, I, O]``.
      stride: both strides, 1 or 2.
      padding: ``(before, after)`` for both image axes.
    """
    return _conv(x, kernel, stride, padding)


def conv_transpose(
    x: jax.Array, kernel: jax.Array, *, padding: tuple[int, int]
) -> jax.Array:
    """The adjoint in x of `conv` with stride 2: ``[B, H, W, I] -> [B, H', W', O]``.

    ``H' = 2 (H - 1) + k - sum(padding)``.

    Args:
      x: ``[B, H, W, I]``.
      kernel: ``[k, k, O, I]``, the kernel of the convolution that is transposed.
      padding: ``(before, after)`` of that convolution.
    """
    size = tuple(2 * (n - 1) + kernel.shape[0] - sum(padding) for n in x.shape[1:3])
    return _adjoint(x, kernel, 2, padding, size)


def tap_products(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Products of each pixel with each tap, ``[B, H, W, k k O]``; see `sum_taps`."""
    # The fence is for the gradient, which both derivatives read.
    return fence(_product(x, _as_matrix(kernel, (), (1, 2))))


def sum_taps(y: jax.Array, n: int, padding: tuple[int, int]) -> jax.Array:
    """Sums the products of `tap_products` where they belong: together a convolution.

    Between the two may stand whatever maps each channel by itself and linearly.
    """
    size = tuple(m + sum(padding) - n + 1 for m in y.shape[1:3])
    return _scatter(y, n, (1, 2), padding[0], size, 1)


def fence(x: jax.Array) -> jax.Array:
    """Asks XLA's CPU compiler to compute x once, not anew inside each of its readers.

    A hint: it keeps passes before the fusion of loops apart, not that one itself.
    """
    return jax.lax.platform_dependent(
        x, cpu=jax.lax.optimization_barrier, default=lambda x: x
    )


# --- the same derivative rules for every platform ------------------------------------
#
# A convolution, its adjoint and its kernel's gradient are each other's derivatives. The
# choice of platform is made inside each, so that the residuals are the arguments alone.


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _conv(x, kernel, stride, padding):
    settings = dict(stride=stride, padding=padding)
    return _dispatch(
        functools.partial(native_conv, **settings),
        functools.partial(matmul_conv, **settings),
        stride == 1 and _matmul_wins(x.shape, kernel.shape),
        x,
        kernel,
    )


def _conv_forward(x, kernel, stride, padding):
    return _conv(x, kernel, stride, padding), (x, kernel)


def _conv_backward(stride, padding, residuals, g):
    x, kernel = residuals
    dx = _adjoint(g, kernel, stride, padding, x.shape[1:3])
    return dx, _kernel_gradient(x, g, kernel.shape[0], stride, padding)


_conv.defvjp(_conv_forward, _conv_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _adjoint(g, kernel, stride, padding, size):
    settings = dict(stride=stride, padding=padding, size=size)
    return _dispatch(
        functools.partial(native_adjoint, **settings),
        functools.partial(matmul_adjoint, **settings),
        stride == 2 or _matmul_wins(g.shape, kernel.shape),
        g,
        kernel,
    )


def _adjoint_forward(g, kernel, stride, padding, size):
    return _adjoint(g, kernel, stride, padding, size), (g, kernel)


def _adjoint_backward(stride, padding, size, residuals, dx):
    del size
    g, kernel = residuals
    dkernel = _kernel_gradient(dx, g, kernel.shape[0], stride, padding)
    return _conv(dx, kernel, stride, padding), dkernel


_adjoint.defvjp(_adjoint_forward, _adjoint_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _kernel_gradient(x, g, kernel_size, stride, padding):
    settings = dict(kernel_size=kernel_size, stride=stride, padding=padding)
    shape = (kernel_size, kernel_size, x.shape[-1], g.shape[-1])
    return _dispatch(
        functools.partial(native_kernel_gradient, **settings),
        functools.partial(matmul_kernel_gradient, **settings),
        _matmul_wins(x.shape, shape) if stride == 1 else x.shape[-1] > 3,
        x,
        g,
    )


def _kernel_gradient_forward(x, g, kernel_size, stride, padding):
    return _kernel_gradient(x, g, kernel_size, stride, padding), (x, g)


def _kernel_gradient_backward(kernel_size, stride, padding, residuals, dkernel):
    del kernel_size
    x, g = residuals
    dx = _adjoint(g, dkernel, stride, padding, x.shape[1:3])
    return dx, _conv(x, dkernel, stride, padding)


_kernel_gradient.defvjp(_kernel_gradient_forward, _kernel_gradient_backward)


def _matmul_wins(image: tuple[int, ...], kernel: tuple[int, ...]) -> bool:
    """Whether a stride-1 convolution is faster as a product on CPU, from its shapes.

    So it is where the outputs are so few that x need not be copied at all, and where
    the image is smaller than the kernel, which XLA swaps, into a slow loop.
    """
    return _divide_taps(kernel)[0] == () or min(image[1:3]) < kernel[0]


def _dispatch(
    native: Callable, matmul: Callable, matmul_wins: bool, a: jax.Array, b: jax.Array
) -> jax.Array:
    """Runs `native` on accelerators and the faster one, as measured, on CPU.

    Under `vmap` over kernels XLA makes one grouped convolution, which is slow on CPU:
    there a few lanes are convolved one by one, since copies of slices cost less, and
    many take products, which become batched ones, since that compiles sooner.
    """
    cpu = _fenced(matmul)
    if not matmul_wins:
        products = cpu
        cpu = jax.custom_batching.custom_vmap(native)

        @cpu.def_vmap
        def _(axis_size, in_batched, a, b):
            if axis_size > _UNROLLED_LANES:
                axes = tuple(0 if batched else None for batched in in_batched)
                return jax.vmap(products, in_axes=axes)(a, b), True
            a, b = jax.lax.optimization_barrier((a, b))
            lanes = [
                cpu(a[i] if in_batched[0] else a, b[i] if in_batched[1] else b)
                for i in range(axis_size)
            ]
            return jax.lax.optimization_barrier(jnp.stack(lanes)), True

    return jax.lax.platform_dependent(a, b, cpu=cpu, default=native)


def _fenced(function: Callable) -> Callable:
    """Keeps XLA from fusing neighbours into the copies, which would repeat them."""

    def fenced(a, b):
        a, b = jax.lax.optimization_barrier((a, b))
        return jax.lax.optimization_barrier(function(a, b))

    return fenced


# --- XLA's own convolutions -----------------------------------------------------------


def native_conv(
    x: jax.Array, kernel: jax.Array, *, stride: int, padding: tuple[int, int]
) -> jax.Array:
    """`conv` as XLA has it."""
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), (padding, padding), dimension_numbers=_DIMENSIONS
    )


def native_adjoint(
    g: jax.Array,
    kernel: jax.Array,
    *,
    stride: int,
    padding: tuple[int, int],
    size: tuple[int, int],
) -> jax.Array:
    """The adjoint in x of `native_conv`, for x of `size`."""
    x = jax.ShapeDtypeStruct((g.shape[0], *size, kernel.shape[2]), g.dtype)
    forward = functools.partial(
        native_conv, kernel=kernel, stride=stride, padding=padding
    )
    return jax.linear_transpose(forward, x)(g)[0]


def native_kernel_gradient(
    x: jax.Array,
    g: jax.Array,
    *,
    kernel_size: int,
    stride: int,
    padding: tuple[int, int],
) -> jax.Array:
    """The adjoint in the kernel of `native_conv`."""
    shape = (kernel_size, kernel_size, x.shape[-1], g.shape[-1])
    kernel = jax.ShapeDtypeStruct(shape, x.dtype)
    forward = functools.partial(native_conv, x, stride=stride, padding=padding)
    return jax.linear_transpose(forward, kernel)(g)[0]


# --- matrix products ------------------------------------------------------------------


def matmul_conv(
    x: jax.Array, kernel: jax.Array, *, stride: int, padding: tuple[int, int]
) -> jax.Array:
    """`conv` as a matrix product."""
    n = kernel.shape[0]
    size = tuple((m + sum(padding) - n) // stride + 1 for m in x.shape[1:3])
    if stride == 2:
        x = _blocks(x, n, padding[0], size)
        return matmul_conv(x, _block_kernel(kernel), stride=1, padding=(0, 0))
    left, right = _divide_taps(kernel.shape)
    gathered = _gather(x, n, left, padding[0], size, 1)
    y = _product(gathered, _as_matrix(kernel, left, right))
    return _scatter(y, n, right, padding[0], size, 1)


def matmul_adjoint(
    g: jax.Array,
    kernel: jax.Array,
    *,
    stride: int,
    padding: tuple[int, int],
    size: tuple[int, int],
) -> jax.Array:
    """The adjoint in x of `matmul_conv`, for x of `size`."""
    n = kernel.shape[0]
    if stride == 2:
        kernel = _block_kernel(kernel)
        block_size = tuple(m + kernel.shape[0] - 1 for m in g.shape[1:3])
        x = matmul_adjoint(g, kernel, stride=1, padding=(0, 0), size=block_size)
        return _pixels(x, padding[0], size)
    left, right = _divide_taps(kernel.shape)
    matrix = _as_matrix(kernel, left, right)
    y = _product(_gather(g, n, right, padding[0], size, -1), matrix.T)
    return _scatter(y, n, left, padding[0], size, -1)


def matmul_kernel_gradient(
    x: jax.Array,
    g: jax.Array,
    *,
    kernel_size: int,
    stride: int,
    padding: tuple[int, int],
) -> jax.Array:
    """The adjoint in the kernel of `matmul_conv`."""
    n, size = kernel_size, g.shape[1:3]
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
    left, right = _divide_taps(shape)
    gathered_x = _gather(x, n, left, padding[0], size, 1)
    gathered_g = _gather(g, n, right, padding[0], x.shape[1:3], -1)
    # As a product of each half of the rows: the sum over all would run on one thread.
    halves = 2 if gathered_x.size // gathered_x.shape[-1] % 2 == 0 else 1
    rows = (m.reshape(halves, -1, m.shape[-1]) for m in (gathered_x, gathered_g))
    matrix = jax.lax.dot_general(*rows, (((1,), (1,)), ((0,), (0,)))).sum(0)
    return _from_matrix(matrix, shape, left, right)


def _product(x: jax.Array, matrix: jax.Array) -> jax.Array:
    """``x @ matrix``, of two axes each: with more, XLA would transpose x."""
    return (x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], -1)


def _divide_taps(shape: tuple[int, ...]) -> tuple[Axes, Axes]:
    """Divides the axes of the taps between left and right: the least to copy."""
    n, _, inputs, outputs = shape
    return min(
        (((1, 2), ()), ((2,), (1,)), ((), (1, 2))),
        key=lambda sides: n ** len(sides[0]) * inputs + n ** len(sides[1]) * outputs,
    )


def _as_matrix(kernel: jax.Array, left: Axes, right: Axes) -> jax.Array:
    """``[k, k, I, O]`` to ``[(left taps, I), (right taps, O)]``."""
    n, _, inputs, _ = kernel.shape
    order = (*(axis - 1 for axis in left), 2, *(axis - 1 for axis in right), 3)
    return kernel.transpose(order).reshape(n ** len(left) * inputs, -1)


def _from_matrix(
    matrix: jax.Array, shape: tuple[int, ...], left: Axes, right: Axes
) -> jax.Array:
    """The inverse of `_as_matrix`, for a kernel of `shape`."""
    order = (*(axis - 1 for axis in left), 2, *(axis - 1 for axis in right), 3)
    ordered = matrix.reshape([shape[axis] for axis in order])
    return ordered.transpose([order.index(axis) for axis in range(4)])


def _gather(
    x: jax.Array, n: int, axes: Axes, padding: int, size: tuple[int, int], sign: int
) -> jax.Array:
    """Lays copies of x, shifted by each tap along `axes`, side by side as channels."""
    channels, copies = x.shape[-1], n ** len(axes)
    total = None
    for i, taps in enumerate(itertools.product(range(n), repeat=len(axes))):
        place = (i * channels, (copies - 1 - i) * channels)
        copy = _shift(x, axes, taps, padding, size, sign, place)
        total = copy if total is None else total + copy
    return total


def _scatter(
    y: jax.Array, n: int, axes: Axes, padding: int, size: tuple[int, int], sign: int
) -> jax.Array:
    """Sums the blocks of y's channels, each shifted by its tap along `axes`."""
    channels = y.shape[-1] // n ** len(axes)
    total = None
    for i, taps in enumerate(itertools.product(range(n), repeat=len(axes))):
        block = y[..., i * channels : (i + 1) * channels]
        block = _shift(block, axes, taps, padding, size, sign, (0, 0))
        total = block if total is None else total + block
    return total


def _shift(
    x: jax.Array,
    axes: Axes,
    taps: tuple[int, ...],
    padding: int,
    size: tuple[int, int],
    sign: int,
    place: tuple[int, int],
) -> jax.Array:
    """``y[p] = x[p + sign (tap - padding)]`` along `axes`, zero outside x.

    `size` is that of y along `axes`; `place` counts the channels before and after.
    """
    config = [(0, 0, 0)] * 3 + [(*place, 0)]
    for axis, tap in zip(axes, taps):
        low = sign * (padding - tap)
        config[axis] = (low, size[axis - 1] - x.shape[axis] - low, 0)
    return jax.lax.pad(x, jnp.zeros((), x.dtype), config)


# --- pixels to 2×2 blocks -------------------------------------------------------------


def _blocks(x: jax.Array, n: int, padding: int, size: tuple[int, int]) -> jax.Array:
    """Pads the image and takes its 2×2 blocks as channels, ``[B, H', W', 4 C]``.

    As many blocks as an n×n kernel with stride 2 needs for an output of `size`.
    """
    batch, *_, channels = x.shape
    h, w = (m + -(-n // 2) - 1 for m in size)
    config = [(0, 0, 0)]
    for m, count in zip(x.shape[1:3], (h, w)):
        config.append((padding, 2 * count - m - padding, 0))
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), [*config, (0, 0, 0)])
    x = x.reshape(batch, h, 2, w, 2, channels).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(batch, h, w, 4 * channels)


def _pixels(blocks: jax.Array, padding: int, size: tuple[int, int]) -> jax.Array:
    """The adjoint of `_blocks`."""
    batch, h, w, channels = blocks.shape
    x = blocks.reshape(batch, h, w, 2, 2, channels // 4).transpose(0, 1, 3, 2, 4, 5)
    x = x.reshape(batch, 2 * h, 2 * w, channels // 4)
    config = [(0, 0, 0)]
    for m, count in zip(size, (h, w)):
        config.append((-padding, m + padding - 2 * count, 0))
    return jax.lax.pad(x, jnp.zeros((), x.dtype), [*config, (0, 0, 0)])


def _block_kernel(kernel: jax.Array) -> jax.Array:
    """``[k, k, I, O]`` to the kernel ``[k/2, k/2, 4 I, O]`` on blocks, k rounded up."""
    n, _, inputs, outputs = kernel.shape
    half, odd = -(-n // 2), n % 2
    kernel = jnp.pad(kernel, ((0, odd), (0, odd), (0, 0), (0, 0)))
    kernel = kernel.reshape(half, 2, half, 2, inputs, outputs)
    return kernel.transpose(0, 2, 1, 3, 4, 5).reshape(half, half, 4 * inputs, outputs)


def _pixel_kernel(blocks: jax.Array, n: int) -> jax.Array:
    """The adjoint of `_block_kernel`, for an n×n kernel."""
    half, _, inputs, outputs = blocks.shape
    kernel = blocks.reshape(half, half, 2, 2, inputs // 4, outputs)
    kernel = kernel.transpose(0, 2, 1, 3, 4, 5)
    return kernel.reshape(2 * half, 2 * half, inputs // 4, outputs)[:n, :n]
