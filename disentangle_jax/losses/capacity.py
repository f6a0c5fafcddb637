"""VAEs that weight or limit their KL: VAE, beta-VAE, annealed VAE and VLAE."""

import functools
import itertools
import operator
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from disentangle_jax.losses._batch import batch_mean, check_vector
from disentangle_jax.losses._objective import (
    KL,
    Objective,
    Reconstruction,
    check_posterior,
    divergence,
    elbo_terms,
    mean_reconstruction,
)
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction
from disentangle_jax.types import Scalar, check_groups


def capacity_kl(
    kl: jax.Array,
    *,
    gamma: Scalar,
    capacity: Scalar,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Weighted distance of the mean KL from a capacity.

    .. math:: \gamma \left| \tfrac1B \sum_i \mathrm{KL}_i - C \right|

    Burgess et al., "Understanding disentangling in beta-VAE", Eq. 8; also Alemi et
    al. 2018. The absolute value is that of the *batch mean*, as in disentanglement_lib.
    pythae takes it per example, which also penalises the spread of the KL over
    examples.

    Couples the batch: yes.

    Args:
      kl: ``[B]`` KL of each example.
      gamma: weight.
      capacity: C, nats; see :func:`linear_capacity`.
      axis_name: see :mod:`losses`.

    Returns:
      ``[]`` nats times ``gamma``; at least 0.
    """
    kl = jnp.asarray(kl)
    check_vector("capacity_kl", kl=kl)
    return gamma * jnp.abs(batch_mean(kl, axis_name) - capacity)


def linear_capacity(
    step: Scalar,
    *,
    c_max: Scalar,
    threshold: Scalar,
    c_start: Scalar = 0.0,
) -> jax.Array:
    r"""Capacity that grows linearly with training and then stays constant.

    .. math:: C(t) = C_0 + (C_{\max} - C_0) \min(t / T,\; 1)

    Burgess et al., Sec. 5, with :math:`C_0 = 0`; disentanglement_lib uses
    :math:`T = 100\,000`.

    Args:
      step: t, number of steps done so far.
      c_max: final capacity, nats.
      threshold: T, number of steps after which the capacity is final.
      c_start: capacity before the first step, nats.

    Returns:
      ``[]`` nats, between ``c_start`` and ``c_max``.
    """
    share = jnp.minimum(jnp.asarray(step, jnp.float32) / threshold, 1.0)
    return c_start + (c_max - c_start) * share


def normalize_beta(beta: Scalar, *, latents: int, pixels: int) -> Scalar:
    r"""Weight of a *mean* KL that matches ``beta`` on a *summed* one.

    .. math:: \beta_{\text{norm}} = \beta\, D / P

    With sums, the loss is :math:`\sum_p \ell_p + \beta \sum_d \mathrm{KL}_d`. Divided
    by the P pixels it is :math:`\operatorname{mean}_p \ell_p + \beta_{\text{norm}}
    \operatorname{mean}_d \mathrm{KL}_d` (Higgins et al. 2017, App. A.6; Michlo et al.,
    supplement B.1). For example, :math:`\beta = 4` with 9 latents on 64x64x3 images
    gives 0.0029.

    Args:
      beta: weight of the KL summed over latents, beside a summed reconstruction.
      latents: D.
      pixels: P, height times width times channels.

    Returns:
      ``[]``: weight of the KL averaged over latents, beside a mean over pixels. Our
      objectives always sum the KL, so their weight beside :func:`mse` is
      ``normalize_beta(beta, latents=latents, pixels=pixels) / latents``.
    """
    return beta * latents / pixels


def unnormalize_beta(beta_norm: Scalar, *, latents: int, pixels: int) -> Scalar:
    r"""Inverse of :func:`normalize_beta`.

    .. math:: \beta = \beta_{\text{norm}}\, P / D

    Args:
      beta_norm: weight of the KL averaged over latents, beside a mean over pixels.
      latents: D.
      pixels: P, height times width times channels.

    Returns:
      ``[]``: weight of the KL summed over latents, beside a summed reconstruction.
    """
    return beta_norm * pixels / latents


def vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""Variational autoencoder: the negative evidence lower bound (ELBO).

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \mathrm{KL}(q(z|x_i) \,\|\, p(z))

    Kingma & Welling, "Auto-Encoding Variational Bayes", Eq. 10; HFVAE's Table 1, row 1.

    Couples the batch: no.

    Args:
      x, logits, z, mean, log_var, reconstruction, kl, axis_name: see :mod:`losses`.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction`` and ``kl``.
    """
    terms = elbo_terms(
        "vae", x, logits, z, mean, log_var, reconstruction, kl, axis_name
    )
    return terms["reconstruction"] + terms["kl"], terms


def beta_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: Scalar,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""beta-VAE: the ELBO with a weighted KL.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i)
              + \beta\, \mathrm{KL}(q(z|x_i) \,\|\, p(z))

    Higgins et al., "beta-VAE", Eq. 4; HFVAE's Table 1, row 2. The KL is summed over
    dimensions; :func:`normalize_beta` converts weights of averaged losses.

    Couples the batch: no.

    Args:
      x, logits, z, mean, log_var, reconstruction, kl, axis_name: see :mod:`losses`.
      beta: weight of the KL.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction`` and ``kl``.
    """
    terms = elbo_terms(
        "beta_vae", x, logits, z, mean, log_var, reconstruction, kl, axis_name
    )
    return terms["reconstruction"] + beta * terms["kl"], terms


def annealed_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    capacity: Scalar,
    gamma: Scalar = 1000.0,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""Annealed VAE: keeps the mean KL at a capacity that grows during training.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i)
              + \gamma \left| \frac1B \sum_i \mathrm{KL}_i - C \right|

    Burgess et al., "Understanding disentangling in beta-VAE", Eq. 8; HFVAE's Table 1,
    row 5. :func:`capacity_kl` says where other code differs.

    Couples the batch: yes.

    Args:
      x, logits, z, mean, log_var, reconstruction, kl, axis_name: see :mod:`losses`.
      capacity: C at this step, nats; see :func:`linear_capacity`.
      gamma: weight; disentanglement_lib uses 1000.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` and ``capacity``.
    """
    name = "annealed_vae"
    error = mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    values = divergence(name, kl, z, mean, log_var)
    penalty = capacity_kl(values, gamma=gamma, capacity=capacity, axis_name=axis_name)
    return error + penalty, {
        "reconstruction": error,
        "kl": batch_mean(values, axis_name),
        "capacity": jnp.asarray(capacity, error.dtype),
    }


