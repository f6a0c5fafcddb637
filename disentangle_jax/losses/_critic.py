"""Adversarial terms: density ratios by a critic, priors by a discriminator."""

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.losses._batch import (
    batch_mean,
    check_codes,
    check_same_shape,
    check_vector,
)
from disentangle_jax.types import unknown_name


def density_ratio_tc(
    critic_logits: jax.Array, *, axis_name: str | None = None
) -> jax.Array:
    r"""Total correlation by the density-ratio trick.

    .. math:: TC(z) \approx \mathbb E_{q(z)} \log \frac{D(z)}{1 - D(z)}

    Kim & Mnih, "Disentangling by Factorising", Eq. 3. With two outputs, as in
    disentanglement_lib, the log-odds are ``logits[:, 0] - logits[:, 1]``.

    Couples the batch: only by its mean.

    Args:
      critic_logits: ``[B]`` log-odds, by the critic, that a code is "joint" (from the
        encoder) and not permuted.
      axis_name: mapped axis over which the batch is split.

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
    r"""Cross-entropy of FactorVAE's critic, joint codes against permuted ones.

    .. math:: -\tfrac12 \mathbb E_{q(z)} \log D(z)
              - \tfrac12 \mathbb E_{\prod_d q(z_d)} \log(1 - D(z))

    Kim & Mnih, Algorithm 2. The permuted codes come from
    :func:`disentangle_jax.sampling.permute_dims`, of the same batch (one-batch form,
    the study's), or of a second batch (two-batch form, the paper's; the two may differ
    in size). Some public code splits one batch in halves instead, which halves the
    batch the critic sees. Stop the gradient at the codes: it belongs to the critic.

    From logits, so that nothing is clipped (disentanglement_lib clips probabilities to
    [1e-6, 1 - 1e-6], beyond which its critic stops learning).

    Couples the batch: only by its mean.

    Args:
      joint_logits: ``[B]`` log-odds of "joint" at codes from the encoder.
      permuted_logits: ``[B']`` log-odds of "joint" at permuted codes.
      axis_name: mapped axis over which the batch is split.

    Returns:
      ``[]`` nats; at least 0, and log 2 for a critic that says 0.
    """
    joint, permuted = jnp.asarray(joint_logits), jnp.asarray(permuted_logits)
    check_vector("discriminator_loss", joint_logits=joint, permuted_logits=permuted)
    return 0.5 * (
        batch_mean(jax.nn.softplus(-joint), axis_name)
        + batch_mean(jax.nn.softplus(permuted), axis_name)
    )


def adversarial_prior_losses(
    code_logits: jax.Array,
    prior_logits: jax.Array,
    *,
    axis_name: str | None = None,
) -> dict[str, jax.Array]:
    r"""Both sides of an adversarial autoencoder's game on its codes.

    With D(z) the probability that z was drawn from the prior:

    .. math::
       \text{discriminator} &= -\tfrac12 \mathbb E_{q(z)} \log(1 - D(z))
                               - \tfrac12 \mathbb E_{p(z)} \log D(z) \\
       \text{generator} &= -\mathbb E_{q(z)} \log D(z)

    The abstraction autoencoder ("Leveraging Relational Information for Learning Weakly
    Disentangled Representations", Eq. 4-5), as its code does it: the paper's equation
    has the labels reversed and a minimax generator; the code's generator is the
    non-saturating one, and both losses are then weighted by the paper's beta.

    Couples the batch: only by its mean.

    Args:
      code_logits: ``[B]`` log-odds of "prior" at codes from the encoder.
      prior_logits: ``[B']`` log-odds of "prior" at draws from the prior.
      axis_name: mapped axis over which the batch is split.

    Returns:
      Dict of ``[]`` nats, at least 0: ``discriminator``, to be minimised by the
      discriminator, and ``generator``, to be minimised by the encoder.
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
    r"""How far a relational learner lands from the component it should reach.

    .. math:: \text{nll} = -\log \mathcal N(\hat z; \mu_t, \Sigma_t), \qquad
              \text{mse} = \tfrac1D \|\hat z - z_t\|^2,\quad
              z_t \sim \mathcal N(\mu_t, \Sigma_t)

    The relational learner of the abstraction autoencoder: ``"nll"`` is the paper's
    Eq. 8 (the log of the density it maximises), ``"mse"`` what its public code trains
    with. The components are constants: no gradient flows into them.

    Couples the batch: no.

    Args:
      predicted: ``[B, D]`` codes that the learner predicts.
      target: for ``"nll"`` the ``[B]`` integer components to reach; for ``"mse"``
        ``[B, D]`` draws from them.
      form: ``"nll"`` or ``"mse"``.
      means: ``[K, D]`` means of the components, for ``"nll"``.
      covariances: ``[K, D, D]`` covariances of the components, for ``"nll"``.

    Returns:
      ``[B]``: nats, any real number (``"nll"``), or squared units of the code averaged
      over dimensions, at least 0 (``"mse"``).
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
