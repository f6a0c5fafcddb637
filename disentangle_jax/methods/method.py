"""The base class of methods, and what the steps of all methods share."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from disentangle_jax import data, losses, sampling
from disentangle_jax.types import Posterior, State

Batch = Mapping[str, Any]
Hyper = Mapping[str, jax.Array | float]
Terms = dict[str, jax.Array]

# A step folds this number into its key for dropout; losses fold in small numbers.
_DROPOUT_KEYS = 0x64726F70


class Networks(NamedTuple):
    """The networks of a method at given parameters.

    Attributes:
      encode: ``x [B, H, W, C] -> Posterior``; further arguments of the model's
        ``encode`` are passed by name.
      decode: ``z [B, D] -> logits``.
      params: all parameters of the method, for losses with parameters of their own.
    """

    encode: Callable[..., Posterior]
    decode: Callable[[jax.Array], jax.Array]
    params: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Method:
    """Base class of training methods.

    A method is immutable and its functions are pure, so that ``jax.jit(method.step)``
    works. Subclasses are frozen dataclasses that compare by identity. They define
    ``init``, ``step`` and ``networks``; the other functions have defaults.

    Attributes:
      model: a module with ``encode`` and ``decode``, as :func:`models.create` returns.
      optimizer: an optax transformation that does *not* apply the learning rate
        (``optax.scale_by_adam()``): the rate is one of the hyperparameters, so that
        each lane can have its own.
      likelihood: the reconstruction loss and the meaning of the decoder's logits.
      axis_name: mapped axis over which the batch is split, under ``pmap``; value and
        update are then those of the global batch.
      discrete: numbers of categories of the discrete variables, which are one-hot
        vectors at the end of a code and the last of `latent_groups`.
      inputs: the arrays that a batch holds.
      evaluators: names of the evaluators that apply to the method.
    """

    discrete: ClassVar[tuple[int, ...]] = ()
    inputs: ClassVar[data.Input] = data.Images()
    evaluators: ClassVar[tuple[str, ...]] = ("codes", "reconstruction", "generation")

    model: nn.Module
    optimizer: optax.GradientTransformation
    _: dataclasses.KW_ONLY
    likelihood: losses.Likelihood
    axis_name: str | None = None

    @property
    def latent_groups(self) -> tuple[int, ...]:
        """Sizes of the contiguous latent variables."""
        return tuple(self.model.latent_groups)

    def init(self, key: jax.Array, batch: Batch) -> State:
        """Returns the state before the first step; uses only the shapes of `batch`."""
        raise NotImplementedError

    def step(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[State, Terms]:
        """Returns the state after one update, and scalar terms for the log.

        Args:
          key: typed key of this step.
          state: the state before the step.
          batch: the arrays of `inputs`, and those of :meth:`constants`.
          hyper: value of each hyperparameter and of ``learning_rate``; may be traced,
            so that each lane can have its own.

        Returns:
          The new state and the terms; ``terms["loss"]`` is what is minimised.
        """
        grads, model_state, terms = self.gradients(key, state, batch, hyper)
        return self.update(state, grads, model_state, hyper), terms

    def gradients(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[Any, dict, Terms]:
        """Returns what :meth:`update` needs, and scalar terms for the log.

        A method whose parameters are updated once per step, after all gradients are
        known, implements this and :meth:`update`; others implement :meth:`step`.

        Returns:
          The gradients, a pytree like the parameters; the state of the networks after
          the step; and the terms, as :meth:`step` does.
        """
        raise NotImplementedError

    def update(
        self, state: State, grads: Any, model_state: dict, hyper: Hyper
    ) -> State:
        """Returns the state after the update by `grads`."""
        raise NotImplementedError

    @property
    def divided(self) -> bool:
        """Whether a step is :meth:`gradients` and then :meth:`update`.

        Many models then are updated at once, though their gradients are computed one
        after another.
        """
        return type(self).step is Method.step

    def networks(self, state: State) -> Networks:
        """Returns the networks at the parameters of `state`, in evaluation mode."""
        raise NotImplementedError

    def encode(self, state: State, x: jax.Array) -> Posterior:
        """Returns the posterior of observations ``x [B, …]``; images lie in [0, 1]."""
        return self.networks(state).encode(x)

    def decode(self, state: State, z: jax.Array) -> jax.Array:
        """Returns the logits ``[B, …]`` of codes ``z [B, D]``."""
        return self.networks(state).decode(z)

    def output(self, logits: jax.Array) -> jax.Array:
        """Returns the mean observation that `logits` stand for."""
        return self.likelihood.mean(logits)

    def prior(self, key: jax.Array, state: State, n: int) -> jax.Array:
        """Returns codes ``[n, D]`` drawn from the prior.

        The default is standard normal, and uniform for discrete variables.
        """
        del state
        continuous = sum(self.latent_groups) - sum(self.discrete)
        return sampling.prior(key, n, continuous, discrete=self.discrete)

    def readout(self, state: State, z: jax.Array) -> jax.Array:
        """Returns the codes ``[N, R]`` that a comparison of methods scores.

        They are the codes ``z [N, D]`` unless a method infers factors from them.
        """
        del state
        return z

    def codebook_values(self, state: State) -> jax.Array | None:
        """Returns the values ``[D, V]`` of latents that take no others, ascending.

        None, the default, for latents that take any value.
        """
        del state
        return None

    def latent_values(
        self, state: State, codes: ArrayLike | None, steps: int
    ) -> jax.Array:
        """Returns the values ``[D, S]`` that a traversal gives each latent.

        Args:
          state: the state of the trained model.
          codes: ``[N, D]`` codes; each latent runs from its minimum to its maximum
            over them in `steps` even steps. None for -2 … 2, two standard deviations
            of the prior.
          steps: number of values; those of :meth:`codebook_values` replace them.
        """
        known = self.codebook_values(state)
        if known is not None:
            return known
        if codes is None:
            latents = sum(self.latent_groups)
            return jnp.tile(jnp.linspace(-2.0, 2.0, steps), (latents, 1))
        return sampling.min_max_values(jnp.asarray(codes), steps=steps)

    def constant_shapes(
        self, dataset: data.Dataset, hypers: Sequence[Mapping[str, float]]
    ) -> dict[str, Any]:
        """Returns shapes and dtypes of :meth:`constants`, without making them."""
        del dataset, hypers
        return {}

    def constants(
        self, dataset: data.Dataset, hypers: Sequence[Mapping[str, float]], seed: int
    ) -> dict[str, Any]:
        """Returns arrays that are part of every batch and equal at every step.

        Args:
          dataset: the training dataset.
          hypers: the hyperparameters of each lane.
          seed: seed of what is drawn from the dataset.
        """
        del dataset, hypers, seed
        return {}

    def refit_due(self, step: int) -> bool:
        """Returns whether :meth:`refit` must run before this step."""
        del step
        return False

    def refit(self, state: State, constants: dict[str, Any], hyper: Hyper) -> State:
        """Returns `state` after an update that only a few steps need."""
        del constants, hyper
        return state

    def initial_variables(self, key: jax.Array, x: jax.Array) -> tuple[dict, dict]:
        """Returns parameters and state of the model for observations like `x`."""
        variables = self.model.init(key, as_unit_interval(x[:1]))
        rest = {name: value for name, value in variables.items() if name != "params"}
        if rest and self.axis_name is not None:
            raise ValueError(
                "methods: `axis_name` must be None for networks with batch norm: under "
                "pmap each device would have statistics of its own; use jit on a mesh."
            )
        return variables["params"], rest

    def draw_codes(self, key: jax.Array, posterior: Posterior) -> jax.Array:
        """Returns codes ``[B, D]`` from a posterior, or its mean if deterministic.

        With `axis_name` each device takes its rows of the draw for the global batch, so
        that the codes do not depend on the number of devices.
        """
        mean, log_var = posterior.mean, posterior.log_var
        if log_var is None:
            return mean
        if self.axis_name is None:
            return sampling.reparameterize(key, mean, log_var)
        rows, dims = mean.shape
        shape = (rows * jax.lax.axis_size(self.axis_name), dims)
        noise = jax.random.normal(key, shape, mean.dtype)
        start = jax.lax.axis_index(self.axis_name) * rows
        noise = jax.lax.dynamic_slice_in_dim(noise, start, rows)
        return mean + jnp.exp(0.5 * log_var) * noise

    def descend(
        self,
        params: Any,
        grads: Any,
        opt_state: Any,
        learning_rate: jax.Array | float,
        optimizer: optax.GradientTransformation | None = None,
    ) -> tuple[Any, Any]:
        """Returns parameters and optimizer state after one update.

        The learning rate is applied here, not by the optimizer, so that it may be
        traced.
        """
        if self.axis_name is not None:
            grads = jax.lax.pmean(grads, self.axis_name)
        update = (optimizer or self.optimizer).update
        updates, opt_state = update(grads, opt_state, params)
        params = jax.tree.map(
            lambda p, u: p - (learning_rate * u).astype(p.dtype), params, updates
        )
        return params, opt_state

    def networks_at(self, params: Any, model_state: dict) -> Networks:
        """Returns encoder and decoder at `params`, in evaluation mode."""
        variables = {"params": params, **model_state}

        def call(x: jax.Array, method: str, **given: Any) -> Any:
            return self.model.apply(variables, x, method=method, train=False, **given)

        encode = functools.partial(call, method="encode")
        decode = functools.partial(call, method="decode")
        return Networks(encode, decode, params)

    def training_networks(
        self, key: jax.Array, params: Any, model_state: dict
    ) -> tuple[Networks, dict]:
        """Returns encoder and decoder at `params` in training mode, and their state.

        Calls to networks with batch norm update the returned dict, and each call draws
        its own dropout. Call this inside the function that is differentiated, and
        return the dict from it as an auxiliary output.

        Args:
          key: key of the step, from which the keys of dropout are derived.
          params: parameters of the model.
          model_state: state of the model before the step; not changed.
        """
        state = dict(model_state)
        calls = itertools.count(_DROPOUT_KEYS)

        def call(x: jax.Array, method: str, **given: Any) -> Any:
            variables = {"params": params, **state}
            if not model_state:
                return self.model.apply(
                    variables, x, method=method, train=True, **given
                )
            out, changed = self.model.apply(
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

        encode = functools.partial(call, method="encode")
        decode = functools.partial(call, method="decode")
        return Networks(encode, decode, params), state


def as_unit_interval(image: jax.Array) -> jax.Array:
    """Returns uint8 images as float32 in [0, 1]; float images pass unchanged.

    Images travel to the device as bytes, a quarter of the traffic, and become floats
    inside the compiled step. Word counts, uint16, become float32 without scaling.
    """
    if image.dtype == jnp.uint8:
        return image.astype(jnp.float32) / 255.0
    if image.dtype == jnp.uint16:
        return image.astype(jnp.float32)
    return image


def log_variances(posterior: Posterior) -> jax.Array:
    """Returns the log-variances, for losses that refuse a deterministic encoder."""
    return cast(jax.Array, posterior.log_var)


def new_state(params: Any, model_state: dict, opt_state: Any) -> State:
    """Returns the state before the first step."""
    return State(jnp.zeros((), jnp.int32), params, model_state, opt_state)
