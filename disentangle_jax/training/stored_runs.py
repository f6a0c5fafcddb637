"""Opens the run of a folder, or of an exported model, without its dataset."""

import json
import os
import pathlib
from typing import Any

import jax
import ml_collections
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax import data, files
from disentangle_jax.training.lanes import expand
from disentangle_jax.training.mesh import make_mesh
from disentangle_jax.training.processes import is_first
from disentangle_jax.training.run import Run, make_method, prepare
from disentangle_jax.training.workdir import read_config

_FILE = "dataset.json"


def describe_dataset(run: Run) -> dict[str, Any]:
    """Returns what the networks depend on of the dataset, as JSON has it."""
    train_set = run.train_set
    return {
        "name": train_set.name,
        "documents": isinstance(train_set, data.Corpus),
        "image_shape": list(train_set.image_shape),
        "factor_names": list(train_set.factor_names),
        "factor_sizes": list(train_set.factor_sizes),
        "train_images": len(train_set.indices),
        "test_images": len(run.test_set.indices),
    }


def write_dataset(run: Run) -> None:
    """Writes what the networks depend on of the dataset into the folder of a run."""
    if is_first():
        files.write_json(run.workdir / _FILE, describe_dataset(run))


class _Absent(data.Dataset):
    """A dataset of known shape, of which at most some examples are there.

    Args:
      known: of :func:`describe_dataset`.
      images: number of images, if there are no examples.
      examples: uint8 images; None for none.
    """

    def __init__(
        self, known: dict[str, Any], images: int, examples: np.ndarray | None
    ) -> None:
        self._examples = examples
        super().__init__(
            known["name"],
            image_shape=tuple(known["image_shape"]),
            images=self._read,
            length=images if examples is None else len(examples),
        )
        self.factor_names = tuple(known["factor_names"])
        self.factor_sizes = tuple(known["factor_sizes"])

    def _read(self, indices: np.ndarray) -> np.ndarray:
        if self._examples is None:
            raise self._missing()
        return self._examples[indices]

    def factors(self, indices: ArrayLike) -> np.ndarray:
        raise self._missing()

    def _missing(self) -> ValueError:
        return ValueError(
            f"load: the model was loaded without its dataset {self.name!r}; use "
            "training.prepare(training.read_config(workdir), workdir) for both."
        )


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
    return described_run(config, known, workdir)


def described_run(
    config: ml_collections.ConfigDict,
    known: dict[str, Any],
    workdir: str | os.PathLike,
    examples: np.ndarray | None = None,
) -> Run:
    """Returns the run of a config on a dataset of which only a description is there.

    Args:
      config: the config of the run.
      known: of :func:`describe_dataset`.
      workdir: folder of the run.
      examples: uint8 images that take the place of the training and the test images;
        None for none.
    """
    train_set = _Absent(known, known["train_images"], examples)
    test_set = _Absent(known, known["test_images"], examples)
    lanes = expand(config)
    mesh = make_mesh(config, len(lanes), jax.devices())
    # Some objectives depend on the size of the dataset, whatever is there of it.
    method = make_method(config, _Absent(known, known["train_images"], None))
    return Run(config, pathlib.Path(workdir), train_set, test_set, method, lanes, mesh)
