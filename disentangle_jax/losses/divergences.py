"""KL divergence of Gaussian posteriors from the prior."""

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.losses._batch import check_codes
from disentangle_jax.types import Scalar, unknown_name


def broadcast_prior(like: jax.Array, *parameters: Scalar) -> list[jax.Array]:
    """Parameters of the prior, broadcast to the shape and dtype of ``like``."""
    return [
        jnp.broadcast_to(jnp.asarray(p, like.dtype), like.shape) for p in parameters
    ]


def gaussian_kl_per_dim(
    mean: jax.Array,
    log_var: jax.Array,
    *,
    prior_mean: Scalar = 0.0,
    prior_log_var: Scalar = 0.0,
    kl_compat: str | None = None,
) -> jax.Array:
    r"""Analytic KL of diagonal Gaussian posteriors from the prior, per dimension.

    .. math:: \mathrm{KL}_d = \tfrac12\left(\mu_d^2 + \sigma_d^2
              - \log\sigma_d^2 - 1\right)

    for the standard normal prior (Kingma & Welling, App. B), and
    :func:`disentangle_jax.distributions.gaussian_kl` for another one.

    Couples the batch: no.

    Args:
      mean, log_var: see :mod:`losses`.
      prior_mean: mean of the prior, ``[]``, ``[D]`` or ``[B, D]``.
      prior_log_var: log-variance of the prior, ``[]``, ``[D]`` or ``[B, D]``; e.g.
        ``log(1 - 1/K)`` for ProdLDA's approximation of a flat Dirichlet.
      kl_compat: ``"sae_code"`` computes what the public code of "Structure by
        Architecture" trained with, :math:`\tfrac12(\mu^2 - \log s + s - 1)` where
        :math:`s = e^{\frac12\log\sigma^2}` is the *standard deviation* of its samples:
        it applies the formula for variances to standard deviations. Use it only to
        compare with those runs; the prior must be standard.

    Returns:
      ``[B, D]`` nats; at least 0.
    """
    mean, log_var = jnp.asarray(mean), jnp.asarray(log_var)
    check_codes("gaussian_kl_per_dim", mean=mean, log_var=log_var)
    if kl_compat is None:
        prior = broadcast_prior(mean, prior_mean, prior_log_var)
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
    prior_mean: Scalar = 0.0,
    prior_log_var: Scalar = 0.0,
    kl_compat: str | None = None,
) -> jax.Array:
    r"""Analytic KL of diagonal Gaussian posteriors from the prior.

    .. math:: \mathrm{KL}(q(z|x) \,\|\, p(z)) = \sum_d \mathrm{KL}_d

    Couples the batch: no.

    Args:
      mean, log_var: see :mod:`losses`.
      prior_mean, prior_log_var, kl_compat: as in :func:`gaussian_kl_per_dim`.

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
    prior_mean: Scalar = 0.0,
    prior_log_var: Scalar = 0.0,
) -> jax.Array:
    r"""One-sample estimate of the KL of diagonal Gaussian posteriors from the prior.

    .. math:: \log q(z|x) - \log p(z), \qquad z \sim q(z|x)

    The estimate is unbiased, but noisier than :func:`gaussian_kl`. The parts of
    :func:`kl_decomposition` and :func:`hfvae_terms` add up to it exactly at the same
    ``z``.

    Couples the batch: no.

    Args:
      z, mean, log_var: see :mod:`losses`.
      prior_mean, prior_log_var: as in :func:`gaussian_kl_per_dim`.

    Returns:
      ``[B]`` nats; any real number.
    """
    z, mean, log_var = jnp.asarray(z), jnp.asarray(mean), jnp.asarray(log_var)
    check_codes("sampled_gaussian_kl", z=z, mean=mean, log_var=log_var)
    log_q = distributions.gaussian_log_prob(z, mean, log_var)
    prior = broadcast_prior(z, prior_mean, prior_log_var)
    log_p = distributions.gaussian_log_prob(z, *prior)
    return (log_q - log_p).sum(axis=1)
