"""Autoencoders with deterministic codes."""

import functools

import flax.linen as nn
import optax

from disentangle_jax import losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod, one_objective


@define(reference='Leeb et al., "Structure by Architecture"')
def ae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
) -> GradientMethod:
    """Returns a plain or structural autoencoder, trained by reconstruction alone."""
    return one_objective(model, losses.ae, optimizer, likelihood, axis_name)


@define(
    hyperparameters={"lambda_": Hyperparameter(10.0, doc="weight of the MMD")},
    reference='Tolstikhin et al., "Wasserstein Auto-Encoders", Algorithm 2',
)
def wae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
    kernel: str = "imq",
    mmd_compat: str | None = None,
) -> GradientMethod:
    """Returns a Wasserstein autoencoder with the MMD penalty."""
    objective = functools.partial(losses.wae, kernel=kernel, mmd_compat=mmd_compat)
    return one_objective(model, objective, optimizer, likelihood, axis_name)
