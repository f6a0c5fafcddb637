"""Methods whose step follows the gradient of one loss."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import optax

from disentangle_jax import losses
from disentangle_jax.methods.method import (
    Batch,
    Hyper,
    Method,
    Networks,
    Terms,
    as_unit_interval,
    new_state,
)
from disentangle_jax.types import State


@dataclasses.dataclass(frozen=True, eq=False)
class GradientMethod(Method):
    """A method whose step follows the gradient of ``loss``, which subclasses define.

    ``loss(networks, key, step, batch, hyper) -> (scalar, terms)`` gets the networks in
    training mode, the key of the step, the number of updates done, the batch with
    images as floats in [0, 1], and the hyperparameters; see :meth:`Method.step`.
    """

    def loss(
        self,
        networks: Networks,
        key: jax.Array,
        step: jax.Array,
        batch: Batch,
        hyper: Hyper,
    ) -> tuple[jax.Array, Terms]:
        raise NotImplementedError

    def init(self, key: jax.Array, batch: Batch) -> State:
        x = batch[self.inputs.observation]
        params, model_state = self.initial_variables(key, x)
        return new_state(params, model_state, self.optimizer.init(params))

    def gradients(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[Any, dict, Terms]:
        batch = jax.tree.map(as_unit_interval, dict(batch))

        def loss(params: Any) -> tuple[jax.Array, tuple[Terms, dict]]:
            nets, left = self.training_networks(key, params, state.model_state)
            value, terms = self.loss(nets, key, state.step, batch, hyper)
            return value, (terms, left)

        (value, (terms, model_state)), grads = jax.value_and_grad(loss, has_aux=True)(
            state.params
        )
        return grads, model_state, {"loss": value, **terms}

    def update(
        self, state: State, grads: Any, model_state: dict, hyper: Hyper
    ) -> State:
        params, opt_state = self.descend(
            state.params, grads, state.opt_state, hyper["learning_rate"]
        )
        return State(state.step + 1, params, model_state, opt_state)

    def networks(self, state: State) -> Networks:
        return self.networks_at(state.params, state.model_state)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class _OneObjective(GradientMethod):
    objective: Callable[..., tuple[jax.Array, Terms]]

    def loss(
        self,
        networks: Networks,
        key: jax.Array,
        step: jax.Array,
        batch: Batch,
        hyper: Hyper,
    ) -> tuple[jax.Array, Terms]:
        draw_key, objective_key = jax.random.split(key)
        x = batch["image"]
        posterior = networks.encode(x)
        z = self.draw_codes(draw_key, posterior)
        parameters = inspect.signature(self.objective).parameters
        more = {"key": objective_key, "step": step}
        return self.objective(
            x,
            networks.decode(z),
            z,
            posterior.mean,
            posterior.log_var,
            reconstruction=self.likelihood.loss,
            axis_name=self.axis_name,
            **{name: hyper[name] for name in hyper if name != "learning_rate"},
            **{name: value for name, value in more.items() if name in parameters},
        )


def one_objective(
    model: nn.Module,
    objective: Callable[..., tuple[jax.Array, Terms]],
    optimizer: optax.GradientTransformation,
    likelihood: losses.Likelihood,
    axis_name: str | None = None,
) -> GradientMethod:
    """Returns the method that minimises an objective of :mod:`losses`.

    One step encodes the batch, draws ``z`` from the posterior (or takes its mean where
    the encoder is deterministic), decodes, and follows the gradient of
    ``objective(x, logits, z, mean, log_var, reconstruction=…, axis_name=…, **hyper)``.

    Args:
      model: see :class:`Method`.
      objective: returns ``(scalar, terms)``. If it has a parameter ``key``, it receives
        a key for its own draws; if it has a parameter ``step``, the number of updates
        done.
      optimizer: see :class:`Method`.
      likelihood: its loss is passed as ``reconstruction``.
      axis_name: see :class:`Method`.
    """
    return _OneObjective(
        model,
        optimizer,
        objective=objective,
        likelihood=likelihood,
        axis_name=axis_name,
    )
