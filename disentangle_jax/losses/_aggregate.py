"""The aggregate posterior, estimated from a batch, and decompositions of the KL."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.losses._batch import (
    batch_mean,
    check_batch,
    check_codes,
    gather,
    row_numbers,
)
from disentangle_jax.types import check_groups, unknown_name

ESTIMATORS = ("mws", "mss", "stratified", "naive")


def _check_estimator(
    function: str, estimator: str, dataset_size: jax.Array | None, batch: int
) -> None:
    if estimator not in ESTIMATORS:
        raise unknown_name(function, "estimator", estimator, ESTIMATORS)
    if estimator == "naive":
        return
    if dataset_size is None:
        raise ValueError(
            f"{function}: `dataset_size` must be the number of training examples for "
            f"estimator {estimator!r}, got None."
        )
    if not isinstance(dataset_size, jax.Array) and dataset_size < batch:
        raise ValueError(
            f"{function}: `dataset_size` must be at least the batch size {batch}, "
            f"got {dataset_size}. Pass the number of training examples."
        )


def _log_weights(
    estimator: str,
    rows: jax.Array,
    batch: int,
    dataset_size: jax.Array | None,
    dtype: jnp.dtype,
) -> jax.Array:
    """`[R, B]` logarithm of the weight of q(z_i | x_j) in the estimate of q(z_i)."""
    if estimator == "naive":
        return jnp.zeros((rows.shape[0], batch), dtype)
    size = jnp.asarray(dataset_size, dtype)
    if estimator == "mws":
        return jnp.full((rows.shape[0], batch), -jnp.log(size * batch))
    columns = jnp.arange(batch)[None, :]
    own = columns == rows[:, None]
    others = batch - 1
    if estimator == "stratified":
        return jnp.where(own, -jnp.log(size), jnp.log((size - 1) / (size * others)))
    # One of the other examples stands for the part of the data set that a sample
    # without replacement has not met; the next row is as good as any.
    rest = columns == (rows[:, None] + 1) % batch
    rest_weight = jnp.log((size - others) / (size * others))
    weights = jnp.where(rest, rest_weight, -jnp.log(jnp.asarray(others, dtype)))
    return jnp.where(own, -jnp.log(size), weights)


def _group_sums(values: jax.Array, groups: tuple[int, ...]) -> jax.Array:
    """`[..., G]` sums over contiguous groups of the last axis."""
    bounds = itertools.pairwise(itertools.accumulate(groups, initial=0))
    return jnp.stack([values[..., low:high].sum(-1) for low, high in bounds], axis=-1)


def _over_columns(log_density: jax.Array, log_weights: jax.Array) -> jax.Array:
    """Weighted log-mean-exp over the columns of ``[R, B, ...]``."""
    weights = jnp.expand_dims(log_weights, range(2, log_density.ndim))
    return jax.nn.logsumexp(log_density + weights, axis=1)


def _marginals(
    pairwise: jax.Array, log_weights: jax.Array, groups: tuple[int, ...]
) -> dict[str, jax.Array]:
    """Weighted log-mean-exp over columns of joint, group and element densities."""
    dims = _over_columns(pairwise, log_weights)
    if all(size == 1 for size in groups):
        by_group = dims
    else:
        by_group = _over_columns(_group_sums(pairwise, groups), log_weights)
    return {
        "log_qz": _over_columns(pairwise.sum(axis=2), log_weights),
        "log_qz_groups": by_group,
        "log_qz_dims": dims,
    }


class Concrete(NamedTuple):
    r"""Draws of a Concrete variable and the posteriors they came from (a pytree).

    Attributes:
      log_y: ``[B, K]`` logarithms of the draws, of
        :func:`distributions.exp_concrete_sample`.
      logits: ``[B, K]`` unnormalised log-probabilities.
      temperature: :math:`\lambda > 0`.
    """

    log_y: jax.Array
    logits: jax.Array
    temperature: jax.Array


def _no_pairs(z: jax.Array, columns: int) -> jax.Array:
    """Zeros ``[R, B]`` to begin a loop over elements with.

    Made of the codes, so that under ``shard_map`` they vary over devices as what is
    added to them does.
    """
    zeros = jnp.where(jnp.zeros((len(z), 1), bool), z[:, :1], 0.0)
    return jnp.broadcast_to(zeros, (len(z), columns))


def _concrete_pairs(draws: Concrete) -> jax.Array:
    """``[R, B]`` log-density of each of R draws under each of B posteriors.

    :func:`distributions.exp_concrete_log_prob` of all pairs, one category after the
    other, so that no array of all pairs and categories is made.
    """
    log_y, logits, temperature = draws
    categories = logits.shape[1]

    def score(category: tuple[jax.Array, jax.Array]) -> jax.Array:
        log_y, logits = category
        return logits[None, :] - temperature * log_y[:, None]

    every, start = (log_y.T, logits.T), _no_pairs(log_y, len(logits))
    highest, _ = jax.lax.scan(
        lambda high, one: (jnp.maximum(high, score(one)), None),
        *jax.lax.stop_gradient((start - jnp.inf, every)),
    )
    total, _ = jax.lax.scan(
        jax.checkpoint(
            lambda total, one: (total + jnp.exp(score(one) - highest), None),
            prevent_cse=False,
        ),
        start,
        every,
    )
    return (
        math.lgamma(categories)
        + (categories - 1) * jnp.log(temperature)
        + logits.sum(axis=1)[None, :]
        - temperature * log_y.sum(axis=1)[:, None]
        - categories * (jnp.log(total) + highest)
    )


def _marginals_by_element(
    codes: tuple[jax.Array, jax.Array, jax.Array],
    concrete: Sequence[Concrete],
    log_weights: jax.Array,
    groups: tuple[int, ...],
) -> dict[str, jax.Array]:
    """:func:`_marginals` with the pairs of one element at a time.

    They stay in a CPU's cache and are computed again in the backward pass: at a batch
    of 512 with 10 elements about a third of the time and a tenth of the memory of all
    at once. One element after the other also suits accelerators, which would pad a
    last axis of 10 to 128.

    Args:
      codes: draws ``[R, D]``, means and log-variances ``[B, D]`` of the Gaussians.
      concrete: further elements, with R draws and B posteriors each.
      log_weights: ``[R, B]``.
      groups: sizes of the groups of all elements.
    """
    dims = codes[0].shape[1]

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def gaussian(total: jax.Array, element: tuple[jax.Array, ...]):
        z, mean, log_var = element
        pairs = distributions.gaussian_log_prob(z[:, None], mean[None], log_var[None])
        return total + pairs, _over_columns(pairs, log_weights)

    @jax.checkpoint
    def discrete(draws: Concrete) -> tuple[jax.Array, jax.Array]:
        pairs = _concrete_pairs(draws)
        return pairs, _over_columns(pairs, log_weights)

    def of_elements(low: int, high: int) -> tuple[jax.Array, jax.Array]:
        """Densities ``[R, B]`` of some elements together, marginals ``[e, R]``."""
        totals, marginals = [], []
        if low < dims:
            here = tuple(array[:, low : min(high, dims)].T for array in codes)
            start = _no_pairs(codes[0], log_weights.shape[1])
            total, each = jax.lax.scan(gaussian, start, here)
            totals.append(total)
            marginals.append(each)
        for draws in concrete[max(low, dims) - dims : max(high, dims) - dims]:
            total, one = discrete(draws)
            totals.append(total)
            marginals.append(one[None])
        return sum(totals[1:], totals[0]), jnp.concatenate(marginals)

    joints, by_group, by_element, low = [], [], [], 0
    for size, same in itertools.groupby(groups):
        # Groups of one element are their own marginals: one loop serves them all.
        count = len(list(same))
        for width in [count] if size == 1 else [size] * count:
            total, marginals = of_elements(low, low + width)
            joints.append(total)
            by_element.append(marginals)
            if size == 1:
                by_group.append(marginals)
            else:
                by_group.append(_over_columns(total, log_weights)[None])
            low += width
    joint = sum(joints[1:], joints[0])
    return {
        "log_qz": _over_columns(joint, log_weights),
        "log_qz_groups": jnp.concatenate(by_group).T,
        "log_qz_dims": jnp.concatenate(by_element).T,
    }


def pairwise_log_density(
    log_prob: Callable[..., jax.Array],
    z: jax.Array,
    *parameters: jax.Array,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Log-density of every code under every posterior of the batch.

    .. math:: P_{ije} = \log q(z_{i,e} | x_j)

    Concatenate the results for several variables along the last axis to describe a
    posterior with, say, a Gaussian and a Concrete part::

        pairwise = jnp.concatenate([
            pairwise_log_density(gaussian_log_prob, z, mean, log_var),
            pairwise_log_density(
                lambda y, logits: concrete_log_prob(y, logits, 0.66), y, y_logits
            ),
        ], axis=2)

    Couples the batch: yes.

    Args:
      log_prob: broadcasting function of ``(z, *parameters)``, elementwise (each
        dimension is an element) or consuming the last axis (one element), as those of
        :mod:`disentangle_jax.distributions`.
      z: ``[B, ...]`` codes.
      *parameters: ``[B, ...]`` parameters of the posteriors.
      axis_name: mapped axis over which the batch is split; all posteriors are
        gathered, the codes stay local.

    Returns:
      ``[B, B, E]`` nats; with ``axis_name``, ``[B local, B global, E]``.
    """
    columns = (jnp.expand_dims(gather(p, axis_name), 0) for p in parameters)
    values = log_prob(jnp.expand_dims(z, 1), *columns)
    return values if values.ndim == 3 else jnp.expand_dims(values, 2)


