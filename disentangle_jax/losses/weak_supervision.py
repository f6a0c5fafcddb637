"""Weak supervision by pairs that share factors, and alignment to a few labels."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.losses._batch import batch_mean, check_batch, check_codes
from disentangle_jax.losses._objective import (
    KL,
    Objective,
    Reconstruction,
    check_posterior,
    elbo_terms,
)
from disentangle_jax.losses.moments import cross_covariance
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction
from disentangle_jax.types import Scalar, unknown_name


def ada_gvae_posteriors(
    mean1: jax.Array,
    log_var1: jax.Array,
    mean2: jax.Array,
    log_var2: jax.Array,
    *,
    distance: str = "symmetric_kl",
    average: str = "gvae",
    ratio: Scalar = 0.5,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    r"""Averages the posteriors of a pair in the dimensions where they differ little.

    With :math:`\delta_d` the distance of a pair in dimension d, the dimensions with

    .. math:: \delta_d < \min_d \delta_d + \rho (\max_d \delta_d - \min_d \delta_d)

    count as shared and get one common posterior; the others stay as they are. At
    :math:`\rho = \tfrac12` these are two bins of equal width (Locatello et al.,
    "Weakly-Supervised Disentanglement Without Compromises", Sec. 4). The common
    posterior is, by ``average``,

    * ``"gvae"``: the mean of the means and the mean of the variances (Hosoya 2019);
    * ``"ml_vae"``: the normalised product of the two densities with its variance
      doubled: :math:`\sigma^2 = 2\sigma_1^2\sigma_2^2/(\sigma_1^2+\sigma_2^2)` and the
      precision-weighted mean (Bouchacourt et al. 2018, as in disentanglement_lib).

    Couples the batch: no, only the two members of each pair.

    Args:
      mean1: ``[B, D]`` posterior means of the first members.
      log_var1: ``[B, D]`` their log-variances.
      mean2: ``[B, D]`` posterior means of the second members.
      log_var2: ``[B, D]`` their log-variances.
      distance: ``"symmetric_kl"``, the mean of the KLs in both directions (Michlo et
        al., Eq. 3; Dittadi et al. 2021), or ``"kl"``, the KL of the first member from
        the second (disentanglement_lib).
      average: ``"gvae"`` or ``"ml_vae"``.
      ratio: :math:`\rho`, the position of the threshold between the smallest and the
        largest distance.

    Returns:
      ``(mean1, log_var1, mean2, log_var2)``, each ``[B, D]``; both members are equal in
      the shared dimensions. Gradients flow through the averages, not through the choice
      of dimensions.
    """
    name = "ada_gvae_posteriors"
    mean1, log_var1 = jnp.asarray(mean1), jnp.asarray(log_var1)
    mean2, log_var2 = jnp.asarray(mean2), jnp.asarray(log_var2)
    check_codes(name, mean1=mean1, log_var1=log_var1, mean2=mean2, log_var2=log_var2)
    gap = distributions.gaussian_kl(mean1, log_var1, mean2, log_var2)
    if distance == "symmetric_kl":
        back = distributions.gaussian_kl(mean2, log_var2, mean1, log_var1)
        gap = 0.5 * (gap + back)
    elif distance != "kl":
        raise unknown_name(name, "distance", distance, ["symmetric_kl", "kl"])
    low, high = gap.min(axis=1, keepdims=True), gap.max(axis=1, keepdims=True)
    shared = jax.lax.stop_gradient(gap < low + ratio * (high - low))
    if average == "gvae":
        mean = 0.5 * (mean1 + mean2)
        log_var = jnp.logaddexp(log_var1, log_var2) - jnp.log(2.0)
    elif average == "ml_vae":
        first = jax.nn.sigmoid(log_var2 - log_var1)
        mean = first * mean1 + (1.0 - first) * mean2
        log_var = jnp.log(2.0) - jnp.logaddexp(-log_var1, -log_var2)
    else:
        raise unknown_name(name, "average", average, ["gvae", "ml_vae"])
    return (
        jnp.where(shared, mean, mean1),
        jnp.where(shared, log_var, log_var1),
        jnp.where(shared, mean, mean2),
        jnp.where(shared, log_var, log_var2),
    )


def supervised_alignment(
    mean: jax.Array,
    factors: jax.Array,
    *,
    kind: str = "xent",
    factor_sizes: Sequence[int] | None = None,
    scale: Scalar | None = None,
    embeddings: Sequence[jax.Array] | None = None,
    sigma: Scalar = 1.0,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Aligns the first dimensions of the code with labelled factors, one to one.

    With F factors :math:`f_k \in \{0, \dots, S_k - 1\}` and the first F dimensions of
    the mean :math:`\mu`, the kinds of Locatello et al., "Disentangling Factors of
    Variation Using Few Labels", are

    * ``"xent"``: sigmoid cross-entropy of :math:`\mu_k` with :math:`f_k / S_k`,
      **summed** over factors and examples. Targets stay below 1, because the division
      is by the *size* and not by the largest value;
    * ``"l2"``: :math:`\sum (b \mu_k - f_k)^2` with ``scale`` b, which the original code
      initialises at 1 and learns; without ``scale``,
      :math:`\sum (\sigma(\mu_k) - f_k / S_k)^2`;
    * ``"cov"``: the sum of the squared covariances (divided by B) of every dimension of
      the mean with every factor, except the pairs (k, k);
    * ``"embed"``: :math:`-\log \operatorname{softmax}_v(-\sigma^2(\mu_k - e_{kv})^2)`
      at :math:`v = f_k`, with a learned embedding :math:`e_{kv}` of each value in one
      dimension; summed over factors, averaged over examples.

    Couples the batch: ``"cov"`` yes; the others only by their sum or mean.

    Args:
      mean: ``[B, D]`` posterior means of labelled examples, D at least F.
      factors: ``[B, F]`` integer labels.
      kind: ``"xent"``, ``"l2"``, ``"cov"`` or ``"embed"``.
      factor_sizes: number of values of each factor; needed by ``"xent"``, and by
        ``"l2"`` without ``scale``.
      scale: b of ``"l2"``, ``[]``; None for the sigmoid form.
      embeddings: F arrays ``[S_k]`` for ``"embed"``; for ordered factors pass
        ``slope * arange(S_k) + bias``.
      sigma: sharpness of ``"embed"``.
      axis_name: see :mod:`losses`.

    Returns:
      ``[]``; at least 0.
    """
    name = "supervised_alignment"
    mean, factors = jnp.asarray(mean), jnp.asarray(factors)
    check_codes(name, mean=mean)
    check_codes(name, factors=factors)
    count = factors.shape[1]
    if factors.shape[0] != mean.shape[0] or count > mean.shape[1]:
        raise ValueError(
            f"{name}: `factors` must be [B, F] with the rows of `mean` {mean.shape} "
            f"and F at most its columns, got {factors.shape}."
        )
    first, values = mean[:, :count], factors.astype(mean.dtype)
    if kind == "xent":
        targets = values / _sizes(factor_sizes, count, mean.dtype)
        return _total(jax.nn.softplus(first) - targets * first, axis_name)
    if kind == "l2":
        if scale is not None:
            return _total(jnp.square(scale * first - values), axis_name)
        targets = values / _sizes(factor_sizes, count, mean.dtype)
        return _total(jnp.square(jax.nn.sigmoid(first) - targets), axis_name)
    if kind == "cov":
        check_batch(name, mean, axis_name)
        matrix = cross_covariance(
            mean - batch_mean(mean, axis_name)[None],
            values - batch_mean(values, axis_name)[None],
            axis_name,
        )
        pairs = jnp.eye(matrix.shape[0], matrix.shape[1], dtype=bool)
        return jnp.square(jnp.where(pairs, 0.0, matrix)).sum()
    if kind != "embed":
        raise unknown_name(name, "kind", kind, ["xent", "l2", "cov", "embed"])
    return batch_mean(_embedding_loss(first, factors, embeddings, sigma), axis_name)


