r"""Densities, divergences and draws as functions of arrays.

A distribution is its parameters: there are no objects here. Functions of a
*factorised* family (Gaussian, Bernoulli) are elementwise and broadcast like
:mod:`jax.numpy`; sum over the event axes yourself. Functions of a *vector-valued*
family (categorical, Concrete, Gaussian mixture) consume the last axis.

All values are in nats. Everything is differentiable in its floating arguments and
finite for log-variances and logits far beyond what a network emits (tested at
:math:`\pm 20` and :math:`\pm 80`), in float32.
"""

import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from disentangle_jax import types
from disentangle_jax.types import Scalar

_LOG_2_PI = math.log(2.0 * math.pi)


def gaussian_log_prob(z: jax.Array, mean: jax.Array, log_var: jax.Array) -> jax.Array:
    r"""Log-density of a Gaussian, elementwise.

    .. math:: -\tfrac12\left[\log 2\pi + \log\sigma^2
              + (z - \mu)^2 e^{-\log\sigma^2}\right]

    Args:
      z: points.
      mean: means, broadcastable with ``z``.
      log_var: log-variances, broadcastable with ``z``.

    Returns:
      Nats, of the broadcast shape; any real number.
    """
    return -0.5 * (_LOG_2_PI + log_var + jnp.square(z - mean) * jnp.exp(-log_var))


def gaussian_kl(
    mean: jax.Array,
    log_var: jax.Array,
    prior_mean: Scalar = 0.0,
    prior_log_var: Scalar = 0.0,
) -> jax.Array:
    r"""Divergence between two Gaussians, elementwise.

    .. math:: \mathrm{KL}(\mathcal N(\mu, \sigma^2) \,\|\, \mathcal N(m, s^2))
              = \tfrac12\left[\tfrac{\sigma^2}{s^2} - 1 - \log\tfrac{\sigma^2}{s^2}
              + \tfrac{(\mu - m)^2}{s^2}\right]

    The first two terms are one ``expm1``, so that two almost equal variances lose no
    digits.

    Args:
      mean: means.
      log_var: log-variances.
      prior_mean: means of the second distribution; 0 by default.
      prior_log_var: log-variances of the second distribution; 0 by default.

    Returns:
      Nats, of the broadcast shape; at least 0.
    """
    ratio = log_var - prior_log_var
    shift = jnp.square(mean - prior_mean) * jnp.exp(-jnp.asarray(prior_log_var))
    return 0.5 * (jnp.expm1(ratio) - ratio + shift)


def gaussian_entropy(log_var: jax.Array) -> jax.Array:
    r"""Differential entropy of a Gaussian, elementwise.

    .. math:: \tfrac12 (1 + \log 2\pi + \log\sigma^2)

    Args:
      log_var: log-variances.

    Returns:
      Nats, same shape; any real number.
    """
    return 0.5 * (1.0 + _LOG_2_PI + log_var)


def bernoulli_sample(key: jax.Array, logits: jax.Array) -> jax.Array:
    r"""Draws 0 or 1 with probability :math:`\sigma(l)` of 1, elementwise.

    Args:
      key: typed key.
      logits: log-odds of 1.

    Returns:
      Zeros and ones, shape and dtype of ``logits``.
    """
    return jax.random.bernoulli(key, jax.nn.sigmoid(logits)).astype(logits.dtype)


def bernoulli_log_prob(x: jax.Array, logits: jax.Array) -> jax.Array:
    r"""Log-probability under a Bernoulli, from logits, elementwise.

    .. math:: x l - \log(1 + e^l)

    Args:
      x: outcomes, 0 or 1 (values between give the negative cross-entropy).
      logits: log-odds of 1.

    Returns:
      Nats, of the broadcast shape; at most 0 for outcomes in [0, 1].
    """
    return x * logits - jax.nn.softplus(logits)