def aggregate_log_densities(
    pairwise: jax.Array,
    *,
    dataset_size: jax.Array | None,
    estimator: str,
    groups: Sequence[int] | None = None,
    axis_name: str | None = None,
) -> dict[str, jax.Array]:
    r"""Estimates the aggregate posterior and its marginals at each code of a batch.

    The aggregate posterior of a data set of N examples is
    :math:`q(z) = \frac1N \sum_n q(z|x_n)`. From a batch of B it is estimated as

    .. math:: \log \hat q(z_i) = \log \sum_j w_{ij}\, q(z_i | x_j)

    and likewise, with the *same* weights once each, for every group and element of the
    code. The weights :math:`w_{ij}`:

    ==============  ==================  ============================================
    ``estimator``   own, j = i          others
    ==============  ==================  ============================================
    ``mws``         1/(NB)              1/(NB): minibatch-weighted (Chen et al. 2018,
                                        Eq. 3). Rows sum to 1/N: too low by log B for
                                        codes far apart, up to log N where they overlap
    ``mss``         1/N                 1/(B-1), but for one (N-B+1)/(N(B-1)):
                                        minibatch-stratified (Chen et al., App. C.2)
    ``stratified``  1/N                 (N-1)/(N(B-1)): partially stratified (Esmaeili
                                        et al. 2019, Sec. 3.1). Exact at B = N.
    ``naive``       1                   1: disentanglement_lib's. Off by constants,
                                        right in its gradient up to its own weighting.
    ==============  ==================  ============================================

    Rows of ``mss`` and ``stratified`` sum to 1, and the mean of their estimates of
    :math:`q(z_i)` over all batches is exact. The public MSS code (and the libraries
    that copied it) fills column 0 where the diagonal is meant, and some add the
    log-weight once per dimension before summing; neither is done here.

    Couples the batch: yes.

    Args:
      pairwise: ``[B, B, E]`` with ``pairwise[i, j, e]`` the log-density of element e of
        code i under the posterior of example j, of any distribution; see
        :func:`pairwise_log_density`. With ``axis_name``: local rows, all columns,
        ``[B local, B global, E]``.
      dataset_size: N, number of training examples; may be traced. Ignored by
        ``naive``.
      estimator: ``"mws"``, ``"mss"``, ``"stratified"`` or ``"naive"``.
      groups: sizes of contiguous groups of elements, adding up to E; None means one
        group per element.
      axis_name: mapped axis over which the batch is split.

    Returns:
      Dict of nats: ``log_qz_given_x`` ``[B]``, the code under its own posterior;
      ``log_qz`` ``[B]``; ``log_qz_groups`` ``[B, G]``; ``log_qz_dims`` ``[B, E]``.
    """
    name = "aggregate_log_densities"
    pairwise = jnp.asarray(pairwise)
    if pairwise.ndim != 3:
        raise ValueError(f"{name}: `pairwise` must be [B, B, E], got {pairwise.shape}.")
    batch = check_batch(name, pairwise, axis_name)
    if pairwise.shape[1] != batch:
        raise ValueError(
            f"{name}: `pairwise` must have one column per example of the batch "
            f"({batch}), got shape {pairwise.shape}."
        )
    _check_estimator(name, estimator, dataset_size, batch)
    groups = check_groups(name, groups, pairwise.shape[2])
    rows = row_numbers(pairwise, axis_name)
    weights = _log_weights(estimator, rows, batch, dataset_size, pairwise.dtype)
    own = jnp.take_along_axis(pairwise.sum(axis=2), rows[:, None], axis=1)[:, 0]
    return {"log_qz_given_x": own, **_marginals(pairwise, weights, groups)}


