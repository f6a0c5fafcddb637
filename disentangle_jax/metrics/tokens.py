"""Scalar codes of vector-valued ones: the first principal component of each token."""

from collections.abc import Callable, Sequence

import numpy as np

from disentangle_jax.metrics.inputs import ArrayLike, check_codes
from disentangle_jax.types import Posterior, check_groups


def first_components(
    codes: ArrayLike, groups: Sequence[int]
) -> Callable[[ArrayLike], np.ndarray]:
    """Returns a function that maps codes ``[M, D]`` to scalars ``[M, G]``, by PCA.

    Each latent variable of several dimensions (a token) is replaced by its projection
    onto its first principal component, as DisDiff and EncDiff do before they compute
    the scores of single dimensions. Variables of one dimension stay as they are. A
    component points where its largest coefficient is positive.

    Args:
      codes: ``[N, D]`` codes whose principal components are taken.
      groups: sizes of the variables.
    """
    codes = check_codes("first_components", "codes", codes)
    groups = check_groups("first_components", groups, codes.shape[1])
    mean = codes.mean(axis=0, dtype=np.float64)
    directions = np.zeros((codes.shape[1], len(groups)))
    start = 0
    for g, size in enumerate(groups):
        block = slice(start, start + size)
        start += size
        if size == 1:
            directions[block, g], mean[block] = 1.0, 0.0
            continue
        centred = codes[:, block] - mean[block]
        _, vectors = np.linalg.eigh(centred.T @ centred)
        first = vectors[:, -1]
        directions[block, g] = first * np.sign(first[np.abs(first).argmax()])

    def project(new: ArrayLike) -> np.ndarray:
        new = new.mean if isinstance(new, Posterior) else new
        new = check_codes("first_components", "codes", new)
        return ((new - mean) @ directions).astype(new.dtype)

    return project
