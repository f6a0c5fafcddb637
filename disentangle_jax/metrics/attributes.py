"""Scores of binary attributes, such as those of CelebA: TAD."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.information import Information, contingency, top_two
from disentangle_jax.metrics.inputs import ArrayLike, Arrays, Score, check_arrays


def _areas(scores: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Returns the ROC areas ``[classes]`` of a score ``[N]`` for each class, ≥ 1/2.

    The score may point either way. NaN for a class that has no rows, or all of them.
    """
    ranks = rankdata(scores)
    count = np.bincount(labels, minlength=classes)
    total = np.bincount(labels, weights=ranks, minlength=classes)
    others = count * (len(labels) - count)
    with np.errstate(invalid="ignore", divide="ignore"):
        area = (total - count * (count + 1) / 2) / others
    return 0.5 + np.abs(area - 0.5)


def _detection(arrays: Arrays) -> np.ndarray:
    """Returns the ROC area ``[G, K]`` of each latent variable for each factor.

    A variable of several dimensions detects a class by the least-squares fit of its
    indicator.
    """
    found = np.empty((len(arrays.groups), len(arrays.sizes)))
    starts = np.cumsum((0, *arrays.groups))
    for g, (start, end) in enumerate(zip(starts, starts[1:])):
        block = arrays.codes[:, start:end].astype(np.float64)
        centred = block - block.mean(axis=0)
        for k, (labels, size) in enumerate(zip(arrays.labels.T, arrays.sizes)):
            if end - start == 1:
                areas = _areas(block[:, 0], labels, size)
            else:
                hot = np.eye(size)[labels]
                w = np.linalg.lstsq(centred, hot - hot.mean(axis=0), rcond=None)[0]
                fits = np.round(centred @ w, 12)  # Equal rows are ties.
                areas = np.array(
                    [_areas(fits[:, c], labels, size)[c] for c in range(size)]
                )
            # The two classes of a binary attribute have the same area.
            found[g, k] = np.nanmean(areas)
    return found


def _shared_entropy(arrays: Arrays) -> np.ndarray:
    """Returns the largest share ``[K]`` of a factor's entropy that another explains."""
    sizes = arrays.sizes
    if len(sizes) < 2:
        return np.zeros(1)
    tables = contingency(arrays.labels, arrays.labels, cells=max(sizes), sizes=sizes)
    info = Information(tables, sizes)
    others = np.where(np.eye(len(sizes), dtype=bool), 0.0, info.mi).max(axis=0)
    return others / np.where(info.factor_entropy > 0, info.factor_entropy, np.inf)


@define(
    keys={
        "tad": "sum over detected attributes of the gap between the two latents that "
        "detect each best (higher is better)",
        "captured": "number of attributes that a latent detects",
    },
    range=(0.0, np.inf),
    groups=True,
    matrices={
        "auroc": (
            "How well each latent detects each attribute",
            "ROC area of each latent as a detector of each attribute (TAD), between "
            "0.5 and 1.",
        )
    },
    reference="Yeats et al. 2022, NashAE: Disentangling Representations through "
    "Adversarial Covariance Minimization",
)
def tad(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    threshold: float = 0.75,
    largest_share: float = 0.2,
    seed: int = 0,
) -> Score:
    r"""Total AUROC difference (Yeats et al. 2022), for attributes such as CelebA's.

    With :math:`a_{ik} \ge 1/2` the area under the ROC curve of latent i as a detector
    of attribute k (of z or of −z),

    .. math:: \mathrm{TAD} = \sum_{k \in \mathcal C} a_{(1)k} - a_{(2)k}

    over the captured attributes: those with :math:`a_{(1)k} \ge` ``threshold`` of whose
    entropy no other attribute explains more than ``largest_share`` (attributes that go
    together would be found in the same latents). Between 0 and K/2, higher is better.
    With a single latent variable the second area is 1/2, as is that of a dead latent.

    A factor with more than two values has the mean of the areas of its values against
    all others.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score. A
        multi-dimensional variable detects by the least-squares fit of a class's
        indicator. There is no test part and no randomness.
      threshold: smallest area of a captured attribute.
      largest_share: largest share of a captured attribute's entropy that another
        attribute may explain.

    Returns:
      ``tad`` and ``captured``; the areas are in ``matrices["auroc"]`` ``[G, K]``.
    """
    arrays = check_arrays("tad", codes, factors, codes_test, factors_test, groups)
    areas = _detection(arrays)
    first, second = top_two(areas, 0)
    if len(areas) == 1:
        second = np.full_like(first, 0.5)
    captured = (first >= threshold) & (_shared_entropy(arrays) <= largest_share)
    return Score(
        {"tad": np.sum((first - second)[captured]), "captured": captured.sum()},
        arrays.settings(threshold=threshold, largest_share=largest_share),
        matrices={"auroc": areas},
    )
