"""Named objectives: a reconstruction plus weighted terms, as `(scalar, terms)`."""

import itertools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.losses._aggregate import (
    Concrete,
    aggregate_log_densities,
    hfvae_terms_of,
    kl_decomposition,
    log_q_marginals,
)
from disentangle_jax.losses._batch import (
    batch_mean,
    batch_size,
    check_codes,
    check_vector,
    row_numbers,
)
from disentangle_jax.losses._critic import density_ratio_tc
from disentangle_jax.losses._kl import capacity_kl, gaussian_kl, sampled_gaussian_kl
from disentangle_jax.losses._moments import dip_penalty, mmd
from disentangle_jax.losses._priors import standard_log_prior
from disentangle_jax.losses._reconstruction import bernoulli_reconstruction, per_pixel
from disentangle_jax.losses._supervision import ada_gvae_posteriors
from disentangle_jax.types import check_groups, unknown_name

Reconstruction = Callable[[jax.Array, jax.Array], jax.Array]
KL = str | Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
Objective = tuple[jax.Array, dict[str, jax.Array]]

_mean_bernoulli = per_pixel(bernoulli_reconstruction)


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


def _check_posterior(function: str, mean: jax.Array, log_var: jax.Array | None) -> None:
    if log_var is None:
        raise ValueError(
            f"{function}: `log_var` must be an array [B, D], got None. A deterministic "
            "encoder has no KL; use `ae` or `wae`."
        )
    check_codes(function, mean=mean, log_var=log_var)


def _divergence(
    function: str, kl: KL, z: jax.Array, mean: jax.Array, log_var: jax.Array
) -> jax.Array:
    """KL of each example, by the chosen form."""
    _check_posterior(function, mean, log_var)
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


