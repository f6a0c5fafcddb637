"""Convolutions and their transposes, with the same semantics on every platform.

Accelerators run XLA's own convolutions. On CPU those are slow if they are transposed,
have few outputs or a single input, or are under `vmap` over kernels; there the
convolution is a matrix product (`matrix_convolution`). Wide layers stay native on CPU,
in the forward pass and, for stride 1, in the backward pass: with
`models.compiler_options` XLA's convolution uses all threads and copies nothing.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from disentangle_jax.models.matrix_convolution import (
    Pair,
    divide_taps,
    matmul_adjoint,
    matmul_conv,
    matmul_kernel_gradient,
)

_DIMENSIONS = ("NHWC", "HWIO", "NHWC")
_UNROLLED_LANES = 16  # Most lanes to unroll on CPU: the program grows with them.


def conv(x: jax.Array, kernel: jax.Array, *, stride: int, padding: Pair) -> jax.Array:
    """Returns the zero-padded correlation of images with a kernel, ``[B, H', W', O]``.

    Args:
      x: ``[B, H, W, I]``.
      kernel: ``[k, k, I, O]``.
      stride: 1 or 2, along both image axes.
      padding: ``(before, after)`` along both image axes.
    """
    return _conv(x, kernel, stride, padding)


def conv_transpose(
    x: jax.Array, kernel: jax.Array, *, stride: int = 2, padding: Pair
) -> jax.Array:
    """Applies the adjoint in x of `conv`: ``[B, H', W', O]``.

    ``H' = stride (H - 1) + k - sum(padding)``.

    Args:
      x: ``[B, H, W, I]``.
      kernel: ``[k, k, O, I]``, that of the convolution that is transposed.
      stride: 1 or 2, of that convolution.
      padding: ``(before, after)`` of that convolution.
    """
    size = tuple(
        stride * (n - 1) + kernel.shape[0] - sum(padding) for n in x.shape[1:3]
    )
    return _adjoint(x, kernel, stride, padding, size)


# --- derivative rules -----------------------------------------------------------------
#
# A convolution, its adjoint and the gradient of its kernel are each other's
# derivatives. Each chooses by platform inside, so the arguments are the only residuals.


# What a derivative needs again: the two arguments; also the two derivatives.
Residuals = tuple[jax.Array, jax.Array]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _conv(x: jax.Array, kernel: jax.Array, stride: int, padding: Pair) -> jax.Array:
    settings: dict[str, Any] = dict(stride=stride, padding=padding)
    return _dispatch(
        functools.partial(native_conv, **settings),
        functools.partial(matmul_conv, **settings),
        functools.partial(native_conv, **settings),
        _matmul_wins(x.shape, kernel.shape) if stride == 1 else _few(kernel.shape),
        x,
        kernel,
    )


def _conv_forward(
    x: jax.Array, kernel: jax.Array, stride: int, padding: Pair
) -> tuple[jax.Array, Residuals]:
    return _conv(x, kernel, stride, padding), (x, kernel)


def _conv_backward(
    stride: int, padding: Pair, residuals: Residuals, g: jax.Array
) -> Residuals:
    x, kernel = residuals
    dx = _adjoint(g, kernel, stride, padding, x.shape[1:3])
    return dx, _kernel_gradient(x, g, kernel.shape[0], stride, padding)


_conv.defvjp(_conv_forward, _conv_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _adjoint(
    g: jax.Array, kernel: jax.Array, stride: int, padding: Pair, size: tuple[int, ...]
) -> jax.Array:
    settings: dict[str, Any] = dict(stride=stride, padding=padding, size=size)
    return _dispatch(
        functools.partial(native_adjoint, **settings),
        functools.partial(matmul_adjoint, **settings),
        functools.partial(_canonical_adjoint, padding=padding),
        stride == 2 or _matmul_wins(g.shape, kernel.shape),
        g,
        kernel,
    )


def _adjoint_forward(
    g: jax.Array, kernel: jax.Array, stride: int, padding: Pair, size: tuple[int, ...]
) -> tuple[jax.Array, Residuals]:
    return _adjoint(g, kernel, stride, padding, size), (g, kernel)


def _adjoint_backward(
    stride: int,
    padding: Pair,
    size: tuple[int, ...],
    residuals: Residuals,
    dx: jax.Array,
) -> Residuals:
    del size
    g, kernel = residuals
    dkernel = _kernel_gradient(dx, g, kernel.shape[0], stride, padding)
    return _conv(dx, kernel, stride, padding), dkernel


_adjoint.defvjp(_adjoint_forward, _adjoint_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def _kernel_gradient(
    x: jax.Array, g: jax.Array, kernel_size: int, stride: int, padding: Pair
) -> jax.Array:
    settings: dict[str, Any] = dict(
        kernel_size=kernel_size, stride=stride, padding=padding
    )
    shape = (kernel_size, kernel_size, x.shape[-1], g.shape[-1])
    return _dispatch(
        functools.partial(native_kernel_gradient, **settings),
        functools.partial(matmul_kernel_gradient, **settings),
        functools.partial(_canonical_kernel_gradient, **settings),
        _matmul_wins(x.shape, shape) if stride == 1 else x.shape[-1] > 3 or _few(shape),
        x,
        g,
    )


def _kernel_gradient_forward(
    x: jax.Array, g: jax.Array, kernel_size: int, stride: int, padding: Pair
) -> tuple[jax.Array, Residuals]:
    return _kernel_gradient(x, g, kernel_size, stride, padding), (x, g)


def _kernel_gradient_backward(
    kernel_size: int,
    stride: int,
    padding: Pair,
    residuals: Residuals,
    dkernel: jax.Array,
) -> Residuals:
    del kernel_size
    x, g = residuals
    dx = _adjoint(g, dkernel, stride, padding, x.shape[1:3])
    return dx, _conv(x, dkernel, stride, padding)


_kernel_gradient.defvjp(_kernel_gradient_forward, _kernel_gradient_backward)


def _matmul_wins(image: tuple[int, ...], kernel: tuple[int, ...]) -> bool:
    """Returns whether a stride-1 convolution is faster as a product on CPU.

    It is if there are so few outputs that x need not be copied. It also is if the image
    is smaller than the kernel: XLA then swaps the two and runs a slow loop.
    """
    return divide_taps(kernel)[0] == () or min(image[1:3]) < kernel[0]


def _few(kernel: tuple[int, ...]) -> bool:
    """Returns whether copies for a stride-2 convolution of one channel are few."""
    return kernel[0] <= 4 and kernel[2] == 1


def _dispatch(
    native: Callable,
    matmul: Callable,
    canonical: Callable,
    matmul_wins: bool,
    a: jax.Array,
    b: jax.Array,
) -> jax.Array:
    """Runs `native` on accelerators; on CPU `matmul` if it wins, else `canonical`.

    Under `vmap` over kernels XLA makes one grouped convolution, which is slow on CPU.
    There, few lanes are convolved one by one, because copying slices costs less. Many
    lanes become batched products, because that compiles faster.
    """
    cpu = _fenced(matmul)
    if not matmul_wins:
        products = cpu
        cpu = jax.custom_batching.custom_vmap(canonical)

        @cpu.def_vmap
        def _(
            axis_size: int, in_batched: list[bool], a: jax.Array, b: jax.Array
        ) -> tuple[jax.Array, bool]:
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
    """Keeps XLA from fusing, and so repeating, the neighbours into the copies."""

    def fenced(a: jax.Array, b: jax.Array) -> jax.Array:
        a, b = jax.lax.optimization_barrier((a, b))
        return jax.lax.optimization_barrier(function(a, b))

    return fenced


# --- XLA's own convolutions -----------------------------------------------------------


def native_conv(
    x: jax.Array, kernel: jax.Array, *, stride: int, padding: Pair
) -> jax.Array:
    """Computes `conv` with XLA's convolution."""
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), (padding, padding), dimension_numbers=_DIMENSIONS
    )


