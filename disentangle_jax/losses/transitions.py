"""Pairs in time with a sparse transition prior: SlowVAE."""

import math

import jax
import jax.numpy as jnp

from disentangle_jax.losses._batch import batch_mean, check_codes
from disentangle_jax.losses._objective import (
    KL,
    Objective,
    Reconstruction,
    elbo_terms,
)
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction
from disentangle_jax.types import Scalar


def laplace_transition_kl(
    mean: jax.Array, log_var: jax.Array, previous: jax.Array, *, rate: Scalar = 6.0
) -> jax.Array:
    r"""KL of a Gaussian posterior from a Laplace distribution around another code.

    .. math:: \mathrm{KL}\big(\mathcal N(\mu, \sigma^2) \,\|\,
              \tfrac{\lambda}{2} e^{-\lambda |z - m|}\big)
              = \lambda \Big( \sigma \sqrt{\tfrac2\pi}\, e^{-\delta^2 / 2 \sigma^2}
              + \delta \operatorname{erf} \tfrac{\delta}{\sigma \sqrt2} \Big)
              - \log \tfrac\lambda2 - \tfrac12 \log(2 \pi e\, \sigma^2)

    with :math:`\delta = \mu - m`, summed over latents. The bracket is the mean of
    :math:`|z - m|`, a folded normal variable; the rest is the logarithm of the Laplace
    distribution's constant and the entropy of the Gaussian. Klindt et al., "Towards
    Nonlinear Disentanglement in Natural Data with Temporal Sparse Coding".

    Couples the batch: no.

    Args:
      mean, log_var: see :mod:`losses`.
      previous: ``[B, D]`` m, the codes at the time before.
      rate: :math:`\lambda`, rate of the Laplace distribution, per unit of the code.

    Returns:
      ``[B]`` nats; at least 0.
    """
    check_codes("laplace_transition_kl", mean=mean, log_var=log_var, previous=previous)
    rate = jnp.asarray(rate, mean.dtype)
    step, sigma = mean - previous, jnp.exp(0.5 * log_var)
    ratio = step / (math.sqrt(2.0) * sigma)
    distance = sigma * math.sqrt(2.0 / math.pi) * jnp.exp(-jnp.square(ratio))
    distance = distance + step * jax.scipy.special.erf(ratio)
    entropy = 0.5 * (log_var + math.log(2.0 * math.pi * math.e))
    return (rate * distance - jnp.log(0.5 * rate) - entropy).sum(axis=1)


def slow_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: Scalar = 1.0,
    gamma: Scalar = 10.0,
    rate: Scalar = 6.0,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""SlowVAE: pairs of images whose latents change rarely and a little.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) - \log p(x'_i|z'_i)
              + \beta\, \mathrm{KL}(q(z|x_i) \,\|\, p(z))
              + \gamma\, \mathrm{KL}(q(z'|x'_i) \,\|\, p(z' | \mu(x_i)))

    for B pairs of an image and the next one, averaged over both directions of time. The
    transition is a Laplace distribution around the mean of the other posterior; see
    :func:`laplace_transition_kl`. Klindt et al., "Towards Nonlinear Disentanglement in
    Natural Data with Temporal Sparse Coding", whose public code also takes the mean,
    with beta 1, gamma 10 and rate 6. It adds the cross-entropies of both directions and
    subtracts the entropy of one.

    Couples the batch: no.

    Args:
      x, logits, z, mean, log_var, reconstruction, kl, axis_name: see :mod:`losses`.
        The batch holds 2B rows: all first images of the pairs, then all second ones.
      beta: weight of the KL from the standard normal prior.
      gamma: weight of the KL from the transition.
      rate: rate of the Laplace distribution.

    Returns:
      ``[]`` loss in nats per pair, and the terms ``reconstruction`` and ``kl`` per
      image, and ``transition_kl``.
    """
    terms = elbo_terms(
        "slow_vae", x, logits, z, mean, log_var, reconstruction, kl, axis_name
    )
    if mean.shape[0] % 2:
        raise ValueError(
            "slow_vae: the batch must hold pairs, first images and then second ones, "
            f"got {mean.shape[0]} rows."
        )
    first, second = jnp.split(mean, 2)
    other = jnp.concatenate([second, first])
    transition = laplace_transition_kl(mean, log_var, other, rate=rate)
    terms["transition_kl"] = batch_mean(transition, axis_name)
    loss = (
        2.0 * terms["reconstruction"]
        + beta * terms["kl"]
        + gamma * terms["transition_kl"]
    )
    return loss, terms
