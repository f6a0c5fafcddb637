"""Layers shared by all networks: dense, convolution, norms, nonlinearities.

Parameters stay float32; `dtype` is the dtype of the arithmetic. Arrays are NHWC.
"""

import functools
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax import types
from disentangle_jax.models import _convolution
from disentangle_jax.models._initializers import initializer as initializer_named


@jax.custom_jvp
def mish(x: jax.Array) -> jax.Array:
    r"""Mish, :math:`x \tanh(\log(1 + e^x))`.

    It equals :math:`x\, t / (t + 2)` with :math:`t = e^x (e^x + 2)`: one exponential
    serves value and derivative.
    """
    return _mish_and_slope(x)[0]


@mish.defjvp
def _mish_jvp(primals, tangents):
    value, slope = _mish_and_slope(primals[0])
    return value, tangents[0] * slope


def _mish_and_slope(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    # Beyond 20 the ratio is 1 in float32, and the exponential must not overflow.
    n = jnp.exp(jnp.minimum(x, 20.0))
    t = n * (n + 2)
    inverse = 1 / (t + 2)
    ratio = t * inverse
    return x * ratio, ratio + 4 * x * n * (n + 1) * inverse * inverse


_NONLINEARITIES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "mish": mish,
    "elu": jax.nn.elu,
    "relu": jax.nn.relu,
    "leaky_relu_0.1": functools.partial(jax.nn.leaky_relu, negative_slope=0.1),
    "leaky_relu_0.2": functools.partial(jax.nn.leaky_relu, negative_slope=0.2),
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}


def nonlinearity(name: str) -> Callable[[jax.Array], jax.Array]:
    """Returns the elementwise function called `name`."""
    if name not in _NONLINEARITIES:
        raise types.unknown_name(
            "models.create", "nonlinearity", name, list(_NONLINEARITIES)
        )
    return _NONLINEARITIES[name]


class Dense(nn.Module):
    """``[..., I] -> [..., features]``, kernel ``[I, features]``."""

    features: int
    initializer: str = "torch"
    use_bias: bool = True
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init = initializer_named(self.initializer)
        fan_in = x.shape[-1]
        kernel = self.param(
            "kernel",
            init.kernel(fan_in, self.features),
            (fan_in, self.features),
            jnp.float32,
        )
        y = x.astype(self.dtype) @ kernel.astype(self.dtype)
        if self.use_bias:
            bias = self.param("bias", init.bias(fan_in), (self.features,), jnp.float32)
            y = y + jnp.broadcast_to(bias.astype(self.dtype), y.shape)
        return y


class MLP(nn.Module):
    """Dense layers `widths`, a nonlinearity between them and none at the end."""

    widths: Sequence[int]
    nonlinearity: str
    initializer: str = "torch"
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        activate = nonlinearity(self.nonlinearity)
        for i, width in enumerate(self.widths, start=1):
            if i > 1:
                x = activate(x)
            x = Dense(width, self.initializer, dtype=self.dtype, name=f"layer_{i}")(x)
        return x


class Conv(nn.Module):
    """Convolution ``[B, H, W, I] -> [B, H', W', features]``.

    Attributes:
      features: output channels.
      kernel_size: side of the square kernel.
      stride: both strides.
      padding: ``(before, after)`` for both image axes.
      upsampled: whether the input is first upsampled by `upsample`.
      initializer: name of the initialiser.
      use_bias: whether there is a bias.
      dtype: dtype of the arithmetic.
    """

    features: int
    kernel_size: int
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    upsampled: bool = False
    initializer: str = "torch"
    use_bias: bool = True
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init = initializer_named(self.initializer)
        taps = self.kernel_size**2
        fan_in = taps * x.shape[-1]
        kernel = self.param(
            "kernel",
            init.kernel(fan_in, taps * self.features),
            (self.kernel_size, self.kernel_size, x.shape[-1], self.features),
            jnp.float32,
        )
        x, kernel = x.astype(self.dtype), kernel.astype(self.dtype)
        if self.upsampled and taps * self.features < x.shape[-1]:
            # Few outputs: multiply first, upsample less (the two commute).
            products = upsample(_convolution.tap_products(x, kernel))
            y = _convolution.sum_taps(products, self.kernel_size, self.padding)
        else:
            x = upsample(x) if self.upsampled else x
            y = _convolution.conv(x, kernel, stride=self.stride, padding=self.padding)
        if self.use_bias:
            bias = self.param("bias", init.bias(fan_in), (self.features,), jnp.float32)
            y = y + jnp.broadcast_to(bias.astype(self.dtype), y.shape)
        return y


