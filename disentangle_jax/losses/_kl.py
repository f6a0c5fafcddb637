"""Divergence of posteriors from the prior, its weights and its schedules."""

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.losses._batch import (
    batch_mean,
    check_codes,
    check_vector,
)
from disentangle_jax.types import unknown_name


def _prior(like: jax.Array, *parameters: jax.Array) -> list[jax.Array]:
    """Parameters of the prior, spread over the shape of ``like``."""
    return [
        jnp.broadcast_to(jnp.asarray(p, like.dtype), like.shape) for p in parameters
    ]


def gaussian_kl_per_dim(
    mean: jax.Array,
    log_var: jax.Array,
    *,
    prior_mean: jax.Array = 0.0,
    prior_log_var: jax.Array = 0.0,
    kl_compat: str | None = None,
) -> jax.Array:
    r"""Analytic KL of diagonal Gaussian posteriors from the prior, per dimension.

    .. math:: \mathrm{KL}_d = \tfrac12\left(\mu_d^2 + \sigma_d^2
              - \log\sigma_d^2 - 1\right)

    for the standard normal prior (Kingma & Welling, App. B), and
    :func:`disentangle_jax.distributions.gaussian_kl` for another one.

    Couples the batch: no.

    Args:
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      prior_mean: mean of the prior, ``[]``, ``[D]`` or ``[B, D]``.
      prior_log_var: log-variance of the prior, ``[]``, ``[D]`` or ``[B, D]``; e.g.
        ``log(1 - 1/K)`` for ProdLDA's approximation of a flat Dirichlet.
      kl_compat: ``"sae_code"`` computes what the public code of "Structure by
        Architecture" trained with, :math:`\tfrac12(\mu^2 - \log s + s - 1)` where
        :math:`s = e^{\frac12\log\sigma^2}` is the *standard deviation* that it samples
        with: the formula for variances, given deviations. For comparing with those
        runs only; the prior must be standard.

    Returns:
      ``[B, D]`` nats; at least 0.
    """
    mean, log_var = jnp.asarray(mean), jnp.asarray(log_var)
    check_codes("gaussian_kl_per_dim", mean=mean, log_var=log_var)
    if kl_compat is None:
        prior = _prior(mean, prior_mean, prior_log_var)
        return distributions.gaussian_kl(mean, log_var, *prior)
    if kl_compat != "sae_code":
        raise unknown_name(
            "gaussian_kl_per_dim", "kl_compat", kl_compat, ["None", "sae_code"]
        )
    log_std = 0.5 * log_var
    return 0.5 * (jnp.square(mean) + jnp.expm1(log_std) - log_std)


def gaussian_kl(
    mean: jax.Array,
    log_var: jax.Array,
    *,
    prior_mean: jax.Array = 0.0,
    prior_log_var: jax.Array = 0.0,
    kl_compat: str | None = None,
) -> jax.Array:
    r"""Analytic KL of diagonal Gaussian posteriors from the prior.

    .. math:: \mathrm{KL}(q(z|x) \,\|\, p(z)) = \sum_d \mathrm{KL}_d

    The sum over dimensions of :func:`gaussian_kl_per_dim`, which explains the options.

    Couples the batch: no.

    Args:
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      prior_mean: mean of the prior, ``[]``, ``[D]`` or ``[B, D]``.
      prior_log_var: log-variance of the prior, ``[]``, ``[D]`` or ``[B, D]``.
      kl_compat: None, or ``"sae_code"``.

    Returns:
      ``[B]`` nats; at least 0.
    """
    return gaussian_kl_per_dim(
        mean,
        log_var,
        prior_mean=prior_mean,
        prior_log_var=prior_log_var,
        kl_compat=kl_compat,
    ).sum(axis=1)


