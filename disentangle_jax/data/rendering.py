"""Datasets that are rendered in JAX instead of read from files."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax.batching import in_batches
from disentangle_jax.data.catalogue import DatasetDescription
from disentangle_jax.data.dataset import Dataset

_CHUNK = 64


def rendering_of(original: DatasetDescription) -> dict[str, Any]:
    """Returns the fields of the description of our rendering of a dataset."""
    shared = ("factors", "image_shape", "size", "moments")
    fields = {name: getattr(original, name) for name in shared}
    return {**fields, "licence": "Apache-2.0"}


def rendered_dataset(
    description: DatasetDescription,
    render: Callable[[ArrayLike], jax.Array],
    split: str,
) -> Dataset:
    """Returns a split of the dataset whose images ``render`` draws.

    Args:
      description: the dataset.
      render: pure-JAX function from factors ``[n, K]`` to uint8 images.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
    """
    images = functools.partial(_images, description, jax.jit(render))
    return description.dataset(images, render=render).split(split)


def _images(
    description: DatasetDescription,
    render: Callable[[ArrayLike], jax.Array],
    indices: np.ndarray,
) -> np.ndarray:
    """Renders on the CPU, so that the accelerator that trains is not interrupted."""
    if not len(indices):
        return np.zeros((0, *description.fixed_shape), np.uint8)
    factors = np.stack(np.unravel_index(indices, description.factor_sizes), axis=-1)
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        return in_batches(render, factors, _CHUNK)
