"""One trained model as one file, which needs neither its run nor its dataset.

A ``.safetensors`` file holds the parameters, a few test images, and as metadata the
config, a description of the dataset and the card with the scores.
"""

import json
import os
import pathlib

import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from disentangle_jax import config as config_lib
from disentangle_jax import files, rows, training
from disentangle_jax.evaluation.stored import read_scores, score_rows
from disentangle_jax.evaluation.trained import Networks, Trained
from disentangle_jax.types import State

SUFFIX = ".safetensors"
_EXAMPLES = "examples"
_PARTS = ("params", "model_state")
_SHOWN = 32  # Test images that are stored.


def export(model: Trained, path: str | os.PathLike, *, licence: str = "") -> None:
    """Writes a trained model to a file that :func:`load_exported` reads.

    Args:
      model: a trained model, with its dataset; evaluated, for its card.
      path: the file, which ends in ``.safetensors``.
      licence: licence of the weights, for the card.
    """
    path, run = pathlib.Path(path), model.run
    if path.suffix != SUFFIX:
        raise ValueError(f"export: `path` must end in {SUFFIX}, got {path}.")
    if not model.shows_images:
        raise ValueError(
            f"export: {run.config.method.name} cannot be exported: its vocabulary "
            "belongs to its dataset."
        )
    chosen = np.random.default_rng(0).choice(
        run.test_set.indices, min(_SHOWN, len(run.test_set.indices)), replace=False
    )
    tensors = {_EXAMPLES: run.test_set.images(chosen)}
    for part in _PARTS:
        leaves = flatten_dict(getattr(model.state, part), sep="/")
        tensors |= {f"{part}/{name}": np.asarray(a) for name, a in leaves.items()}
    # Folders of this machine mean nothing elsewhere.
    config = rows.apply(run.config, {"data.data_dir": "", "train.start_from": ""})
    metadata = {
        "config": config.to_json(),
        "dataset": json.dumps(training.describe_dataset(run)),
        "step": str(int(model.state.step)),
        "card": _card(model, licence),
    }
    files.write_bytes(path, save(tensors, metadata))


def _card(model: Trained, licence: str) -> str:
    """Returns the card of a model with its scores, commit and licence."""
    scores = read_scores(model.run.workdir)
    numbers = ", ".join(
        f"{row.name} {row.value:.4g}"
        for row in score_rows(scores)
        if row.value is not None
    )
    facts = {"scores": numbers, "commit": scores["commit"], "licence": licence}
    lines = [f"- {name}: {fact}" for name, fact in facts.items() if fact]
    return "\n".join([model.card, *lines])


def load_exported(path: str | os.PathLike) -> Trained:
    """Returns the model of a file that :func:`export` wrote, bit for bit.

    Its datasets hold the few images that are stored with it.

    Raises:
      ValueError: the file is damaged or was written by something else.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise ValueError(f"load: there is no file {path}.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        examples = tensors.pop(_EXAMPLES)
        config = config_lib.from_json(json.loads(metadata["config"]))
        config = config_lib.complete(config)
        known, step = json.loads(metadata["dataset"]), int(metadata["step"])
        card = metadata["card"]
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(
            f"load: {path} is damaged, or no model that `disentangle export` wrote "
            f"({error})."
        ) from None
    run = training.described_run(config, known, path.parent, examples)
    parts = {
        part: unflatten_dict(
            {
                name.removeprefix(f"{part}/"): jnp.asarray(tensor)
                for name, tensor in tensors.items()
                if name.startswith(f"{part}/")
            },
            sep="/",
        )
        for part in _PARTS
    }
    state = State(step=jnp.int32(step), opt_state=(), **parts)
    return Trained(run, state, Networks(run.method), card)


def read_card(path: str | os.PathLike) -> str:
    """Returns the card of an exported model: what it is, its scores and licence."""
    with safe_open(path, framework="numpy") as file:
        return file.metadata()["card"]
