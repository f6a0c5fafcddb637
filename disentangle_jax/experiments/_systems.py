"""The systems that "Structure by Architecture" compares, by their names."""

import ml_collections

from disentangle_jax import models
from disentangle_jax.types import unknown_name

# Network and method. All networks take `channels` and `latent_dim`.
_BASELINES = {
    "ae": ("ae", "ae"),
    "wae": ("wae", "wae"),
    "vae": ("vae", "vae"),
    "beta_vae": ("vae", "beta_vae"),
}
_LAYERED = {"sae": "ae", "vlae": "vlae", "adaae": "ae"}


def names() -> tuple[str, ...]:
    """Returns the systems: those with a number of layers in their name, and others."""
    layered = [n for n in models.names() if n.partition("-")[0] in _LAYERED]
    return (*(n for n in layered if n.rpartition("-")[2].isdigit()), *_BASELINES)


def set_system(config: ml_collections.ConfigDict, name: str, beta: float) -> None:
    """Makes `config` that of one system.

    Args:
      config: of a run; its model keeps fields like ``channels``.
      name: one of :func:`names`.
      beta: weight of the KL term of ``beta_vae``; the paper chose 2 by validation loss.
    """
    if name not in names():
        raise unknown_name("experiment", "models", name, names())
    model, method = _BASELINES.get(name, (name, _LAYERED.get(name.partition("-")[0])))
    config.model.name = model
    config.method = {"name": method}
    if name == "beta_vae":
        config.method.beta = float(beta)


def untrained(scores: dict) -> bool:
    """Whether a run's error is above half that of answering with the mean image.

    Such a model has learned too little to be ranked.
    """
    errors = scores["reconstruction"]
    return errors["mse"] > 0.5 * errors["mse_of_mean_image"]
