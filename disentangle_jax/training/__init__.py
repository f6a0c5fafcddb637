"""Training and evaluating a run.

Synopsis::

    run = training.prepare(config, workdir)  # every check, nothing compiled
    training.train(run)                      # resumes where it was
    scores = training.evaluate(run)          # scores.json, pictures.npz

or all of it by :func:`train_and_evaluate`.
"""

import os
from typing import Any

import ml_collections

from disentangle_jax.training.checkpoint import (
    UnreadableCheckpoint as UnreadableCheckpoint,
)
from disentangle_jax.training.compilation import keep_freed_memory as keep_freed_memory
from disentangle_jax.training.compilation import (
    use_compilation_cache as use_compilation_cache,
)
from disentangle_jax.training.evaluation import encode_images as encode_images
from disentangle_jax.training.evaluation import evaluate as evaluate
from disentangle_jax.training.evaluation import evaluate_models as evaluate_models
from disentangle_jax.training.evaluation import (
    evaluated_folders as evaluated_folders,
)
from disentangle_jax.training.export import export_lane as export_lane
from disentangle_jax.training.generation import sample as sample
from disentangle_jax.training.generation import training_codes as training_codes
from disentangle_jax.training.logging import duration as duration
from disentangle_jax.training.logging import read_metrics as read_metrics
from disentangle_jax.training.loop import Interrupted as Interrupted
from disentangle_jax.training.loop import NonFiniteLoss as NonFiniteLoss
from disentangle_jax.training.loop import train as train
from disentangle_jax.training.memory import TooLarge as TooLarge
from disentangle_jax.training.processes import join_processes as join_processes
from disentangle_jax.training.provenance import recipe as recipe
from disentangle_jax.training.provenance import write_json as write_json
from disentangle_jax.training.run import Run as Run
from disentangle_jax.training.run import check_workdir as check_workdir
from disentangle_jax.training.run import config_from_json as config_from_json
from disentangle_jax.training.run import load_split as load_split
from disentangle_jax.training.run import prepare as prepare
from disentangle_jax.training.run import read_config as read_config
from disentangle_jax.training.trained import Trained as Trained
from disentangle_jax.training.trained import check_trained as check_trained
from disentangle_jax.training.trained import load_trained as load_trained


def train_and_evaluate(
    config: ml_collections.ConfigDict, workdir: str | os.PathLike
) -> dict[str, Any]:
    """Trains `config` in `workdir`, from where it was, and returns its scores.

    Where the config has lanes, the scores of each by its name.
    """
    run = prepare(config, workdir)
    train(run)
    return evaluate(run)