def annealed_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    capacity: jax.Array,
    gamma: jax.Array = 1000.0,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""Annealed VAE: the mean KL is held at a capacity that grows with training.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i)
              + \gamma \left| \frac1B \sum_i \mathrm{KL}_i - C \right|

    Burgess et al., "Understanding disentangling in beta-VAE", Eq. 8; HFVAE's Table 1,
    row 5. See :func:`capacity_kl` for where other code differs, and
    :func:`linear_capacity` for the schedule.

    Couples the batch: yes.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      capacity: C at this step, nats.
      gamma: weight; the study's 1000 by default.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: as in :func:`vae`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` (unweighted) and
      ``capacity``.
    """
    name = "annealed_vae"
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    divergence = _divergence(name, kl, z, mean, log_var)
    penalty = capacity_kl(
        divergence, gamma=gamma, capacity=capacity, axis_name=axis_name
    )
    return error + penalty, {
        "reconstruction": error,
        "kl": batch_mean(divergence, axis_name),
        "capacity": jnp.asarray(capacity, error.dtype),
    }


def beta_tc_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: jax.Array,
    dataset_size: jax.Array | None,
    alpha: jax.Array = 1.0,
    gamma: jax.Array = 1.0,
    estimator: str = "stratified",
    groups: Sequence[int] | None = None,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "sampled",
    block_size: int | None = None,
    axis_name: str | None = None,
) -> Objective:
    r"""beta-TCVAE: the three parts of the KL, each with its weight.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \alpha\, I(x; z) + \beta\, TC(z)
              + \gamma \sum_d \mathrm{KL}(q(z_d) \,\|\, p(z_d))

    Chen et al., "Isolating Sources of Disentanglement in VAEs", Eq. 4; HFVAE's Table 1,
    row 8. With the sampled KL the parts add up exactly, so that all weights at 1 give
    :func:`vae` with ``kl="sampled"``. With another ``kl`` the loss is that KL plus
    :math:`(\alpha - 1) I + (\beta - 1) TC + (\gamma - 1) \text{(the rest)}`;
    ``kl="analytic", estimator="naive"`` is disentanglement_lib's objective. (One public
    library adds :math:`(\beta - 1) TC` to :math:`\beta` times the KL, which counts
    beta twice.)

    Couples the batch: yes.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      beta: weight of the total correlation.
      dataset_size: N, number of training examples; may be traced.
      alpha: weight of the mutual information.
      gamma: weight of the dimension-wise KL.
      estimator: of the aggregate posterior; see :func:`aggregate_log_densities`.
      groups: sizes of contiguous groups of dimensions, whose dependence on one another
        is penalised; None means one per dimension.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: ``"sampled"``, or as in :func:`vae`.
      block_size: as in :func:`log_q_marginals`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl``,
      ``mutual_information``, ``total_correlation``, ``dimension_wise_kl``
      (unweighted).
    """
    name = "beta_tc_vae"
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    divergence = batch_mean(_divergence(name, kl, z, mean, log_var), axis_name)
    parts = kl_decomposition(
        z,
        mean,
        log_var,
        dataset_size=dataset_size,
        estimator=estimator,
        groups=groups,
        block_size=block_size,
        axis_name=axis_name,
    )
    if kl != "sampled":
        alpha, beta, gamma = alpha - 1.0, beta - 1.0, gamma - 1.0
    loss = (
        error
        + alpha * parts["mutual_information"]
        + beta * parts["total_correlation"]
        + gamma * parts["dimension_wise_kl"]
    )
    if kl != "sampled":
        loss = loss + divergence
    return loss, {"reconstruction": error, "kl": divergence, **parts}


def factor_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    critic_logits: jax.Array,
    gamma: jax.Array,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""FactorVAE: the ELBO plus a total correlation estimated by a critic.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \mathrm{KL}(q(z|x_i) \,\|\, p(z))
              + \gamma \log \frac{D(z_i)}{1 - D(z_i)}

    Kim & Mnih, "Disentangling by Factorising", Eq. 2-3; HFVAE's Table 1, row 8. The
    critic learns by :func:`discriminator_loss`; here its parameters are constants, so
    take no gradient of this loss with respect to them.

    Couples the batch: only by its mean (and through the critic).

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      critic_logits: ``[B]`` log-odds of "joint" that the critic gives to ``z``.
      gamma: weight of the total correlation.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: as in :func:`vae`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` and
      ``total_correlation`` (unweighted).
    """
    name = "factor_vae"
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    divergence = batch_mean(_divergence(name, kl, z, mean, log_var), axis_name)
    correlation = density_ratio_tc(critic_logits, axis_name=axis_name)
    return error + divergence + gamma * correlation, {
        "reconstruction": error,
        "kl": divergence,
        "total_correlation": correlation,
    }


