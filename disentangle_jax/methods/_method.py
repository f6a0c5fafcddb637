"""What a method is, and what the steps of all methods share."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from disentangle_jax import sampling
from disentangle_jax.data import RelationTable
from disentangle_jax.types import Posterior, State

Batch = Mapping[str, jax.Array]
Hyper = Mapping[str, jax.Array | float]
Terms = dict[str, jax.Array]

# What a step folds into its key for dropout; far from the numbers that losses use.
_DROPOUT_KEYS = 0x64726F70


@dataclasses.dataclass(frozen=True)
class Regions:
    """Regions of the code that stand for combinations of factors.

    Attributes:
      factor_sizes: number of values of each factor; combination c is region c, in
        row-major order.
      table: where the relations lead.
      fit_steps: ``(first, every)``: before which steps the regions are fitted; `every`
        is 0 where that happens once.
      fit: ``(state, labelled, hyper) -> state``; `labelled` as
        ``data.labelled_images`` gives it.
      log_densities: ``(state, z [N, D]) -> [N, C]`` nats; -inf for regions that no
        labelled image showed, and for all before the fit.
      means: ``state -> [C, D]``.
      draw: ``(key, state, region [N]) -> z [N, D]``.
      symbol: ``(key, state, relation [N]) -> [N, S]``, what denotes a relation: a
        one-hot vector, or a code drawn from the region of its operator.
      relate: ``(state, symbol [N, S], *operands [N, D]) -> [N, O, D]``, what the
        relational learner makes of codes.
    """

    factor_sizes: tuple[int, ...]
    table: RelationTable
    fit_steps: tuple[int, int]
    fit: Callable[[State, dict, Hyper], State]
    log_densities: Callable[[State, jax.Array], jax.Array]
    means: Callable[[State], jax.Array]
    draw: Callable[[jax.Array, State, jax.Array], jax.Array]
    symbol: Callable[[jax.Array, State, jax.Array], jax.Array]
    relate: Callable[..., jax.Array]


@dataclasses.dataclass(frozen=True)
class Method:
    """Networks, objective and the update(s) of one step, as pure functions.

    Attributes:
      init: ``(key, batch) -> State``; only the shapes of `batch` matter.
      step: ``(key, state, batch, hyper) -> (state, terms)``. `hyper` maps each
        hyperparameter, and ``learning_rate``, to a scalar that may be traced, so that
        it can be a lane. `terms` are scalars; ``terms["loss"]`` is what is minimised.
      encode: ``(state, x) -> Posterior`` for ``x [B, H, W, C]`` in [0, 1].
      decode: ``(state, z) -> logits`` ``[B, H, W, C]``.
      output: ``logits -> image``, the mean observation that logits stand for.
      latent_groups: sizes of the contiguous latent variables.
      discrete: numbers of categories of the discrete variables, one-hot vectors at the
        end of a code; the last of `latent_groups`.
      prior: ``(key, state, n) -> [n, D]`` codes from the prior, where that is not
        standard normal, and uniform for discrete variables; else None.
      feed: what a batch holds. ``"images"``: ``image [B, H, W, C]``; ``"pairs"``:
        ``image`` and ``image2``, which share some factors; ``"labels"``: ``image``,
        and ``labelled_image`` with their ``labels [B, K]``; ``"documents"``: counts of
        words as ``image [B, V]``, which are x and the logits too.
      regions: for methods whose codes lie in labelled regions, what they can be asked;
        such a batch also holds ``labelled``, as ``data.labelled_images`` gives it.
    """

    init: Callable[[jax.Array, Batch], State]
    step: Callable[[jax.Array, State, Batch, Hyper], tuple[State, Terms]]
    encode: Callable[[State, jax.Array], Posterior]
    decode: Callable[[State, jax.Array], jax.Array]
    output: Callable[[jax.Array], jax.Array]
    latent_groups: tuple[int, ...]
    discrete: tuple[int, ...] = ()
    prior: Callable[[jax.Array, State, int], jax.Array] | None = None
    feed: str = "images"
    regions: Regions | None = None


def as_unit_interval(image: jax.Array) -> jax.Array:
    """Returns uint8 images as float32 in [0, 1]; float images pass unchanged.

    Images travel to the device as bytes, a quarter of the traffic, and become floats
    inside the compiled step. Counts of words, uint16, become float32 as they are.
    """
    if image.dtype == jnp.uint8:
        return image.astype(jnp.float32) / 255.0
    if image.dtype == jnp.uint16:
        return image.astype(jnp.float32)
    return image


def split_variables(variables: Mapping[str, Any]) -> tuple[dict, dict]:
    """Splits a linen variable dict into parameters and the rest."""
    model_state = {name: value for name, value in variables.items() if name != "params"}
    return variables["params"], model_state


def new_state(params: Any, model_state: dict, opt_state: Any) -> State:
    """Returns the state before the first step."""
    return State(jnp.zeros((), jnp.int32), params, model_state, opt_state)


def draw(key: jax.Array, posterior: Posterior, axis_name: str | None) -> jax.Array:
    """Returns codes ``[B, D]`` drawn from a posterior, or its mean if it has no spread.

    With `axis_name` each device takes its rows of the draw for the global batch, so
    that the codes do not depend on the number of devices.
    """
    mean, log_var = posterior.mean, posterior.log_var
    if log_var is None:
        return mean
    if axis_name is None:
        return sampling.reparameterize(key, mean, log_var)
    rows, dims = mean.shape
    shape = (rows * jax.lax.axis_size(axis_name), dims)
    noise = jax.random.normal(key, shape, mean.dtype)
    start = jax.lax.axis_index(axis_name) * rows
    noise = jax.lax.dynamic_slice_in_dim(noise, start, rows)
    return mean + jnp.exp(0.5 * log_var) * noise


def descend(
    params: Any,
    grads: Any,
    opt_state: Any,
    optimizer: optax.GradientTransformation,
    learning_rate: jax.Array | float,
    axis_name: str | None,
) -> tuple[Any, Any]:
    """Returns parameters and optimizer state after one update.

    The learning rate is applied here, not by the optimizer, so that it may be traced.
    """
    if axis_name is not None:
        grads = jax.lax.pmean(grads, axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = jax.tree.map(
        lambda p, u: p - (learning_rate * u).astype(p.dtype), params, updates
    )
    return params, opt_state


class Networks(NamedTuple):
    """The networks of a method at some parameters.

    Attributes:
      encode: ``x [B, H, W, C] -> Posterior``; what else the model's ``encode`` takes
        is passed on by name.
      decode: ``z [B, D] -> logits``.
      params: all parameters of the method, for losses that have some of their own.
    """

    encode: Callable[..., Posterior]
    decode: Callable[[jax.Array], jax.Array]
    params: Any


def networks(model: nn.Module, params: Any, model_state: dict) -> Networks:
    """Returns the encoder and the decoder of `model` at `params`, for evaluation."""
    variables = {"params": params, **model_state}
    return Networks(
        lambda x, **given: model.apply(
            variables, x, method="encode", train=False, **given
        ),
        lambda z: model.apply(variables, z, method="decode", train=False),
        params,
    )


def training_networks(
    model: nn.Module, params: Any, model_state: dict, key: jax.Array
) -> tuple[Networks, dict]:
    """Returns encoder and decoder as they train, and the state that they leave.

    Networks that keep statistics of their batches (batch norm) or drop units change or
    draw something at every call: the dict that is returned holds the new statistics
    once the networks were called. Both belong to the function that is differentiated;
    it must return the dict.

    Args:
      model: see :func:`gradient_method`.
      params: its parameters.
      model_state: its state before the step; not changed.
      key: of the step; the draws of dropout are derived from it.
    """
    state = dict(model_state)
    calls = itertools.count(_DROPOUT_KEYS)

    def call(x: jax.Array, method: str, **given: Any) -> Any:
        variables = {"params": params, **state}
        if not model_state:
            return model.apply(variables, x, method=method, train=True, **given)
        out, changed = model.apply(
            variables,
            x,
            method=method,
            train=True,
            mutable=list(model_state),
            rngs={"dropout": jax.random.fold_in(key, next(calls))},
            **given,
        )
        state.update(changed)
        return out

    nets = Networks(
        lambda x, **given: call(x, "encode", **given),
        lambda z: call(z, "decode"),
        params,
    )
    return nets, state


def check_no_batch_statistics(model_state: dict, axis_name: str | None) -> None:
    """Raises where statistics of a batch would be those of one device's part."""
    if model_state and axis_name is not None:
        raise ValueError(
            "methods: `axis_name` must be None for networks with batch norm: under "
            "pmap each device would have statistics of its own; use jit on a mesh."
        )