def vlae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    latent_groups: Sequence[int],
    beta: Scalar = 1.0,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""Variational ladder autoencoder: the ELBO, with the KL of each rung as a term.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i)
              + \beta \sum_r \mathrm{KL}(q(z_r|x_i) \,\|\, p(z_r))

    Zhao et al., "Learning Hierarchical Features from Generative Models", Eq. 6. The
    ladder is in the networks. "Structure by Architecture" uses :math:`\beta = 1` and
    the Bernoulli likelihood. The original code uses :func:`l1_reconstruction` and a
    warm-up :math:`\beta = 1 - e^{-t/2000}`, which the caller computes.

    Couples the batch: no.

    Args:
      x, logits, z, mean, log_var, reconstruction, kl, axis_name: see :mod:`losses`.
      latent_groups: sizes of the contiguous rungs, which add up to D.
      beta: weight of the KL.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` and, for each rung r
      from 0, ``kl_rung_r``.
    """
    name = "vlae"
    sizes = check_groups(name, latent_groups, mean.shape[1])
    error = mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    check_posterior(name, mean, log_var)
    rungs = {}
    bounds = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    for number, (low, high) in enumerate(bounds):
        part = [array[:, low:high] for array in (z, mean, log_var)]
        values = divergence(name, kl, *part)
        rungs[f"kl_rung_{number}"] = batch_mean(values, axis_name)
    total = functools.reduce(operator.add, rungs.values())
    return error + beta * total, {"reconstruction": error, "kl": total, **rungs}
