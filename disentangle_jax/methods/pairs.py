"""Weak supervision by pairs of images: Ada-GVAE and Ada-ML-VAE."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from disentangle_jax import data, losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod
from disentangle_jax.methods.method import Batch, Hyper, Networks, Terms, log_variances
from disentangle_jax.types import Posterior

_HYPERPARAMETERS = {
    "beta": Hyperparameter(1.0, doc="weight of the KL divergence"),
    "ratio": Hyperparameter(
        0.5, high=1.0, doc="threshold between the smallest and the largest distance"
    ),
}
_REFERENCE = (
    'Locatello et al., "Weakly-Supervised Disentanglement Without Compromises", Sec. 4'
)


@define(name="ada_gvae", hyperparameters=_HYPERPARAMETERS, reference=_REFERENCE)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class AdaGVAE(GradientMethod):
    """Ada-GVAE, which trains on pairs of images that share some factors.

    Both images are encoded, the posteriors of the dimensions with a small distance are
    averaged, and both images are decoded from draws of the averaged posteriors.

    Attributes:
      distance: ``"symmetric_kl"`` or ``"kl"``, the distance between posteriors.
    """

    inputs = data.ImagePairs()
    average: ClassVar[str] = "gvae"
    objective: ClassVar = staticmethod(losses.ada_gvae)
    distance: str = "symmetric_kl"

    def loss(
        self,
        networks: Networks,
        key: jax.Array,
        step: jax.Array,
        batch: Batch,
        hyper: Hyper,
    ) -> tuple[jax.Array, Terms]:
        del step
        rows = batch["image"].shape[0]
        x = jnp.concatenate([batch["image"], batch["image2"]])
        posterior = networks.encode(x)
        mean, log_var = posterior.mean, log_variances(posterior)
        mean1, log_var1, mean2, log_var2 = losses.ada_gvae_posteriors(
            mean[:rows],
            log_var[:rows],
            mean[rows:],
            log_var[rows:],
            distance=self.distance,
            average=self.average,
            ratio=hyper["ratio"],
        )
        keys = jax.random.split(key)  # Each member of the pair has its own noise.
        z1 = self.draw_codes(keys[0], Posterior(mean1, log_var1))
        z2 = self.draw_codes(keys[1], Posterior(mean2, log_var2))
        z = jnp.concatenate([z1, z2])
        return self.objective(
            x,
            networks.decode(z),
            z,
            jnp.concatenate([mean1, mean2]),
            jnp.concatenate([log_var1, log_var2]),
            beta=hyper["beta"],
            averaged=True,
            reconstruction=self.likelihood.loss,
            axis_name=self.axis_name,
        )


@define(name="ada_ml_vae", hyperparameters=_HYPERPARAMETERS, reference=_REFERENCE)
class AdaMLVAE(AdaGVAE):
    """Ada-ML-VAE: Ada-GVAE with products of posteriors in place of averages."""

    average = "ml_vae"
    objective = staticmethod(losses.ada_ml_vae)
