"""The models that "Structure by Architecture" compares, by their names."""

from typing import Any

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
    """Returns the names: those with a number of layers (``sae-12``) and baselines."""
    layered = [n for n in models.names() if n.partition("-")[0] in _LAYERED]
    return (*(n for n in layered if n.rpartition("-")[2].isdigit()), *_BASELINES)


def fields(name: str) -> dict[str, Any]:
    """Returns the fields of a config that make it train one of :func:`names`.

    The section ``method`` is replaced; the network keeps fields like ``channels``.
    """
    if name not in names():
        raise unknown_name("experiment", "models", name, names())
    model, method = _BASELINES.get(name, (name, _LAYERED.get(name.partition("-")[0])))
    return {"model.name": model, "method": {"name": method}}
