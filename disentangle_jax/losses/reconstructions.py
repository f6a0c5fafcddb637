"""Reconstruction losses per example: negative log-likelihoods and distances."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

from disentangle_jax.losses._batch import check_same_shape
from disentangle_jax.types import Scalar


def _sum_over_pixels(values: jax.Array) -> jax.Array:
    return values.sum(axis=tuple(range(1, values.ndim)))


def _mean_over_pixels(values: jax.Array) -> jax.Array:
    return values.mean(axis=tuple(range(1, values.ndim)))


def _float_pair(
    function: str, x: jax.Array, prediction: jax.Array, name: str
) -> tuple[jax.Array, jax.Array]:
    x, prediction = jnp.asarray(x), jnp.asarray(prediction)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            f"{function}: `x` must be floating, got {x.dtype}. Scale images to [0, 1] "
            "first, e.g. x.astype(jnp.float32) / 255."
        )
    if x.ndim < 2:
        raise ValueError(f"{function}: `x` must be [B, ...], got shape {x.shape}.")
    check_same_shape(function, x=x, **{name: prediction})
    return x, prediction


# Interpolated images may leave [0, 1] a little.
_TOLERANCE = 1e-2


def _refuse_outside_unit_interval(x: jax.Array) -> None:
    """Raises a ValueError for values outside [0, 1]; tracers have none yet."""
    if isinstance(x, jax.core.Tracer) or not x.size:
        return
    # Inside `jit` too, an array that is no argument has values.
    with jax.ensure_compile_time_eval():
        low, high = float(x.min()), float(x.max())
    if low < -_TOLERANCE or high > 1.0 + _TOLERANCE:
        raise ValueError(
            f"bernoulli_reconstruction: `x` must lie in [0, 1], got {low:g} to "
            f"{high:g}. Scale images first, e.g. x / 255."
        )


def bernoulli_reconstruction(
    x: jax.Array, logits: jax.Array, *, subtract_entropy: bool = False
) -> jax.Array:
    r"""Negative Bernoulli log-likelihood of pixels, from logits.

    .. math:: -\log p(x|z) = \sum_i \log(1 + e^{l_i}) - x_i l_i

    It is exact at any logit, because no probability is formed that could saturate. For
    targets strictly between 0 and 1 it is the cross-entropy of pixel and prediction.

    Couples the batch: no.

    Args:
      x: ``[B, ...]`` observations in [0, 1]. Others are an error; under ``jit``, where
        values are not known, their loss is NaN.
      logits: predictions before the sigmoid, same shape.
      subtract_entropy: subtract the entropy of ``x``, which does not depend on the
        model, so that a perfect prediction has loss 0. disentanglement_lib clips ``x``
        to [1e-6, 1 - 1e-6] here, which adds 1.5e-5 nats per black or white pixel; we
        use :math:`0 \log 0 = 0`.

    Returns:
      ``[B]``, nats, summed over pixels and channels; at least 0.
    """
    x, logits = _float_pair("bernoulli_reconstruction", x, logits, "logits")
    _refuse_outside_unit_interval(x)
    nats = jax.nn.softplus(logits) - x * logits
    # Images in 0 … 255 would otherwise give a plausible loss.
    nats = jnp.where(jnp.abs(x - 0.5) > 0.5 + _TOLERANCE, jnp.nan, nats)
    if subtract_entropy:
        nats = nats + xlogy(x, x) + xlogy(1.0 - x, 1.0 - x)
    return _sum_over_pixels(nats)


def gaussian_reconstruction(x: jax.Array, x_hat: jax.Array) -> jax.Array:
    r"""Negative log-likelihood of pixels under a unit-variance Gaussian.

    .. math:: -\log p(x|z) + \text{const} = \tfrac12 \sum_i (x_i - \hat x_i)^2

    The constant :math:`\tfrac12 \log 2\pi` per pixel is left out.

    Couples the batch: no.

    Args:
      x: ``[B, ...]`` observations.
      x_hat: predicted means, same shape.

    Returns:
      ``[B]``, nats up to the constant, summed over pixels and channels; at least 0.
    """
    x, x_hat = _float_pair("gaussian_reconstruction", x, x_hat, "x_hat")
    return 0.5 * _sum_over_pixels(jnp.square(x - x_hat))


def mse(x: jax.Array, x_hat: jax.Array) -> jax.Array:
    r"""Squared error, averaged over pixels.

    .. math:: \frac1P \sum_{i=1}^P (x_i - \hat x_i)^2

    The reconstruction loss of Michlo et al., "Overlooked Implications of the
    Reconstruction Loss for VAE Disentanglement". :func:`normalize_beta` converts the
    weight of the KL from a sum to a mean over pixels.

    Couples the batch: no.

    Args:
      x: ``[B, ...]`` observations.
      x_hat: predictions, same shape.

    Returns:
      ``[B]``, squared units of ``x``, averaged over pixels and channels; at least 0.
    """
    x, x_hat = _float_pair("mse", x, x_hat, "x_hat")
    return _mean_over_pixels(jnp.square(x - x_hat))


def l1_reconstruction(x: jax.Array, x_hat: jax.Array) -> jax.Array:
    r"""Absolute error, summed over pixels (Laplace likelihood up to constants).

    .. math:: \sum_i |x_i - \hat x_i|

    The public code of Zhao et al., "Learning Hierarchical Features from Generative
    Models" (VLAE) uses a multiple of it.

    Couples the batch: no.

    Args:
      x: ``[B, ...]`` observations.
      x_hat: predictions, same shape.

    Returns:
      ``[B]``, units of ``x``, summed over pixels and channels; at least 0.
    """
    x, x_hat = _float_pair("l1_reconstruction", x, x_hat, "x_hat")
    return _sum_over_pixels(jnp.abs(x - x_hat))


def multinomial_reconstruction(counts: jax.Array, logits: jax.Array) -> jax.Array:
    r"""Negative multinomial log-likelihood of word counts.

    .. math:: -\sum_v n_v \log \operatorname{softmax}(l)_v

    The multinomial coefficient does not depend on the model and is left out, as in NVDM
    (Miao et al. 2016) and ProdLDA (Srivastava & Sutton 2017).

    Couples the batch: no.

    Args:
      counts: ``[B, V]`` counts, integer or floating.
      logits: ``[B, V]`` unnormalised log-probabilities of the words.

    Returns:
      ``[B]``, nats, summed over the words of each document; at least 0.
    """
    counts, logits = jnp.asarray(counts), jnp.asarray(logits)
    if counts.ndim != 2:
        raise ValueError(
            f"multinomial_reconstruction: `counts` must be [B, V], got {counts.shape}."
        )
    check_same_shape("multinomial_reconstruction", counts=counts, logits=logits)
    return -(counts.astype(logits.dtype) * jax.nn.log_softmax(logits)).sum(axis=1)


def per_pixel(
    reconstruction: Callable[[jax.Array, jax.Array], jax.Array],
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Turns a reconstruction that sums over pixels into one that averages.

    ``per_pixel(bernoulli_reconstruction)`` is what many frameworks call binary
    cross-entropy.

    Args:
      reconstruction: function of ``(x, logits)`` that returns ``[B]`` sums.

    Returns:
      A function that returns ``[B]`` means over pixels and channels.
    """

    def averaged(x: jax.Array, logits: jax.Array) -> jax.Array:
        return reconstruction(x, logits) / math.prod(x.shape[1:])

    return averaged