def _sizes(
    factor_sizes: Sequence[int] | None, count: int, dtype: jnp.dtype
) -> jax.Array:
    if factor_sizes is None or len(factor_sizes) != count:
        raise ValueError(
            f"supervised_alignment: `factor_sizes` must be {count} numbers of values, "
            f"one per factor, got {factor_sizes}."
        )
    return jnp.asarray(factor_sizes, dtype)[None]


def _embedding_loss(
    codes: jax.Array,
    factors: jax.Array,
    embeddings: Sequence[jax.Array] | None,
    sigma: Scalar,
) -> jax.Array:
    """`[B]` cross-entropies of kind ``"embed"``, summed over factors."""
    count = factors.shape[1]
    if embeddings is None or len(embeddings) != count:
        got = None if embeddings is None else len(embeddings)
        raise ValueError(
            f"supervised_alignment: `embeddings` must be {count} arrays, one per "
            f"factor, got {got}."
        )
    total = jnp.zeros_like(codes[:, 0])
    for code, label, values in zip(codes.T, factors.T, embeddings):
        logits = -jnp.square((code[:, None] - values[None]) * sigma)
        log_p = jax.nn.log_softmax(logits)
        label = label[:, None].astype(jnp.int32)
        total -= jnp.take_along_axis(log_p, label, axis=1)[:, 0]
    return total


def _total(values: jax.Array, axis_name: str | None) -> jax.Array:
    total = values.sum()
    return total if axis_name is None else jax.lax.psum(total, axis_name)


