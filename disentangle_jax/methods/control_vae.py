"""ControlVAE: a VAE whose KL divergence a controller keeps at a set point."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from disentangle_jax import losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod
from disentangle_jax.methods.method import (
    Batch,
    Hyper,
    Terms,
    as_unit_interval,
    log_variances,
)
from disentangle_jax.types import State


@define(
    name="control_vae",
    hyperparameters={
        "c_max": Hyperparameter(doc="final set point of the KL divergence in nats"),
        "c_start": Hyperparameter(0.5, doc="set point before the first step in nats"),
        "threshold": Hyperparameter(
            100_000.0, positive=True, doc="step from which the set point is final"
        ),
        "k_p": Hyperparameter(0.01, doc="weight of the proportional part"),
        "k_i": Hyperparameter(0.001, doc="weight of the integral part"),
        "beta_min": Hyperparameter(1.0, doc="smallest weight of the KL divergence"),
        "beta_max": Hyperparameter(100.0, doc="largest weight of the KL divergence"),
    },
    reference='Shao et al., "ControlVAE: Controllable Variational Autoencoder", '
    "Algorithm 1",
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ControlVAE(GradientMethod):
    """A beta-VAE whose beta a PI controller chooses in every step.

    :func:`losses.pi_control` compares the KL divergence of the batch with a set point
    that grows linearly; the paper lets it grow in small jumps. The state of the
    controller is kept beside that of the optimizer.
    """

    def init(self, key: jax.Array, batch: Batch) -> State:
        state = super().init(key, batch)
        controller = losses.Controller(jnp.zeros(()), jnp.zeros(()))
        return state._replace(opt_state=(state.opt_state, controller))

    def step(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[State, Terms]:
        x = as_unit_interval(batch["image"])
        opt_state, controller = state.opt_state
        set_point = losses.linear_capacity(
            state.step,
            c_max=hyper["c_max"],
            threshold=hyper["threshold"],
            c_start=hyper["c_start"],
        )

        def loss(
            params: Any,
        ) -> tuple[jax.Array, tuple[Terms, losses.Controller, dict]]:
            nets, left = self.training_networks(key, params, state.model_state)
            posterior = nets.encode(x)
            z = self.draw_codes(key, posterior)
            _, terms = losses.vae(
                x,
                nets.decode(z),
                z,
                posterior.mean,
                log_variances(posterior),
                reconstruction=self.likelihood.loss,
                axis_name=self.axis_name,
            )
            beta, controlled = losses.pi_control(
                terms["kl"],
                controller,
                set_point=set_point,
                **{name: hyper[name] for name in ("k_p", "k_i")},
                **{name: hyper[name] for name in ("beta_min", "beta_max")},
            )
            value = terms["reconstruction"] + beta * terms["kl"]
            terms = {**terms, "beta": beta, "set_point": set_point}
            return value, (terms, controlled, left)

        (value, (terms, controller, model_state)), grads = jax.value_and_grad(
            loss, has_aux=True
        )(state.params)
        params, opt_state = self.descend(
            state.params, grads, opt_state, hyper["learning_rate"]
        )
        state = State(state.step + 1, params, model_state, (opt_state, controller))
        return state, {"loss": value, **terms}