def dip_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    kind: str,
    lambda_od: jax.Array,
    lambda_d: jax.Array,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""DIP-VAE: the ELBO plus the distance of the code's covariance from the identity.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \mathrm{KL}(q(z|x_i) \,\|\, p(z))
              + \lambda_{od} \sum_{i \ne j} C_{ij}^2
              + \lambda_d \sum_i (C_{ii} - 1)^2

    Kumar et al., "Variational Inference of Disentangled Latent Concepts", Eq. 6-7;
    HFVAE's Table 1, row 3. See :func:`dip_penalty` for C.

    Couples the batch: yes.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      kind: ``"i"`` or ``"ii"``.
      lambda_od: weight off the diagonal.
      lambda_d: weight on the diagonal.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: as in :func:`vae`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss, and the terms ``reconstruction``, ``kl`` and ``dip_penalty``
      (weighted by its lambdas).
    """
    name = "dip_vae"
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    divergence = batch_mean(_divergence(name, kl, z, mean, log_var), axis_name)
    penalty = dip_penalty(
        mean,
        log_var,
        kind=kind,
        lambda_od=lambda_od,
        lambda_d=lambda_d,
        axis_name=axis_name,
    )
    return error + divergence + penalty, {
        "reconstruction": error,
        "kl": divergence,
        "dip_penalty": penalty,
    }


def _prior_draw(key: jax.Array, z: jax.Array, axis_name: str | None) -> jax.Array:
    """Local rows of a standard normal sample of the size of the global batch."""
    shape = (batch_size(z, axis_name), z.shape[1])
    sample = jax.random.normal(key, shape, z.dtype)
    return sample if axis_name is None else sample[row_numbers(z, axis_name)]


def info_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    key: jax.Array,
    lambda_: jax.Array,
    alpha: jax.Array = 1.0,
    kernel: str = "rbf",
    scale: jax.Array | None = None,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""InfoVAE: the aggregate posterior is pulled to the prior, not each posterior.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i)
              + (1 - \alpha) \mathrm{KL}(q(z|x_i) \,\|\, p(z))
              + (\alpha + \lambda - 1)\, \mathrm{MMD}(q(z), p(z))

    Zhao et al., "InfoVAE", Eq. 6, with the MMD for the divergence of the aggregate.
    The default :math:`\alpha = 1` drops the mutual information altogether: HFVAE's
    Table 1, row 4.

    Couples the batch: yes.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      key: typed key for the sample of the prior; with ``axis_name`` the same one on
        every device.
      lambda_: weight :math:`\lambda`.
      alpha: weight :math:`\alpha` of the mutual information that is given back.
      kernel: ``"rbf"`` or ``"imq"``; see :func:`mmd`.
      scale: of the kernel; None for its default.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: as in :func:`vae`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss, and the terms ``reconstruction``, ``kl`` and ``mmd`` (unweighted).
    """
    name = "info_vae"
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    divergence = batch_mean(_divergence(name, kl, z, mean, log_var), axis_name)
    discrepancy = mmd(
        _prior_draw(key, z, axis_name),
        z,
        kernel=kernel,
        scale=scale,
        axis_name=axis_name,
    )
    weighted = (1.0 - alpha) * divergence + (alpha + lambda_ - 1.0) * discrepancy
    return error + weighted, {
        "reconstruction": error,
        "kl": divergence,
        "mmd": discrepancy,
    }


def wae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array | None = None,
    *,
    key: jax.Array,
    lambda_: jax.Array = 10.0,
    kernel: str = "imq",
    scale: jax.Array | None = None,
    mmd_compat: str | None = None,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    axis_name: str | None = None,
) -> Objective:
    r"""Wasserstein autoencoder with the MMD penalty.

    .. math:: \frac1B \sum_i c(x_i, \hat x_i) + \lambda\, \mathrm{MMD}(q(z), p(z))

    Tolstikhin et al., "Wasserstein Auto-Encoders", Algorithm 2; "Structure by
    Architecture" takes it with :math:`\lambda = 10` and the Bernoulli likelihood as
    cost. Its public code divides the MMD by the batch size once more
    (``mmd_compat="sae_code"``), which leaves it next to nothing to do.

    Couples the batch: yes.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` codes that ``logits`` were decoded from.
      mean: ``[B, D]`` codes; only their number of rows is used.
      log_var: not used; None for deterministic encoders.
      key: typed key for the sample of the prior; with ``axis_name`` the same one on
        every device.
      lambda_: weight of the MMD.
      kernel: ``"imq"`` or ``"rbf"``; see :func:`mmd`.
      scale: of the kernel; None for its default.
      mmd_compat: None, or ``"sae_code"``; see :func:`mmd`.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss, and the terms ``reconstruction`` and ``mmd`` (unweighted).
    """
    del log_var
    error = _mean_reconstruction("wae", reconstruction, x, logits, mean, axis_name)
    discrepancy = mmd(
        _prior_draw(key, z, axis_name),
        z,
        kernel=kernel,
        scale=scale,
        mmd_compat=mmd_compat,
        axis_name=axis_name,
    )
    return error + lambda_ * discrepancy, {"reconstruction": error, "mmd": discrepancy}


