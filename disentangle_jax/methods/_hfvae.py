"""HFVAE: continuous and Concrete variables, independent on two levels."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from disentangle_jax import distributions, losses, sampling
from disentangle_jax.methods._method import (
    Batch,
    Method,
    draw,
    gradient_method,
    networks,
    new_state,
)
from disentangle_jax.types import Posterior, State, check_groups, unknown_name

# Among the parameters of the networks: what the prior's correlation is made of.
_PRIOR = "prior_correlation"


def hfvae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    groups: Sequence[int] | None,
    correlation: str | Sequence[Sequence[float]] | None,
    estimator: str,
    dataset_size: int | None,
    reconstruction: Callable[[jax.Array, jax.Array], jax.Array],
    output: Callable[[jax.Array], jax.Array],
    axis_name: str | None,
) -> Method:
    r"""Returns HFVAE (Esmaeili et al., "Structured Disentangled Representations").

    A step minimises :func:`losses.hfvae` (Eq. 4) with the hyperparameters ``alpha``,
    ``beta``, ``gamma``. Where the model has discrete variables (an attribute
    ``discrete`` with their numbers of categories, as ``hfvae-mlp`` and ``conv64``),
    each is drawn from a Concrete distribution of the hyperparameter ``temperature``,
    and the continuous ones are drawn given these draws. Without discrete variables
    ``temperature`` has no effect.

    Priors of discrete variables are uniform Concrete of the same temperature. Those of
    the continuous ones are standard normal; with `correlation` they do not factorise:
    :math:`p(z) = \mathcal N(0, R)` with ones on the diagonal of R, so that each
    dimension by itself stays standard normal and only dependence is added. Term Ⓐ then
    matches the dependence between groups under the aggregate posterior to the prior's
    (paper, Sec. 3). A learned R follows the gradient of :math:`\log p(z)` alone,
    whatever the weights of the terms: it becomes the one most likely for the codes.

    A Concrete variable is one element of the objective. The density of the continuous
    variables of example i under the posterior of example j is that given j's own
    discrete draw, as in the authors' code: one for every pair of examples would need
    B² runs of the encoder. Densities are those of the logarithms of the Concrete
    variables, which do not underflow; the loss is the same, since the terms are ratios
    of densities at one point.

    The code that ``encode`` returns as ``Posterior.mean`` and ``decode`` takes is
    ``[B, D + M]``: the means of the D continuous variables given the most probable
    classes, then these classes as one-hot vectors, M numbers together. Scores of whole
    variables then see a discrete variable as its classes; probabilities would be cut
    into more cells than a continuous variable has, and seem to hold more information.
    ``log_var`` ``[B, D]`` is that of the continuous variables, ``logits`` ``[B, M]``
    those of the classes. ``latent_groups`` of the method are the variables of this
    code: each continuous one, and each discrete one as a whole.

    Args:
      model: the autoencoder.
      optimizer: see :func:`gradient_method`.
      groups: sizes of the contiguous groups of elements, continuous variables first;
        None for the model's own ``latent_groups``.
      correlation: of the prior of the continuous variables. None: none. A matrix
        ``[D, D]``: given. ``"full"``: learned, of all pairs. ``"between"``: learned, of
        pairs in different groups; those of one group are independent. Learned ones are
        further parameters, see :func:`distributions.correlation_matrix`, that begin
        with none.
      estimator: of the aggregate posterior; see
        :func:`losses.aggregate_log_densities`.
      dataset_size: number of training examples.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      output: what the decoder's logits mean as an image.
      axis_name: mapped axis over which the batch is split, under ``pmap``.
    """
    discrete = tuple(getattr(model, "discrete", ()))
    elements = sum(model.latent_groups)
    dims = elements - len(discrete)
    groups = check_groups(
        "hfvae", model.latent_groups if groups is None else groups, elements
    )
    matrix = _correlation(correlation, groups, dims)
    ends = list(itertools.accumulate(discrete))[:-1]

    def split(numbers: jax.Array) -> list[jax.Array]:
        return jnp.split(numbers, ends, axis=-1)

    def loss(nets, key, step, batch, hyper):
        del step
        x, temperature = batch["image"], hyper["temperature"]
        _check_temperature(temperature)
        normal_key, concrete_key = jax.random.split(key)

        def draw_classes(logits):
            return [
                _draw_log_concrete(
                    jax.random.fold_in(concrete_key, number),
                    part,
                    temperature,
                    axis_name,
                )
                for number, part in enumerate(split(logits))
            ]

        def classes(logits):
            return jnp.exp(jnp.concatenate(draw_classes(logits), axis=-1))

        drawn, given = [], {}
        if discrete:
            # Made inside the encoder: one pass, forward and back.
            given["discrete"] = classes
        posterior = nets.encode(x, **given)
        z = code = draw(normal_key, posterior, axis_name)
        if discrete:
            logits = posterior.logits
            pairs = zip(draw_classes(logits), split(logits), strict=True)
            drawn = [losses.Concrete(*pair, temperature) for pair in pairs]
            code = jnp.concatenate([z, classes(logits)], axis=-1)
        prior, fit = {}, 0.0
        if matrix is not None:
            learned, fixed = matrix(nets.params), jax.lax.stop_gradient
            prior = losses.correlated_log_prior(
                z, fixed(learned), groups=groups, concrete=drawn
            )
            seen = losses.correlated_log_prior(fixed(z), learned, groups=(dims,))
            fit = -seen["log_p_joint"].mean()
            fit = fit - fixed(fit)  # A gradient for the prior; the value is Eq. 4's.
        value, terms = losses.hfvae(
            x,
            nets.decode(code),
            z,
            posterior.mean,
            posterior.log_var,
            alpha=hyper["alpha"],
            beta=hyper["beta"],
            gamma=hyper["gamma"],
            groups=groups,
            dataset_size=dataset_size,
            concrete=drawn,
            estimator=estimator,
            reconstruction=reconstruction,
            axis_name=axis_name,
            **prior,
        )
        return value + fit, terms

    method = gradient_method(model, loss, optimizer, output=output, axis_name=axis_name)

    def init(key: jax.Array, batch: Batch) -> State:
        state = method.init(key, batch)
        if not isinstance(correlation, str):
            return state
        params = {**state.params, _PRIOR: jnp.zeros((dims, dims))}
        return new_state(params, state.model_state, optimizer.init(params))

    def encode(state: State, x: jax.Array) -> Posterior:
        nets = networks(model, state.params, state.model_state)
        posterior = nets.encode(x)
        if not discrete:
            return posterior
        classes = jnp.concatenate(
            [
                jax.nn.one_hot(logits.argmax(axis=-1), logits.shape[-1])
                for logits in split(posterior.logits)
            ],
            axis=-1,
        )
        mean, log_var, logits = nets.encode(x, discrete=classes)
        return Posterior(jnp.concatenate([mean, classes], axis=-1), log_var, logits)

    def prior(key: jax.Array, state: State, count: int) -> jax.Array:
        codes = sampling.prior(key, count, dims, discrete=discrete)
        factor = jnp.linalg.cholesky(matrix(state.params))
        continuous = jnp.matmul(codes[:, :dims], factor.T, precision="highest")
        return codes.at[:, :dims].set(continuous)

    return dataclasses.replace(
        method,
        init=init,
        encode=encode,
        latent_groups=(1,) * dims + discrete,
        discrete=discrete,
        prior=None if matrix is None else prior,
    )


def _correlation(
    correlation: str | Sequence[Sequence[float]] | None,
    groups: tuple[int, ...],
    dims: int,
) -> Callable[[Any], jax.Array] | None:
    """Returns the prior's correlation as a function of the parameters, if it has one.

    Args:
      correlation: see :func:`hfvae`.
      groups: sizes of the groups of elements.
      dims: number of continuous variables, the first elements.
    """
    if correlation is None:
        return None
    if isinstance(correlation, str):
        if correlation not in ("full", "between"):
            raise unknown_name("hfvae", "correlation", correlation, ("full", "between"))
        bounds = [min(end, dims) for end in itertools.accumulate(groups, initial=0)]
        sizes = [high - low for low, high in itertools.pairwise(bounds) if high > low]
        if correlation == "between" and len(sizes) < 2:
            raise ValueError(
                "hfvae: `correlation` 'between' needs at least two groups of "
                f"continuous variables, got {groups}; set `groups`, or 'full'."
            )
        within = None if correlation == "full" else sizes
        return lambda params: distributions.correlation_matrix(
            params[_PRIOR], groups=within
        )
    fixed = np.asarray(correlation, np.float64)
    if (
        fixed.shape != (dims, dims)
        or not np.array_equal(fixed, fixed.T)
        or not (np.diagonal(fixed) == 1).all()
        or not np.linalg.eigvalsh(fixed)[0] > 1e-6
    ):
        raise ValueError(
            f"hfvae: `correlation` must be a symmetric positive definite {dims} x "
            f"{dims} matrix with ones on its diagonal, 'full' or 'between', got "
            f"{correlation}."
        )
    return lambda params: jnp.asarray(fixed, jnp.float32)


def _check_temperature(temperature: jax.Array | float) -> None:
    """Raises where the value is known, i.e. not inside of a compiled step."""
    if not isinstance(temperature, jax.core.Tracer) and not temperature > 0:
        raise ValueError(
            "hfvae: `temperature` must be positive, got "
            f"{temperature}; the authors' is 0.66."
        )


def _draw_log_concrete(
    key: jax.Array,
    logits: jax.Array,
    temperature: jax.Array | float,
    axis_name: str | None,
) -> jax.Array:
    """Returns the logarithm of a Concrete draw for each row of ``logits [B, K]``.

    With `axis_name` each device takes its rows of the draw for the global batch, as
    :func:`draw` does.
    """
    if axis_name is None:
        return distributions.exp_concrete_sample(key, logits, temperature)
    rows = logits.shape[0]
    everyone = jax.lax.all_gather(logits, axis_name, tiled=True)
    drawn = distributions.exp_concrete_sample(key, everyone, temperature)
    start = jax.lax.axis_index(axis_name) * rows
    return jax.lax.dynamic_slice_in_dim(drawn, start, rows)
