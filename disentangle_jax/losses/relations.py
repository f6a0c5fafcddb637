"""The abstraction autoencoder: adversarial prior, relations and objective."""

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.losses._batch import (
    batch_mean,
    check_codes,
    check_same_shape,
    check_vector,
)
from disentangle_jax.losses._objective import (
    Objective,
    Reconstruction,
    mean_reconstruction,
)
from disentangle_jax.losses.reconstructions import bernoulli_reconstruction, per_pixel
from disentangle_jax.types import Scalar, unknown_name

_mean_bernoulli = per_pixel(bernoulli_reconstruction)


def adversarial_prior_losses(
    code_logits: jax.Array,
    prior_logits: Scalar,
    *,
    axis_name: str | None = None,
) -> dict[str, jax.Array]:
    r"""Losses of discriminator and encoder for an adversarial prior.

    With D(z) the probability that z was drawn from the prior:

    .. math::
       \text{discriminator} &= -\tfrac12 \mathbb E_{q(z)} \log(1 - D(z))
                               - \tfrac12 \mathbb E_{p(z)} \log D(z) \\
       \text{generator} &= -\mathbb E_{q(z)} \log D(z)

    The abstraction autoencoder ("Leveraging Relational Information for Learning Weakly
    Disentangled Representations", Eq. 4-5) as its public code computes them. The
    paper's equation has reversed labels and a minimax generator; the code's generator
    is the non-saturating one. The code weights both losses by the paper's beta.

    Couples the batch: only by its mean.

    Args:
      code_logits: ``[B]`` log-odds of "prior" at codes from the encoder.
      prior_logits: ``[B']`` log-odds of "prior" at draws from the prior.
      axis_name: see :mod:`losses`.

    Returns:
      Dict of ``[]`` nats, at least 0: ``discriminator``, which the discriminator
      minimises, and ``generator``, which the encoder minimises.
    """
    codes, prior = jnp.asarray(code_logits), jnp.asarray(prior_logits)
    check_vector("adversarial_prior_losses", code_logits=codes, prior_logits=prior)
    real = batch_mean(jax.nn.softplus(-prior), axis_name)
    fake = batch_mean(jax.nn.softplus(codes), axis_name)
    return {
        "discriminator": 0.5 * (real + fake),
        "generator": batch_mean(jax.nn.softplus(-codes), axis_name),
    }


def relation_loss(
    predicted: jax.Array,
    target: jax.Array,
    *,
    form: str = "nll",
    means: jax.Array | None = None,
    covariances: jax.Array | None = None,
) -> jax.Array:
    r"""Distance of a relational learner's prediction from its target component.

    .. math:: \text{nll} = -\log \mathcal N(\hat z; \mu_t, \Sigma_t), \qquad
              \text{mse} = \tfrac1D \|\hat z - z_t\|^2,\quad
              z_t \sim \mathcal N(\mu_t, \Sigma_t)

    For the relational learner of the abstraction autoencoder, ``"nll"`` is the negative
    logarithm of the density that the paper's Eq. 8 maximises, and ``"mse"`` is the loss
    of its public code. No gradient flows into the components.

    Couples the batch: no.

    Args:
      predicted: ``[B, D]`` codes that the learner predicts.
      target: for ``"nll"`` the ``[B]`` integer target components; for ``"mse"``
        ``[B, D]`` draws from them.
      form: ``"nll"`` or ``"mse"``.
      means: ``[K, D]`` means of the components, for ``"nll"``.
      covariances: ``[K, D, D]`` covariances of the components, for ``"nll"``.

    Returns:
      ``[B]``: nats, any real number (``"nll"``), or the squared error averaged over
      dimensions, at least 0 (``"mse"``).
    """
    predicted, target = jnp.asarray(predicted), jnp.asarray(target)
    check_codes("relation_loss", predicted=predicted)
    if form == "mse":
        check_same_shape("relation_loss", predicted=predicted, target=target)
        return jnp.square(predicted - jax.lax.stop_gradient(target)).mean(axis=1)
    if form != "nll":
        raise unknown_name("relation_loss", "form", form, ["nll", "mse"])
    if means is None or covariances is None:
        raise ValueError(
            "relation_loss: `means` and `covariances` must describe the components for "
            'form "nll", got None. Pass both, or use form="mse".'
        )
    if target.shape != predicted.shape[:1] or not jnp.issubdtype(
        target.dtype, jnp.integer
    ):
        raise ValueError(
            'relation_loss: `target` must be [B] integer components for form "nll", '
            f"got {target.dtype} {target.shape}."
        )
    log_density = distributions.gaussian_component_log_prob(
        predicted, jax.lax.stop_gradient(means), jax.lax.stop_gradient(covariances)
    )
    return -jnp.take_along_axis(log_density, target[:, None], axis=1)[:, 0]


def abs_ae(
    x: jax.Array,
    logits: jax.Array,
    z: jax.Array,
    mean: jax.Array,
    log_var: jax.Array | None = None,
    *,
    critic_logits: jax.Array,
    beta: Scalar = 0.2,
    reconstruction: Reconstruction = _mean_bernoulli,
    axis_name: str | None = None,
) -> Objective:
    r"""Abstraction autoencoder: reconstruction plus an adversarial prior.

    .. math:: \frac1B \sum_i -\tfrac1P \log p(x_i|z_i) - \beta \log D(z_i)

    "Leveraging Relational Information for Learning Weakly Disentangled
    Representations", Eq. 2-5, for the encoder and decoder. The discriminator learns by
    :func:`adversarial_prior_losses` and the relational learner by
    :func:`relation_loss`. The public code updates the encoder on one term after the
    other instead of on their sum; the returned terms allow both. The reconstruction is
    a mean over the P pixels, for which the paper chose :math:`\beta = 0.2`.

    Couples the batch: only by its mean (and through the discriminator).

    Args:
      x, logits, z, mean, log_var, reconstruction, axis_name: see :mod:`losses`.
      critic_logits: ``[B]`` the discriminator's log-odds of "prior" at the codes.
      beta: weight of the adversarial term.

    Returns:
      ``[]`` loss in nats, and the terms ``reconstruction`` and ``adversarial``.
    """
    del z, log_var
    critic_logits = jnp.asarray(critic_logits)
    check_vector("abs_ae", critic_logits=critic_logits)
    error = mean_reconstruction("abs_ae", reconstruction, x, logits, mean, axis_name)
    adversarial = batch_mean(jax.nn.softplus(-critic_logits), axis_name)
    return error + beta * adversarial, {
        "reconstruction": error,
        "adversarial": adversarial,
    }
