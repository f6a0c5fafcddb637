"""Small trained models that ship with the package.

::

    from disentangle_jax import zoo

    zoo.names()
    model = zoo.load("sae-12/rendered_shapes3d-32")   # an evaluation.Trained
    print(zoo.card("sae-12/rendered_shapes3d-32"))

``disentangle explore zoo:NAME`` opens the explorer on one of them.
"""

import pathlib

from disentangle_jax import evaluation
from disentangle_jax.evaluation.exported import SUFFIX
from disentangle_jax.types import unknown_name

_FOLDER = pathlib.Path(__file__).parent


def names() -> tuple[str, ...]:
    """Returns the names of the models, network and dataset with the image size."""
    found = sorted(_FOLDER.glob(f"*/*{SUFFIX}"))
    return tuple(
        path.relative_to(_FOLDER).as_posix().removesuffix(SUFFIX) for path in found
    )


def path(name: str) -> pathlib.Path:
    """Returns the file of a model."""
    if name not in names():
        raise unknown_name("zoo", "name", name, names())
    return _FOLDER / f"{name}{SUFFIX}"


def load(name: str) -> evaluation.Trained:
    """Returns a trained model; its dataset is not needed."""
    return evaluation.load_exported(path(name))


def card(name: str) -> str:
    """Returns what a model is: config, training, scores, seed, commit, licence."""
    return evaluation.read_card(path(name))