def bernoulli_kl(logits: jax.Array, prior_logits: Scalar = 0.0) -> jax.Array:
    r"""Divergence between two Bernoullis, from logits, elementwise.

    .. math:: \mathrm{KL}(\sigma(l) \,\|\, \sigma(m))
              = \sigma(l)(l - m) - \log(1 + e^l) + \log(1 + e^m)

    Args:
      logits: log-odds of 1 of the first.
      prior_logits: log-odds of 1 of the second; 0 (a fair coin) by default.

    Returns:
      Nats, of the broadcast shape; at least 0 (up to rounding).
    """
    difference = logits - prior_logits
    return (
        jax.nn.sigmoid(logits) * difference
        - jax.nn.softplus(logits)
        + jax.nn.softplus(jnp.asarray(prior_logits))
    )


def bernoulli_entropy(logits: jax.Array) -> jax.Array:
    r"""Entropy of a Bernoulli, from logits, elementwise.

    .. math:: \log(1 + e^l) - l\,\sigma(l)

    Args:
      logits: log-odds of 1.

    Returns:
      Nats, same shape; in [0, log 2].
    """
    return jax.nn.softplus(logits) - logits * jax.nn.sigmoid(logits)


def categorical_kl(logits: jax.Array, prior_logits: Scalar | None = None) -> jax.Array:
    r"""Divergence between two categorical distributions, from logits.

    .. math:: \sum_k p_k (\log p_k - \log r_k)

    The Concrete distribution has no closed form of its own; this is the divergence of
    the variables it relaxes.

    Args:
      logits: ``[..., K]`` unnormalised log-probabilities.
      prior_logits: those of the second, same shape; None means uniform.

    Returns:
      ``[...]`` nats; at least 0 (up to rounding).
    """
    log_p = jax.nn.log_softmax(logits)
    if prior_logits is None:
        log_r = jnp.full_like(log_p, -math.log(logits.shape[-1]))
    else:
        log_r = jax.nn.log_softmax(prior_logits)
    return (jnp.exp(log_p) * (log_p - log_r)).sum(axis=-1)


def categorical_entropy(logits: jax.Array) -> jax.Array:
    r"""Entropy of a categorical distribution, from logits.

    .. math:: -\sum_k p_k \log p_k

    Args:
      logits: ``[..., K]`` unnormalised log-probabilities.

    Returns:
      ``[...]`` nats; in [0, log K].
    """
    log_p = jax.nn.log_softmax(logits)
    return -(jnp.exp(log_p) * log_p).sum(axis=-1)


def exp_concrete_sample(
    key: jax.Array, logits: jax.Array, temperature: Scalar
) -> jax.Array:
    r"""Draws the logarithm of a Concrete variable, differentiably.

    .. math:: \log z = \operatorname{log\,softmax}\left(\frac{l + g}{\lambda}\right),
              \qquad g_k \sim \mathrm{Gumbel}

    At low temperatures entries of :math:`z` underflow to 0, and the density there
    cannot be recovered; their logarithms do not. Pass the result to
    :func:`exp_concrete_log_prob`, and its ``exp`` to the decoder.

    Maddison et al., "The Concrete Distribution", App. C.3.

    Args:
      key: typed key.
      logits: ``[..., K]`` unnormalised log-probabilities.
      temperature: :math:`\lambda > 0`; to 0 the draws become one-hot.

    Returns:
      ``[..., K]``, whose ``exp`` sums to 1 over the last axis.
    """
    noise = jax.random.gumbel(key, logits.shape, logits.dtype)
    return jax.nn.log_softmax((logits + noise) / temperature)


def exp_concrete_log_prob(
    log_z: jax.Array, logits: jax.Array, temperature: Scalar
) -> jax.Array:
    r"""Log-density of the logarithm of a Concrete variable.

    .. math:: \log (K-1)! + (K-1)\log\lambda + \sum_k (l_k - \lambda \log z_k)
              - K \log \sum_k e^{l_k - \lambda \log z_k}

    Maddison et al., "The Concrete Distribution", Eq. 22. It differs from
    :func:`concrete_log_prob` by :math:`\sum_k \log z_k`, which cancels in every ratio
    of densities at the same point.

    Args:
      log_z: ``[..., K]`` logarithms of points of the simplex.
      logits: ``[..., K]`` unnormalised log-probabilities, broadcastable.
      temperature: :math:`\lambda > 0`.

    Returns:
      ``[...]`` nats; any real number.
    """
    categories = logits.shape[-1]
    score = logits - temperature * log_z
    return (
        math.lgamma(categories)
        + (categories - 1) * jnp.log(temperature)
        + score.sum(axis=-1)
        - categories * jax.nn.logsumexp(score, axis=-1)
    )


