"""Objectives of quantised codes, QLAE and Tripod, and their terms."""

import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from disentangle_jax.losses._batch import (
    batch_mean,
    batch_size,
    check_batch,
    check_codes,
    gather,
    row_numbers,
)
from disentangle_jax.losses._objective import (
    Objective,
    Reconstruction,
    mean_reconstruction,
)
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction, per_pixel
from disentangle_jax.types import Scalar

# Added to the deviation of a latent, and to the denominator of the Hessian penalty, as
# in the public code of Tripod.
_LEAST_DEVIATION, _LEAST_CURVATURE = 1e-6, 1e-10

_CROSS_ENTROPY = per_pixel(bernoulli_reconstruction)  # Mean over pixels.

Activations = Callable[[jax.Array], Mapping[str, jax.Array]]


def nearest_values(z: jax.Array, codebook: jax.Array) -> jax.Array:
    r"""Replaces each element of a code by the nearest value of its own codebook.

    .. math:: q_{id} = v_{d, k^*}, \qquad k^* = \arg\min_k |z_{id} - v_{dk}|

    The gradient reaches the chosen values of the codebook, and not the code;
    :func:`straight_through` passes it on to the code. Hsu et al., "Disentanglement via
    Latent Quantization".

    Couples the batch: no.

    Args:
      z: ``[B, D]`` continuous codes.
      codebook: ``[D, V]`` values of each latent. The first of two equally near values
        is chosen.

    Returns:
      ``[B, D]`` values of the codebook.
    """
    z, codebook = jnp.asarray(z), jnp.asarray(codebook)
    check_codes("nearest_values", z=z)
    if codebook.ndim != 2 or codebook.shape[0] != z.shape[1]:
        raise ValueError(
            "nearest_values: `codebook` must be [D, V] with one row per latent of `z` "
            f"{z.shape}, got {codebook.shape}."
        )
    distance = jnp.abs(z[:, :, None] - codebook[None])
    chosen = jax.nn.one_hot(
        jnp.argmin(distance, axis=2), codebook.shape[1], dtype=codebook.dtype
    )
    return (chosen * codebook[None]).sum(axis=2)


def round_to_levels(z: jax.Array, *, levels: int) -> jax.Array:
    r"""Rounds codes in [-1, 1] to evenly spaced values (finite scalar quantisation).

    .. math:: q = \frac{2}{V - 1} \operatorname{round}\left(
              \frac{V - 1}{2} (z + 1) \right) - 1

    Mentzer et al., "Finite Scalar Quantization"; Hsu et al., "Tripod". The gradient is
    0; see :func:`straight_through`.

    Couples the batch: no.

    Args:
      z: codes of any shape in [-1, 1], such as hyperbolic tangents.
      levels: V, number of values, at least 2. Both ends are among them.

    Returns:
      The rounded codes, same shape as ``z``.
    """
    if levels < 2:
        raise ValueError(f"round_to_levels: `levels` must be at least 2, got {levels}.")
    half = 0.5 * (levels - 1)
    return jnp.round(half * (jnp.asarray(z) + 1.0)) / half - 1.0


def straight_through(z: jax.Array, quantised: jax.Array) -> jax.Array:
    r"""Returns quantised codes whose gradient is that of the continuous ones.

    .. math:: \operatorname{sg}(q) + z - \operatorname{sg}(z)

    The value is exactly ``quantised``; the common form :math:`z + \operatorname{sg}(q -
    z)` is off by a rounding error. Bengio et al. 2013; van den Oord et al. 2017.

    Couples the batch: no.

    Args:
      z: continuous codes.
      quantised: quantised codes, same shape.

    Returns:
      Codes, same shape: the gradient reaches ``z`` unchanged, and not ``quantised``.
    """
    return jax.lax.stop_gradient(quantised) + (z - jax.lax.stop_gradient(z))


