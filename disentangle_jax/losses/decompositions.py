"""Decompositions of the KL into information, total correlation and marginals."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.losses._batch import batch_mean
from disentangle_jax.losses.aggregate import (
    aggregate_log_densities,
    group_sums,
    named_log_q_marginals,
)
from disentangle_jax.losses.divergences import broadcast_prior
from disentangle_jax.types import Scalar


def kl_decomposition(
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    dataset_size: Scalar | None,
    estimator: str,
    groups: Sequence[int] | None = None,
    prior_mean: Scalar = 0.0,
    prior_log_var: Scalar = 0.0,
    block_size: int | None = None,
    axis_name: str | None = None,
) -> dict[str, jax.Array]:
    r"""Splits the mean KL into mutual information, total correlation and the rest.

    .. math:: \mathbb E\,\mathrm{KL}(q(z|x) \,\|\, p(z)) =
              \underbrace{\mathbb E \log\frac{q(z|x)}{q(z)}}_{I(x;\,z)} +
              \underbrace{\mathbb E \log\frac{q(z)}{\prod_g q(z_g)}}_{TC} +
              \underbrace{\mathbb E \sum_g \log\frac{q(z_g)}{p(z_g)}}_{
              \text{dimension-wise KL}}

    Chen et al., "Isolating Sources of Disentanglement in VAEs", Eq. 2. With every
    estimator, the three parts add up to the batch mean of :func:`sampled_gaussian_kl`
    at the same ``z``. With ``groups`` the total correlation is that between groups, and
    the last term is the divergence of each group from its prior.

    Couples the batch: yes.

    Args:
      z, mean, log_var, dataset_size, estimator, groups, block_size, axis_name: see
        :mod:`losses`.
      prior_mean, prior_log_var: as in :func:`gaussian_kl_per_dim`.

    Returns:
      Dict of ``[]`` nats: ``mutual_information``, ``total_correlation``,
      ``dimension_wise_kl``. The true values are at least 0; estimates can be negative.
    """
    densities = named_log_q_marginals(
        "kl_decomposition",
        z,
        mean,
        log_var,
        dataset_size=dataset_size,
        estimator=estimator,
        groups=groups,
        block_size=block_size,
        axis_name=axis_name,
    )
    z = jnp.asarray(z)
    prior = broadcast_prior(z, prior_mean, prior_log_var)
    log_p = distributions.gaussian_log_prob(z, *prior).sum(axis=1)
    log_qz = densities["log_qz"]
    independent = densities["log_qz_groups"].sum(axis=1)
    terms = {
        "mutual_information": densities["log_qz_given_x"] - log_qz,
        "total_correlation": log_qz - independent,
        "dimension_wise_kl": independent - log_p,
    }
    return {name: batch_mean(values, axis_name) for name, values in terms.items()}


def total_correlation(
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    dataset_size: Scalar | None,
    estimator: str,
    groups: Sequence[int] | None = None,
    block_size: int | None = None,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Estimates the total correlation of the aggregate posterior from a batch.

    .. math:: TC(z) = \mathbb E_{q(z)} \log \frac{q(z)}{\prod_g q(z_g)}

    Chen et al., Eq. 2; Esmaeili et al., Eq. 3. To log or report the *value*, use
    ``"stratified"``: ``"mws"`` is about :math:`(D-1) \log N` too high, and ``"naive"``
    is :math:`(D-1)\log(BN)` below ``"mws"``.

    Couples the batch: yes.

    Args:
      z, mean, log_var, dataset_size, estimator, groups, block_size, axis_name: see
        :mod:`losses`.

    Returns:
      ``[]`` nats. The true value is at least 0; estimates can be negative.
    """
    densities = named_log_q_marginals(
        "total_correlation",
        z,
        mean,
        log_var,
        dataset_size=dataset_size,
        estimator=estimator,
        groups=groups,
        block_size=block_size,
        axis_name=axis_name,
    )
    gap = densities["log_qz"] - densities["log_qz_groups"].sum(axis=1)
    return batch_mean(gap, axis_name)


