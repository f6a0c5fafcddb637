"""Objectives that weight mutual information and total correlation of the code."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.losses._batch import batch_mean, check_vector
from disentangle_jax.losses._objective import (
    KL,
    Objective,
    Reconstruction,
    check_posterior,
    elbo_terms,
    mean_reconstruction,
)
from disentangle_jax.losses.aggregate import log_q_marginals
from disentangle_jax.losses.decompositions import kl_decomposition
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction
from disentangle_jax.types import Scalar


def density_ratio_tc(
    critic_logits: jax.Array, *, axis_name: str | None = None
) -> jax.Array:
    r"""Total correlation by the density-ratio trick.

    .. math:: TC(z) \approx \mathbb E_{q(z)} \log \frac{D(z)}{1 - D(z)}

    Kim & Mnih, "Disentangling by Factorising", Eq. 3. With two outputs, as in
    disentanglement_lib, the log-odds are ``logits[:, 0] - logits[:, 1]``.

    Couples the batch: only by its mean.

    Args:
      critic_logits: ``[B]`` the critic's log-odds of "joint" (a code from the encoder)
        against "permuted".
      axis_name: see :mod:`losses`.

    Returns:
      ``[]`` nats; any real number.
    """
    critic_logits = jnp.asarray(critic_logits)
    check_vector("density_ratio_tc", critic_logits=critic_logits)
    return batch_mean(critic_logits, axis_name)


def discriminator_loss(
    joint_logits: jax.Array,
    permuted_logits: jax.Array,
    *,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Cross-entropy of FactorVAE's critic on joint and permuted codes.

    .. math:: -\tfrac12 \mathbb E_{q(z)} \log D(z)
              - \tfrac12 \mathbb E_{\prod_d q(z_d)} \log(1 - D(z))

    Kim & Mnih, Algorithm 2. :func:`disentangle_jax.sampling.permute_dims` permutes the
    codes of the same batch (one-batch form, as in disentanglement_lib) or of a second
    batch (two-batch form, as in the paper; its size may differ). Some public code
    splits one batch in halves instead, so the critic sees half of each batch. Only the
    critic learns from this loss: stop the gradient at the codes.

    Logits are never clipped. disentanglement_lib clips probabilities to
    [1e-6, 1 - 1e-6], beyond which its critic stops learning.

    Couples the batch: only by its mean.

    Args:
      joint_logits: ``[B]`` log-odds of "joint" at codes from the encoder.
      permuted_logits: ``[B']`` log-odds of "joint" at permuted codes.
      axis_name: see :mod:`losses`.

    Returns:
      ``[]`` nats; at least 0, and log 2 for a critic whose logits are all 0.
    """
    joint, permuted = jnp.asarray(joint_logits), jnp.asarray(permuted_logits)
    check_vector("discriminator_loss", joint_logits=joint, permuted_logits=permuted)
    return 0.5 * (
        batch_mean(jax.nn.softplus(-joint), axis_name)
        + batch_mean(jax.nn.softplus(permuted), axis_name)
    )