def quantisation_loss(z: jax.Array, quantised: jax.Array) -> jax.Array:
    r"""Squared distance of the values from the codes, which moves the codebook.

    .. math:: \frac1D \sum_d (\operatorname{sg}(z_{id}) - q_{id})^2

    Hsu et al., "Disentanglement via Latent Quantization".

    Couples the batch: no.

    Args:
      z: ``[B, D]`` continuous codes; no gradient reaches them.
      quantised: ``[B, D]`` from :func:`nearest_values`.

    Returns:
      ``[B]``, in squared units of the code; at least 0.
    """
    check_codes("quantisation_loss", z=z, quantised=quantised)
    return jnp.square(jax.lax.stop_gradient(z) - quantised).mean(axis=1)


def commitment_loss(z: jax.Array, quantised: jax.Array) -> jax.Array:
    r"""Squared distance of the codes from their values, which moves the encoder.

    .. math:: \frac1D \sum_d (z_{id} - \operatorname{sg}(q_{id}))^2

    Hsu et al., "Disentanglement via Latent Quantization".

    Couples the batch: no.

    Args:
      z: ``[B, D]`` continuous codes.
      quantised: ``[B, D]`` from :func:`nearest_values`; no gradient reaches them.

    Returns:
      ``[B]``, in squared units of the code; at least 0.
    """
    check_codes("commitment_loss", z=z, quantised=quantised)
    return jnp.square(z - jax.lax.stop_gradient(quantised)).mean(axis=1)


def code_deviation(z: jax.Array, *, axis_name: str | None = None) -> jax.Array:
    r"""Standard deviation of each latent over the batch, plus a small constant.

    .. math:: s_d = \sqrt{\tfrac1B \sum_i (z_{id} - \bar z_d)^2} + 10^{-6}

    The scale of both penalties of :func:`tripod`. The gradient of a latent that does
    not vary is 0; in the public code it is not a number.

    Couples the batch: yes.

    Args:
      z: ``[B, D]`` continuous codes.
      axis_name: see :mod:`losses`.

    Returns:
      ``[D]``, in units of the code; positive.
    """
    z = jnp.asarray(z)
    check_codes("code_deviation", z=z)
    centred = z - batch_mean(z, axis_name)[None]
    variance = batch_mean(jnp.square(centred), axis_name)
    varies = variance > 0.0
    root = jnp.sqrt(jnp.where(varies, variance, 1.0))
    return jnp.where(varies, root, 0.0) + _LEAST_DEVIATION


def multi_information(
    z: jax.Array, deviation: jax.Array, *, axis_name: str | None = None
) -> jax.Array:
    r"""Kernel-density estimate of the multi-information of the latents.

    .. math:: \frac1B \sum_i \Big( \log \hat q(z_i) - \sum_d \log \hat q_d(z_{id})
              \Big), \qquad
              \hat q(z_i) = \frac1B \sum_j \prod_d \mathcal N(z_{id}; z_{jd}, h_d^2)

    and :math:`\hat q_d` likewise with the bandwidth :math:`h'_d`. The sums contain j =
    i. With :math:`s_d` the deviation of a latent, the bandwidths are
    :math:`h_d = s_d (4 / (D + 2))^{1 / (D + 4)} B^{-1 / (D + 4)}` (Silverman's rule)
    for the joint density and :math:`h'_d = s_d` for the marginals, as in the public
    code of Hsu et al., "Tripod". The two differ, so independent latents do not have the
    value 0.

    Couples the batch: yes.

    Args:
      z: ``[B, D]`` codes, quantised or not.
      deviation: ``[D]`` scale of each latent; see :func:`code_deviation`.
      axis_name: see :mod:`losses`.

    Returns:
      ``[]`` nats.
    """
    z, deviation = jnp.asarray(z), jnp.asarray(deviation)
    check_codes("multi_information", z=z)
    rows = check_batch("multi_information", z, axis_name)
    dims = z.shape[1]
    scaled = z / deviation[None]
    pairs = scaled[:, None, :] - gather(scaled, axis_name)[None]
    squares = jnp.square(pairs)
    power = 1.0 / (dims + 4)
    factor = (4.0 / (dims + 2)) ** power * rows**-power
    # The logarithms of the deviations cancel, and so do those of 2 pi.
    joint = jax.nn.logsumexp(-0.5 / factor**2 * squares.sum(axis=2), axis=1)
    marginals = jax.nn.logsumexp(-0.5 * squares, axis=1).sum(axis=1)
    constant = (dims - 1) * math.log(rows) - dims * math.log(factor)
    return batch_mean(joint - marginals, axis_name) + constant


