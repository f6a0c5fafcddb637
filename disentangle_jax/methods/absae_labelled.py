"""Our variant of AbsAE that sees labelled images in every step."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from disentangle_jax import losses
from disentangle_jax.methods.absae import HYPERPARAMETERS, PRIOR, AbsAE, log_weights
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.method import Batch, Hyper, Terms, as_unit_interval
from disentangle_jax.types import Scalar, State


@define(
    name="absae_labelled",
    hyperparameters={
        **HYPERPARAMETERS,
        "label_weight": Hyperparameter(1.0, doc="weight of the labelled images"),
    },
    reference="AbsAE with labelled images in every step, which the paper does not have",
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class AbsAELabelled(AbsAE):
    r"""AbsAE whose encoder also sees labelled images after the warm-up; our variant.

    Step 3 of :class:`AbsAE` adds, for codes z of labelled images of combination c and
    the ``label_weight`` :math:`\lambda`,

    .. math:: - \frac{\lambda}{D} \log \mathcal N(z; \mu_c, \Sigma_c)

    Attributes:
      labelled_batch: labelled images per step, uniform over the combinations that have
        any.
    """

    labelled_batch: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_at_least(labelled_batch=1)

    def supervision(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[jax.Array, Callable[[jax.Array], tuple[Scalar, Terms]]]:
        labelled, prior = batch["labelled"], state.model_state[PRIOR]
        which, where = jax.random.split(key)
        known = jnp.minimum(labelled["count"], jnp.asarray(hyper["tau"], jnp.int32))
        shape = (self.labelled_batch,)
        chosen = jax.random.categorical(which, log_weights(known > 0), shape=shape)
        place = jax.random.randint(where, shape, 0, jnp.maximum(known[chosen], 1))

        def loss(z: jax.Array) -> tuple[jax.Array, Terms]:
            own = losses.relation_loss(
                z, chosen, means=prior["means"], covariances=prior["covariances"]
            ).mean()
            warming = state.step < self.warmup_steps
            value = jnp.where(warming, 0.0, own / self.latents)
            return hyper["label_weight"] * value, {"labelled": value}

        return as_unit_interval(labelled["image"][chosen, place]), loss
