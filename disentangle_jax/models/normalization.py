"""Group normalisation whose passes over the image XLA can fuse with its neighbours."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

_LARGE = 16  # Least side of images whose norm takes a pixel of theirs.
_CROP = 6  # Side of the part of an image that this pixel depends on.


def group_norm(
    x: jax.Array,
    scale: jax.Array,
    bias: jax.Array,
    groups: int,
    epsilon: float,
    *,
    offset: jax.Array | None = None,
    pixel: jax.Array | None = None,
) -> jax.Array:
    r"""Normalises ``[B, H, W, C]`` by the mean and variance of each group of channels.

    Every pass over the image sums or maps each channel separately, with all channels
    adjacent, so that XLA vectorises it; groups are formed on the sums ``[B, C]``. The
    gradients of `scale`, `bias` and `offset` follow from two such sums, which one pass
    computes together.

    On TPUs, with `pixel`, one pass computes mean and variance. Let s be the pixel and n
    the number of pixels. The variance of a channel is

    .. math:: \frac1n \sum_i (x_i - s)^2 - \Big(\frac1n \sum_i (x_i - s)\Big)^2,

    for any s. If s is a pixel of the channel, the second term is at most n - 1 times
    the variance, whatever the mean, so that cancellation costs a relative error of at
    most n roundings. Elsewhere a second pass sums the squares around the mean.

    Args:
      x: ``[B, H, W, C]``.
      scale: ``[C]``.
      bias: ``[C]``, added after the normalisation.
      groups: number of groups of adjacent channels; divides C.
      epsilon: added to the variance.
      offset: ``[C]``, added to x before the normalisation, like the bias of a
        convolution. Its gradient needs no pass over the image.
      pixel: ``[B, C]``, about the value of one pixel of x, as of `central_pixel`. The
        result depends on it by rounding only. It should not be computed from x itself:
        XLA then could not sum over x where it computes x.

    Couples the batch: no.
    """
    if offset is None:
        offset = jnp.zeros_like(scale)
    offset = offset.astype(jnp.float32)
    if pixel is not None:
        pixel = jax.lax.stop_gradient(pixel.astype(jnp.float32))
    return _group_norm(x, scale, bias, offset, pixel, groups, epsilon)


def central_pixel(
    layer: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array, kernel: jax.Array
) -> jax.Array | None:
    """Returns a pixel of ``layer(x, kernel)``, ``[B, C]``, to pass to `group_norm`.

    It applies the layer to a few pixels at the centre of x. It is zero on platforms
    other than TPUs, where `group_norm` does not use it, and None for small images.

    Args:
      layer: a convolution, with or without resampling by 2.
      x: ``[B, H, W, I]``.
      kernel: kernel of the convolution, of at most 5×5 pixels.
    """
    if min(x.shape[1:3]) < _LARGE:
        return None
    x, kernel = jax.lax.stop_gradient((x, kernel))
    pixel = functools.partial(pixel_of_crop, layer)
    like = jax.eval_shape(pixel, x, kernel)
    return jax.lax.platform_dependent(
        x, kernel, tpu=pixel, default=lambda *_: jnp.zeros(like.shape, like.dtype)
    )


def pixel_of_crop(
    layer: Callable[[jax.Array, jax.Array], jax.Array], x: jax.Array, kernel: jax.Array
) -> jax.Array:
    """Computes `central_pixel` on any platform."""
    row, column = ((side - _CROP) // 4 * 2 for side in x.shape[1:3])
    y = layer(x[:, row : row + _CROP, column : column + _CROP], kernel)
    return y[:, y.shape[1] // 2, y.shape[2] // 2]


@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _group_norm(
    x: jax.Array,
    scale: jax.Array,
    bias: jax.Array,
    offset: jax.Array,
    pixel: jax.Array | None,
    groups: int,
    epsilon: float,
) -> jax.Array:
    return _forward(x, scale, bias, offset, pixel, groups, epsilon)[0]


def _forward(
    x: jax.Array,
    scale: jax.Array,
    bias: jax.Array,
    offset: jax.Array,
    pixel: jax.Array | None,
    groups: int,
    epsilon: float,
) -> tuple[jax.Array, tuple[jax.Array | None, ...]]:
    statistics = functools.partial(two_passes, groups=groups)
    if pixel is None:
        mean, from_mean, variance = statistics(x, offset)
    else:
        mean, from_mean, variance = jax.lax.platform_dependent(
            x,
            offset,
            pixel,
            tpu=functools.partial(one_pass, groups=groups),
            default=lambda x, offset, _: statistics(x, offset),
        )
    inverse = jax.lax.rsqrt(variance + epsilon)
    slope = inverse * scale[None, :]
    y = (x.astype(jnp.float32) - _over_space(mean)) * _over_space(slope)
    y = (y + bias[None, None, None, :]).astype(x.dtype)
    return y, (x, scale, mean, from_mean, inverse, pixel)


def two_passes(
    x: jax.Array, offset: jax.Array, *, groups: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the statistics of x plus the offset, each ``[B, C]``.

    These are the mean of the channel's group less the offset, the difference between
    the means of channel and group, and the variance of the group.
    """
    x = x.astype(jnp.float32)
    channel = x.mean((1, 2)) + offset[None, :]
    mean = _group_mean(channel, groups)
    from_mean, mean = channel - mean, mean - offset[None, :]
    squares = jnp.square(x - _over_space(mean)).mean((1, 2))
    return mean, from_mean, _group_mean(squares, groups)