def hfvae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: jax.Array,
    gamma: jax.Array,
    groups: Sequence[int],
    dataset_size: jax.Array | None,
    alpha: jax.Array = 1.0,
    estimator: str = "stratified",
    concrete: Sequence[Concrete] = (),
    pairwise: jax.Array | None = None,
    log_p_elements: jax.Array | None = None,
    log_p_groups: jax.Array | None = None,
    log_p_joint: jax.Array | None = None,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    block_size: int | None = None,
    axis_name: str | None = None,
) -> Objective:
    r"""Hierarchically factorised VAE: total correlation between and within groups.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \alpha\,\text{②} +
              \beta\,\text{Ⓐ} + \gamma\,\text{ⓘ} + \text{ⓘⓘ}

    Esmaeili et al., "Structured Disentangled Representations", Eq. 4, the last row of
    its Table 1; the terms are those of :func:`hfvae_terms`. All weights at 1 give the
    ELBO with the sampled KL; one group per dimension gives :func:`beta_tc_vae`.

    The prior is standard normal, and uniform of the same temperature for Concrete
    variables, unless ``log_p_elements`` is given. Posteriors are Gaussian, with
    Concrete variables beside them where ``concrete`` names some, unless ``pairwise`` is
    given, which may describe anything; ``z``, ``mean`` and ``log_var`` are then not
    used, except that ``mean`` says how many rows there are.

    Couples the batch: yes.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      beta: weight of the total correlation between groups.
      gamma: weight of the total correlation within groups.
      groups: sizes of contiguous groups of elements, adding up to E.
      dataset_size: N, number of training examples; may be traced.
      alpha: weight of the mutual information.
      estimator: of the aggregate posterior; see :func:`aggregate_log_densities`.
      concrete: Concrete variables of the posteriors; see :func:`log_q_marginals`.
      pairwise: ``[B, B, E]`` log-densities; see :func:`pairwise_log_density`.
      log_p_elements: ``[B, E]`` log-density of each element under the prior; needed
        with ``pairwise``.
      log_p_groups: ``[B, G]``, for priors that do not factorise within groups.
      log_p_joint: ``[B]``, for priors that do not factorise over groups.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      block_size: as in :func:`log_q_marginals`; not with ``pairwise``.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` (their unweighted
      sum), ``mutual_information``, ``group_tc``, ``within_group_tc``,
      ``dimension_wise_kl`` (unweighted).
    """
    name = "hfvae"
    if pairwise is not None and log_p_elements is None:
        raise ValueError(
            f"{name}: `log_p_elements` must be given with `pairwise`, got None. Pass "
            "the log-density of each element under its prior."
        )
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    options = {
        "dataset_size": dataset_size,
        "estimator": estimator,
        "groups": groups,
        "axis_name": axis_name,
    }
    if pairwise is None:
        _check_posterior(name, mean, log_var)
        densities = log_q_marginals(
            z, mean, log_var, concrete=concrete, block_size=block_size, **options
        )
        if log_p_elements is None:
            log_p_elements = standard_log_prior(z, concrete)
    elif block_size is not None:
        raise ValueError(
            f"{name}: `block_size` must be None where `pairwise` is given, got "
            f"{block_size}: the pairs are all there already."
        )
    elif concrete:
        raise ValueError(
            f"{name}: `concrete` must be empty where `pairwise` is given, which holds "
            f"all elements, got {len(concrete)} variables."
        )
    else:
        densities = aggregate_log_densities(pairwise, **options)
    parts = hfvae_terms_of(
        densities, log_p_elements, tuple(groups), log_p_groups, log_p_joint, axis_name
    )
    loss = (
        error
        + alpha * parts["mutual_information"]
        + beta * parts["group_tc"]
        + gamma * parts["within_group_tc"]
        + parts["dimension_wise_kl"]
    )
    return loss, {"reconstruction": error, "kl": sum(parts.values()), **parts}


