"""The evidence lower bound as four terms, each with a weight of its own."""

import math

import jax
import jax.numpy as jnp

from disentangle_jax.losses._batch import batch_mean, batch_size, gather
from disentangle_jax.losses._objective import Objective, Reconstruction, check_posterior
from disentangle_jax.losses.aggregate import log_q_marginals
from disentangle_jax.losses.priors import standard_log_prior
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction
from disentangle_jax.types import Scalar


def weighted_elbo(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array,
    *,
    fixed_logits: jax.Array,
    dataset_size: Scalar | None,
    identifiability: Scalar = 1.0,
    information: Scalar = 1.0,
    evidence: Scalar = 1.0,
    marginal: Scalar = 1.0,
    estimator: str = "stratified",
    reconstruction: Reconstruction = bernoulli_reconstruction,
    axis_name: str | None = None,
) -> Objective:
    r"""The ELBO whose four terms can be weighted, or removed, one by one.

    .. math::
       -w_1\,\text{①} + w_2\,\text{②} - w_3\,\text{③} + w_4\,\text{④}, \qquad
       \text{①} &= \mathbb E \log \frac{p(x|z)}{p(x)}, &
       \text{②} &= \mathbb E \log \frac{q(z|x)}{q(z)}, \\
       \text{③} &= \mathbb E \log p(x), &
       \text{④} &= \mathbb E \log \frac{q(z)}{p(z)}

    Esmaeili et al., "Structured Disentangled Representations", Figs. 1 and 2 (the
    paper's ③ has another constant, the entropy of the dataset). Unit weights give
    :func:`vae` with ``kl="sampled"``, whatever p(x) is. The paper says that ① cannot be
    computed, since p(x) is an integral. For few latents it can be estimated. Ours uses
    the codes of the batch, which are draws from the aggregate posterior, as proposals:

    .. math:: \hat p(x_i) = \frac1B \sum_k p(x_i | z_k) \frac{p(z_k)}{\hat q(z_k)}

    It is a lower bound in the mean, and has a gradient with respect to the decoder
    alone, as p(x) does. Only use it where ``D`` is small.

    Couples the batch: yes.

    Args:
      x, logits, z, mean, log_var, dataset_size, estimator, reconstruction, axis_name:
        see :mod:`losses`. The reconstruction must be a negative log-likelihood.
      fixed_logits: the decoder's output for ``jax.lax.stop_gradient(z)``.
      identifiability: weight of ①.
      information: weight of ②.
      evidence: weight of ③.
      marginal: weight of ④.

    Returns:
      ``[]`` loss in nats, and the terms ``identifiability``, ``information``,
      ``evidence``, ``marginal`` and ``reconstruction``.
    """
    check_posterior("weighted_elbo", mean, log_var)
    densities = log_q_marginals(
        z,
        mean,
        log_var,
        dataset_size=dataset_size,
        estimator=estimator,
        groups=(z.shape[1],),
        axis_name=axis_name,
    )
    log_p = standard_log_prior(z).sum(axis=1)
    ratio = densities["log_qz"] - log_p
    proposals = gather(fixed_logits, axis_name)
    weights = gather(jax.lax.stop_gradient(-ratio), axis_name)

    def log_evidence(image: jax.Array) -> jax.Array:
        same = jnp.broadcast_to(image[None], proposals.shape)
        return jax.nn.logsumexp(weights - reconstruction(same, proposals))

    error = reconstruction(x, logits)
    log_px = jax.vmap(log_evidence)(x) - math.log(batch_size(x, axis_name))
    parts = {
        "identifiability": -error - log_px,
        "information": densities["log_qz_given_x"] - densities["log_qz"],
        "evidence": log_px,
        "marginal": ratio,
        "reconstruction": error,
    }
    terms = {name: batch_mean(values, axis_name) for name, values in parts.items()}
    # Without ① the rest of its log-likelihood, and without ③ that of ①, is p(x).
    loss = (
        identifiability * terms["reconstruction"]
        + (identifiability - evidence) * terms["evidence"]
        + information * terms["information"]
        + marginal * terms["marginal"]
    )
    return loss, terms
