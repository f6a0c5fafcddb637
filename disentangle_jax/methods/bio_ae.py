"""BioAE: an autoencoder with non-negative codes of little energy."""

import dataclasses

import jax

from disentangle_jax import losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod
from disentangle_jax.methods.method import Batch, Hyper, Networks, Terms


@define(
    name="bio_ae",
    hyperparameters={
        "lambda_nonnegative": Hyperparameter(1.0, doc="weight of negative codes"),
        "lambda_activity": Hyperparameter(0.01, doc="weight of the squared codes"),
        "lambda_weight": Hyperparameter(1e-4, doc="weight of the squared weights"),
    },
    reference='Whittington et al., "Disentanglement with Biological Constraints: A '
    'Theory of Functional Cell Types"',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class BioAE(GradientMethod):
    """An autoencoder with penalties on negative codes, activity and weights.

    A step minimises :func:`losses.bio_ae`. Log-variances of the encoder are ignored.
    """

    def loss(
        self,
        networks: Networks,
        key: jax.Array,
        step: jax.Array,
        batch: Batch,
        hyper: Hyper,
    ) -> tuple[jax.Array, Terms]:
        del key, step
        x = batch["image"]
        z = networks.encode(x).mean
        return losses.bio_ae(
            x,
            networks.decode(z),
            z,
            z,
            weights=networks.params,
            reconstruction=self.likelihood.mean_over_pixels,
            axis_name=self.axis_name,
            lambda_nonnegative=hyper["lambda_nonnegative"],
            lambda_activity=hyper["lambda_activity"],
            lambda_weight=hyper["lambda_weight"],
        )
