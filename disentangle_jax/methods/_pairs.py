"""Weak supervision by pairs: Ada-GVAE and Ada-ML-VAE."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from disentangle_jax import losses
from disentangle_jax.methods._method import Method, draw, gradient_method
from disentangle_jax.types import Posterior

_OBJECTIVES = {"gvae": losses.ada_gvae, "ml_vae": losses.ada_ml_vae}


def adaptive_pairs(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    *,
    average: str,
    distance: str,
    reconstruction: Callable[[jax.Array, jax.Array], jax.Array],
    output: Callable[[jax.Array], jax.Array],
    axis_name: str | None,
) -> Method:
    """Returns Ada-GVAE or Ada-ML-VAE, which train on pairs that share some factors.

    Locatello et al., "Weakly-Supervised Disentanglement Without Compromises", Sec. 4:
    both images are encoded, the posteriors of dimensions that differ little are
    averaged, and both are decoded from draws of the averaged posteriors.

    Args:
      model: the autoencoder; its encoder must give a log-variance.
      optimizer: see :func:`gradient_method`.
      average: ``"gvae"`` or ``"ml_vae"``, how shared posteriors are averaged.
      distance: ``"symmetric_kl"`` or ``"kl"``.
      reconstruction: function of ``(x, logits)`` that returns ``[B]``.
      output: what the decoder's logits mean as an image.
      axis_name: mapped axis over which the batch is split, under ``pmap``.
    """
    objective = _OBJECTIVES[average]

    def loss(networks, key, step, batch, hyper):
        del step
        rows = batch["image"].shape[0]
        x = jnp.concatenate([batch["image"], batch["image2"]])
        mean, log_var, _ = networks.encode(x)
        mean1, log_var1, mean2, log_var2 = losses.ada_gvae_posteriors(
            mean[:rows],
            log_var[:rows],
            mean[rows:],
            log_var[rows:],
            distance=distance,
            average=average,
            ratio=hyper["ratio"],
        )
        keys = jax.random.split(key)  # Each member of the pair has its own noise.
        z1 = draw(keys[0], Posterior(mean1, log_var1), axis_name)
        z2 = draw(keys[1], Posterior(mean2, log_var2), axis_name)
        z = jnp.concatenate([z1, z2])
        return objective(
            x,
            networks.decode(z),
            z,
            mean,
            log_var,
            beta=hyper["beta"],
            distance=distance,
            ratio=hyper["ratio"],
            reconstruction=reconstruction,
            axis_name=axis_name,
        )

    return gradient_method(
        model, loss, optimizer, output=output, feed="pairs", axis_name=axis_name
    )