def anchor_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    anchors: Sequence[int],
    lambda_: jax.Array,
    dataset_size: jax.Array | None,
    estimator: str = "stratified",
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "sampled",
    block_size: int | None = None,
    axis_name: str | None = None,
) -> Objective:
    r"""Anchored VAE: some dimensions keep more information about the observation.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \mathrm{KL}(q(z|x_i) \,\|\, p(z))
              - \lambda\, I(x; z_a)

    Gao et al., "Auto-Encoding Total Correlation Explanation", in the form of HFVAE's
    Table 1, row 6: the penalty on the mutual information is reduced for the anchor
    dimensions :math:`z_a`, taken jointly.

    Couples the batch: yes.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      anchors: indices of the anchor dimensions.
      lambda_: weight of their mutual information.
      dataset_size: N, number of training examples; may be traced.
      estimator: of the aggregate posterior; see :func:`aggregate_log_densities`.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: as in :func:`vae`.
      block_size: as in :func:`log_q_marginals`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` and
      ``anchor_information`` (unweighted).
    """
    name = "anchor_vae"
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    divergence = batch_mean(_divergence(name, kl, z, mean, log_var), axis_name)
    chosen = np.asarray(anchors, int)
    if chosen.size == 0 or chosen.min() < 0 or chosen.max() >= z.shape[1]:
        raise ValueError(
            f"{name}: `anchors` must be indices of the {z.shape[1]} dimensions, at "
            f"least one, got {tuple(anchors)}."
        )
    densities = log_q_marginals(
        z[:, chosen],
        mean[:, chosen],
        log_var[:, chosen],
        dataset_size=dataset_size,
        estimator=estimator,
        groups=(chosen.size,),
        block_size=block_size,
        axis_name=axis_name,
    )
    information = batch_mean(
        densities["log_qz_given_x"] - densities["log_qz"], axis_name
    )
    return error + divergence - lambda_ * information, {
        "reconstruction": error,
        "kl": divergence,
        "anchor_information": information,
    }


def information_dropout(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: jax.Array,
    gamma: jax.Array,
    dataset_size: jax.Array | None,
    estimator: str = "stratified",
    reconstruction: Reconstruction = bernoulli_reconstruction,
    block_size: int | None = None,
    axis_name: str | None = None,
) -> Objective:
    r"""Information dropout: an information bottleneck with a total correlation.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \beta\, I(x; z) + \gamma\, TC(z)

    Achille & Soatto, "Information Dropout", Eq. 8, in the form of HFVAE's Table 1, row
    7. Nothing ties the marginals to the prior: with :math:`\beta = \gamma` and a prior
    free to match the marginals it is :func:`beta_vae`.

    Couples the batch: yes.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      beta: weight of the mutual information.
      gamma: weight of the total correlation.
      dataset_size: N, number of training examples; may be traced.
      estimator: of the aggregate posterior; see :func:`aggregate_log_densities`.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      block_size: as in :func:`log_q_marginals`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``mutual_information``,
      ``total_correlation``, ``dimension_wise_kl`` (unweighted; the last is not part of
      the loss).
    """
    name = "information_dropout"
    _check_posterior(name, mean, log_var)
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    parts = kl_decomposition(
        z,
        mean,
        log_var,
        dataset_size=dataset_size,
        estimator=estimator,
        block_size=block_size,
        axis_name=axis_name,
    )
    loss = (
        error + beta * parts["mutual_information"] + gamma * parts["total_correlation"]
    )
    return loss, {"reconstruction": error, **parts}


