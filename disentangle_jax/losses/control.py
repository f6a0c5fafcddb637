"""A controller that keeps the KL divergence of a VAE at a set point: ControlVAE."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from disentangle_jax.types import Scalar


class Controller(NamedTuple):
    """What a PI controller keeps from step to step (a pytree).

    Attributes:
      integral: ``[]`` the integral part of the weight.
      beta: ``[]`` the last weight, before it was limited.
    """

    integral: jax.Array
    beta: jax.Array


def pi_control(
    kl: jax.Array,
    controller: Controller,
    *,
    set_point: Scalar,
    k_p: Scalar = 0.01,
    k_i: Scalar = 0.001,
    beta_min: Scalar = 1.0,
    beta_max: Scalar = 100.0,
) -> tuple[jax.Array, Controller]:
    r"""Weight of the KL by a proportional-integral controller.

    .. math:: \beta_t = \operatorname{clip}\left(\frac{K_p}{1 + e^{e_t}} + I_t
              + \beta_{\min},\; \beta_{\min},\; \beta_{\max}\right),
              \qquad e_t = C - \mathrm{KL}_t,

    with :math:`I_t = I_{t-1} - K_i e_t`, or :math:`I_{t-1}` where the last weight lay
    outside of the limits and would move further away: the integral does not grow
    without effect. Shao et al., "ControlVAE: Controllable Variational Autoencoder",
    Algorithm 1, which stops the integral outside of the limits in both directions, so
    that it could stay there. The weight rises while the KL is above the set point, and
    falls below it. No gradient passes through it.

    Couples the batch: no.

    Args:
      kl: ``[]`` mean KL of the batch, nats.
      controller: the state before the step; ``Controller(0.0, 0.0)`` at first.
      set_point: C, the wanted KL, nats.
      k_p: :math:`K_p`, weight of the proportional part.
      k_i: :math:`K_i`, weight of the integral part, per nat and step.
      beta_min: smallest weight.
      beta_max: largest weight.

    Returns:
      ``[]`` weight, and the state for the next step.
    """
    error = set_point - jax.lax.stop_gradient(kl)
    integral, last = controller
    away = ((last > beta_max) & (error < 0.0)) | ((last < beta_min) & (error > 0.0))
    integral = jnp.where(away, integral, integral - k_i * error)
    beta = k_p * jax.nn.sigmoid(-error) + integral + beta_min
    return jnp.clip(beta, beta_min, beta_max), Controller(integral, beta)
