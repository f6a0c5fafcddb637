"""Helpers for datasets whose images fall into a few labelled regions.

"Leveraging Relational Information for Learning Weakly Disentangled Representations"
(AbsAE), Sec. 4.1: some factors are restricted to bands of values and serve as labels,
the others vary without labels. A dataset is split *before* the training part is copied
with noise, whatever the recipe of the split; the published code copies first, which
puts versions of one image into both train and test. Validation and test images have no
noise.
"""

from collections.abc import Mapping

import numpy as np

from disentangle_jax.data.catalogue import DatasetDescription
from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.resizing import area_average
from disentangle_jax.data.samplers import with_noisy_copies


def banded(
    description: DatasetDescription,
    base: Dataset,
    values: Mapping[str, Mapping[int, int]],
    size: int,
) -> Dataset:
    """Returns the images of ``base`` whose factors have the given values, in memory.

    Args:
      description: the new dataset; its factors are factors of ``base``.
      base: the whole dataset.
      values: for restricted factors of ``base``: the new value of each value to keep.
      size: height and width to which the images are reduced by averaging areas.
    """
    narrowed = base.keep(**values)
    factors = narrowed.factors(narrowed.indices)
    columns = []
    for factor in description.factors:
        column = factors[:, base.factor_names.index(factor)]
        new = values.get(factor)
        columns.append(column if new is None else np.array([new[v] for v in column]))
    table = np.stack(columns, axis=1)
    return in_memory(description, area_average(_all_images(narrowed), size), table)


def in_memory(
    description: DatasetDescription, images: np.ndarray, table: np.ndarray
) -> Dataset:
    """Returns the dataset of these images ``[N, H, W, C]`` and factors ``[N, K]``."""
    return description.dataset(
        lambda indices: images[indices],
        image_shape=images.shape[1:],
        factor_table=table,
        in_memory=images,
    )


def split_with_copies(
    description: DatasetDescription,
    dataset: Dataset,
    split: str,
    recipe: str,
    copies: int,
) -> Dataset:
    """Returns a split; that for training includes noisy copies, which are made once.

    Args:
      description: the dataset.
      dataset: all its images.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      recipe: as in ``data.split_indices``.
      copies: noisy copies of each training image, per kind of noise.
    """
    part = dataset.split(split, recipe=recipe)
    if not copies or split != "train":
        return part
    noisy = with_noisy_copies(part, copies=copies)
    return in_memory(description, _all_images(noisy), noisy.factors(noisy.indices))


def _all_images(dataset: Dataset) -> np.ndarray:
    starts = range(0, len(dataset.indices), 1024)
    return np.concatenate(
        [dataset.images(dataset.indices[start : start + 1024]) for start in starts]
    )