def vlae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    latent_groups: Sequence[int],
    beta: jax.Array = 1.0,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""Variational ladder autoencoder: the ELBO, with the KL of each rung told apart.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i)
              + \beta \sum_r \mathrm{KL}(q(z_r|x_i) \,\|\, p(z_r))

    Zhao et al., "Learning Hierarchical Features from Generative Models", Eq. 6. The
    ladder is in the networks. "Structure by Architecture" takes :math:`\beta = 1` and
    the Bernoulli likelihood; the original code :func:`l1_reconstruction` and a warm-up
    :math:`\beta = 1 - e^{-t/2000}`, which the caller passes in.

    Couples the batch: no.

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` draws from the posteriors that ``logits`` were decoded from.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      latent_groups: sizes of the contiguous rungs, adding up to D.
      beta: weight of the KL.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: ``"analytic"``, ``"sampled"`` or ``"sae_code"``.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` and, for each rung r
      from 0, ``kl_rung_r`` (unweighted).
    """
    name = "vlae"
    sizes = check_groups(name, latent_groups, mean.shape[1])
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    _check_posterior(name, mean, log_var)
    rungs = {}
    bounds = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    for number, (low, high) in enumerate(bounds):
        values = _divergence(
            name, kl, z[:, low:high], mean[:, low:high], log_var[:, low:high]
        )
        rungs[f"kl_rung_{number}"] = batch_mean(values, axis_name)
    divergence = sum(rungs.values())
    return error + beta * divergence, {
        "reconstruction": error,
        "kl": divergence,
        **rungs,
    }


def _paired(
    name: str,
    average: str,
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    beta: jax.Array,
    distance: str,
    ratio: jax.Array,
    reconstruction: Reconstruction,
    kl: KL,
    axis_name: str | None,
) -> Objective:
    _check_posterior(name, mean, log_var)
    if mean.shape[0] % 2:
        raise ValueError(
            f"{name}: the batch must hold pairs, first members in the first half and "
            f"second members in the second, got {mean.shape[0]} rows."
        )
    mean1, mean2 = jnp.split(mean, 2)
    log_var1, log_var2 = jnp.split(log_var, 2)
    mean1, log_var1, mean2, log_var2 = ada_gvae_posteriors(
        mean1,
        log_var1,
        mean2,
        log_var2,
        distance=distance,
        average=average,
        ratio=ratio,
    )
    mean = jnp.concatenate([mean1, mean2])
    log_var = jnp.concatenate([log_var1, log_var2])
    error = _mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    divergence = batch_mean(_divergence(name, kl, z, mean, log_var), axis_name)
    same = (mean1 == mean2) & (log_var1 == log_var2)
    shared = batch_mean(same.sum(axis=1).astype(mean.dtype), axis_name)
    return error + beta * divergence, {
        "reconstruction": error,
        "kl": divergence,
        "shared_dims": shared,
    }


def ada_gvae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: jax.Array = 1.0,
    distance: str = "symmetric_kl",
    ratio: jax.Array = 0.5,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""Adaptive group VAE: pairs share the posterior of dimensions that differ little.

    .. math:: \tfrac12 (\ell_1 + \ell_2) + \beta\, \tfrac12
              (\mathrm{KL}_1 + \mathrm{KL}_2)

    with :math:`\ell` the reconstruction of each member of the pair and the KL that of
    the *averaged* posteriors, means over the batch. Locatello et al.,
    "Weakly-Supervised Disentanglement Without Compromises", Eq. 7-8, with means of
    means and of variances. Pass ``distance="kl"`` for the original's threshold.
    The averaging is done here once more, from the encoder's own outputs: averaging
    averaged posteriors again would move the threshold and share other dimensions.

    Couples the batch: no, only the two members of each pair.

    Args:
      x: ``[2B, ...]`` observations in [0, 1]: B first members of the pairs, then the B
        second members in the same order.
      logits: outputs of the decoder, same shape.
      z: ``[2B, D]`` draws from the posteriors of :func:`ada_gvae_posteriors`, which
        ``logits`` were decoded from.
      mean: ``[2B, D]`` means of the encoder, *before* averaging.
      log_var: ``[2B, D]`` log-variances of the encoder, *before* averaging.
      beta: weight of the KL.
      distance: ``"symmetric_kl"`` or ``"kl"``; see :func:`ada_gvae_posteriors`.
      ratio: place of the threshold between smallest and largest distance.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: as in :func:`vae`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` (unweighted) and
      ``shared_dims``, the mean number of dimensions that were averaged.
    """
    return _paired(
        "ada_gvae",
        "gvae",
        x,
        logits,
        z,
        mean,
        log_var,
        beta,
        distance,
        ratio,
        reconstruction,
        kl,
        axis_name,
    )


