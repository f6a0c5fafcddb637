"""FactorVAE: an autoencoder and a critic that learn in turn."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from disentangle_jax import losses, models, sampling
from disentangle_jax.methods._method import (
    Batch,
    Hyper,
    Method,
    Networks,
    Terms,
    as_unit_interval,
    check_no_batch_statistics,
    descend,
    draw,
    networks,
    new_state,
    split_variables,
    training_networks,
)
from disentangle_jax.types import State


def factor_vae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    reconstruction: Callable[[jax.Array, jax.Array], jax.Array],
    output: Callable[[jax.Array], jax.Array],
    critic_width: int,
    batches: int,
    axis_name: str | None,
) -> Method:
    """Returns FactorVAE (Kim & Mnih, "Disentangling by Factorising", Algorithm 2).

    A step updates the autoencoder against the critic as it is, then the critic on the
    codes that the autoencoder had before its update; both gradients come from one
    forward pass. The critic has an Adam of its own, with b1 = 0.5 and b2 = 0.9, and
    its own rate, the hyperparameter ``critic_learning_rate``.

    Args:
      model: the autoencoder.
      optimizer: of the autoencoder; see :func:`gradient_method`.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      output: what the decoder's logits mean as an image.
      critic_width: units in each of the critic's six layers (1000 in the paper).
      batches: 1 permutes the codes of the same batch (the large study); 2 splits the
        batch: the first half trains the autoencoder, the codes of the second half are
        permuted (the paper's two batches, each of half the size that is fed).
      axis_name: mapped axis over which the batch is split; only with ``batches=1``.
    """
    if batches not in (1, 2):
        raise ValueError(f"factor_vae: `batches` must be 1 or 2, got {batches!r}.")
    if batches == 2 and axis_name is not None:
        raise ValueError(
            "factor_vae: `batches` must be 1 under pmap: a device holds no half of "
            "the global batch."
        )
    critic = models.FactorCritic(width=critic_width)
    critic_optimizer = optax.scale_by_adam(b1=0.5, b2=0.9)

    def init(key: jax.Array, batch: Batch) -> State:
        model_key, critic_key = jax.random.split(key)
        variables = model.init(model_key, as_unit_interval(batch["image"][:1]))
        autoencoder, model_state = split_variables(variables)
        check_no_batch_statistics(model_state, axis_name)
        codes = jnp.zeros((1, sum(model.latent_groups)))
        params = {
            "autoencoder": autoencoder,
            "critic": critic.init(critic_key, codes)["params"],
        }
        opt_state = {
            "autoencoder": optimizer.init(params["autoencoder"]),
            "critic": critic_optimizer.init(params["critic"]),
        }
        return new_state(params, model_state, opt_state)

    def log_odds(params, z: jax.Array) -> jax.Array:
        return critic.apply({"params": params}, z)

    def step(
        key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[State, Terms]:
        draw_key, permute_key = jax.random.split(key)
        x = as_unit_interval(batch["image"])
        trained = x.shape[0] // batches

        def loss_fn(autoencoder):
            nets, left = training_networks(model, autoencoder, state.model_state, key)
            posterior = nets.encode(x)
            z = draw(draw_key, posterior, axis_name)
            first = z[:trained]
            loss, terms = losses.factor_vae(
                x[:trained],
                nets.decode(first),
                first,
                posterior.mean[:trained],
                posterior.log_var[:trained],
                critic_logits=log_odds(state.params["critic"], first),
                gamma=hyper["gamma"],
                reconstruction=reconstruction,
                axis_name=axis_name,
            )
            return loss, (terms, z, left)

        def critic_loss_fn(params, z):
            joint = z[:trained]
            other = joint if batches == 1 else z[trained:]
            permuted = sampling.permute_dims(permute_key, other, axis_name=axis_name)
            return losses.discriminator_loss(
                log_odds(params, joint), log_odds(params, permuted), axis_name=axis_name
            )

        (loss, (terms, z, model_state)), grads = jax.value_and_grad(
            loss_fn, has_aux=True
        )(state.params["autoencoder"])
        critic_loss, critic_grads = jax.value_and_grad(critic_loss_fn)(
            state.params["critic"], jax.lax.stop_gradient(z)
        )
        params, opt_state = {}, {}
        params["autoencoder"], opt_state["autoencoder"] = descend(
            state.params["autoencoder"],
            grads,
            state.opt_state["autoencoder"],
            optimizer,
            hyper["learning_rate"],
            axis_name,
        )
        params["critic"], opt_state["critic"] = descend(
            state.params["critic"],
            critic_grads,
            state.opt_state["critic"],
            critic_optimizer,
            hyper["critic_learning_rate"],
            axis_name,
        )
        state = State(state.step + 1, params, model_state, opt_state)
        return state, {"loss": loss, **terms, "critic_loss": critic_loss}

    def at(state: State) -> Networks:
        params = state.params["autoencoder"]
        return networks(model, params, state.model_state)

    return Method(
        init=init,
        step=step,
        encode=lambda state, x: at(state).encode(x),
        decode=lambda state, z: at(state).decode(z),
        output=output,
        latent_groups=tuple(model.latent_groups),
    )