def _average_pairs(
    function: str,
    average: str,
    mean: jax.Array,
    log_var: jax.Array,
    distance: str,
    ratio: Scalar,
    averaged: bool,
    axis_name: str | None,
) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
    """Averaged ``[2B, D]`` means and log-variances, and the term ``shared_dims``."""
    check_posterior(function, mean, log_var)
    if mean.shape[0] % 2:
        raise ValueError(
            f"{function}: the batch must hold pairs, first members in the first half "
            f"and second members in the second, got {mean.shape[0]} rows."
        )
    mean1, mean2 = jnp.split(mean, 2)
    log_var1, log_var2 = jnp.split(log_var, 2)
    if not averaged:
        mean1, log_var1, mean2, log_var2 = ada_gvae_posteriors(
            mean1, log_var1, mean2, log_var2,
            distance=distance, average=average, ratio=ratio,
        )  # fmt: skip
        mean = jnp.concatenate([mean1, mean2])
        log_var = jnp.concatenate([log_var1, log_var2])
    shared = (mean1 == mean2) & (log_var1 == log_var2)
    number = shared.sum(axis=1).astype(mean.dtype)
    return mean, log_var, {"shared_dims": batch_mean(number, axis_name)}


def ada_gvae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: Scalar = 1.0,
    distance: str = "symmetric_kl",
    ratio: Scalar = 0.5,
    averaged: bool = False,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""Adaptive group VAE: pairs share the posterior of dimensions that differ little.

    .. math:: \tfrac12 (\ell_1 + \ell_2 + \beta\, \mathrm{KL}_1 + \beta\, \mathrm{KL}_2)

    with :math:`\ell` the mean reconstruction of each member of the pair and KL the mean
    divergence of the *averaged* posteriors. Locatello et al., "Weakly-Supervised
    Disentanglement Without Compromises", Eq. 7-8; the original threshold is
    ``distance="kl"``. All arrays hold 2B rows: the B first members of the pairs, then
    the B second members in the same order.

    ``z`` is drawn from the averaged posteriors, so the caller has usually computed them
    already and passes them with ``averaged=True``::

        mean1, log_var1 = encode(x1)
        mean2, log_var2 = encode(x2)
        pair = losses.ada_gvae_posteriors(mean1, log_var1, mean2, log_var2)
        mean, log_var = jnp.concatenate(pair[::2]), jnp.concatenate(pair[1::2])
        z = sampling.reparameterize(key, mean, log_var)
        x = jnp.concatenate([x1, x2])
        losses.ada_gvae(x, decode(z), z, mean, log_var, averaged=True)

    Couples the batch: no, only the two members of each pair.

    Args:
      x, logits, z, mean, log_var, reconstruction, kl, axis_name: see :mod:`losses`.
      beta: weight of the KL.
      distance, ratio: as in :func:`ada_gvae_posteriors`; not used if ``averaged``.
      averaged: True if ``mean`` and ``log_var`` are the averaged posteriors. False if
        they are the encoder's output, which is then averaged here. Averaging twice
        would move the threshold.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` and
      ``shared_dims``, the mean number of shared dimensions.
    """
    name = "ada_gvae"
    mean, log_var, shared = _average_pairs(
        name, "gvae", mean, log_var, distance, ratio, averaged, axis_name
    )
    terms = elbo_terms(name, x, logits, z, mean, log_var, reconstruction, kl, axis_name)
    return terms["reconstruction"] + beta * terms["kl"], terms | shared


def ada_ml_vae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: Scalar = 1.0,
    distance: str = "symmetric_kl",
    ratio: Scalar = 0.5,
    averaged: bool = False,
    reconstruction: Reconstruction = bernoulli_reconstruction,
    kl: KL = "analytic",
    axis_name: str | None = None,
) -> Objective:
    r"""Adaptive multi-level VAE: :func:`ada_gvae` with products of posteriors.

    .. math:: \tfrac12 (\ell_1 + \ell_2 + \beta\, \mathrm{KL}_1 + \beta\, \mathrm{KL}_2)

    Locatello et al., Sec. 4, with the average of Bouchacourt et al., "Multi-Level
    Variational Autoencoder": ``average="ml_vae"`` of :func:`ada_gvae_posteriors`.

    Couples the batch: no, only the two members of each pair.

    Args:
      x, logits, z, mean, log_var, reconstruction, kl, axis_name: see :mod:`losses`.
      beta, distance, ratio, averaged: as in :func:`ada_gvae`.

    Returns:
      As :func:`ada_gvae`.
    """
    name = "ada_ml_vae"
    mean, log_var, shared = _average_pairs(
        name, "ml_vae", mean, log_var, distance, ratio, averaged, axis_name
    )
    terms = elbo_terms(name, x, logits, z, mean, log_var, reconstruction, kl, axis_name)
    return terms["reconstruction"] + beta * terms["kl"], terms | shared
