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


def mish(x: jax.Array) -> jax.Array:
    r"""Mish, :math:`x \tanh(\log(1 + e^x))`."""
    return x * jnp.tanh(jax.nn.softplus(x))


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
      initializer: name of the initialiser.
      use_bias: whether there is a bias.
      dtype: dtype of the arithmetic.
    """

    features: int
    kernel_size: int
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
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
        y = _convolution.conv(
            x.astype(self.dtype),
            kernel.astype(self.dtype),
            stride=self.stride,
            padding=self.padding,
        )
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
        grouped = x.astype(jnp.float32).reshape(
            *x.shape[:-1], self.groups, channels // self.groups
        )
        axes = (-4, -3, -1)
        mean = grouped.mean(axes, keepdims=True)
        centred = grouped - mean
        variance = jnp.square(centred).mean(axes, keepdims=True)
        normed = (centred * jax.lax.rsqrt(variance + self.epsilon)).reshape(x.shape)
        y = normed * jnp.broadcast_to(scale, x.shape) + jnp.broadcast_to(bias, x.shape)
        return y.astype(self.dtype)


def batch_norm(train: bool, dtype: jnp.dtype, name: str) -> nn.BatchNorm:
    """PyTorch's batch norm: epsilon 1e-5, running averages that move by a tenth."""
    return nn.BatchNorm(
        use_running_average=not train,
        momentum=0.9,
        epsilon=1e-5,
        dtype=dtype,
        name=name,
    )


def max_pool(x: jax.Array) -> jax.Array:
    """2×2 max-pooling, ``[B, H, W, C] -> [B, H/2, W/2, C]``."""
    return nn.max_pool(x, (2, 2), (2, 2))


def upsample(x: jax.Array) -> jax.Array:
    """Bilinear 2× upsampling with half-pixel centres (``align_corners=False``)."""
    for axis in (-3, -2):
        x = _upsample_axis(x, axis)
    return x


def _upsample_axis(x: jax.Array, axis: int) -> jax.Array:
    axis = axis % x.ndim
    size = x.shape[axis]
    first = jax.lax.slice_in_dim(x, 0, 1, axis=axis)
    last = jax.lax.slice_in_dim(x, size - 1, size, axis=axis)
    before = jnp.concatenate(
        [first, jax.lax.slice_in_dim(x, 0, size - 1, axis=axis)], axis
    )
    after = jnp.concatenate([jax.lax.slice_in_dim(x, 1, size, axis=axis), last], axis)
    pair = jnp.stack([0.75 * x + 0.25 * before, 0.75 * x + 0.25 * after], axis + 1)
    return pair.reshape(*x.shape[:axis], 2 * size, *x.shape[axis + 1 :])