def concrete_sample(
    key: jax.Array, logits: jax.Array, temperature: jax.Array
) -> jax.Array:
    r"""Draws from the Concrete (Gumbel-softmax) distribution, differentiably.

    .. math:: z = \operatorname{softmax}\left(\frac{l + g}{\lambda}\right),
              \qquad g_k \sim \mathrm{Gumbel}

    Maddison et al., "The Concrete Distribution", Eq. 10.

    Args:
      key: typed key.
      logits: ``[..., K]`` unnormalised log-probabilities.
      temperature: :math:`\lambda > 0`.

    Returns:
      ``[..., K]`` points of the simplex.
    """
    return jnp.exp(exp_concrete_sample(key, logits, temperature))


def concrete_log_prob(
    z: jax.Array, logits: jax.Array, temperature: jax.Array
) -> jax.Array:
    r"""Log-density of the Concrete distribution on the simplex.

    .. math:: \log (K-1)! + (K-1)\log\lambda
              + \sum_k \left(l_k - (\lambda + 1) \log z_k\right)
              - K \log \sum_k e^{l_k - \lambda \log z_k}

    Maddison et al., "The Concrete Distribution", Eq. 11. Entries of ``z`` below the
    smallest normal number count as that number; use :func:`exp_concrete_log_prob`
    where they matter.

    Args:
      z: ``[..., K]`` points of the simplex.
      logits: ``[..., K]`` unnormalised log-probabilities, broadcastable.
      temperature: :math:`\lambda > 0`.

    Returns:
      ``[...]`` nats; any real number.
    """
    log_z = jnp.log(jnp.maximum(z, jnp.finfo(z.dtype).tiny))
    return exp_concrete_log_prob(log_z, logits, temperature) - log_z.sum(axis=-1)


def _check_mixture(function: str, means: jax.Array, covariances: jax.Array) -> None:
    if means.ndim != 2 or covariances.shape != (*means.shape, means.shape[-1]):
        raise ValueError(
            f"{function}: `means` must be [K, D] and `covariances` [K, D, D], "
            f"got {means.shape} and {covariances.shape}."
        )


def gaussian_component_log_prob(
    z: jax.Array, means: jax.Array, covariances: jax.Array
) -> jax.Array:
    r"""Log-density of each component of a Gaussian mixture with full covariances.

    .. math:: \log \mathcal N(z; \mu_k, \Sigma_k)
              = -\tfrac12 \left[ D \log 2\pi + \log|\Sigma_k|
              + (z - \mu_k)^\top \Sigma_k^{-1} (z - \mu_k) \right]

    Args:
      z: ``[..., D]`` points.
      means: ``[K, D]`` means.
      covariances: ``[K, D, D]`` positive definite covariances. A singular one gives
        NaN: shrink it first.

    Returns:
      ``[..., K]`` nats; any real number.
    """
    _check_mixture("gaussian_component_log_prob", means, covariances)
    factors = jnp.linalg.cholesky(covariances)

    def one(mean: jax.Array, factor: jax.Array) -> jax.Array:
        offsets = (z - jnp.expand_dims(mean, range(z.ndim - 1))).reshape(
            -1, mean.shape[0]
        )
        white = jax.scipy.linalg.solve_triangular(factor, offsets.T, lower=True)
        log_det = 2.0 * jnp.log(jnp.diagonal(factor)).sum()
        values = mean.shape[0] * _LOG_2_PI + log_det + jnp.square(white).sum(axis=0)
        return -0.5 * values.reshape(z.shape[:-1])

    return jax.vmap(one, out_axes=-1)(means, factors)


