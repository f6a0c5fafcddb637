"""A VAE whose objective can lose each of its four terms."""

import dataclasses

import jax

from disentangle_jax import losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod
from disentangle_jax.methods.method import Batch, Hyper, Networks, Terms, log_variances

WEIGHTS = ("identifiability", "information", "evidence", "marginal")


@define(
    name="weighted_elbo",
    hyperparameters={
        name: Hyperparameter(1.0, doc=f"weight of term {sign}: {meaning}")
        for name, sign, meaning in zip(
            WEIGHTS,
            "①②③④",
            ("log p(x|z) / p(x)", "I(x; z)", "log p(x)", "KL(q(z), p(z))"),
        )
    },
    reference='Esmaeili et al., "Structured Disentangled Representations", Figs. 1-2',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class WeightedELBO(GradientMethod):
    """The ELBO with a weight for each of its four terms, for few latents.

    A step minimises :func:`losses.weighted_elbo`; with unit weights it is a VAE.

    Attributes:
      dataset_size: number of training examples.
      estimator: estimator of the aggregate posterior; see
        :func:`losses.aggregate_log_densities`.
    """

    dataset_size: int | None = None
    estimator: str = "stratified"

    def loss(
        self,
        networks: Networks,
        key: jax.Array,
        step: jax.Array,
        batch: Batch,
        hyper: Hyper,
    ) -> tuple[jax.Array, Terms]:
        del step
        x = batch["image"]
        posterior = networks.encode(x)
        z = self.draw_codes(key, posterior)
        return losses.weighted_elbo(
            x,
            networks.decode(z),
            z,
            posterior.mean,
            log_variances(posterior),
            fixed_logits=networks.decode(jax.lax.stop_gradient(z)),
            dataset_size=self.dataset_size,
            estimator=self.estimator,
            reconstruction=self.likelihood.loss,
            axis_name=self.axis_name,
            **{name: hyper[name] for name in WEIGHTS},
        )