def hfvae_terms(
    pairwise: jax.Array,
    log_p_elements: jax.Array,
    *,
    dataset_size: Scalar | None,
    groups: Sequence[int],
    log_p_groups: jax.Array | None = None,
    log_p_joint: jax.Array | None = None,
    estimator: str = "stratified",
    axis_name: str | None = None,
) -> dict[str, jax.Array]:
    r"""The two-level decomposition of the KL into groups and their elements.

    With groups d of elements e, where hats denote batch estimates:

    .. math::
       \text{②} &= \mathbb E\left[\log q(z|x) - \log\hat q(z)\right] \\
       \text{Ⓐ} &= \mathbb E\left[\log\frac{\hat q(z)}{\prod_d \hat q(z_d)}
                 - \log\frac{p(z)}{\prod_d p(z_d)}\right] \\
       \text{ⓘ} &= \mathbb E \sum_d \left[
                 \log\frac{\hat q(z_d)}{\prod_e \hat q(z_{d,e})}
                 - \log\frac{p(z_d)}{\prod_e p(z_{d,e})}\right] \\
       \text{ⓘⓘ} &= \mathbb E \sum_{d,e} \log \frac{\hat q(z_{d,e})}{p(z_{d,e})}

    Esmaeili et al., "Structured Disentangled Representations", Fig. 3. All four are
    penalties. With every estimator their sum is the mean of
    :math:`\log q(z|x) - \log p(z)`. The second parts of Ⓐ and ⓘ are 0 for a prior that
    factorises over elements. probtorch's batch marginals differ from ours by a constant
    factor each, so its values have an offset and its gradients are the same.

    Couples the batch: yes.

    Args:
      pairwise: as in :func:`aggregate_log_densities`.
      log_p_elements: ``[B, E]`` log-density of each element under the prior.
      dataset_size, groups, estimator, axis_name: see :mod:`losses`.
      log_p_groups: ``[B, G]`` log-density of each group under the prior; None if the
        prior factorises within groups.
      log_p_joint: ``[B]`` log-density of the code under the prior; None if the prior
        factorises over groups.

    Returns:
      Dict of ``[]`` nats: ``mutual_information`` ②, ``group_tc`` Ⓐ,
      ``within_group_tc`` ⓘ, ``dimension_wise_kl`` ⓘⓘ.
    """
    if groups is None:
        raise ValueError(
            "hfvae_terms: `groups` must be the sizes of the groups, got None. One "
            "group per element, (1,) * E, gives beta-TCVAE's decomposition."
        )
    densities = aggregate_log_densities(
        pairwise,
        dataset_size=dataset_size,
        estimator=estimator,
        groups=groups,
        axis_name=axis_name,
    )
    return hfvae_terms_of(
        densities, log_p_elements, tuple(groups), log_p_groups, log_p_joint, axis_name
    )


def hfvae_terms_of(
    densities: dict[str, jax.Array],
    log_p_elements: jax.Array,
    groups: tuple[int, ...],
    log_p_groups: jax.Array | None,
    log_p_joint: jax.Array | None,
    axis_name: str | None,
) -> dict[str, jax.Array]:
    """:func:`hfvae_terms` from the densities of :func:`aggregate_log_densities`."""
    log_q = densities["log_qz_dims"]
    for name, array, shape in (
        ("log_p_elements", log_p_elements, log_q.shape),
        ("log_p_groups", log_p_groups, densities["log_qz_groups"].shape),
        ("log_p_joint", log_p_joint, densities["log_qz"].shape),
    ):
        if array is not None and array.shape != shape:
            raise ValueError(
                f"hfvae_terms: `{name}` must have shape {shape}, got {array.shape}."
            )
    if log_p_groups is None:
        log_p_groups = group_sums(log_p_elements, groups)
    if log_p_joint is None:
        log_p_joint = log_p_groups.sum(axis=1)
    # Log-ratios of the estimate to the prior for the code, its groups and its elements.
    joint = densities["log_qz"] - log_p_joint
    by_group = (densities["log_qz_groups"] - log_p_groups).sum(axis=1)
    by_element = (log_q - log_p_elements).sum(axis=1)
    terms = {
        "mutual_information": densities["log_qz_given_x"] - densities["log_qz"],
        "group_tc": joint - by_group,
        "within_group_tc": by_group - by_element,
        "dimension_wise_kl": by_element,
    }
    return {name: batch_mean(values, axis_name) for name, values in terms.items()}
