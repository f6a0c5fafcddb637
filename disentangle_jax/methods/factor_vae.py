"""FactorVAE: an autoencoder and a critic that are trained in turn."""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import optax

from disentangle_jax import losses, models, sampling
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.method import (
    Batch,
    Hyper,
    Method,
    Networks,
    Terms,
    as_unit_interval,
    log_variances,
    new_state,
)
from disentangle_jax.types import State

_CRITIC_OPTIMIZER = optax.scale_by_adam(b1=0.5, b2=0.9)


@define(
    name="factor_vae",
    hyperparameters={
        "gamma": Hyperparameter(doc="weight of the total correlation"),
        "critic_learning_rate": Hyperparameter(
            1e-4, positive=True, doc="learning rate of the critic"
        ),
    },
    reference='Kim and Mnih, "Disentangling by Factorising", Algorithm 2',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class FactorVAE(Method):
    """A VAE whose total correlation is estimated by a critic.

    A step updates the autoencoder with the current critic, then the critic on the codes
    that the autoencoder had before its update; both gradients come from one forward
    pass. The critic has its own Adam (b1 = 0.5, b2 = 0.9) and its own learning rate.

    Attributes:
      critic_width: units in each of the critic's six layers (1000 in the paper).
      batches: 1 permutes the codes of the same batch (the large study); 2 splits the
        batch: the first half trains the autoencoder, the codes of the second half are
        permuted (the paper's two batches, each of half the batch size). Must be 1 under
        ``pmap``.
    """

    critic_width: int = 1000
    batches: int = 1

    def __post_init__(self) -> None:
        if self.batches not in (1, 2):
            raise ValueError(
                f"factor_vae: `batches` must be 1 or 2, got {self.batches!r}."
            )
        if self.batches == 2 and self.axis_name is not None:
            raise ValueError(
                "factor_vae: `batches` must be 1 under pmap: no device holds a half of "
                "the global batch."
            )

    def init(self, key: jax.Array, batch: Batch) -> State:
        model_key, critic_key = jax.random.split(key)
        autoencoder, model_state = self.initial_variables(model_key, batch["image"])
        codes = jnp.zeros((1, sum(self.latent_groups)))
        critic = models.FactorCritic(width=self.critic_width).init(critic_key, codes)
        params = {"autoencoder": autoencoder, "critic": critic["params"]}
        opt_state = {
            "autoencoder": self.optimizer.init(params["autoencoder"]),
            "critic": _CRITIC_OPTIMIZER.init(params["critic"]),
        }
        return new_state(params, model_state, opt_state)

    def gradients(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[Any, dict, Terms]:
        draw_key, permute_key = jax.random.split(key)
        x = as_unit_interval(batch["image"])
        trained = x.shape[0] // self.batches

        def autoencoder_loss(
            params: Any,
        ) -> tuple[jax.Array, tuple[Terms, jax.Array, dict]]:
            nets, left = self.training_networks(key, params, state.model_state)
            posterior = nets.encode(x)
            z = self.draw_codes(draw_key, posterior)
            first = z[:trained]
            loss, terms = losses.factor_vae(
                x[:trained],
                nets.decode(first),
                first,
                posterior.mean[:trained],
                log_variances(posterior)[:trained],
                critic_logits=self._log_odds(state.params["critic"], first),
                gamma=hyper["gamma"],
                reconstruction=self.likelihood.loss,
                axis_name=self.axis_name,
            )
            return loss, (terms, z, left)

        def critic_loss(params: Any, z: jax.Array) -> jax.Array:
            joint = z[:trained]
            other = joint if self.batches == 1 else z[trained:]
            permuted = sampling.permute_dims(
                permute_key, other, axis_name=self.axis_name
            )
            return losses.discriminator_loss(
                self._log_odds(params, joint),
                self._log_odds(params, permuted),
                axis_name=self.axis_name,
            )

        (loss, (terms, z, model_state)), grads = jax.value_and_grad(
            autoencoder_loss, has_aux=True
        )(state.params["autoencoder"])
        critic_value, critic_grads = jax.value_and_grad(critic_loss)(
            state.params["critic"], jax.lax.stop_gradient(z)
        )
        terms = {"loss": loss, **terms, "critic_loss": critic_value}
        return {"autoencoder": grads, "critic": critic_grads}, model_state, terms

    def update(
        self, state: State, grads: Any, model_state: dict, hyper: Hyper
    ) -> State:
        params, opt_state = {}, {}
        for part, optimizer, rate in (
            ("autoencoder", self.optimizer, "learning_rate"),
            ("critic", _CRITIC_OPTIMIZER, "critic_learning_rate"),
        ):
            params[part], opt_state[part] = self.descend(
                state.params[part],
                grads[part],
                state.opt_state[part],
                hyper[rate],
                optimizer,
            )
        return State(state.step + 1, params, model_state, opt_state)

    def networks(self, state: State) -> Networks:
        return self.networks_at(state.params["autoencoder"], state.model_state)

    def _log_odds(self, params: dict, z: jax.Array) -> jax.Array:
        critic = models.FactorCritic(width=self.critic_width)
        return cast(jax.Array, critic.apply({"params": params}, z))
