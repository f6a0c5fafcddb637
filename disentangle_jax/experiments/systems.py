"""The models that "Structure by Architecture" compares, by their names.

A name may have an ending, as ``wae+code_mmd``: the same system once more, for which
``experiment.options`` holds other options.
"""

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
# Method and architecture of the systems with a number of layers.
_LAYERED = {
    "sae": ("ae", "Structural"),
    "vlae": ("vlae", "Ladder"),
    "adaae": ("ae", "Adaptive"),
}


def names() -> tuple[str, ...]:
    """Returns the names: those with a number of layers (``sae-12``) and baselines."""
    layered = [n for n in models.names() if n.partition("-")[0] in _LAYERED]
    return (*(n for n in layered if n.rpartition("-")[2].isdigit()), *_BASELINES)


def base(name: str) -> str:
    """Returns the name of a system without its ending."""
    return name.partition("+")[0]


def fields(name: str) -> dict[str, Any]:
    """Returns the fields of a config that make it train one of :func:`names`.

    The section ``method`` is replaced; the network keeps fields like ``channels``.
    """
    system = base(name)
    if system not in names():
        raise unknown_name("experiment", "models", name, names())
    layered = _LAYERED.get(system.partition("-")[0], ("", ""))
    model, method = _BASELINES.get(system, (system, layered[0]))
    return {"model.name": model, "method": {"name": method}}


def architecture(name: str) -> str:
    """Returns the paper's word for the architecture of a system."""
    return _LAYERED.get(base(name).partition("-")[0], ("", "Baseline"))[1]


def has_prior(name: str) -> bool:
    """Returns whether a system is trained towards the prior, and can be drawn from."""
    return fields(name)["method"]["name"] != "ae"