class ConvTranspose(nn.Module):
    """Transposed convolution with stride 2, the adjoint of `Conv`.

    The output side is ``2 (H - 1) + kernel_size - sum(padding)``. The kernel is
    ``[k, k, features, I]``, that of the convolution it transposes; its fan-in is
    counted as PyTorch counts it, from the output channels.

    Attributes:
      features: output channels.
      kernel_size: side of the square kernel.
      padding: ``(before, after)`` of the convolution it transposes.
      initializer: name of the initialiser.
      use_bias: whether there is a bias.
      dtype: dtype of the arithmetic.
    """

    features: int
    kernel_size: int
    padding: tuple[int, int] = (0, 0)
    initializer: str = "torch"
    use_bias: bool = True
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init = initializer_named(self.initializer)
        taps = self.kernel_size**2
        fan_in = taps * self.features
        kernel = self.param(
            "kernel",
            init.kernel(fan_in, taps * x.shape[-1]),
            (self.kernel_size, self.kernel_size, self.features, x.shape[-1]),
            jnp.float32,
        )
        y = _convolution.conv_transpose(
            x.astype(self.dtype), kernel.astype(self.dtype), padding=self.padding
        )
        if self.use_bias:
            bias = self.param("bias", init.bias(fan_in), (self.features,), jnp.float32)
            y = y + jnp.broadcast_to(bias.astype(self.dtype), y.shape)
        return y


class GroupNorm(nn.Module):
    """Group normalisation over space and the channels of each group.

    Statistics are float32 whatever the dtype of the arithmetic.
    """

    groups: int = 8
    epsilon: float = 1e-5
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        channels = x.shape[-1]
        scale = self.param("scale", nn.initializers.ones, (channels,), jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (channels,), jnp.float32)
        return group_norm(x, scale, bias, self.groups, self.epsilon).astype(self.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def group_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array, groups: int, epsilon: float
) -> jax.Array:
    r"""Normalises ``[B, H, W, C]`` by the mean and variance of each group of channels.

    Every pass over the image sums or maps each channel by itself, with all channels
    adjacent; groups are formed on the sums ``[B, C]``. That is what vectorises.

    Args:
      x: ``[B, H, W, C]``.
      scale: ``[C]``.
      bias: ``[C]``.
      groups: how many groups of adjacent channels; divides C.
      epsilon: added to the variance.
    """
    return _group_norm_forward(x, scale, bias, groups, epsilon)[0]


def _group_norm_forward(x, scale, bias, groups, epsilon):
    mean = _group_mean(x.astype(jnp.float32).mean((1, 2)), groups)
    centred = x.astype(jnp.float32) - mean[:, None, None, :]
    variance = _group_mean(jnp.square(centred).mean((1, 2)), groups)
    inverse = jax.lax.rsqrt(variance + epsilon)
    slope = inverse * scale[None, :]
    y = centred * slope[:, None, None, :] + bias[None, None, None, :]
    return y.astype(x.dtype), (x, scale, mean, inverse)


def _group_norm_backward(groups, epsilon, residuals, g):
    del epsilon
    x, scale, mean, inverse = residuals
    dtype, count = x.dtype, x.shape[1] * x.shape[2]
    x, g = x.astype(jnp.float32), g.astype(jnp.float32)
    # Sums over space of g and of g times the normalised input, [B, C].
    sum_g = g.sum((1, 2))
    sum_gx = (g * (x - mean[:, None, None, :])).sum((1, 2)) * inverse
    mean_g = _group_mean(sum_g * scale[None, :] / count, groups)
    mean_gx = _group_mean(sum_gx * scale[None, :] / count, groups)
    # Differences first, then the inverse deviation, which is huge where the variance is
    # tiny.
    slope = inverse * mean_gx
    centred = x - mean[:, None, None, :]
    dx = g * scale[None, None, None, :] - mean_g[:, None, None, :]
    dx = (dx - centred * slope[:, None, None, :]) * inverse[:, None, None, :]
    return dx.astype(dtype), sum_gx.sum(0), sum_g.sum(0)


