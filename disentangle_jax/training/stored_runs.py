"""Opens the run of a folder without its dataset."""

import json
import os
import pathlib
from typing import Any

import jax
import numpy as np

from disentangle_jax import data, files
from disentangle_jax.training.lanes import expand
from disentangle_jax.training.mesh import make_mesh
from disentangle_jax.training.processes import is_first
from disentangle_jax.training.run import Run, make_method, prepare
from disentangle_jax.training.workdir import read_config

_FILE = "dataset.json"


def write_dataset(run: Run) -> None:
    """Writes what the networks depend on of the dataset into the folder of a run."""
    if not is_first():
        return
    train_set = run.train_set
    known = {
        "name": train_set.name,
        "documents": isinstance(train_set, data.Corpus),
        "image_shape": list(train_set.image_shape),
        "factor_names": list(train_set.factor_names),
        "factor_sizes": list(train_set.factor_sizes),
        "train_images": len(train_set.indices),
        "test_images": len(run.test_set.indices),
    }
    files.write_json(run.workdir / _FILE, known)


def _absent(known: dict[str, Any], images: int) -> data.Dataset:
    """Returns a dataset of known shape whose images are not there."""

    def read(indices: np.ndarray) -> np.ndarray:
        raise ValueError(
            f"load: the model was loaded without its dataset {known['name']!r}; use "
            "training.prepare(training.read_config(workdir), workdir) for both."
        )

    dataset = data.Dataset(
        known["name"],
        image_shape=tuple(known["image_shape"]),
        images=read,
        factor_names=known["factor_names"],
        factor_sizes=known["factor_sizes"],
        length=images,
    )
    dataset.indices = np.arange(images)
    return dataset


def open_run(workdir: str | os.PathLike) -> Run:
    """Returns the run of a folder; its dataset need not be there.

    The datasets of the run have shapes, factors and lengths, but no images. Topic
    models, whose vocabulary is part of the dataset, and folders of earlier versions are
    opened with their dataset.

    Raises:
      ValueError: the folder holds no run.
    """
    workdir = pathlib.Path(workdir)
    config = read_config(workdir)
    path = workdir / _FILE
    known = json.loads(path.read_text()) if path.exists() else {"documents": True}
    if known["documents"]:
        return prepare(config, workdir)
    train_set = _absent(known, known["train_images"])
    test_set = _absent(known, known["test_images"])
    lanes = expand(config)
    mesh = make_mesh(config, len(lanes), jax.devices())
    method = make_method(config, train_set)
    return Run(config, workdir, train_set, test_set, method, lanes, mesh)