def log_q_marginals(
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    dataset_size: jax.Array | None,
    estimator: str,
    groups: Sequence[int] | None = None,
    concrete: Sequence[Concrete] = (),
    block_size: int | None = None,
    axis_name: str | None = None,
) -> dict[str, jax.Array]:
    r"""The aggregate posterior of Gaussian posteriors, estimated at each code.

    :func:`aggregate_log_densities` for diagonal Gaussians, which explains the
    estimators; in one pass for the joint, the groups and the dimensions. Concrete
    variables may stand beside the Gaussian ones. Of the pairs of codes and posteriors
    only those of one element are held at a time, ``B * B`` numbers, and again in the
    backward pass.

    Couples the batch: yes.

    Args:
      z: ``[B, D]`` draws from the posteriors.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      dataset_size: N, number of training examples; may be traced.
      estimator: ``"mws"``, ``"mss"``, ``"stratified"`` or ``"naive"``.
      groups: sizes of contiguous groups of elements, adding up to E; None means one
        group per element.
      concrete: Concrete variables, C of them, each one element after the D dimensions.
        Their densities are those of their logarithms.
      block_size: work on this many codes at a time, so that memory is
        ``block_size * B`` instead of ``B * B`` numbers, for very large batches. None
        takes all at once and is the fastest.
      axis_name: mapped axis over which the batch is split.

    Returns:
      Dict of nats: ``log_qz_given_x`` ``[B]``, ``log_qz`` ``[B]``, ``log_qz_groups``
      ``[B, G]``, ``log_qz_dims`` ``[B, E]`` with E = D + C.
    """
    return _log_q_marginals(
        "log_q_marginals",
        z,
        mean,
        log_var,
        dataset_size=dataset_size,
        estimator=estimator,
        groups=groups,
        concrete=concrete,
        block_size=block_size,
        axis_name=axis_name,
    )


