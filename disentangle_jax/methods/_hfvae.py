"""HFVAE: continuous and Concrete variables, independent on two levels."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from disentangle_jax import distributions, losses
from disentangle_jax.methods._method import Method, draw, gradient_method, networks
from disentangle_jax.types import Posterior, State, check_groups


def hfvae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    groups: Sequence[int] | None,
    estimator: str,
    dataset_size: int | None,
    reconstruction: Callable[[jax.Array, jax.Array], jax.Array],
    output: Callable[[jax.Array], jax.Array],
    axis_name: str | None,
) -> Method:
    r"""Returns HFVAE (Esmaeili et al., "Structured Disentangled Representations").

    A step minimises :func:`losses.hfvae` (Eq. 4) with the hyperparameters ``alpha``,
    ``beta``, ``gamma``. Where the model has discrete variables (an attribute
    ``discrete`` with their numbers of categories, as ``hfvae-mlp``), each is drawn from
    a Concrete distribution of the hyperparameter ``temperature``, and the continuous
    ones are drawn given these draws. Priors are standard normal, and uniform Concrete
    of the same temperature. Without discrete variables ``temperature`` has no effect.

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
      estimator: of the aggregate posterior; see
        :func:`losses.aggregate_log_densities`.
      dataset_size: number of training examples.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      output: what the decoder's logits mean as an image.
      axis_name: mapped axis over which the batch is split, under ``pmap``.
    """
    discrete = tuple(getattr(model, "discrete", ()))
    elements = sum(model.latent_groups)
    groups = check_groups(
        "hfvae", model.latent_groups if groups is None else groups, elements
    )
    ends = list(itertools.accumulate(discrete))[:-1]

    def split(numbers: jax.Array) -> list[jax.Array]:
        return jnp.split(numbers, ends, axis=-1)

    def loss(nets, key, step, batch, hyper):
        del step
        x, temperature = batch["image"], hyper["temperature"]
        _check_temperature(temperature)
        normal_key, concrete_key = jax.random.split(key)
        if discrete:
            class_logits = split(nets.encode(x).logits)
            log_classes = [
                _draw_log_concrete(
                    jax.random.fold_in(concrete_key, number),
                    logits,
                    temperature,
                    axis_name,
                )
                for number, logits in enumerate(class_logits)
            ]
            classes = jnp.exp(jnp.concatenate(log_classes, axis=-1))
            posterior = nets.encode(x, discrete=classes)
            z = draw(normal_key, posterior, axis_name)
            decoded = nets.decode(jnp.concatenate([z, classes], axis=-1))
            densities = _densities(
                z, posterior, log_classes, class_logits, temperature, axis_name
            )
        else:
            posterior = nets.encode(x)
            z = draw(normal_key, posterior, axis_name)
            decoded, densities = nets.decode(z), {}
        return losses.hfvae(
            x,
            decoded,
            z,
            posterior.mean,
            posterior.log_var,
            alpha=hyper["alpha"],
            beta=hyper["beta"],
            gamma=hyper["gamma"],
            groups=groups,
            dataset_size=dataset_size,
            estimator=estimator,
            reconstruction=reconstruction,
            axis_name=axis_name,
            **densities,
        )

    method = gradient_method(model, loss, optimizer, output=output, axis_name=axis_name)

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

    variables = (1,) * (elements - len(discrete)) + discrete
    return dataclasses.replace(
        method, encode=encode, latent_groups=variables, discrete=discrete
    )


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


def _densities(
    z: jax.Array,
    posterior: Posterior,
    log_classes: list[jax.Array],
    class_logits: list[jax.Array],
    temperature: jax.Array | float,
    axis_name: str | None,
) -> dict[str, jax.Array]:
    """Returns ``pairwise [B, B, E]`` and ``log_p_elements [B, E]`` of the draws."""

    def concrete(log_y: jax.Array, logits: jax.Array) -> jax.Array:
        return distributions.exp_concrete_log_prob(log_y, logits, temperature)

    pairwise = [
        losses.pairwise_log_density(
            distributions.gaussian_log_prob,
            z,
            posterior.mean,
            posterior.log_var,
            axis_name=axis_name,
        )
    ]
    prior = [distributions.gaussian_log_prob(z, jnp.zeros_like(z), jnp.zeros_like(z))]
    for log_y, logits in zip(log_classes, class_logits, strict=True):
        pairwise.append(
            losses.pairwise_log_density(concrete, log_y, logits, axis_name=axis_name)
        )
        prior.append(concrete(log_y, jnp.zeros_like(logits))[:, None])
    return {
        "pairwise": jnp.concatenate(pairwise, axis=2),
        "log_p_elements": jnp.concatenate(prior, axis=1),
    }
