"""HFVAE's objective, which weights dependence between and within groups."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import jax

from disentangle_jax.losses._objective import (
    Objective,
    Reconstruction,
    check_posterior,
    mean_reconstruction,
)
from disentangle_jax.losses.aggregate import aggregate_log_densities, log_q_marginals
from disentangle_jax.losses.decompositions import hfvae_terms_of
from disentangle_jax.losses.discrete import Concrete, Discrete, with_density
from disentangle_jax.losses.priors import standard_log_prior
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction
from disentangle_jax.types import Scalar


def hfvae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    beta: Scalar,
    gamma: Scalar,
    groups: Sequence[int],
    dataset_size: Scalar | None,
    alpha: Scalar = 1.0,
    estimator: str = "stratified",
    concrete: Sequence[Concrete] = (),
    concrete_density: str = "relaxed",
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

    Esmaeili et al., "Structured Disentangled Representations", Eq. 4 and last row of
    Table 1, with the terms of :func:`hfvae_terms`. Unit weights give the ELBO with the
    sampled KL; one group per dimension gives :func:`beta_tc_vae`.

    *Which density of a Concrete variable?* The decoder sees the relaxed draw y. The
    terms may use, for the class c that it relaxes:

    ===================  =======================================================
    ``"relaxed"``        the density of y itself. The gradient is that of Eq. 4 for a
                         continuous y, not for a class: besides the class, it
                         penalises where in the simplex y lies.
    ``"pmf"``            the probability of c = argmax y, as in the authors' code
                         (probtorch). The value is an unbiased estimate of Eq. 4 for
                         a categorical c. The gradient leaves out that the draw
                         depends on the logits. Its mean over draws, at q(c|x), is 0
                         if the batch is the dataset, and close to 0 otherwise: the
                         terms add only noise to the logits, which learn from the
                         reconstruction and from the posterior of z given y.
    ``"exact"``          the expectation over q(c|x), for the drawn z. Value and
                         gradient at q(c|x) are those of Eq. 4 for a categorical c,
                         without variance from c. (z is drawn given y, not c.)
    ``"exact_stopped"``  our estimator, in no paper: the value of ``"exact"``, but Ⓐ
                         has no gradient at q(c|x), so that the gradient is not that
                         of Eq. 4. Where z nearly identifies x, I(z; c) = I(x; c),
                         and Ⓐ would penalise the class itself; now it only removes
                         the class from z.
    ===================  =======================================================

    With all but the first, the prior of c is uniform, log 1/K. None of these statements
    counts the bias of the logarithm of an estimated density.

    The prior is :func:`standard_log_prior` unless ``log_p_elements`` is given. The
    posteriors are Gaussian, with the Concrete variables in ``concrete``. ``pairwise``
    describes any other posterior; ``z`` and ``log_var`` are then not used.

    Couples the batch: yes.

    Args:
      x, logits, z, mean, log_var, groups, dataset_size, estimator, concrete,
        reconstruction, block_size, axis_name: see :mod:`losses`.
      beta: weight of the total correlation between groups.
      gamma: weight of the total correlation within groups.
      alpha: weight of the mutual information.
      concrete_density: ``"relaxed"``, ``"pmf"``, ``"exact"`` or ``"exact_stopped"``,
        which density of the Concrete variables the terms use.
      pairwise: ``[B, B, E]`` log-densities; see :func:`pairwise_log_density`.
      log_p_elements, log_p_groups, log_p_joint: as in :func:`hfvae_terms`; the first is
        needed with ``pairwise``.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction``, ``kl`` and its four parts.
    """
    name = "hfvae"
    error = mean_reconstruction(name, reconstruction, x, logits, mean, axis_name)
    options: dict[str, Any] = {
        "dataset_size": dataset_size,
        "estimator": estimator,
        "groups": groups,
        "axis_name": axis_name,
    }
    discrete = with_density(concrete, concrete_density)
    if pairwise is None:
        check_posterior(name, mean, log_var)
    else:
        _check_with_pairwise(name, log_p_elements, block_size, concrete)
    prior = log_p_elements
    if prior is None:
        prior = standard_log_prior(z, discrete)

    def terms(discrete: Sequence[Discrete]) -> dict[str, jax.Array]:
        if pairwise is None:
            densities = log_q_marginals(
                z, mean, log_var, concrete=discrete, block_size=block_size, **options
            )
        else:
            densities = aggregate_log_densities(pairwise, **options)
        return hfvae_terms_of(
            densities, prior, tuple(groups), log_p_groups, log_p_joint, axis_name
        )

    parts = terms(discrete)
    if concrete_density == "exact_stopped":
        parts["group_tc"] = terms(jax.lax.stop_gradient(discrete))["group_tc"]
    loss = (
        error
        + alpha * parts["mutual_information"]
        + beta * parts["group_tc"]
        + gamma * parts["within_group_tc"]
        + parts["dimension_wise_kl"]
    )
    total = functools.reduce(operator.add, parts.values())
    return loss, {"reconstruction": error, "kl": total, **parts}


def _check_with_pairwise(
    function: str,
    log_p_elements: jax.Array | None,
    block_size: int | None,
    concrete: Sequence[Concrete],
) -> None:
    if log_p_elements is None:
        raise ValueError(
            f"{function}: `log_p_elements` must be given with `pairwise`, got None. "
            "Pass the log-density of each element under its prior."
        )
    if block_size is not None:
        raise ValueError(
            f"{function}: `block_size` must be None where `pairwise` is given, which "
            f"already holds all pairs, got {block_size}."
        )
    if concrete:
        raise ValueError(
            f"{function}: `concrete` must be empty where `pairwise` is given, which "
            f"holds all elements, got {len(concrete)} variables."
        )
