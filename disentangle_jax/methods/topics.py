"""Topic models of word counts, with the objective of HFVAE."""

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from disentangle_jax import data, distributions, losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod
from disentangle_jax.methods.method import Batch, Hyper, Networks, Terms, log_variances
from disentangle_jax.types import State, check_groups

_HYPERPARAMETERS = {
    "alpha": Hyperparameter(1.0, doc="weight of the mutual information"),
    "beta": Hyperparameter(1.0, doc="weight of the total correlation between groups"),
    "gamma": Hyperparameter(1.0, doc="weight of the total correlation within groups"),
}


@define(
    name="nvdm",
    hyperparameters=_HYPERPARAMETERS,
    reference='Miao et al., "Neural Variational Inference for Text Processing"',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TopicModel(GradientMethod):
    r"""A variational autoencoder of word counts, NVDM by default.

    A step minimises :func:`losses.hfvae` (Esmaeili et al., "Structured Disentangled
    Representations", Eq. 4). If ``alpha``, ``beta`` and ``gamma`` are 1, this is the
    VAE objective of the original papers (with a sampled KL). HFVAE's Sec. 5.2 has
    ``beta`` 0.1 and ``gamma`` 4, which lets topics of different groups correlate and
    makes those of one group independent.

    The prior is standard normal, or the Laplace approximation, in the softmax basis, to
    a symmetric Dirichlet of concentration a over K topics (ProdLDA's Eq. 3):

    .. math:: p(z) = \mathcal N\left(0, \tfrac1a \left(1 - \tfrac1K\right) I\right)

    The code of a document, ``Posterior.mean`` ``[B, K]``, is the mean of z; ProdLDA's
    topic proportions are its softmax. ``output`` returns the word probabilities
    ``[B, V]``.

    Attributes:
      likelihood: must be multinomial.
      dataset_size: number of training documents.
      estimator: estimator of the aggregate posterior; see
        :func:`losses.aggregate_log_densities`.
      groups: sizes of the contiguous groups of topics; None for those of the model.
      concentration: a of the Dirichlet; None for a standard normal prior.
    """

    inputs = data.WordCounts()
    evaluators = ("topics", "codes")

    likelihood: losses.Likelihood = losses.likelihood("multinomial")
    dataset_size: int | None = None
    estimator: str = "stratified"
    groups: Sequence[int] | None = None
    concentration: float | None = None

    def __post_init__(self) -> None:
        if self.likelihood.name != "multinomial":
            raise ValueError(
                "methods.create: `reconstruction` must be 'multinomial' for topic "
                "models, whose documents are word counts."
            )
        _ = self.latent_groups, self.prior_variance  # Checks the options.

    @functools.cached_property
    def latent_groups(self) -> tuple[int, ...]:
        """Sizes of the contiguous groups of topics."""
        own = self.model.latent_groups
        groups = own if self.groups is None else self.groups
        return check_groups("topic_model", groups, sum(own))

    @functools.cached_property
    def prior_variance(self) -> float:
        """Variance of each latent under the prior, whose mean is 0."""
        topics = sum(self.model.latent_groups)
        if self.concentration is None:
            return 1.0
        if not (self.concentration > 0 and math.isfinite(self.concentration)):
            raise ValueError(
                "topic_model: `concentration` must be positive and finite, got "
                f"{self.concentration}; ProdLDA's is 1."
            )
        if topics < 2:
            raise ValueError(
                "topic_model: a Dirichlet prior needs at least 2 topics, got "
                f"{topics}; raise `latent_dim`."
            )
        return (1 - 1 / topics) / self.concentration

    def loss(
        self,
        networks: Networks,
        key: jax.Array,
        step: jax.Array,
        batch: Batch,
        hyper: Hyper,
    ) -> tuple[jax.Array, Terms]:
        del step
        x = batch["counts"]
        posterior = networks.encode(x)
        z = self.draw_codes(jax.random.fold_in(key, 0), posterior)
        prior_log_var = jnp.full_like(z, math.log(self.prior_variance))
        return losses.hfvae(
            x,
            networks.decode(z),
            z,
            posterior.mean,
            log_variances(posterior),
            alpha=hyper["alpha"],
            beta=hyper["beta"],
            gamma=hyper["gamma"],
            groups=self.latent_groups,
            dataset_size=self.dataset_size,
            estimator=self.estimator,
            log_p_elements=distributions.gaussian_log_prob(
                z, jnp.zeros_like(z), prior_log_var
            ),
            reconstruction=self.likelihood.loss,
            axis_name=self.axis_name,
        )

    def prior(self, key: jax.Array, state: State, n: int) -> jax.Array:
        """Returns codes ``[n, K]`` drawn from the prior."""
        return math.sqrt(self.prior_variance) * super().prior(key, state, n)


@define(
    name="prodlda",
    hyperparameters=_HYPERPARAMETERS,
    reference="Srivastava and Sutton, "
    '"Autoencoding Variational Inference for Topic Models"',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ProdLDA(TopicModel):
    """ProdLDA: a topic model whose prior approximates a Dirichlet distribution."""

    concentration: float | None = 1.0