def ada_ml_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: jax.Array = 1.0,
    distance: str = "symmetric_kl",
    ratio: jax.Array = 0.5,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""Adaptive multi-level VAE: :func:`ada_gvae` with products of posteriors.

    .. math:: \tfrac12 (\ell_1 + \ell_2) + \beta\, \tfrac12
              (\mathrm{KL}_1 + \mathrm{KL}_2)

    with :math:`\ell` the reconstruction of each member of the pair and the KL that of
    the *averaged* posteriors, means over the batch. Locatello et al.,
    "Weakly-Supervised Disentanglement Without Compromises", Sec. 4, with the averaging
    of Bouchacourt et al., "Multi-Level Variational Autoencoder".
    The averaging is done here once more, from the encoder's own outputs: averaging
    averaged posteriors again would move the threshold and share other dimensions.

    Couples the batch: no, only the two members of each pair.

    Args:
      x: ``[2B, ...]`` observations in [0, 1]: B first members of the pairs, then the B
        second members in the same order.
      logits: outputs of the decoder, same shape.
      z: ``[2B, D]`` draws from the posteriors of :func:`ada_gvae_posteriors`, which
        ``logits`` were decoded from.
      mean: ``[2B, D]`` means of the encoder, *before* averaging.
      log_var: ``[2B, D]`` log-variances of the encoder, *before* averaging.
      beta: weight of the KL.
      distance: ``"symmetric_kl"`` or ``"kl"``; see :func:`ada_gvae_posteriors`.
      ratio: place of the threshold between smallest and largest distance.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      kl: as in :func:`vae`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` (unweighted) and
      ``shared_dims``, the mean number of dimensions that were averaged.
    """
    return _paired(
        "ada_ml_vae",
        "ml_vae",
        x,
        logits,
        z,
        mean,
        log_var,
        beta,
        distance,
        ratio,
        reconstruction,
        kl,
        axis_name,
    )


def abs_ae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array | None = None,
    *,
    critic_logits: jax.Array,
    beta: jax.Array = 0.2,
    reconstruction: Reconstruction = _mean_bernoulli,
    axis_name: str | None = None,
) -> Objective:
    r"""Abstraction autoencoder: codes that a discriminator takes for the prior's.

    .. math:: \frac1B \sum_i -\tfrac1P \log p(x_i|z_i) - \beta \log D(z_i)

    "Leveraging Relational Information for Learning Weakly Disentangled
    Representations", Eq. 2-5, for the encoder and decoder; the discriminator learns by
    :func:`adversarial_prior_losses` and the relational learner by
    :func:`relation_loss`. The public code never adds the two parts but steps the
    encoder on each in turn: the terms are there to do so. The reconstruction is a mean
    over pixels, beside which its :math:`\beta = 0.2` was chosen.

    Couples the batch: only by its mean (and through the discriminator).

    Args:
      x: ``[B, ...]`` observations in [0, 1].
      logits: outputs of the decoder, same shape.
      z: ``[B, D]`` codes; not used.
      mean: ``[B, D]`` codes; only their number of rows is used.
      log_var: not used; None for deterministic encoders.
      critic_logits: ``[B]`` log-odds of "prior" that the discriminator gives to the
        codes.
      beta: weight of the adversarial term.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction`` and ``adversarial``
      (unweighted).
    """
    del z, log_var
    critic_logits = jnp.asarray(critic_logits)
    check_vector("abs_ae", critic_logits=critic_logits)
    error = _mean_reconstruction("abs_ae", reconstruction, x, logits, mean, axis_name)
    adversarial = batch_mean(jax.nn.softplus(-critic_logits), axis_name)
    return error + beta * adversarial, {
        "reconstruction": error,
        "adversarial": adversarial,
    }
