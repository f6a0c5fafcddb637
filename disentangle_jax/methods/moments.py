"""DIP-VAE: methods that match the covariance of the codes to the identity."""

from typing import Any

import flax.linen as nn
import jax
import optax

from disentangle_jax import losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod, one_objective
from disentangle_jax.methods.method import Terms
from disentangle_jax.types import Scalar

_REFERENCE = (
    'Kumar et al., "Variational Inference of Disentangled Latent Concepts", Eq. 6-7'
)


def _hyperparameters(factor: float) -> dict[str, Hyperparameter]:
    return {
        "lambda_od": Hyperparameter(doc="weight of the off-diagonal elements"),
        "lambda_d_factor": Hyperparameter(
            factor, doc="weight of the diagonal elements, in units of lambda_od"
        ),
    }


def _dip_vae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    likelihood: losses.Likelihood,
    axis_name: str | None,
    kind: str,
) -> GradientMethod:
    def objective(
        *arrays: jax.Array, lambda_od: Scalar, lambda_d_factor: Scalar, **others: Any
    ) -> tuple[jax.Array, Terms]:
        return losses.dip_vae(
            *arrays,
            kind=kind,
            lambda_od=lambda_od,
            lambda_d=lambda_od * lambda_d_factor,
            **others,
        )

    return one_objective(model, objective, optimizer, likelihood, axis_name)


@define(hyperparameters=_hyperparameters(10.0), reference=_REFERENCE)
def dip_vae_i(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
) -> GradientMethod:
    """Returns DIP-VAE-I, which penalises the covariance of the posterior means."""
    return _dip_vae(model, optimizer, likelihood, axis_name, "i")


@define(hyperparameters=_hyperparameters(1.0), reference=_REFERENCE)
def dip_vae_ii(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
) -> GradientMethod:
    """Returns DIP-VAE-II, which penalises the covariance of the codes."""
    return _dip_vae(model, optimizer, likelihood, axis_name, "ii")