def native_adjoint(
    g: jax.Array, kernel: jax.Array, *, stride: int, padding: Pair, size: Pair
) -> jax.Array:
    """Applies the adjoint in x of `native_conv`, for x of `size`."""
    x = jax.ShapeDtypeStruct((g.shape[0], *size, kernel.shape[2]), g.dtype)
    forward = functools.partial(
        native_conv, kernel=kernel, stride=stride, padding=padding
    )
    return jax.linear_transpose(forward, x)(g)[0]


def native_kernel_gradient(
    x: jax.Array, g: jax.Array, *, kernel_size: int, stride: int, padding: Pair
) -> jax.Array:
    """Applies the adjoint in the kernel of `native_conv`."""
    if stride == 1 and min(g.shape[1:3]) > min(x.shape[1:3]):
        # XLA would take g as the image because it is larger, and reverse all of it.
        # Here x is the kernel, and only the result is reversed.
        before, after = (kernel_size - 1 - side for side in padding)
        dimensions = ("CHWN", "IHWO", "HWCN")
        reversed_kernel = jax.lax.conv_general_dilated(
            g, x, (1, 1), ((before, after),) * 2, dimension_numbers=dimensions
        )
        return reversed_kernel[::-1, ::-1]
    shape = (kernel_size, kernel_size, x.shape[-1], g.shape[-1])
    kernel = jax.ShapeDtypeStruct(shape, x.dtype)
    forward = functools.partial(native_conv, x, stride=stride, padding=padding)
    return jax.linear_transpose(forward, kernel)(g)[0]


# --- the same, as XLA's CPU compiler needs them ---------------------------------------
#
# XLA runs a convolution fast on CPU if its axes have the order of `_DIMENSIONS`. It
# transposes others to that order by itself, but not inside loops and conditionals,
# where they would be many times slower.


def _canonical_adjoint(g: jax.Array, kernel: jax.Array, *, padding: Pair) -> jax.Array:
    """Computes `native_adjoint` for stride 1."""
    flipped = kernel[::-1, ::-1].swapaxes(2, 3)
    before, after = (kernel.shape[0] - 1 - n for n in padding)
    return native_conv(g, flipped, stride=1, padding=(before, after))


def _canonical_kernel_gradient(
    x: jax.Array, g: jax.Array, *, kernel_size: int, stride: int, padding: Pair
) -> jax.Array:
    """Computes `native_kernel_gradient`: g is the kernel, the batch its channels."""
    paddings = [
        (padding[0], kernel_size + stride * (m - 1) - n - padding[0])
        for n, m in zip(x.shape[1:3], g.shape[1:3])
    ]
    gradient = jax.lax.conv_general_dilated(
        x.transpose(3, 1, 2, 0),
        g.transpose(1, 2, 0, 3),
        (1, 1),
        paddings,
        rhs_dilation=(stride, stride),
        dimension_numbers=_DIMENSIONS,
    )
    return gradient.transpose(1, 2, 0, 3)
