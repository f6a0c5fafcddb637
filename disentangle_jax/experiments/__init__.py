"""The papers' protocols: several runs, then the table or figure that they are for.

Synopsis::

    experiment = experiments.prepare(config, workdir)  # every check, nothing trained
    page = experiments.run(experiment)                 # goes on where it was

The configs are in ``configs/experiments/``.
"""

import os
import pathlib

import ml_collections

from disentangle_jax.experiments import (
    _capacity,
    _extrapolation,
    _factor_importance,
    _model_table,
    _overlap,
    _relations,
    _structured,
    _zero_shot,
)
from disentangle_jax.experiments._protocol import Experiment as Experiment
from disentangle_jax.experiments._protocol import Protocol, check_experiment
from disentangle_jax.experiments._protocol import run_experiment as run
from disentangle_jax.experiments._study_page import write_study

_PROTOCOLS: dict[str, Protocol] = {
    "capacity": _capacity.PROTOCOL,
    "extrapolation": _extrapolation.PROTOCOL,
    "factor_importance": _factor_importance.PROTOCOL,
    "model_table": _model_table.PROTOCOL,
    "overlap": _overlap.PROTOCOL,
    "relations": _relations.PROTOCOL,
    "structured": _structured.PROTOCOL,
    "zero_shot": _zero_shot.PROTOCOL,
}

__all__ = ["Experiment", "names", "prepare", "run", "write_study"]


def names() -> tuple[str, ...]:
    """Returns what ``experiment.name`` may be."""
    return tuple(_PROTOCOLS)


def prepare(
    config: ml_collections.ConfigDict, workdir: str | os.PathLike
) -> Experiment:
    """Checks a protocol, and the config of each of its stages.

    Args:
      config: a complete config with a section ``experiment``.
      workdir: folder of the protocol.

    Raises:
      ValueError: the config contradicts the protocol, or that of a stage is wrong.
      FileNotFoundError: a dataset's file is missing; says what to fetch.
    """
    return check_experiment(config, pathlib.Path(workdir), _PROTOCOLS)