def gaussian_mixture_log_prob(
    z: jax.Array,
    means: jax.Array,
    covariances: jax.Array,
    log_weights: jax.Array | None = None,
) -> jax.Array:
    r"""Log-density of a Gaussian mixture with full covariances.

    .. math:: \log \sum_k \pi_k\, \mathcal N(z; \mu_k, \Sigma_k)

    The prior of the abstraction autoencoder ("Leveraging Relational Information for
    Learning Weakly Disentangled Representations", Eq. 6) has equal weights.

    Args:
      z: ``[..., D]`` points.
      means: ``[K, D]`` means.
      covariances: ``[K, D, D]`` positive definite covariances.
      log_weights: ``[K]`` unnormalised log-weights; None means equal weights.

    Returns:
      ``[...]`` nats; any real number.
    """
    parts = gaussian_component_log_prob(z, means, covariances)
    if log_weights is None:
        return jax.nn.logsumexp(parts, axis=-1) - math.log(means.shape[0])
    log_weights = jax.nn.log_softmax(log_weights)
    log_weights = jnp.expand_dims(log_weights, range(parts.ndim - 1))
    return jax.nn.logsumexp(parts + log_weights, axis=-1)


def gaussian_component_sample(
    key: jax.Array, component: jax.Array, means: jax.Array, covariances: jax.Array
) -> jax.Array:
    r"""Draws from chosen components of a Gaussian mixture with full covariances.

    .. math:: z = \mu_k + L_k \epsilon, \qquad L_k L_k^\top = \Sigma_k

    Args:
      key: typed key.
      component: ``[B]`` integer component of each draw.
      means: ``[K, D]`` means.
      covariances: ``[K, D, D]`` positive definite covariances.

    Returns:
      ``[B, D]`` draws.
    """
    _check_mixture("gaussian_component_sample", means, covariances)
    factors = jnp.linalg.cholesky(covariances)
    noise = jax.random.normal(key, (*component.shape, means.shape[1]), means.dtype)
    shift = jnp.einsum(
        "bij,bj->bi", factors[component], noise, precision=jax.lax.Precision.HIGHEST
    )
    return means[component] + shift