def _log_q_marginals(
    function: str,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    dataset_size: jax.Array | None,
    estimator: str,
    groups: Sequence[int] | None,
    block_size: int | None,
    axis_name: str | None,
    concrete: Sequence[Concrete] = (),
) -> dict[str, jax.Array]:
    z, mean, log_var = jnp.asarray(z), jnp.asarray(mean), jnp.asarray(log_var)
    check_codes(function, z=z, mean=mean, log_var=log_var)
    for draws in concrete:
        check_codes(function, log_y=draws.log_y, logits=draws.logits)
    batch = check_batch(function, z, axis_name)
    _check_estimator(function, estimator, dataset_size, batch)
    groups = check_groups(function, groups, z.shape[1] + len(concrete))
    if block_size is not None and block_size < 1:
        raise ValueError(
            f"{function}: `block_size` must be None or at least 1, got {block_size}."
        )
    means, log_vars = gather(mean, axis_name), gather(log_var, axis_name)
    everyone = [
        draws._replace(logits=gather(draws.logits, axis_name)) for draws in concrete
    ]

    def marginals(
        z: jax.Array, rows: jax.Array, log_y: list[jax.Array]
    ) -> dict[str, jax.Array]:
        weights = _log_weights(estimator, rows, batch, dataset_size, z.dtype)
        draws = [one._replace(log_y=y) for one, y in zip(everyone, log_y, strict=True)]
        return _marginals_by_element((z, means, log_vars), draws, weights, groups)

    def one_row(argument: tuple) -> dict[str, jax.Array]:
        values = marginals(*jax.tree.map(lambda array: array[None], argument))
        return jax.tree.map(lambda value: value[0], values)

    own = (z, row_numbers(z, axis_name), [draws.log_y for draws in concrete])
    if block_size is None:
        values = marginals(*own)
    else:
        # Recomputed in the backward pass; inside a loop no barrier is needed.
        one_row = jax.checkpoint(one_row, prevent_cse=False)
        values = jax.lax.map(one_row, own, batch_size=block_size)
    given_x = distributions.gaussian_log_prob(z, mean, log_var).sum(axis=1)
    for draws in concrete:
        given_x += distributions.exp_concrete_log_prob(*draws)
    return {"log_qz_given_x": given_x, **values}