def factor_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    critic_logits: jax.Array,
    gamma: Scalar,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""FactorVAE: the ELBO plus a total correlation estimated by a critic.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \mathrm{KL}(q(z|x_i) \,\|\, p(z))
              + \gamma \log \frac{D(z_i)}{1 - D(z_i)}

    Kim & Mnih, "Disentangling by Factorising", Eq. 2-3; HFVAE's Table 1, row 8. The
    critic learns by :func:`discriminator_loss`. Do not differentiate this loss with
    respect to the critic's parameters.

    Couples the batch: only by its mean (and through the critic).

    Args:
      x, logits, z, mean, log_var, reconstruction, kl, axis_name: see :mod:`losses`.
      critic_logits: ``[B]`` the critic's log-odds of "joint" at ``z``.
      gamma: weight of the total correlation.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` and
      ``total_correlation``.
    """
    terms = elbo_terms(
        "factor_vae", x, logits, z, mean, log_var, reconstruction, kl, axis_name
    )
    correlation = density_ratio_tc(critic_logits, axis_name=axis_name)
    loss = terms["reconstruction"] + terms["kl"] + gamma * correlation
    return loss, {**terms, "total_correlation": correlation}


def beta_tc_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: Scalar,
    dataset_size: Scalar | None,
    alpha: Scalar = 1.0,
    gamma: Scalar = 1.0,
    estimator: str = "stratified",
    groups: Sequence[int] | None = None,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "sampled",
    block_size: int | None = None,
    axis_name: str | None = None,
) -> Objective:
    r"""beta-TCVAE: weights each of the three parts of the KL.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \alpha\, I(x; z) + \beta\, TC(z)
              + \gamma \sum_d \mathrm{KL}(q(z_d) \,\|\, p(z_d))

    Chen et al., "Isolating Sources of Disentanglement in VAEs", Eq. 4; HFVAE's Table 1,
    row 8. With the sampled KL the parts add up exactly, so unit weights give
    :func:`vae` with ``kl="sampled"``. With another ``kl`` the loss is that KL plus
    :math:`(\alpha - 1) I + (\beta - 1) TC + (\gamma - 1) \text{(the rest)}`;
    ``kl="analytic", estimator="naive"`` is disentanglement_lib's objective. (One public
    library adds :math:`(\beta - 1) TC` to :math:`\beta` times the KL, which counts
    beta twice.)

    Couples the batch: yes.

    Args:
      x, logits, z, mean, log_var, dataset_size, estimator, groups, reconstruction, kl,
        block_size, axis_name: see :mod:`losses`.
      beta: weight of the total correlation (between groups).
      alpha: weight of the mutual information.
      gamma: weight of the dimension-wise KL.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl``,
      ``mutual_information``, ``total_correlation``, ``dimension_wise_kl``.
    """
    terms = elbo_terms(
        "beta_tc_vae", x, logits, z, mean, log_var, reconstruction, kl, axis_name
    )
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
    loss = terms["reconstruction"]
    if kl != "sampled":
        loss = loss + terms["kl"]
        alpha, beta, gamma = alpha - 1.0, beta - 1.0, gamma - 1.0
    loss = (
        loss
        + alpha * parts["mutual_information"]
        + beta * parts["total_correlation"]
        + gamma * parts["dimension_wise_kl"]
    )
    return loss, {**terms, **parts}


def information_dropout(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: Scalar,
    gamma: Scalar,
    dataset_size: Scalar | None,
    estimator: str = "stratified",
    reconstruction: Reconstruction = bernoulli_reconstruction,
    block_size: int | None = None,
    axis_name: str | None = None,
) -> Objective:
    r"""Information dropout: an information bottleneck with a total correlation.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \beta\, I(x; z) + \gamma\, TC(z)

    Achille & Soatto, "Information Dropout", Eq. 8, in the form of HFVAE's Table 1, row
    7. No term ties the marginals to the prior. With :math:`\beta = \gamma` and a prior
    that matches the marginals it equals :func:`beta_vae`.

    Couples the batch: yes.

    Args:
      x, logits, z, mean, log_var, dataset_size, estimator, reconstruction, block_size,
        axis_name: see :mod:`losses`.
      beta: weight of the mutual information.
      gamma: weight of the total correlation.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``mutual_information``,
      ``total_correlation`` and ``dimension_wise_kl`` (which is not in the loss).
    """
    name = "information_dropout"
    check_posterior(name, mean, log_var)
    error = mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    parts = kl_decomposition(
        z,
        mean,
        log_var,
        dataset_size=dataset_size,
        estimator=estimator,
        block_size=block_size,
        axis_name=axis_name,
    )
    weighted = beta * parts["mutual_information"] + gamma * parts["total_correlation"]
    return error + weighted, {"reconstruction": error, **parts}


def anchor_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    anchors: Sequence[int],
    lambda_: Scalar,
    dataset_size: Scalar | None,
    estimator: str = "stratified",
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "sampled",
    block_size: int | None = None,
    axis_name: str | None = None,
) -> Objective:
    r"""Anchored VAE: rewards the information that some dimensions hold about x.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \mathrm{KL}(q(z|x_i) \,\|\, p(z))
              - \lambda\, I(x; z_a)

    Gao et al., "Auto-Encoding Total Correlation Explanation", in the form of HFVAE's
    Table 1, row 6, where :math:`z_a` are the anchor dimensions taken jointly.

    Couples the batch: yes.

    Args:
      x, logits, z, mean, log_var, dataset_size, estimator, reconstruction, kl,
        block_size, axis_name: see :mod:`losses`.
      anchors: indices of the anchor dimensions.
      lambda_: weight of their mutual information.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` and
      ``anchor_information``.
    """
    name = "anchor_vae"
    terms = elbo_terms(name, x, logits, z, mean, log_var, reconstruction, kl, axis_name)
    chosen = np.asarray(anchors, int)
    if chosen.size == 0 or chosen.min() < 0 or chosen.max() >= z.shape[1]:
        raise ValueError(
            f"{name}: `anchors` must be indices of the {z.shape[1]} dimensions, at "
            f"least one, got {tuple(anchors)}."
        )
    densities = log_q_marginals(
        *(array[:, chosen] for array in (z, mean, log_var)),
        dataset_size=dataset_size,
        estimator=estimator,
        groups=(chosen.size,),
        block_size=block_size,
        axis_name=axis_name,
    )
    ratio = densities["log_qz_given_x"] - densities["log_qz"]
    information = batch_mean(ratio, axis_name)
    loss = terms["reconstruction"] + terms["kl"] - lambda_ * information
    return loss, {**terms, "anchor_information": information}