def box_blur_mse(
    x: jax.Array,
    x_hat: jax.Array,
    *,
    radius: int | None = None,
    weight: Scalar | None = None,
) -> jax.Array:
    r"""Squared error of images plus squared error of the blurred images.

    .. math:: \operatorname{mse}(x, \hat x)
              + w \operatorname{mse}(K * x, K * \hat x)

    :math:`K` is a square box of side :math:`2r + 1` that sums to 1, applied to each
    channel with zeros beyond the border. With the blur, the distance of two objects
    decreases as they approach one another, even while they do not overlap. This is
    BoxBlurMSE of Michlo et al., with their box and weight (63×63 and 63²) at 64 px.

    The blur is linear and separable, so the difference image is summed along rows and
    then columns: :math:`O(P(H + W))` for P pixels, not :math:`O(P (2r+1)^2)`.

    Couples the batch: no.

    Args:
      x: ``[B, H, W, C]`` observations (the original code standardises them).
      x_hat: predictions, same shape.
      radius: half the width of the box, pixels; None for one less than half the height
        of the images (31 at 64 px).
      weight: weight of the blurred part; None for the number of pixels of the box.

    Returns:
      ``[B]``, squared units of ``x``, averaged over pixels and channels; at least 0.
    """
    x, x_hat = _float_pair("box_blur_mse", x, x_hat, "x_hat")
    if x.ndim != 4:
        raise ValueError(f"box_blur_mse: `x` must be [B, H, W, C], got {x.shape}.")
    radius = x.shape[1] // 2 - 1 if radius is None else radius
    weight = (2 * radius + 1) ** 2 if weight is None else weight
    if radius < 0:
        raise ValueError(f"box_blur_mse: `radius` must be at least 0, got {radius}.")
    difference = x - x_hat
    height, width = x.shape[1:3]
    blurred = jnp.einsum(
        "ih,bhwc,jw->bijc",
        _box(height, radius).astype(x.dtype),
        difference,
        _box(width, radius).astype(x.dtype),
        precision=jax.lax.Precision.HIGHEST,
    )
    return _mean_over_pixels(jnp.square(difference)) + weight * _mean_over_pixels(
        jnp.square(blurred)
    )


def _box(size: int, radius: int) -> np.ndarray:
    """The matrix that averages over a window, with zeros beyond the border."""
    index = np.arange(size)
    return (np.abs(index[:, None] - index) <= radius) / (2 * radius + 1)
