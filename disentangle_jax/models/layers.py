"""Layers that the networks share: dense, convolution, norms, nonlinearities.

Parameters stay float32; `dtype` is the dtype of the arithmetic. Images are NHWC.
"""

import functools
import math
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from disentangle_jax import types
from disentangle_jax.fusion import stored
from disentangle_jax.models import convolution, matrix_convolution, normalization
from disentangle_jax.models.blocks import Weights
from disentangle_jax.models.compilation import fence
from disentangle_jax.models.initializers import initializer as initializer_named


@jax.custom_jvp
def mish(x: jax.Array) -> jax.Array:
    r"""Mish, :math:`x \tanh(\log(1 + e^x))`.

    It equals :math:`x\, t / (t + 2)` with :math:`t = e^x (e^x + 2)`: one exponential
    serves value and derivative.
    """
    return _mish_and_slope(x)[0]


@mish.defjvp
def _mish_jvp(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    value, slope = _mish_and_slope(primals[0])
    return value, tangents[0] * slope


def _mish_and_slope(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    # Beyond 20 the ratio is 1 in float32; the exponential must not overflow.
    n = jnp.exp(jnp.minimum(x, 20.0))
    t = n * (n + 2)
    inverse = 1 / (t + 2)
    ratio = t * inverse
    return x * ratio, ratio + 4 * x * n * (n + 1) * inverse * inverse


@jax.custom_jvp
def relu(x: jax.Array) -> jax.Array:
    """ReLU; on TPUs the gradient reads the sign of the value, which is kept anyway.

    Comparing the input with zero, as everywhere else, makes XLA's TPU compiler store
    the outcome and unpack it in the backward pass.
    """
    return jnp.maximum(x, 0)


@relu.defjvp
def _relu_jvp(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    y = relu(*primals)
    tangent = jax.lax.platform_dependent(
        y,
        *tangents,
        tpu=slope_by_sign,
        default=lambda y, t: jnp.where(y > 0, t, 0),
    )
    return y, tangent


def slope_by_sign(y: jax.Array, tangent: jax.Array) -> jax.Array:
    """Returns the tangent of a ReLU from its value y, without a comparison."""
    return tangent * jnp.sign(y)


_NONLINEARITIES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "mish": mish,
    "elu": jax.nn.elu,
    "relu": relu,
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


def _kernel(layer: nn.Module, shape: tuple[int, ...]) -> jax.Array:
    """Returns the layer's kernel ``[..., I, O]`` in the dtype of its arithmetic."""
    fan_in, fan_out = math.prod(shape[:-1]), math.prod(shape) // shape[-2]
    init = initializer_named(layer.initializer).kernel(fan_in, fan_out)
    return layer.param("kernel", init, shape, jnp.float32).astype(layer.dtype)


def _with_bias(
    layer: nn.Module, y: jax.Array, kernel: jax.Array, *, added: bool = True
) -> jax.Array:
    """Creates the layer's bias, if it has one, and adds it unless the caller will."""
    if not layer.use_bias:
        return y
    fan_in = math.prod(kernel.shape[:-1])
    init = initializer_named(layer.initializer).bias(fan_in)
    bias = layer.param("bias", init, (layer.features,), jnp.float32)
    return y + jnp.broadcast_to(bias.astype(layer.dtype), y.shape) if added else y


def weights(layer: nn.Module) -> Weights:
    """Returns kernel and bias of a layer of a network that is initialised."""
    params = layer.variables["params"]
    return Weights(*(params[name].astype(layer.dtype) for name in Weights._fields))


class Dense(nn.Module):
    """``[..., I] -> [..., features]``, kernel ``[I, features]``."""

    features: int
    initializer: str = "torch"
    use_bias: bool = True
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = _kernel(self, (x.shape[-1], self.features))
        return _with_bias(self, x.astype(self.dtype) @ kernel, kernel)


class MLP(nn.Module):
    """Dense layers of `widths` units, with a nonlinearity between them."""

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


def halvings(side: int, published: int, *, smallest: int) -> int:
    """Returns how often a network halves images of `side` pixels.

    The published number of times, but fewer where the smallest feature map would have
    a side below its published one.

    Args:
      side: height or width of the images, whichever is smaller.
      published: number of halvings of the published network.
      smallest: side of its smallest feature map.
    """
    return max(0, min(published, (side // smallest).bit_length() - 1))


def same_padding(kernel_size: int) -> tuple[int, int]:
    """Returns the padding with which a convolution of stride 1 keeps the size."""
    return (kernel_size - 1) // 2, kernel_size // 2


class Conv(nn.Module):
    """Convolution ``[B, H, W, I] -> [B, H', W', features]``.

    Attributes:
      features: output channels.
      kernel_size: side of the square kernel.
      stride: along both image axes.
      padding: ``(before, after)`` along both image axes.
      upsampled: whether `upsample` is applied to the input first.
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
    def __call__(self, x: jax.Array, *, add_bias: bool = True) -> jax.Array:
        side = self.kernel_size
        kernel = _kernel(self, (side, side, x.shape[-1], self.features))
        y = self.convolve(x, kernel)
        return _with_bias(self, y, kernel, added=add_bias)

    def convolve(self, x: jax.Array, kernel: jax.Array) -> jax.Array:
        """Returns the layer's result without its bias, for a given kernel."""
        x = x.astype(self.dtype)
        if self.upsampled and self.kernel_size**2 * self.features < x.shape[-1]:
            # With few outputs we multiply first and upsample less: the two commute.
            products = upsample(matrix_convolution.tap_products(x, kernel))
            return matrix_convolution.sum_taps(products, self.kernel_size, self.padding)
        x = upsample(x) if self.upsampled else x
        return convolution.conv(x, kernel, stride=self.stride, padding=self.padding)


class ConvTranspose(nn.Module):
    """Transposed convolution with stride 2, the adjoint of `Conv`.

    The output side is ``2 (H - 1) + kernel_size - sum(padding)``. The kernel
    ``[k, k, features, I]`` is that of the convolution that is transposed. Its fan-in is
    computed from the output channels, as in PyTorch.

    Attributes:
      features: output channels.
      kernel_size: side of the square kernel.
      padding: ``(before, after)`` of the convolution that is transposed.
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
    def __call__(self, x: jax.Array, *, add_bias: bool = True) -> jax.Array:
        side = self.kernel_size
        kernel = _kernel(self, (side, side, self.features, x.shape[-1]))
        y = self.convolve(x, kernel)
        return _with_bias(self, y, kernel, added=add_bias)

    def convolve(self, x: jax.Array, kernel: jax.Array) -> jax.Array:
        """Returns the layer's result without its bias, for a given kernel."""
        x = x.astype(self.dtype)
        return convolution.conv_transpose(x, kernel, padding=self.padding)


class GroupNorm(nn.Module):
    """Group normalisation over space and the channels of each group.

    Statistics are float32, whatever the dtype of the arithmetic. Other arguments of a
    call are those of `normalization.group_norm`.
    """

    groups: int = 8
    epsilon: float = 1e-5
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, **arguments: jax.Array | None) -> jax.Array:
        channels = x.shape[-1]
        scale = self.param("scale", nn.initializers.ones, (channels,), jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (channels,), jnp.float32)
        y = normalization.group_norm(
            x, scale, bias, self.groups, self.epsilon, **arguments
        )
        return y.astype(self.dtype)


def batch_norm(train: bool, dtype: jnp.dtype, name: str) -> nn.BatchNorm:
    """Returns PyTorch's batch norm: epsilon 1e-5, momentum 0.9 in Flax's terms."""
    return nn.BatchNorm(
        use_running_average=not train,
        momentum=0.9,
        epsilon=1e-5,
        dtype=dtype,
        name=name,
    )


@jax.custom_vjp
def max_pool(x: jax.Array) -> jax.Array:
    """Applies 2×2 max-pooling, ``[B, H, W, C] -> [B, H/2, W/2, C]``.

    The gradient goes to the first of equal maxima, as in PyTorch and XLA. Maxima are
    often equal in flat regions of an image.
    """
    return _max_pool_forward(x)[0]


def _max_pool_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    corners = [x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)]
    best = corners[0]
    where = jnp.zeros(best.shape, jnp.int8)
    for index, corner in enumerate(corners[1:], start=1):
        where = jnp.where(corner > best, jnp.int8(index), where)
        best = jnp.maximum(best, corner)
    # Computing the corner again where the backward pass reads it would be the slowest
    # operation of a step on CPU.
    return best, stored(where, where[(0,) * where.ndim] >= 0)


def _max_pool_backward(where: jax.Array, g: jax.Array) -> tuple[jax.Array]:
    # Comparing with each pixel's corner at full resolution is faster than scattering.
    b, h, w, c = g.shape
    shape = (b, h, 2, w, 2, c)
    row = jax.lax.broadcasted_iota(jnp.int8, shape, 2)
    column = jax.lax.broadcasted_iota(jnp.int8, shape, 4)
    chosen = where[:, :, None, :, None, :] == 2 * row + column
    g = jnp.broadcast_to(g[:, :, None, :, None, :], shape)
    return (jnp.where(chosen, g, 0).reshape(b, 2 * h, 2 * w, c),)


max_pool.defvjp(_max_pool_forward, _max_pool_backward)


def upsample(x: jax.Array) -> jax.Array:
    """Doubles the resolution bilinearly, with half-pixel centres.

    This is PyTorch's ``align_corners=False``. On TPUs it is a product of matrices,
    rounded as those of the convolution that follows.
    """
    return jax.lax.platform_dependent(
        x, tpu=_upsample_by_products, default=_upsample_by_shifts
    )


def _upsample_by_products(x: jax.Array) -> jax.Array:
    for axis, product in ((2, "ow,bhwc->bhoc"), (1, "oh,bhwc->bowc")):
        eye = jnp.eye(x.shape[axis], dtype=x.dtype)[None, :, :, None]
        matrix = _upsample_axis(eye, 1)[0, :, :, 0]
        x = jnp.einsum(product, matrix, x)
    return x


def _upsample_by_shifts(x: jax.Array) -> jax.Array:
    # The fence separates the axes: fused, they would repeat each other's work.
    return _upsample_axis(fence(_upsample_axis(x, 2)), 1)


def _upsample_axis(x: jax.Array, axis: int) -> jax.Array:
    """``y[2i]`` is ``(3 x[i] + x[i-1]) / 4``, ``y[2i+1]`` is ``(3 x[i] + x[i+1]) / 4``.

    At the borders the missing neighbour is the border pixel. Even and odd pixels are
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
    """Pads one axis with zeros; a negative `low` or `high` crops it."""
    config = [(0, 0, 0)] * x.ndim
    config[axis] = (low, high, interior)
    return jax.lax.pad(x, jnp.zeros((), x.dtype), config)