def kl_decomposition(
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    dataset_size: jax.Array | None,
    estimator: str,
    groups: Sequence[int] | None = None,
    prior_mean: jax.Array = 0.0,
    prior_log_var: jax.Array = 0.0,
    block_size: int | None = None,
    axis_name: str | None = None,
) -> dict[str, jax.Array]:
    r"""Splits the mean KL into mutual information, total correlation and the rest.

    .. math:: \mathbb E\,\mathrm{KL}(q(z|x) \,\|\, p(z)) =
              \underbrace{\mathbb E \log\frac{q(z|x)}{q(z)}}_{I(x;\,z)} +
              \underbrace{\mathbb E \log\frac{q(z)}{\prod_g q(z_g)}}_{TC} +
              \underbrace{\mathbb E \sum_g \log\frac{q(z_g)}{p(z_g)}}_{
              \text{dimension-wise KL}}

    Chen et al., "Isolating Sources of Disentanglement in VAEs", Eq. 2. The three
    estimates add up to the batch mean of :func:`sampled_gaussian_kl` at the same ``z``,
    whatever the estimator. With ``groups`` the total correlation is between groups,
    and the last term is the divergence of each group from its prior.

    Couples the batch: yes.

    Args:
      z: ``[B, D]`` draws from the posteriors.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      dataset_size: N, number of training examples; may be traced.
      estimator: as in :func:`aggregate_log_densities`.
      groups: sizes of contiguous groups of dimensions; None means one per dimension.
      prior_mean: mean of the Gaussian prior, ``[]``, ``[D]`` or ``[B, D]``.
      prior_log_var: its log-variance, ``[]``, ``[D]`` or ``[B, D]``.
      block_size: as in :func:`log_q_marginals`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      Dict of ``[]`` nats: ``mutual_information``, ``total_correlation``,
      ``dimension_wise_kl``. Each is at least 0 in truth; estimates can be negative.
    """
    densities = _log_q_marginals(
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
    log_p = distributions.gaussian_log_prob(
        z,
        jnp.broadcast_to(jnp.asarray(prior_mean, z.dtype), z.shape),
        jnp.broadcast_to(jnp.asarray(prior_log_var, z.dtype), z.shape),
    ).sum(axis=1)
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
    dataset_size: jax.Array | None,
    estimator: str,
    groups: Sequence[int] | None = None,
    block_size: int | None = None,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Total correlation of the aggregate posterior, from a batch.

    .. math:: TC(z) = \mathbb E_{q(z)} \log \frac{q(z)}{\prod_g q(z_g)}

    Chen et al., Eq. 2; Esmaeili et al., Eq. 3. As a *value* to log, use
    ``"stratified"``: ``"mws"`` is about :math:`(D-1) \log N` too high, and ``"naive"``
    lies :math:`(D-1)\log(BN)` below ``"mws"``.

    Couples the batch: yes.

    Args:
      z: ``[B, D]`` draws from the posteriors.
      mean: ``[B, D]`` posterior means.
      log_var: ``[B, D]`` posterior log-variances.
      dataset_size: N, number of training examples; may be traced.
      estimator: as in :func:`aggregate_log_densities`.
      groups: sizes of contiguous groups of dimensions, whose dependence on one another
        is measured; None means one per dimension.
      block_size: as in :func:`log_q_marginals`.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` nats; at least 0 in truth, estimates can be negative.
    """
    densities = _log_q_marginals(
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
    dataset_size: jax.Array | None,
    groups: Sequence[int],
    log_p_groups: jax.Array | None = None,
    log_p_joint: jax.Array | None = None,
    estimator: str = "stratified",
    axis_name: str | None = None,
) -> dict[str, jax.Array]:
    r"""The two-level decomposition of the KL into groups and their elements.

    With groups d of elements e, and hats for the batch estimates:

    .. math::
       \text{②} &= \mathbb E\left[\log q(z|x) - \log\hat q(z)\right] \\
       \text{Ⓐ} &= \mathbb E\left[\log\frac{\hat q(z)}{\prod_d \hat q(z_d)}
                 - \log\frac{p(z)}{\prod_d p(z_d)}\right] \\
       \text{ⓘ} &= \mathbb E \sum_d \left[
                 \log\frac{\hat q(z_d)}{\prod_e \hat q(z_{d,e})}
                 - \log\frac{p(z_d)}{\prod_e p(z_{d,e})}\right] \\
       \text{ⓘⓘ} &= \mathbb E \sum_{d,e} \log \frac{\hat q(z_{d,e})}{p(z_{d,e})}

    Esmaeili et al., "Structured Disentangled Representations", Fig. 3. All four are
    written as penalties; their sum is the mean of :math:`\log q(z|x) - \log p(z)`,
    whatever the estimator. A prior that factorises over elements makes the second part
    of Ⓐ and ⓘ vanish. probtorch's batch marginals differ from ours by a constant
    factor per marginal, so its values are offset and its gradients the same.

    Couples the batch: yes.

    Args:
      pairwise: ``[B, B, E]`` log-density of element e of code i under the posterior of
        example j (``[B local, B global, E]`` with ``axis_name``); see
        :func:`pairwise_log_density`. A Concrete variable is one element.
      log_p_elements: ``[B, E]`` log-density of each element under the prior.
      dataset_size: N, number of training examples; may be traced.
      groups: sizes of contiguous groups of elements, adding up to E.
      log_p_groups: ``[B, G]`` log-density of each group under the prior; None where
        the prior factorises within groups.
      log_p_joint: ``[B]`` log-density of the code under the prior; None where the
        prior factorises over groups.
      estimator: as in :func:`aggregate_log_densities`.
      axis_name: mapped axis over which the batch is split.

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
        log_p_groups = _group_sums(log_p_elements, groups)
    if log_p_joint is None:
        log_p_joint = log_p_groups.sum(axis=1)
    # Log-ratios of the estimate to the prior, for the code, its groups, its elements.
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
