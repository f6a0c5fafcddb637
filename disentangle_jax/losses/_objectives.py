"""Named objectives: a reconstruction plus weighted terms, as `(scalar, terms)`."""

from collections.abc import Callable

import jax

from disentangle_jax.losses._batch import batch_mean, check_codes
from disentangle_jax.losses._kl import gaussian_kl, sampled_gaussian_kl
from disentangle_jax.losses._reconstruction import bernoulli_reconstruction
from disentangle_jax.types import unknown_name

Reconstruction = Callable[[jax.Array, jax.Array], jax.Array]
KL = str | Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
Objective = tuple[jax.Array, dict[str, jax.Array]]


def _mean_reconstruction(
    function: str,
    reconstruction: Reconstruction,
    x: jax.Array,
    logits: jax.Array,
    mean: jax.Array,
    axis_name: str | None,
) -> jax.Array:
    values = reconstruction(x, logits)
    if values.shape != (mean.shape[0],):
        raise ValueError(
            f"{function}: `reconstruction` must return [B], one value per row of "
            f"`mean` {mean.shape}, got {values.shape}."
        )
    return batch_mean(values, axis_name)


def _divergence(
    function: str, kl: KL, z: jax.Array, mean: jax.Array, log_var: jax.Array
) -> jax.Array:
    """KL of each example, by the chosen form."""
    if log_var is None:
        raise ValueError(
            f"{function}: `log_var` must be an array [B, D], got None. A deterministic "
            "encoder has no KL; use `ae` or `wae`."
        )
    check_codes(function, mean=mean, log_var=log_var)
    if callable(kl):
        return kl(z, mean, log_var)
    if kl == "analytic":
        return gaussian_kl(mean, log_var)
    if kl == "sampled":
        return sampled_gaussian_kl(z, mean, log_var)
    if kl == "sae_code":
        return gaussian_kl(mean, log_var, kl_compat="sae_code")
    raise unknown_name(function, "kl", kl, ["analytic", "sampled", "sae_code"])


def ae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array | None = None,
    *,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    axis_name: str | None = None,
) -> Objective:
    r"""Plain autoencoder: the reconstruction alone.

    .. math:: \frac1B \sum_i -\log p(x_i | z_i)

    Also the objective of the structural autoencoders ("Structure by Architecture"),
    whose regularisation is their architecture.

    Couples the batch: no.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` codes; not used.
      mean: ``[B, D]`` codes; only their number of rows is used.
      log_var: not used; None for deterministic encoders.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss, and the terms ``reconstruction``.
    """
    del z, log_var
    error = _mean_reconstruction("ae", reconstruction, x, logits, mean, axis_name)
    return error, {"reconstruction": error}


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
    r"""Variational autoencoder: the negative evidence lower bound.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \mathrm{KL}(q(z|x_i) \,\|\, p(z))

    Kingma & Welling, "Auto-Encoding Variational Bayes", Eq. 10; HFVAE's Table 1, row 1.

    Couples the batch: no.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: ``"analytic"``, ``"sampled"``, ``"sae_code"`` (see
        :func:`gaussian_kl_per_dim`), or a function of ``(z, mean, log_var)`` that
        returns ``[B]``, e.g. for another prior.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction`` and ``kl``.
    """
    error = _mean_reconstruction("vae", reconstruction, x, logits, mean, axis_name)
    divergence = batch_mean(_divergence("vae", kl, z, mean, log_var), axis_name)
    return error + divergence, {"reconstruction": error, "kl": divergence}


def beta_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: jax.Array,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""beta-VAE: the KL weighted.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i)
              + \beta\, \mathrm{KL}(q(z|x_i) \,\|\, p(z))

    Higgins et al., "beta-VAE", Eq. 4; HFVAE's Table 1, row 2. The KL is summed over
    dimensions; :func:`normalize_beta` converts weights of averaged losses.

    Couples the batch: no.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      beta: weight of the KL.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: as in :func:`vae`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction`` and ``kl`` (unweighted).
    """
    error = _mean_reconstruction("beta_vae", reconstruction, x, logits, mean, axis_name)
    divergence = batch_mean(_divergence("beta_vae", kl, z, mean, log_var), axis_name)
    return error + beta * divergence, {"reconstruction": error, "kl": divergence}