def sampled_gaussian_kl(
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    prior_mean: jax.Array = 0.0,
    prior_log_var: jax.Array = 0.0,
) -> jax.Array:
    r"""One-sample estimate of the KL of diagonal Gaussian posteriors from the prior.

    .. math:: \log q(z|x) - \log p(z), \qquad z \sim q(z|x)

    Unbiased, and exactly what the decompositions of this module add up to at the same
    ``z``; noisier than :func:`gaussian_kl`.

    Couples the batch: no.

    Args:
      z: ``[B, D]`` draws from the posteriors.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      prior_mean: mean of the prior, ``[]``, ``[D]`` or ``[B, D]``.
      prior_log_var: log-variance of the prior, ``[]``, ``[D]`` or ``[B, D]``.

    Returns:
      ``[B]`` nats; any real number.
    """
    z, mean, log_var = jnp.asarray(z), jnp.asarray(mean), jnp.asarray(log_var)
    check_codes("sampled_gaussian_kl", z=z, mean=mean, log_var=log_var)
    log_q = distributions.gaussian_log_prob(z, mean, log_var)
    prior = _prior(z, prior_mean, prior_log_var)
    log_p = distributions.gaussian_log_prob(z, *prior)
    return (log_q - log_p).sum(axis=1)


def capacity_kl(
    kl: jax.Array,
    *,
    gamma: jax.Array,
    capacity: jax.Array,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Distance of the mean KL from a capacity.

    .. math:: \gamma \left| \tfrac1B \sum_i \mathrm{KL}_i - C \right|

    Burgess et al., "Understanding disentangling in beta-VAE", Eq. 8; also Alemi et
    al. 2018. The absolute value is of the *batch mean*, as in disentanglement_lib;
    pythae takes it per example, which is another objective: it also penalises the
    spread of the KL over examples.

    Couples the batch: yes.

    Args:
      kl: ``[B]`` KL of each example.
      gamma: weight.
      capacity: C, nats; see :func:`linear_capacity`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` nats times ``gamma``; at least 0.
    """
    kl = jnp.asarray(kl)
    check_vector("capacity_kl", kl=kl)
    return gamma * jnp.abs(batch_mean(kl, axis_name) - capacity)


def linear_capacity(
    step: jax.Array, *, c_max: jax.Array, threshold: jax.Array
) -> jax.Array:
    r"""Capacity that grows linearly with training and then stays.

    .. math:: C(t) = \min\left(C_{\max},\; C_{\max}\, t / T\right)

    Burgess et al., Sec. 5; the study uses :math:`T = 100\,000`.

    Args:
      step: t, steps done so far.
      c_max: final capacity, nats.
      threshold: T, steps at which it is reached.

    Returns:
      ``[]`` nats, in [0, ``c_max``].
    """
    return c_max * jnp.minimum(jnp.asarray(step, jnp.float32) / threshold, 1.0)


def normalize_beta(beta: jax.Array, *, latents: int, pixels: int) -> jax.Array:
    r"""Weight of a *mean* KL that matches ``beta`` on a *summed* one.

    .. math:: \beta_{\text{norm}} = \beta\, D / P

    With sums, the loss is :math:`\sum_p \ell_p + \beta \sum_d \mathrm{KL}_d`. Divided
    by the P pixels it is :math:`\operatorname{mean}_p \ell_p + \beta_{\text{norm}}
    \operatorname{mean}_d \mathrm{KL}_d` (Higgins et al. 2017, App. A.6; Michlo et al.,
    supplement B.1). So :math:`\beta = 4` with 9 latents on 64x64x3 is 0.0029.

    Args:
      beta: weight of the KL summed over latents beside a summed reconstruction.
      latents: D.
      pixels: P, height times width times channels.

    Returns:
      ``[]``: weight of the KL averaged over latents beside a per-pixel mean. For our
      objectives, whose KL is always summed, the weight beside :func:`mse` is
      ``normalize_beta(beta, latents=latents, pixels=pixels) / latents``.
    """
    return beta * latents / pixels


def unnormalize_beta(beta_norm: jax.Array, *, latents: int, pixels: int) -> jax.Array:
    r"""Inverse of :func:`normalize_beta`.

    .. math:: \beta = \beta_{\text{norm}}\, P / D

    Args:
      beta_norm: weight of the KL averaged over latents beside a per-pixel mean.
      latents: D.
      pixels: P, height times width times channels.

    Returns:
      ``[]``: weight of the KL summed over latents beside a summed reconstruction.
    """
    return beta_norm * pixels / latents
