"""Any config in small: generated images in place of files, narrow networks, few steps.

So that every command of the papers' tables and figures can be tested to its end.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from disentangle_jax import config as config_lib
from disentangle_jax import data, models, rows
from disentangle_jax.batching import in_batches
from disentangle_jax.data import catalogue
from disentangle_jax.data.rendering import rendered_dataset

# Numbers of combinations of factors for which a dataset is the grid of them.
_GRID = range(201, 2_000_001)
# Images of other datasets: in all, and of each combination, at least.
_IMAGES, _EACH = 3000, 45
# Sizes of networks and numbers of examples, wherever a config has them.
_MODEL = {"channels": 8, "width": 8, "widths": (8,), "head_width": 8}
_METHOD = {
    "width": 8, "depth": 1, "critic_width": 8, "warmup_steps": 1, "relation_batch": 4,
}  # fmt: skip
_FIELDS = {
    "train": {
        "num_steps": 2, "num_epochs": 0, "batch_size": 8, "log_every": 1,
        "checkpoint_every": 2, "steps_per_dispatch": 1,
    },
    "eval": {
        "num_train": 60, "num_test": 30, "batch_size": 16, "hybrid_bank": 8,
        "fid_images": 8, "num_samples": 4,
    },
    "data": {"num_labels": 20},
}  # fmt: skip


def config(given: ConfigDict) -> ConfigDict:
    """Returns a config of any kind that trains few models for two steps.

    Lists of a protocol keep their first entry, those that other fields name, and
    beta-VAE, without which its values of beta are refused; large numbers become small.
    """
    made = given.copy_and_resolve_references()
    known = [v for n, v in rows.flat(made).items() if not n.startswith("experiment")]
    known += made.get("experiment", {}).get("options", {})
    with made.ignore_type():
        for name, value in made.get("experiment", {}).items():
            made.experiment[name] = _few(name, value, known)
        usual = config_lib.default()
        if all(
            rows.flat(made[name]) == rows.flat(usual[name])
            for name in ("model", "method", "train")
        ):
            return made  # A protocol that trains nothing, and refuses such fields.
        systems = made.get("experiment", {}).get("options", {}).values()
        for section, fields in _FIELDS.items():
            made[section].update(fields)
            for own in (system.get(section, {}) for system in systems):
                own.update({name: fields[name] for name in fields.keys() & own.keys()})
        for section, fields in (("model", _MODEL), ("method", _METHOD)):
            for name in fields.keys() & made[section].keys():
                made[section][name] = fields[name]
        if "norm_groups" in models.describe(made.model.name).overrides:
            made.model.norm_groups = 1  # So that few channels can be divided.
        made.lanes.seeds = min(made.lanes.seeds, 2)
    return made


def _few(name: str, value: Any, known: list[Any]) -> Any:
    if isinstance(value, tuple):
        kept = [*known, "beta_vae"]
        return tuple(v for i, v in enumerate(value) if i == 0 or v in kept)
    if type(value) is int and name.endswith("steps"):
        return min(value, 2)
    return min(value, 40) if type(value) is int else value


def generate_files(patch: pytest.MonkeyPatch) -> None:
    """Lets datasets that need a publisher's file hold generated images instead."""
    find = catalogue.find

    @functools.cache
    def found(name: str, function: str) -> Callable[..., data.Dataset]:
        dataset = find(name, function)
        return _generated(dataset) if dataset.description.fetch else dataset

    patch.setattr(catalogue, "find", found)


def _generated(function: Callable[..., data.Dataset]) -> Callable[..., data.Dataset]:
    whole = functools.cache(lambda: _dataset(function.description))

    @functools.wraps(function)  # Its options are checked as those of `function` are.
    def load(*, data_dir=None, split="train", split_recipe="paper", **options):
        del data_dir
        if function.description.documents:
            corpus = catalogue.find("synthetic_topics", "small")
            return corpus(split=split, documents=400, topics=4, vocabulary_size=30)
        dataset = whole()
        if "size" in options:
            dataset = dataset.resized(options["size"])
        return dataset.split(split, recipe=split_recipe)

    return load


def _dataset(description: data.DatasetDescription) -> data.Dataset:
    """Returns images that are a fixed function of their factors."""
    sizes, shape = description.factor_sizes, description.image_shape
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((len(sizes) + 3, math.prod(shape)), np.float32)
    weights /= np.array([*sizes, 4, 4, 4], np.float32)[:, None]

    def render(factors):
        sums = jnp.asarray(factors, jnp.float32) @ weights[: factors.shape[1]]
        return (255 / (1 + jnp.exp(-sums))).astype(jnp.uint8).reshape(-1, *shape)

    combinations = math.prod(sizes)
    if combinations in _GRID:
        return rendered_dataset(description, render, "all")
    # Three more factors that are not known, so that images of a combination differ.
    if combinations > _GRID.stop:
        table = rng.integers(0, sizes, (_IMAGES, len(sizes)))
    else:
        grid = np.stack(np.unravel_index(np.arange(combinations), sizes or (1,)), 1)
        repeats = max(-(-_IMAGES // combinations), _EACH)
        table = np.tile(grid[:, : len(sizes)], (repeats, 1))
    hidden = rng.integers(0, 4, (len(table), 3))
    complete = np.concatenate([table, hidden], axis=1)

    def images(indices):
        return in_batches(render, complete[indices], 200)

    small = math.prod(shape) <= 64 * 64 * 3
    return description.dataset(
        images,
        factor_table=table if sizes else None,
        length=len(table),
        in_memory=images(np.arange(len(table))) if small else None,
    )
