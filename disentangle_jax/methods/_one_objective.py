"""Methods that differ only in their objective share one step."""

from collections.abc import Callable

import flax.linen as nn
import jax
import optax

from disentangle_jax.methods._method import Method, Terms, draw, gradient_method

Objective = Callable[..., tuple[jax.Array, Terms]]


def one_objective(
    model: nn.Module,
    objective: Objective,
    optimizer: optax.GradientTransformation,
    *,
    output: Callable[[jax.Array], jax.Array] = jax.nn.sigmoid,
    axis_name: str | None = None,
) -> Method:
    """Returns the method that minimises `objective` of `model` by `optimizer`.

    One step encodes the batch, draws ``z`` from the posterior (or takes its mean
    where the encoder is deterministic), decodes, and follows the gradient of
    ``objective(x, logits, z, mean, log_var, key=…, step=…, **hyper)``.

    Args:
      model: see :func:`gradient_method`.
      objective: returns ``(scalar, terms)``; `key` is for what it draws itself, `step`
        the number of updates done, for what it anneals.
      optimizer: see :func:`gradient_method`.
      output: what the decoder's logits mean as an image.
      axis_name: mapped axis over which the batch is split, under ``pmap``; the
        objective must know of it too.
    """

    def loss(networks, key, step, batch, hyper):
        draw_key, objective_key = jax.random.split(key)
        x = batch["image"]
        posterior = networks.encode(x)
        z = draw(draw_key, posterior, axis_name)
        return objective(
            x,
            networks.decode(z),
            z,
            posterior.mean,
            posterior.log_var,
            key=objective_key,
            step=step,
            **{name: hyper[name] for name in hyper if name != "learning_rate"},
        )

    return gradient_method(model, loss, optimizer, output=output, axis_name=axis_name)
