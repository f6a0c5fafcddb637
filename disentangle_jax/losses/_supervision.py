"""Weak and partial supervision: pairs that share factors, and a few labels."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.losses._batch import batch_mean, check_batch, check_codes
from disentangle_jax.losses._moments import cross_covariance
from disentangle_jax.types import unknown_name


def ada_gvae_posteriors(
    mean1: jax.Array,
    log_var1: jax.Array,
    mean2: jax.Array,
    log_var2: jax.Array,
    *,
    distance: str = "symmetric_kl",
    average: str = "gvae",
    ratio: jax.Array = 0.5,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    r"""Averages the dimensions in which the two posteriors of a pair differ little.

    Per pair, with :math:`\delta_d` the distance in dimension d, dimensions with

    .. math:: \delta_d < \min_d \delta_d + \rho (\max_d \delta_d - \min_d \delta_d)

    are taken to be shared and get one common posterior; the others stay. At
    :math:`\rho = \tfrac12` these are two bins of equal width (Locatello et al.,
    "Weakly-Supervised Disentanglement Without Compromises", Sec. 4). Common posteriors:

    * ``"gvae"``: mean of the means and mean of the variances (Hosoya 2019);
    * ``"ml_vae"``: normalised product of the two densities, with the variance doubled
      back: :math:`\sigma^2 = 2\sigma_1^2\sigma_2^2/(\sigma_1^2+\sigma_2^2)`,
      precision-weighted mean (Bouchacourt et al. 2018, as in disentanglement_lib).

    Couples the batch: no, only the two members of each pair.

    Args:
      mean1: ``[B, D]`` posterior means of the first members.
      log_var1: ``[B, D]`` their log-variances.
      mean2: ``[B, D]`` posterior means of the second members.
      log_var2: ``[B, D]`` their log-variances.
      distance: ``"symmetric_kl"``, the mean of both directions (Michlo et al., Eq. 3;
        Dittadi et al. 2021), or ``"kl"``, from the first to the second
        (disentanglement_lib).
      average: ``"gvae"`` or ``"ml_vae"``.
      ratio: :math:`\rho`, place of the threshold between smallest and largest
        distance.

    Returns:
      ``(mean1, log_var1, mean2, log_var2)``, each ``[B, D]``: equal in the shared
      dimensions. The choice of dimensions has no gradient; the averages have.
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
    scale: jax.Array | None = None,
    embeddings: Sequence[jax.Array] | None = None,
    sigma: jax.Array = 1.0,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Ties the first dimensions of the code to labelled factors, one to one.

    With F factors :math:`f_k \in \{0, \dots, S_k - 1\}` and the first F dimensions of
    the mean :math:`\mu`, the forms of Locatello et al., "Disentangling Factors of
    Variation Using Few Labels", are

    * ``"xent"``: sigmoid cross-entropy of :math:`\mu_k` with :math:`f_k / S_k`,
      **summed** over factors and examples. The division is by the *size*, not the
      largest value, so that targets stay below 1;
    * ``"l2"``: :math:`\sum (b \mu_k - f_k)^2` with ``scale`` b, which the original
      learns from 1; without it, :math:`\sum (\sigma(\mu_k) - f_k / S_k)^2`;
    * ``"cov"``: squared covariances (divided by B) of every dimension of the mean with
      every factor, but for the pairs (k, k);
    * ``"embed"``: :math:`-\log \operatorname{softmax}_v(-\sigma^2(\mu_k - e_{kv})^2)`
      at :math:`v = f_k`, with learned values :math:`e_{kv}` in one dimension; summed
      over factors, averaged over examples.

    Couples the batch: ``"cov"`` yes; the others only by their sum or mean.

    Args:
      mean: ``[B, D]`` posterior means of labelled examples, D at least F.
      factors: ``[B, F]`` integer labels.
      kind: ``"xent"``, ``"l2"``, ``"cov"`` or ``"embed"``.
      factor_sizes: F numbers of values; needed by ``"xent"``, and by ``"l2"`` without
        ``scale``.
      scale: b of ``"l2"``, ``[]``; None for the sigmoid form.
      embeddings: F arrays ``[S_k]`` for ``"embed"``; for ordered factors pass
        ``slope * arange(S_k) + bias``.
      sigma: sharpness of ``"embed"``.
      axis_name: mapped axis over which the batch is split.

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
        pairs = jnp.eye(*matrix.shape, dtype=bool)
        return jnp.square(jnp.where(pairs, 0.0, matrix)).sum()
    if kind != "embed":
        raise unknown_name(name, "kind", kind, ["xent", "l2", "cov", "embed"])
    if embeddings is None or len(embeddings) != count:
        got = None if embeddings is None else len(embeddings)
        raise ValueError(
            f"{name}: `embeddings` must be {count} arrays, one per factor, got {got}."
        )
    losses = []
    for k, places in enumerate(embeddings):
        logits = -jnp.square((first[:, k, None] - places[None]) * sigma)
        log_p = jax.nn.log_softmax(logits)
        label = factors[:, k, None].astype(jnp.int32)
        losses.append(-jnp.take_along_axis(log_p, label, axis=1)[:, 0])
    return batch_mean(sum(losses), axis_name)


def _sizes(factor_sizes: Sequence[int] | None, count: int, dtype: jnp.dtype):
    if factor_sizes is None or len(factor_sizes) != count:
        raise ValueError(
            f"supervised_alignment: `factor_sizes` must be {count} numbers of values, "
            f"one per factor, got {factor_sizes}."
        )
    return jnp.asarray(factor_sizes, dtype)[None]


def _total(values: jax.Array, axis_name: str | None) -> jax.Array:
    total = values.sum()
    return total if axis_name is None else jax.lax.psum(total, axis_name)