def one_pass(
    x: jax.Array, offset: jax.Array, pixel: jax.Array, *, groups: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns the same as `two_passes`, from sums of differences to `pixel`."""
    centred = x.astype(jnp.float32) - _over_space(pixel)
    first, second = centred.mean((1, 2)), jnp.square(centred).mean((1, 2))
    within = jnp.maximum(second - jnp.square(first), 0)
    # Differences to a value near the mean stay exact where the mean is large.
    near = _group_mean(pixel, groups)
    channel = first + (pixel - near) + offset[None, :]
    mean = _group_mean(channel, groups)
    from_mean = channel - mean
    variance = _group_mean(within + jnp.square(from_mean), groups)
    return near + (mean - offset[None, :]), from_mean, variance


def _backward(
    groups: int, epsilon: float, residuals: tuple[Any, ...], g: jax.Array
) -> tuple[jax.Array | None, ...]:
    del epsilon
    x, scale, mean, from_mean, inverse, pixel = residuals
    dtype, count = x.dtype, x.shape[1] * x.shape[2]
    x, g = x.astype(jnp.float32), g.astype(jnp.float32)
    centred = x - _over_space(mean)
    # Sums over space of g and of g times the normalised input, [B, C]. Without the
    # barrier XLA would sum over images in a second pass, not from these.
    sum_g, sum_gx = jax.lax.optimization_barrier(
        (g.sum((1, 2)), (g * centred).sum((1, 2)))
    )
    sum_gx = sum_gx * inverse
    mean_g = _group_mean(sum_g * scale[None, :] / count, groups)
    mean_gx = _group_mean(sum_gx * scale[None, :] / count, groups)
    # The differences come first: the inverse deviation is huge where the variance is
    # tiny.
    slope = inverse * mean_gx
    dx = g * scale[None, None, None, :] - _over_space(mean_g)
    dx = (dx - centred * _over_space(slope)) * _over_space(inverse)
    # The sum of dx over space.
    sum_dx = sum_g * scale[None, :] - count * (mean_g + from_mean * slope)
    doffset = (sum_dx * inverse).sum(0)
    dpixel = None if pixel is None else jnp.zeros_like(pixel)
    return dx.astype(dtype), sum_gx.sum(0), sum_g.sum(0), doffset, dpixel


_group_norm.defvjp(_forward, _backward)


def _over_space(x: jax.Array) -> jax.Array:
    return x[:, None, None, :]


def _group_mean(x: jax.Array, groups: int) -> jax.Array:
    """Replaces each entry of ``[B, C]`` by the mean of its group of channels."""
    grouped = x.reshape(x.shape[0], groups, -1)
    mean = grouped.mean(-1, keepdims=True)
    return jnp.broadcast_to(mean, grouped.shape).reshape(x.shape)
