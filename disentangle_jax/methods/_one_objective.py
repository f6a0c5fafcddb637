"""The step that every method with a single objective shares."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from disentangle_jax import sampling
from disentangle_jax.methods._method import (
    Batch,
    Hyper,
    Method,
    Terms,
    as_unit_interval,
    split_variables,
)
from disentangle_jax.types import Posterior, State

Objective = Callable[..., tuple[jax.Array, Terms]]


def one_objective(
    model: nn.Module, objective: Objective, optimizer: optax.GradientTransformation
) -> Method:
    """Returns the method that minimises `objective` of `model` by `optimizer`.

    One step encodes the batch, draws ``z`` from the posterior (or takes its mean
    where the encoder is deterministic), decodes, and follows the gradient of
    ``objective(x, logits, z, mean, log_var, **hyper)``.

    Args:
      model: a module with ``encode`` and ``decode`` as :func:`models.create` gives.
      objective: a named objective of :mod:`disentangle_jax.losses`.
      optimizer: an optax transformation that does *not* apply the learning rate
        (``optax.scale_by_adam()``): the rate comes with `hyper`, so that it can be
        a lane like every other hyperparameter.
    """

    def init(key: jax.Array, batch: Batch) -> State:
        variables = model.init(key, as_unit_interval(batch["image"][:1]))
        params, model_state = split_variables(variables)
        return State(
            step=jnp.zeros((), jnp.int32),
            params=params,
            model_state=model_state,
            opt_state=optimizer.init(params),
        )

    def step(
        key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[State, Terms]:
        hyper = dict(hyper)
        learning_rate = hyper.pop("learning_rate")
        x = as_unit_interval(batch["image"])

        def loss_fn(params):
            variables = {"params": params, **state.model_state}
            posterior = model.apply(variables, x, method="encode", train=True)
            mean, log_var = posterior.mean, posterior.log_var
            z = mean
            if log_var is not None:
                z = sampling.reparameterize(key, mean, log_var)
            logits = model.apply(variables, z, method="decode", train=True)
            return objective(x, logits, z, mean, log_var, **hyper)

        (loss, terms), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        params = jax.tree.map(
            lambda p, u: p - (learning_rate * u).astype(p.dtype), state.params, updates
        )
        state = state._replace(step=state.step + 1, params=params, opt_state=opt_state)
        return state, {"loss": loss, **terms}

    def encode(state: State, x: jax.Array) -> Posterior:
        variables = {"params": state.params, **state.model_state}
        return model.apply(variables, x, method="encode")

    def decode(state: State, z: jax.Array) -> jax.Array:
        variables = {"params": state.params, **state.model_state}
        return model.apply(variables, z, method="decode")

    return Method(init, step, encode, decode, tuple(model.latent_groups))