group_norm.defvjp(_group_norm_forward, _group_norm_backward)


def _group_mean(x: jax.Array, groups: int) -> jax.Array:
    """Replaces each entry of ``[B, C]`` by the mean of its group of channels."""
    grouped = x.reshape(x.shape[0], groups, -1)
    mean = grouped.mean(-1, keepdims=True)
    return jnp.broadcast_to(mean, grouped.shape).reshape(x.shape)


def batch_norm(train: bool, dtype: jnp.dtype, name: str) -> nn.BatchNorm:
    """PyTorch's batch norm: epsilon 1e-5, running averages that move by a tenth."""
    return nn.BatchNorm(
        use_running_average=not train,
        momentum=0.9,
        epsilon=1e-5,
        dtype=dtype,
        name=name,
    )


@jax.custom_vjp
def max_pool(x: jax.Array) -> jax.Array:
    """2×2 max-pooling, ``[B, H, W, C] -> [B, H/2, W/2, C]``.

    The gradient goes to the first of equal maxima, as in PyTorch and XLA; on flat
    image regions they are often equal.
    """
    return _max_pool_forward(x)[0]


def _max_pool_forward(x):
    corners = [x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]
    best = corners[0]
    where = jnp.zeros(best.shape, jnp.int8)
    for index, corner in enumerate(corners[1:], start=1):
        where = jnp.where(corner > best, jnp.int8(index), where)
        best = jnp.maximum(best, corner)
    return best, jax.lax.platform_dependent(where, cpu=_stored, default=lambda x: x)


def _stored(where: jax.Array) -> jax.Array:
    """Makes XLA store `where` (never negative) instead of all it was computed from.

    Its CPU compiler would compute it anew, four times over at full resolution, where
    the backward pass reads it: the slowest operation of a step. What it does not fuse
    into its readers is a choice, so this is one, which it cannot see to be made.
    """
    first = where[(0,) * where.ndim]
    return jax.lax.cond(first >= 0, lambda x: x, jnp.bitwise_not, where)


def _max_pool_backward(where, g):
    # A comparison with each pixel's corner at full resolution, instead of scattering.
    b, h, w, c = g.shape
    shape = (b, h, 2, w, 2, c)
    row = jax.lax.broadcasted_iota(jnp.int8, shape, 2)
    column = jax.lax.broadcasted_iota(jnp.int8, shape, 4)
    chosen = where[:, :, None, :, None, :] == 2 * row + column
    g = jnp.broadcast_to(g[:, :, None, :, None, :], shape)
    return (jnp.where(chosen, g, 0).reshape(b, 2 * h, 2 * w, c),)


max_pool.defvjp(_max_pool_forward, _max_pool_backward)


def upsample(x: jax.Array) -> jax.Array:
    """Bilinear 2× upsampling with half-pixel centres (``align_corners=False``)."""
    # One axis after the other: fused they would repeat each other's work.
    return _upsample_axis(_convolution.fence(_upsample_axis(x, 2)), 1)


def _upsample_axis(x: jax.Array, axis: int) -> jax.Array:
    """``y[2i]`` is ``(3 x[i] + x[i-1]) / 4``, ``y[2i+1]`` is ``(3 x[i] + x[i+1]) / 4``.

    At the borders the missing neighbour is the border itself. Even and odd pixels are
    interleaved as a sum of dilated arrays, whose loops XLA vectorises.
    """
    last = x.shape[axis] - 1
    first_alone = _pad(_pad(x, axis, 0, -last), axis, 0, last)
    last_alone = _pad(_pad(x, axis, -last, 0), axis, last, 0)
    before = _pad(x, axis, 1, -1) + first_alone
    after = _pad(x, axis, -1, 1) + last_alone
    even = _pad(0.75 * x + 0.25 * before, axis, 0, 1, interior=1)
    odd = _pad(0.75 * x + 0.25 * after, axis, 1, 0, interior=1)
    return even + odd


def _pad(
    x: jax.Array, axis: int, low: int, high: int, *, interior: int = 0
) -> jax.Array:
    """Pads one axis with zeros, and crops it where `low` or `high` is negative."""
    config = [(0, 0, 0)] * x.ndim
    config[axis] = (low, high, interior)
    return jax.lax.pad(x, jnp.zeros((), x.dtype), config)
