"""Variational autoencoders that differ in the treatment of the KL divergence."""

import functools
from typing import Any

import flax.linen as nn
import jax
import optax

from disentangle_jax import losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod, one_objective
from disentangle_jax.methods.method import Terms
from disentangle_jax.types import Scalar


@define(reference='Kingma and Welling, "Auto-Encoding Variational Bayes", Eq. 10')
def vae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
    kl: str = "analytic",
) -> GradientMethod:
    """Returns a VAE, which minimises the negative evidence lower bound."""
    objective = functools.partial(losses.vae, kl=kl)
    return one_objective(model, objective, optimizer, likelihood, axis_name)


@define(
    hyperparameters={"beta": Hyperparameter(doc="weight of the KL divergence")},
    reference='Higgins et al., "beta-VAE", Eq. 4',
)
def beta_vae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
    kl: str = "analytic",
) -> GradientMethod:
    """Returns a beta-VAE, which weights the KL divergence."""
    objective = functools.partial(losses.beta_vae, kl=kl)
    return one_objective(model, objective, optimizer, likelihood, axis_name)


@define(
    hyperparameters={
        "c_max": Hyperparameter(doc="final capacity in nats"),
        "gamma": Hyperparameter(1000.0, doc="weight of the distance from the capacity"),
        "threshold": Hyperparameter(
            100_000.0, positive=True, doc="step from which the capacity is final"
        ),
        "c_start": Hyperparameter(0.0, doc="capacity before the first step in nats"),
    },
    reference='Burgess et al., "Understanding disentangling in beta-VAE", Eq. 8',
)
def annealed_vae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
) -> GradientMethod:
    """Returns a VAE whose KL divergence follows a capacity that grows linearly."""

    def objective(
        *arrays: jax.Array,
        step: jax.Array,
        c_max: Scalar,
        threshold: Scalar,
        c_start: Scalar,
        **others: Any,
    ) -> tuple[jax.Array, Terms]:
        capacity = losses.linear_capacity(
            step, c_max=c_max, threshold=threshold, c_start=c_start
        )
        return losses.annealed_vae(*arrays, capacity=capacity, **others)

    return one_objective(model, objective, optimizer, likelihood, axis_name)


@define(
    hyperparameters={
        "lambda_": Hyperparameter(doc="weight of the MMD"),
        "alpha": Hyperparameter(1.0, doc="1 drops the mutual information"),
    },
    reference='Zhao et al., "InfoVAE", Eq. 6',
)
def info_vae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
    kernel: str = "rbf",
) -> GradientMethod:
    """Returns an InfoVAE, which matches the aggregate posterior to the prior."""
    objective = functools.partial(losses.info_vae, kernel=kernel)
    return one_objective(model, objective, optimizer, likelihood, axis_name)


@define(
    hyperparameters={"beta": Hyperparameter(1.0, doc="weight of the KL divergence")},
    reference='Zhao et al., "Learning Hierarchical Features from Generative Models"',
)
def vlae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
    latent_groups: tuple[int, ...],
    kl: str = "analytic",
) -> GradientMethod:
    """Returns a variational ladder autoencoder, which logs the KL of each rung."""
    objective = functools.partial(losses.vlae, latent_groups=latent_groups, kl=kl)
    return one_objective(model, objective, optimizer, likelihood, axis_name)
