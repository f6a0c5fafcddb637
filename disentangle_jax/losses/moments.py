"""Penalties on moments and samples of the codes: DIP-VAE, InfoVAE, MMD."""

import jax
import jax.numpy as jnp

from disentangle_jax.batching import replicated
from disentangle_jax.losses._batch import (
    batch_mean,
    batch_size,
    check_batch,
    check_codes,
    gather,
    row_numbers,
)
from disentangle_jax.losses._objective import (
    KL,
    Objective,
    Reconstruction,
    elbo_terms,
)
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction
from disentangle_jax.types import Scalar, unknown_name


def covariance(codes: jax.Array, axis_name: str | None) -> jax.Array:
    """`[D, D]` biased covariance over the global batch (divided by B)."""
    centred = codes - batch_mean(codes, axis_name)[None]
    return cross_covariance(centred, centred, axis_name)


def cross_covariance(
    left: jax.Array, right: jax.Array, axis_name: str | None
) -> jax.Array:
    """`[D, F]` mean over the global batch of products of centred columns."""
    left, right = replicated(left), replicated(right)
    product = jnp.matmul(left.T, right, precision=jax.lax.Precision.HIGHEST)
    product = product / left.shape[0]
    return product if axis_name is None else jax.lax.pmean(product, axis_name)


