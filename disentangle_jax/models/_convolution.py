"""Convolutions and their transposes, with one meaning on every platform."""

import jax

_DIMENSIONS = ("NHWC", "HWIO", "NHWC")


def conv(
    x: jax.Array, kernel: jax.Array, *, stride: int, padding: tuple[int, int]
) -> jax.Array:
    """Correlates ``[B, H, W, I]`` with ``[k, k, I, O]``, zero-padded.

    Args:
      x: ``[B, H, W, I]``.
      kernel: ``[k, k, I, O]``.
      stride: both strides.
      padding: ``(before, after)`` for both image axes.
    """
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), (padding, padding), dimension_numbers=_DIMENSIONS
    )


def conv_transpose(
    x: jax.Array, kernel: jax.Array, *, padding: tuple[int, int]
) -> jax.Array:
    """The adjoint in x of `conv` with stride 2: ``[B, H, W, I] -> [B, H', W', O]``.

    Args:
      x: ``[B, H, W, I]``.
      kernel: ``[k, k, O, I]``, the kernel of the convolution that is transposed.
      padding: ``(before, after)`` of that convolution.
    """
    last = kernel.shape[0] - 1
    return jax.lax.conv_general_dilated(
        x,
        kernel[::-1, ::-1].swapaxes(2, 3),
        (1, 1),
        ((last - padding[0], last - padding[1]),) * 2,
        lhs_dilation=(2, 2),
        dimension_numbers=_DIMENSIONS,
    )
