"""Disentangled representation learning in pure JAX.

Each room of the library is a module of its own, imported on first use, so that
``import disentangle_jax`` costs nothing and pulls in neither TensorFlow nor orbax::

    import disentangle_jax as dj

    loss, terms = dj.losses.beta_vae(x, logits, z, mean, log_var, beta=4.0)
    scores = dj.metrics.evaluate(codes, factors)
"""

import importlib

_ROOMS = (
    "config",
    "data",
    "distributions",
    "experiments",
    "losses",
    "methods",
    "metrics",
    "models",
    "reports",
    "sampling",
    "sweep",
    "training",
    "types",
)

__version__ = "0.1.0"


def __getattr__(name: str):
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ROOMS])