def gaussian_mixture_sample(
    key: jax.Array,
    count: int,
    means: jax.Array,
    covariances: jax.Array,
    log_weights: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Draws from a Gaussian mixture with full covariances.

    Args:
      key: typed key.
      count: number of draws, B.
      means: ``[K, D]`` means.
      covariances: ``[K, D, D]`` positive definite covariances.
      log_weights: ``[K]`` unnormalised log-weights; None means equal weights.

    Returns:
      ``[B, D]`` draws and the ``[B]`` integer components they came from.
    """
    if log_weights is None:
        log_weights = jnp.zeros(means.shape[0], means.dtype)
    which, where = jax.random.split(key)
    component = jax.random.categorical(which, log_weights, shape=(count,))
    return gaussian_component_sample(where, component, means, covariances), component


def correlation_matrix(
    free: jax.Array, *, groups: Sequence[int] | None = None
) -> jax.Array:
    r"""A correlation matrix from free parameters, positive definite by construction.

    .. math:: R = (1 - \epsilon)\, L L^\top + \epsilon I, \qquad L = \text{rows of }
              I + \operatorname{tril}(\theta, -1) \text{ divided by their lengths}

    Every correlation matrix whose eigenvalues exceed :math:`\epsilon = 10^{-3}` has
    such parameters; zeros give the identity. With `groups` the dimensions of one group
    are uncorrelated and those of different groups correlate freely: R is whitened
    within each group, :math:`C_d^{-1} R_{dd'} C_{d'}^{-\top}` with
    :math:`C_d C_d^\top = R_{dd}`, which leaves it positive definite.

    Args:
      free: ``[D, D]`` any numbers, of which those below the diagonal count.
      groups: sizes of contiguous groups that add up to D; None lets all dimensions
        correlate.

    Returns:
      ``[D, D]`` symmetric, ones on the diagonal, entries in (-1, 1) elsewhere.
    """
    if free.ndim != 2 or free.shape[0] != free.shape[1]:
        raise ValueError(
            f"correlation_matrix: `free` must be [D, D], got shape {free.shape}."
        )
    identity = jnp.eye(free.shape[0], dtype=free.dtype)
    lower = identity + jnp.tril(free, -1)
    lower = lower / jnp.linalg.norm(lower, axis=1, keepdims=True)
    matrix = jnp.dot(lower, lower.T, precision=jax.lax.Precision.HIGHEST)
    # Rounding could make a matrix of almost dependent rows indefinite.
    matrix = (1 - 1e-3) * matrix + 1e-3 * identity
    if groups is None:
        return matrix
    groups = types.check_groups("correlation_matrix", groups, free.shape[0])
    ends = itertools.pairwise(itertools.accumulate(groups, initial=0))
    factor = jax.scipy.linalg.block_diag(
        *(jnp.linalg.cholesky(matrix[low:high, low:high]) for low, high in ends)
    )
    half = jax.scipy.linalg.solve_triangular(factor, matrix, lower=True)
    matrix = jax.scipy.linalg.solve_triangular(factor, half.T, lower=True)
    matrix = (matrix + matrix.T) / 2  # The solves round its halves differently.
    return (1 - 1e-3) * matrix + 1e-3 * identity


def gaussian_mixture_fit(
    codes: jax.Array,
    counts: jax.Array,
    *,
    scale: Scalar = 0.1,
    shrinkage: Scalar = 1.0,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""Fits one Gaussian with full covariance to each of several small samples.

    With :math:`n_k` points of mean :math:`\mu_k` and scatter :math:`S_k = \sum_i
    (z_i - \mu_k)(z_i - \mu_k)^\top`, and :math:`\bar\Sigma = \sum_k S_k / \sum_k (n_k -
    1)` the covariance pooled over all samples,

    .. math:: \Sigma_k = s \, \frac{S_k + \kappa \bar\Sigma}{n_k - 1 + \kappa}
              + 10^{-6} I

    The prior of the abstraction autoencoder ("Leveraging Relational Information for
    Learning Weakly Disentangled Representations", Sec. 3.1; its code multiplies the
    covariance by 0.1). With :math:`\kappa = 0` it is the unbiased sample covariance,
    which is singular where :math:`n_k \le D`: the paper's 10 samples in 16 dimensions.
    :math:`\kappa` pseudo-samples of the pooled covariance (Friedman, "Regularized
    Discriminant Analysis") make it definite, and the last term does where even those
    vary too little.

    Args:
      codes: ``[K, n, D]``; only the first ``counts[k]`` of each row are looked at.
      counts: ``[K]`` integers in ``[0, n]``.
      scale: s.
      shrinkage: :math:`\kappa`, in samples.

    Returns:
      ``means [K, D]``, ``covariances [K, D, D]``, positive definite, and ``present
      [K]`` bool: components without a sample are not; they have mean 0 and the
      covariance of no sample.
    """
    if codes.ndim != 3 or counts.shape != codes.shape[:1]:
        raise ValueError(
            "gaussian_mixture_fit: `codes` must be [K, n, D] and `counts` [K], got "
            f"{codes.shape} and {counts.shape}."
        )
    _, most, dims = codes.shape
    counts = jnp.clip(counts, 0, most)
    known = (jnp.arange(most)[None] < counts[:, None])[..., None]
    codes = jnp.where(known, codes, 0.0)
    size = counts.astype(codes.dtype)
    means = codes.sum(axis=1) / jnp.maximum(size, 1.0)[:, None]
    centred = jnp.where(known, codes - means[:, None], 0.0)
    scatter = jnp.einsum(
        "kni,knj->kij", centred, centred, precision=jax.lax.Precision.HIGHEST
    )
    free = jnp.maximum(size - 1.0, 0.0)
    pooled = scatter.sum(axis=0, keepdims=True) / jnp.maximum(free.sum(), 1.0)
    eye = jnp.eye(dims, dtype=codes.dtype)[None]
    weight = jnp.maximum(free + shrinkage, jnp.finfo(codes.dtype).tiny)
    covariances = (scatter + shrinkage * pooled) / weight[:, None, None]
    return means, scale * covariances + 1e-6 * eye, counts > 0