def dip_penalty(
    mean: jax.Array,
    log_var: jax.Array,
    *,
    kind: str,
    lambda_od: Scalar,
    lambda_d: Scalar,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Weighted squared distance of the covariance of the codes from the identity.

    .. math:: \lambda_{od} \sum_{i \ne j} C_{ij}^2 + \lambda_d \sum_i (C_{ii} - 1)^2

    DIP-VAE-I takes :math:`C = \mathrm{Cov}(\mu)`, DIP-VAE-II the covariance of the
    aggregate posterior :math:`C = \mathrm{Cov}(\mu) + \mathbb E\,\mathrm{diag}(
    \sigma^2)` (Kumar et al., "Variational Inference of Disentangled Latent Concepts",
    Eq. 6 and 7). Covariances are over the *batch* and divided by B. Each
    :math:`\sigma_d^2` is added to its own entry of the diagonal only.

    Couples the batch: yes.

    Args:
      mean, log_var, axis_name: see :mod:`losses`. Kind ``"i"`` ignores ``log_var``.
      kind: ``"i"`` or ``"ii"``.
      lambda_od: weight off the diagonal.
      lambda_d: weight on the diagonal; disentanglement_lib uses ``10 * lambda_od`` for
        kind ``"i"`` and ``lambda_od`` for kind ``"ii"``.

    Returns:
      ``[]``, in fourth powers of the unit of the code; at least 0.
    """
    mean, log_var = jnp.asarray(mean), jnp.asarray(log_var)
    check_codes("dip_penalty", mean=mean, log_var=log_var)
    check_batch("dip_penalty", mean, axis_name)
    matrix = covariance(mean, axis_name)
    variance = jnp.diagonal(matrix)
    if kind == "ii":
        variance = variance + batch_mean(jnp.exp(log_var), axis_name)
    elif kind != "i":
        raise unknown_name("dip_penalty", "kind", kind, ["i", "ii"])
    diagonal = jnp.eye(mean.shape[1], dtype=bool)
    off_diagonal = jnp.square(jnp.where(diagonal, 0.0, matrix)).sum()
    return lambda_od * off_diagonal + lambda_d * jnp.square(variance - 1.0).sum()


def mmd(
    x: jax.Array,
    y: jax.Array,
    *,
    kernel: str = "imq",
    scale: Scalar | None = None,
    mmd_compat: str | None = None,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Unbiased estimate of the squared maximum mean discrepancy of two samples.

    .. math:: \frac{1}{n(n-1)} \sum_{i \ne j} k(x_i, x_j)
              + \frac{1}{m(m-1)} \sum_{i \ne j} k(y_i, y_j)
              - \frac{2}{nm} \sum_{i, j} k(x_i, y_j)

    Gretton et al. 2012, Eq. 3; Tolstikhin et al., "Wasserstein Auto-Encoders",
    Algorithm 2. With :math:`r^2 = \|a - b\|^2` and ``scale`` C, the kernels are

    * ``"imq"``, inverse multiquadric, :math:`C / (C + r^2)`; C is D by default, as in
      the public code of "Structure by Architecture" (the WAE paper uses 2D);
    * ``"rbf"``, Gaussian, :math:`e^{-r^2 / C}`; C is D² by default, as in the public
      code of InfoVAE and VLAE.

    Couples the batch: yes.

    Args:
      x: ``[B, D]`` sample, e.g. of the prior.
      y: ``[B', D]`` sample, e.g. codes.
      kernel: ``"imq"`` or ``"rbf"``.
      scale: C, in squared units of the code; None for the kernel's default.
      mmd_compat: ``"sae_code"`` divides the result by the batch size once more, as
        the public code of "Structure by Architecture" does: at B = 128 its weight of 10
        acts as 0.08. Use it only to compare with those runs.
      axis_name: mapped axis over which both samples are split.

    Returns:
      ``[]``; at most 2. Its expectation is 0 for equal distributions, so estimates can
      be negative.
    """
    x, y = jnp.asarray(x), jnp.asarray(y)
    check_codes("mmd", x=x)
    check_codes("mmd", y=y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"mmd: `y` must have as many dimensions as `x` {x.shape}, got {y.shape}."
        )
    rows = check_batch("mmd", x, axis_name)
    check_batch("mmd", y, axis_name)
    dims = x.shape[1]
    if kernel == "imq":
        scale = dims if scale is None else scale
    elif kernel == "rbf":
        scale = dims**2 if scale is None else scale
    else:
        raise unknown_name("mmd", "kernel", kernel, ["imq", "rbf"])

    def similarity(left: jax.Array, right: jax.Array) -> jax.Array:
        squared = jnp.square(left[:, None, :] - right[None]).sum(axis=2)
        if kernel == "imq":
            return scale / (scale + squared)
        return jnp.exp(-squared / scale)

    def within(sample: jax.Array) -> jax.Array:
        everyone = gather(sample, axis_name)
        own = jnp.arange(everyone.shape[0])[None, :]
        own = own == row_numbers(sample, axis_name)[:, None]
        values = jnp.where(own, 0.0, similarity(sample, everyone)).sum(axis=1)
        return batch_mean(values, axis_name) / (everyone.shape[0] - 1)

    across = similarity(x, gather(y, axis_name)).mean(axis=1)
    value = within(x) + within(y) - 2.0 * batch_mean(across, axis_name)
    if mmd_compat is None:
        return value
    if mmd_compat != "sae_code":
        raise unknown_name("mmd", "mmd_compat", mmd_compat, ["None", "sae_code"])
    return value / rows


def gaussian_total_correlation(
    codes: jax.Array, *, axis_name: str | None = None
) -> jax.Array:
    r"""Total correlation of the Gaussian with the covariance of the codes.

    .. math:: \tfrac12 \left( \sum_d \log \Sigma_{dd} - \log |\Sigma| \right)
              = -\tfrac12 \log |R|

    with R the correlation matrix, so the result does not depend on units. It is a lower
    bound of the total correlation of codes whose marginals are Gaussian, and the
    unsupervised score of Locatello et al. 2019, App. C.

    Couples the batch: yes.

    Args:
      codes: ``[B, D]`` codes.
      axis_name: see :mod:`losses`.

    Returns:
      ``[]`` nats; at least 0, and infinite where dimensions determine one another. A
      constant dimension counts as independent (disentanglement_lib returns NaN).
    """
    codes = jnp.asarray(codes)
    check_codes("gaussian_total_correlation", codes=codes)
    check_batch("gaussian_total_correlation", codes, axis_name)
    matrix = covariance(codes, axis_name)
    variance = jnp.diagonal(matrix)
    varies = variance > 0.0
    deviation = jnp.sqrt(jnp.where(varies, variance, 1.0))
    scaled = matrix / (deviation[:, None] * deviation[None])
    correlation = jnp.where(jnp.eye(codes.shape[1], dtype=bool), 1.0, scaled)
    return -0.5 * jnp.linalg.slogdet(correlation)[1]


def dip_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    kind: str,
    lambda_od: Scalar,
    lambda_d: Scalar,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""DIP-VAE: the ELBO plus the distance of the code's covariance from the identity.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i) + \mathrm{KL}(q(z|x_i) \,\|\, p(z))
              + \lambda_{od} \sum_{i \ne j} C_{ij}^2
              + \lambda_d \sum_i (C_{ii} - 1)^2

    Kumar et al., "Variational Inference of Disentangled Latent Concepts", Eq. 6-7;
    HFVAE's Table 1, row 3. :func:`dip_penalty` defines C.

    Couples the batch: yes.

    Args:
      x, logits, z, mean, log_var, reconstruction, kl, axis_name: see :mod:`losses`.
      kind: ``"i"`` or ``"ii"``.
      lambda_od: weight off the diagonal.
      lambda_d: weight on the diagonal.

    Returns:
      ``[]`` loss, and the terms ``reconstruction``, ``kl`` and ``dip_penalty``
      (weighted by both lambdas).
    """
    terms = elbo_terms(
        "dip_vae", x, logits, z, mean, log_var, reconstruction, kl, axis_name
    )
    penalty = dip_penalty(
        mean,
        log_var,
        kind=kind,
        lambda_od=lambda_od,
        lambda_d=lambda_d,
        axis_name=axis_name,
    )
    loss = terms["reconstruction"] + terms["kl"] + penalty
    return loss, {**terms, "dip_penalty": penalty}


def prior_mmd(
    key: jax.Array,
    z: jax.Array,
    kernel: str,
    scale: Scalar | None,
    mmd_compat: str | None,
    axis_name: str | None,
) -> jax.Array:
    """MMD of the codes from a standard normal sample of the global batch's size."""
    shape = (batch_size(z, axis_name), z.shape[1])
    sample = jax.random.normal(key, shape, z.dtype)
    if axis_name is not None:
        sample = sample[row_numbers(z, axis_name)]
    return mmd(
        sample,
        z,
        kernel=kernel,
        scale=scale,
        mmd_compat=mmd_compat,
        axis_name=axis_name,
    )


def info_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    key: jax.Array,
    lambda_: Scalar,
    alpha: Scalar = 1.0,
    kernel: str = "rbf",
    scale: Scalar | None = None,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""InfoVAE: matches the aggregate posterior, not each posterior, to the prior.

    .. math:: \frac1B \sum_i -\log p(x_i|z_i)
              + (1 - \alpha) \mathrm{KL}(q(z|x_i) \,\|\, p(z))
              + (\alpha + \lambda - 1)\, \mathrm{MMD}(q(z), p(z))

    Zhao et al., "InfoVAE", Eq. 6, with the MMD as divergence of the aggregate
    posterior. The default :math:`\alpha = 1` drops the mutual information altogether:
    HFVAE's Table 1, row 4.

    Couples the batch: yes.

    Args:
      x, logits, z, mean, log_var, key, reconstruction, kl, axis_name: see
        :mod:`losses`.
      lambda_: weight :math:`\lambda` of the aggregate's divergence.
      alpha: weight :math:`\alpha` of the mutual information that is subtracted from
        the KL.
      kernel: ``"rbf"`` or ``"imq"``; see :func:`mmd`.
      scale: scale of the kernel; None for its default.

    Returns:
      ``[]`` loss, and the terms ``reconstruction``, ``kl`` and ``mmd``.
    """
    terms = elbo_terms(
        "info_vae", x, logits, z, mean, log_var, reconstruction, kl, axis_name
    )
    discrepancy = prior_mmd(key, z, kernel, scale, None, axis_name)
    loss = (
        terms["reconstruction"]
        + (1.0 - alpha) * terms["kl"]
        + (alpha + lambda_ - 1.0) * discrepancy
    )
    return loss, {**terms, "mmd": discrepancy}
