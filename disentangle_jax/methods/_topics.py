"""Topic models for bags of words, with the objective of HFVAE."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from disentangle_jax import distributions, losses
from disentangle_jax.methods._method import Method, draw, gradient_method
from disentangle_jax.types import check_groups


@dataclasses.dataclass(frozen=True)
class TopicModel(Method):
    """A method for documents.

    Attributes:
      prior_variance: of each latent, whose prior is normal with mean 0.
    """

    prior_variance: float = 1.0


def topic_model(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    concentration: float | None,
    groups: Sequence[int] | None,
    estimator: str,
    dataset_size: int | None,
    reconstruction: Callable[[jax.Array, jax.Array], jax.Array],
    output: Callable[[jax.Array], jax.Array],
    axis_name: str | None,
) -> TopicModel:
    r"""Returns a topic model with HFVAE's objective ("Structured …", Eq. 4).

    ProdLDA (Srivastava and Sutton, "Autoencoding Variational Inference for Topic
    Models") and NVDM (Miao et al., "Neural Variational Inference for Text Processing")
    are autoencoders of word counts that differ in networks and prior. A step minimises
    :func:`losses.hfvae` with the hyperparameters ``alpha``, ``beta`` and ``gamma``: all
    1 give the VAE objective of the original papers (its KL sampled), ``beta`` 0.1 and
    ``gamma`` 4 that of HFVAE's Sec. 5.2, which lets topics of different groups
    correlate and keeps those of one group apart.

    ProdLDA's prior is the Laplace approximation, in the softmax basis, to a symmetric
    Dirichlet of concentration a over K topics (its Eq. 3):

    .. math:: p(z) = \mathcal N\left(0, \tfrac1a \left(1 - \tfrac1K\right) I\right)

    NVDM's is standard normal. A batch holds the counts ``image`` ``[B, V]``.

    The code of a document, ``Posterior.mean`` ``[B, K]``, is the mean of z, which is
    what groups, priors and correlations speak of and what ``decode`` takes; ProdLDA's
    topic proportions are its softmax. ``output`` gives the word probabilities
    ``[B, V]``.

    Args:
      model: the networks; ``prodlda`` or ``nvdm`` of :mod:`models`.
      optimizer: see :func:`gradient_method`.
      concentration: a of the Dirichlet; None for a standard normal prior.
      groups: sizes of the contiguous groups of topics; None for the model's own.
      estimator: of the aggregate posterior; see
        :func:`losses.aggregate_log_densities`.
      dataset_size: number of training documents.
      reconstruction: :func:`losses.multinomial_reconstruction`.
      output: what the decoder's logits mean.
      axis_name: mapped axis over which the batch is split, under ``pmap``.
    """
    if reconstruction is not losses.multinomial_reconstruction:
        raise ValueError(
            "methods.create: `reconstruction` must be 'multinomial' for topic models, "
            "whose documents are counts of words."
        )
    topics = sum(model.latent_groups)
    own = model.latent_groups if groups is None else groups
    groups = check_groups("topic_model", own, topics)
    variance = _prior_variance(concentration, topics)

    def loss(nets, key, step, batch, hyper):
        del step
        x = batch["image"]
        posterior = nets.encode(x)
        z = draw(jax.random.fold_in(key, 0), posterior, axis_name)
        prior_log_var = jnp.full_like(z, math.log(variance))
        return losses.hfvae(
            x,
            nets.decode(z),
            z,
            posterior.mean,
            posterior.log_var,
            alpha=hyper["alpha"],
            beta=hyper["beta"],
            gamma=hyper["gamma"],
            groups=groups,
            dataset_size=dataset_size,
            estimator=estimator,
            log_p_elements=distributions.gaussian_log_prob(
                z, jnp.zeros_like(z), prior_log_var
            ),
            reconstruction=reconstruction,
            axis_name=axis_name,
        )

    method = gradient_method(
        model, loss, optimizer, output=output, feed="documents", axis_name=axis_name
    )
    fields = {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    fields["latent_groups"] = groups
    return TopicModel(**fields, prior_variance=variance)


def _prior_variance(concentration: float | None, topics: int) -> float:
    if concentration is None:
        return 1.0
    if not (concentration > 0 and math.isfinite(concentration)):
        raise ValueError(
            "topic_model: `concentration` must be positive and finite, got "
            f"{concentration}; ProdLDA's is 1."
        )
    if topics < 2:
        raise ValueError(
            "topic_model: a Dirichlet prior needs at least 2 topics, got "
            f"{topics}; raise `latent_dim`."
        )
    return (1 - 1 / topics) / concentration
