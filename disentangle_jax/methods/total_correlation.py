"""Methods that penalise the total correlation of the aggregate posterior."""

import functools
from collections.abc import Sequence

import flax.linen as nn
import optax

from disentangle_jax import losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod, one_objective


@define(
    hyperparameters={
        "beta": Hyperparameter(doc="weight of the total correlation"),
        "alpha": Hyperparameter(1.0, doc="weight of the mutual information"),
        "gamma": Hyperparameter(1.0, doc="weight of the KL of the marginals"),
    },
    reference='Chen et al., "Isolating Sources of Disentanglement in VAEs", Eq. 4',
)
def beta_tc_vae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
    dataset_size: int | None,
    estimator: str = "stratified",
    kl: str = "sampled",
) -> GradientMethod:
    """Returns a beta-TCVAE, which weights the three parts of the KL divergence."""
    objective = functools.partial(
        losses.beta_tc_vae, dataset_size=dataset_size, estimator=estimator, kl=kl
    )
    return one_objective(model, objective, optimizer, likelihood, axis_name)


@define(
    hyperparameters={
        "beta": Hyperparameter(doc="weight of the mutual information"),
        "gamma": Hyperparameter(doc="weight of the total correlation"),
    },
    reference='Achille and Soatto, "Information Dropout", Eq. 8',
)
def information_dropout(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
    dataset_size: int | None,
    estimator: str = "stratified",
) -> GradientMethod:
    """Returns information dropout: a bottleneck with a total correlation."""
    objective = functools.partial(
        losses.information_dropout, dataset_size=dataset_size, estimator=estimator
    )
    return one_objective(model, objective, optimizer, likelihood, axis_name)


@define(
    hyperparameters={
        "lambda_": Hyperparameter(doc="weight of the anchors' mutual information"),
    },
    reference='Gao et al., "Auto-Encoding Total Correlation Explanation"',
)
def anchor_vae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    likelihood: losses.Likelihood,
    axis_name: str | None,
    dataset_size: int | None,
    anchors: Sequence[int] = (0,),
    estimator: str = "stratified",
) -> GradientMethod:
    """Returns an AnchorVAE, which rewards the information of some latents on x.

    Its option `anchors` holds the indices of these latents.
    """
    latents = sum(model.latent_groups)
    if not anchors or not all(0 <= index < latents for index in anchors):
        raise ValueError(
            f"anchor_vae: `anchors` must be indices of the {latents} latents, at least "
            f"one, got {anchors}."
        )
    objective = functools.partial(
        losses.anchor_vae,
        anchors=tuple(anchors),
        dataset_size=dataset_size,
        estimator=estimator,
    )
    return one_objective(model, objective, optimizer, likelihood, axis_name)