# (networks, key, step, batch, hyper) -> (loss, terms)
Loss = Callable[[Networks, jax.Array, jax.Array, Batch, Hyper], tuple[jax.Array, Terms]]


def gradient_method(
    model: nn.Module,
    loss: Loss,
    optimizer: optax.GradientTransformation,
    *,
    output: Callable[[jax.Array], jax.Array],
    feed: str = "images",
    axis_name: str | None = None,
) -> Method:
    """Returns the method whose step follows the gradient of one loss.

    Args:
      model: a module with ``encode`` and ``decode`` as :func:`models.create` gives.
      loss: ``(networks, key, step, batch, hyper) -> (scalar, terms)``; images of the
        batch come as floats, `step` is the number of updates done.
      optimizer: an optax transformation that does *not* apply the learning rate
        (``optax.scale_by_adam()``): the rate comes with `hyper`, so that it can be
        a lane like every other hyperparameter.
      output: what the decoder's logits mean as an image.
      feed: see :class:`Method`.
      axis_name: mapped axis over which the batch is split, under ``pmap``; the loss
        must know of it too.
    """

    def init(key: jax.Array, batch: Batch) -> State:
        variables = model.init(key, as_unit_interval(batch["image"][:1]))
        params, model_state = split_variables(variables)
        check_no_batch_statistics(model_state, axis_name)
        return new_state(params, model_state, optimizer.init(params))

    def step(
        key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[State, Terms]:
        batch = {name: as_unit_interval(value) for name, value in batch.items()}

        def loss_fn(params):
            nets, left = training_networks(model, params, state.model_state, key)
            value, terms = loss(nets, key, state.step, batch, hyper)
            return value, (terms, left)

        (value, (terms, model_state)), grads = jax.value_and_grad(
            loss_fn, has_aux=True
        )(state.params)
        params, opt_state = descend(
            state.params,
            grads,
            state.opt_state,
            optimizer,
            hyper["learning_rate"],
            axis_name,
        )
        state = State(state.step + 1, params, model_state, opt_state)
        return state, {"loss": value, **terms}

    def at(state: State) -> Networks:
        return networks(model, state.params, state.model_state)

    return Method(
        init=init,
        step=step,
        encode=lambda state, x: at(state).encode(x),
        decode=lambda state, z: at(state).decode(z),
        output=output,
        latent_groups=tuple(model.latent_groups),
        feed=feed,
    )
