"""Disentangled representation learning in pure JAX.

Subpackages are imported on first use, so ``import disentangle_jax`` is fast and imports
neither TensorFlow nor orbax::

    import disentangle_jax as dj

    loss, terms = dj.losses.beta_vae(x, logits, z, mean, log_var, beta=4.0)
    scores = dj.metrics.evaluate(codes, factors)

===================================  ================================================
``losses, distributions, sampling``  pure functions of arrays
``models``                           networks with the papers' parameter counts
``metrics``                          scores of codes and factors, and of images
``data``                             datasets, renderers, tf.data streams
``methods``                          networks, objective and update step of each method
``training``                         runs, lanes, checkpoints
``evaluation``                       the trained model, and the evaluators that score it
``experiments``                      the papers' protocols, and their tables as data
``reports``                          pages, comparisons, the explorer
``rows, sweep``                      many models as rows of changed fields
``zoo``                              small trained models
===================================  ================================================
"""

import importlib
from types import ModuleType

SUBPACKAGES = (
    "config",
    "data",
    "distributions",
    "evaluation",
    "experiments",
    "losses",
    "methods",
    "metrics",
    "models",
    "reports",
    "rows",
    "sampling",
    "sweep",
    "training",
    "types",
    "zoo",
)

__version__ = "0.1.0"


def missing(error: ModuleNotFoundError) -> str:
    """Returns which package is not installed, and what to do."""
    return (
        f"{str(error.name).partition('.')[0]}, which is not installed; `pip install "
        "disentangle_jax` without --no-deps installs everything."
    )


def __getattr__(name: str) -> ModuleType:
    if name in SUBPACKAGES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            text = f"{__name__}.{name} needs {missing(error)}"
            raise ModuleNotFoundError(text, name=error.name) from None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *SUBPACKAGES])
