"""Semi-supervised beta-VAE: labels of a few images align latents with factors."""

import dataclasses

import jax

from disentangle_jax import data, losses
from disentangle_jax.methods.definition import Hyperparameter, define
from disentangle_jax.methods.gradient import GradientMethod
from disentangle_jax.methods.method import Batch, Hyper, Networks, Terms, log_variances


@define(
    name="few_labels_vae",
    hyperparameters={
        "beta": Hyperparameter(1.0, doc="weight of the KL divergence"),
        "gamma_sup": Hyperparameter(doc="weight of the alignment with the labels"),
    },
    reference='Locatello et al., "Disentangling Factors of Variation Using Few Labels"',
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class FewLabelsVAE(GradientMethod):
    """A beta-VAE with an alignment term on labelled images.

    Each step sees a batch of images and a batch of labelled images from a small subset,
    and minimises ``beta_vae + gamma_sup * supervised_alignment`` (Eq. 2). The model
    must have at least one latent per factor.

    Attributes:
      factor_sizes: number of values of each factor.
      kind: ``"xent"``, ``"l2"`` or ``"cov"``; see :func:`losses.supervised_alignment`.
    """

    inputs = data.LabelledImages()
    factor_sizes: tuple[int, ...]
    kind: str = "xent"

    def __post_init__(self) -> None:
        latents, factors = sum(self.latent_groups), len(self.factor_sizes)
        if latents < factors:
            raise ValueError(
                "few_labels_vae: `model` must have at least one latent per factor, got "
                f"{latents} latents for {factors} factors."
            )

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
        bound, terms = losses.beta_vae(
            x,
            networks.decode(z),
            z,
            posterior.mean,
            log_variances(posterior),
            beta=hyper["beta"],
            reconstruction=self.likelihood.loss,
            axis_name=self.axis_name,
        )
        alignment = losses.supervised_alignment(
            networks.encode(batch["labelled_image"]).mean,
            batch["labels"],
            kind=self.kind,
            factor_sizes=self.factor_sizes,
            axis_name=self.axis_name,
        )
        value = bound + hyper["gamma_sup"] * alignment
        return value, {**terms, "alignment": alignment}
