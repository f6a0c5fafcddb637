"""Semi-supervised beta-VAE: a few labelled images tie latents to factors."""

from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import optax

from disentangle_jax import losses
from disentangle_jax.methods._method import Method, draw, gradient_method


def few_labels_vae(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    kind: str,
    factor_sizes: Sequence[int],
    reconstruction: Callable[[jax.Array, jax.Array], jax.Array],
    output: Callable[[jax.Array], jax.Array],
    axis_name: str | None,
) -> Method:
    """Returns a beta-VAE with an alignment term on labelled images.

    Locatello et al., "Disentangling Factors of Variation Using Few Labels", Eq. 2: each
    step sees a batch of plain images and one of labelled images, cycled from a small
    set, and minimises ``beta_vae + gamma_sup * supervised_alignment``.

    Args:
      model: the autoencoder, with at least as many latents as there are factors.
      optimizer: see :func:`gradient_method`.
      kind: ``"xent"``, ``"l2"`` or ``"cov"``; see :func:`losses.supervised_alignment`.
      factor_sizes: number of values of each factor.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      output: what the decoder's logits mean as an image.
      axis_name: mapped axis over which the batch is split, under ``pmap``.
    """
    if sum(model.latent_groups) < len(factor_sizes):
        raise ValueError(
            "few_labels_vae: `model` must have at least one latent per factor, got "
            f"{sum(model.latent_groups)} latents for {len(factor_sizes)} factors."
        )

    def loss(networks, key, step, batch, hyper):
        del step
        x = batch["image"]
        posterior = networks.encode(x)
        z = draw(key, posterior, axis_name)
        bound, terms = losses.beta_vae(
            x,
            networks.decode(z),
            z,
            posterior.mean,
            posterior.log_var,
            beta=hyper["beta"],
            reconstruction=reconstruction,
            axis_name=axis_name,
        )
        alignment = losses.supervised_alignment(
            networks.encode(batch["labelled_image"]).mean,
            batch["labels"],
            kind=kind,
            factor_sizes=tuple(factor_sizes),
            axis_name=axis_name,
        )
        value = bound + hyper["gamma_sup"] * alignment
        return value, {**terms, "alignment": alignment}

    return gradient_method(
        model, loss, optimizer, output=output, feed="labels", axis_name=axis_name
    )
