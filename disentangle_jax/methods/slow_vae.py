"""SlowVAE: pairs of images in time, between which few factors change much."""

import dataclasses

import jax
import jax.numpy as jnp

from disentangle_jax import data, losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod
from disentangle_jax.methods.method import Batch, Hyper, Networks, Terms, log_variances
from disentangle_jax.types import Posterior


@define(
    name="slow_vae",
    hyperparameters={
        "beta": Hyperparameter(1.0, doc="weight of the KL from the prior"),
        "gamma": Hyperparameter(10.0, doc="weight of the KL from the transition"),
        "rate": Hyperparameter(
            6.0, positive=True, doc="rate of the Laplace transition, per unit of code"
        ),
    },
    reference='Klindt et al., "Towards Nonlinear Disentanglement in Natural Data with '
    'Temporal Sparse Coding"',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SlowVAE(GradientMethod):
    """A VAE with a Laplace transition between the codes of an image and the next.

    A step minimises :func:`losses.slow_vae`. ``data.changed_factors=laplace`` draws the
    pairs that the paper calls LAP.
    """

    inputs = data.ImagePairs()

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
        # Each member of the pair has its own noise.
        parts = [
            self.draw_codes(one, Posterior(mean[part], log_var[part]))
            for one, part in zip(
                jax.random.split(key), (slice(rows), slice(rows, None)), strict=True
            )
        ]
        z = jnp.concatenate(parts)
        return losses.slow_vae(
            x,
            networks.decode(z),
            z,
            mean,
            log_var,
            beta=hyper["beta"],
            gamma=hyper["gamma"],
            rate=hyper["rate"],
            reconstruction=self.likelihood.loss,
            axis_name=self.axis_name,
        )