def hessian_penalty(
    activations: Activations,
    z: jax.Array,
    deviation: jax.Array,
    *,
    key: jax.Array,
    epsilon: Scalar = 0.1,
    perturbations: int = 2,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Share of mixed second derivatives in the curvature of a decoder's activations.

    .. math:: \sum_l \frac{\operatorname{mean}_a \operatorname{Var}_r
              \big[ \Delta^2_{\epsilon r s} f_{la}(z_i) \big]}
              {\operatorname{mean}_a \operatorname{Var}_g
              \big[ \Delta^2_{\epsilon g s} f_{la}(z_i) \big] + 10^{-10}},
              \qquad \Delta^2_v f(z) = \frac{f(z + v) - 2 f(z) + f(z - v)}{\epsilon^2}

    over the layers l and their activations a. For Rademacher directions r, the variance
    of the second difference is twice the sum of the squared off-diagonal elements of
    the Hessian; for Gaussian directions g, twice the sum of all squared elements. Steps
    are scaled by the deviation s of each latent. The ratio does not depend on the scale
    of an activation. Peebles et al., "The Hessian Penalty"; normalised by Hsu et al.,
    "Tripod". Variances are over a few directions and divided by their number, as in the
    public code.

    Couples the batch: no.

    Args:
      activations: maps codes ``[B, D]`` to arrays ``[B, ...]`` by name, row by row.
        A layer must not be linear in the code: 0 would be divided by almost 0.
      z: ``[B, D]`` codes.
      deviation: ``[D]`` scale of each latent; see :func:`code_deviation`.
      key: typed key of the directions, the same on every device.
      epsilon: size of a step, in deviations.
      perturbations: number of directions of each kind, at least 2.
      axis_name: see :mod:`losses`; the directions are then those of the global batch.

    Returns:
      ``[B]``, at least 0. The expected ratio of a layer lies in [0, 1] with many
      directions, and may exceed 1 with few.
    """
    z, deviation = jnp.asarray(z), jnp.asarray(deviation)
    check_codes("hessian_penalty", z=z)
    if perturbations < 2:
        raise ValueError(
            "hessian_penalty: `perturbations` must be at least 2, for a variance, got "
            f"{perturbations}."
        )
    shape = (batch_size(z, axis_name), perturbations, z.shape[1])
    sign_key, normal_key = jax.random.split(key)
    signs = jax.random.rademacher(sign_key, shape, z.dtype)
    normal = jax.random.normal(normal_key, shape, z.dtype)
    directions = jnp.concatenate([signs, normal], axis=1)
    if axis_name is not None:
        directions = directions[row_numbers(z, axis_name)]
    steps = (epsilon * directions * deviation[None, None]).swapaxes(0, 1)
    layers = jax.vmap(activations)
    ahead, behind = layers(z[None] + steps), layers(z[None] - steps)
    total = jnp.zeros_like(z[:, 0])
    for name, here in activations(z).items():
        second = (ahead[name] - 2.0 * here[None] + behind[name]) / epsilon**2
        others = tuple(range(1, here.ndim))
        mixed = jnp.var(second[:perturbations], axis=0).mean(axis=others)
        whole = jnp.var(second[perturbations:], axis=0).mean(axis=others)
        total = total + mixed / (whole + _LEAST_CURVATURE)
    return total


def qlae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array | None = None,
    *,
    codebook: jax.Array,
    lambda_quantisation: Scalar = 0.01,
    lambda_commitment: Scalar = 0.01,
    reconstruction: Reconstruction = _CROSS_ENTROPY,
    axis_name: str | None = None,
) -> Objective:
    r"""Quantised-latent autoencoder: reconstruction, quantisation and commitment.

    .. math:: \frac1B \sum_i c(x_i, \hat x_i)
              + \frac{\lambda_q}{BD} \sum_{id} (\operatorname{sg}(z_{id}) - q_{id})^2
              + \frac{\lambda_c}{BD} \sum_{id} (z_{id} - \operatorname{sg}(q_{id}))^2

    Hsu et al., "Disentanglement via Latent Quantization". The cost c is the mean
    cross-entropy of a pixel, so that both weights are small. The paper also decays the
    weights of the networks (AdamW, 0.1), which is left to the optimizer. ::

        quantised = losses.nearest_values(mean, codebook)
        z = losses.straight_through(mean, quantised)
        loss, terms = losses.qlae(x, decode(z), z, mean, codebook=codebook)

    Couples the batch: no.

    Args:
      x, logits, log_var, reconstruction, axis_name: see :mod:`losses`.
      z: ``[B, D]`` quantised codes, from which ``logits`` were decoded.
      mean: ``[B, D]`` continuous codes.
      codebook: ``[D, V]`` values of each latent, which are learned.
      lambda_quantisation: weight of :func:`quantisation_loss`.
      lambda_commitment: weight of :func:`commitment_loss`.

    Returns:
      ``[]`` loss, and the terms ``reconstruction``, ``quantisation`` and
      ``commitment``.
    """
    del log_var
    check_codes("qlae", mean=mean, z=z)
    error = mean_reconstruction("qlae", reconstruction, x, logits, mean, axis_name)
    quantised = nearest_values(mean, codebook)
    terms = {
        "reconstruction": error,
        "quantisation": batch_mean(quantisation_loss(mean, quantised), axis_name),
        "commitment": batch_mean(commitment_loss(mean, quantised), axis_name),
    }
    loss = (
        error
        + lambda_quantisation * terms["quantisation"]
        + lambda_commitment * terms["commitment"]
    )
    return loss, terms


def tripod(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array | None = None,
    *,
    key: jax.Array,
    activations: Activations,
    lambda_information: Scalar,
    lambda_hessian: Scalar,
    epsilon: Scalar = 0.1,
    perturbations: int = 2,
    reconstruction: Reconstruction = _CROSS_ENTROPY,
    axis_name: str | None = None,
) -> Objective:
    r"""Tripod: quantised codes, little multi-information, few mixed derivatives.

    .. math:: \frac1B \sum_i c(x_i, \hat x_i) + \lambda_m \hat I(z_1; \dots; z_D)
              + \frac{\lambda_h}{B} \sum_i H(z_i)

    with :func:`multi_information` and :func:`hessian_penalty`, both scaled by the
    deviations of the continuous codes (Hsu et al., "Tripod: Three Complementary
    Inductive Biases for Disentangled Representation Learning"). The cost c is
    the mean cross-entropy of a pixel. ::

        mean = jnp.tanh(encode(x))
        z = losses.straight_through(mean, losses.round_to_levels(mean, levels=12))

    Couples the batch: yes.

    Args:
      x, logits, log_var, reconstruction, axis_name: see :mod:`losses`.
      z: ``[B, D]`` quantised codes, from which ``logits`` were decoded.
      mean: ``[B, D]`` continuous codes in [-1, 1].
      key, activations, epsilon, perturbations: see :func:`hessian_penalty`.
      lambda_information: weight of the multi-information.
      lambda_hessian: weight of the Hessian penalty.

    Returns:
      ``[]`` loss, and the terms ``reconstruction``, ``multi_information`` and
      ``hessian_penalty``.
    """
    del log_var
    check_codes("tripod", mean=mean, z=z)
    error = mean_reconstruction("tripod", reconstruction, x, logits, mean, axis_name)
    deviation = code_deviation(mean, axis_name=axis_name)
    information = multi_information(z, deviation, axis_name=axis_name)
    penalties = hessian_penalty(
        activations,
        z,
        deviation,
        key=key,
        epsilon=epsilon,
        perturbations=perturbations,
        axis_name=axis_name,
    )
    penalty = batch_mean(penalties, axis_name)
    loss = error + lambda_information * information + lambda_hessian * penalty
    terms = {
        "reconstruction": error,
        "multi_information": information,
        "hessian_penalty": penalty,
    }
    return loss, terms
