"""FID, KID, precision and recall: distances of images by the features of a network.

    score = metrics.fid(images_a, images_b, weights="…/inception.npz")
    score["fid"]

The features are those of the Inception network of 2015-12-05, as in published values.
``features=`` takes any other extractor; the result is then not called FID. The
arguments `weights`, `features` and `batch_size` are those of `metrics.images.features`;
images may also be given as their `feature_statistics`.
"""

import math
import os
from typing import Any, cast

import numpy as np

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.images import inception
from disentangle_jax.metrics.images.features import (
    Extractor,
    FeatureStatistics,
    Images,
    statistics_of,
)
from disentangle_jax.metrics.inputs import Score


@define(
    keys={
        "fid": "distance of the Inception features of two sets of images (0 is best)"
    },
    range=(0.0, np.inf),
    higher_is_better=False,
    needs="images",
    cost="slow",
    reference="Heusel et al. 2017, GANs Trained by a Two Time-Scale Update Rule",
)
def fid(
    images_a: Images,
    images_b: Images,
    *,
    weights: str | os.PathLike | None = None,
    features: Extractor | None = None,
    batch_size: int = 32,
) -> Score:
    r"""Fréchet Inception distance between two sets of images.

    .. math:: \|m_a - m_b\|^2 + \operatorname{tr}\big(
              C_a + C_b - 2 (C_a C_b)^{1/2} \big)

    of the means and covariances of their features: the squared 2-Wasserstein distance
    of two Gaussians (Heusel et al. 2017, Eq. 6). Range [0, ∞), 0 for equal statistics.

    Images are preprocessed as in pytorch-fid: divided by 255, resized to 299×299
    (bilinear, without antialiasing), ``2 x - 1``; grey images get three equal channels.
    The trace is exact, in float64, and no epsilon is added. With fewer images than
    features it is computed from the features: for the centred rows
    :math:`X / \sqrt{n - 1}` and :math:`Y / \sqrt{m - 1}` it is the nuclear norm of
    :math:`X Y^\top`; otherwise by eigenvalues. Code that takes a matrix square root of
    singular covariances differs in the last digits.

    The estimate is biased upwards for few images: compare only values of equal counts
    (the settings state them). The papers take 50,000.

    Args:
      images_a, images_b: the images to compare.
      weights, features, batch_size: see `metrics.images.features`.

    Returns:
      ``fid``, or ``frechet_distance`` with other features.
    """
    a, b = _both("fid", images_a, images_b, weights, features, batch_size, False)
    for argument, side in (("images_a", a), ("images_b", b)):
        if side.count < 2:
            raise ValueError(
                f"fid: `{argument}` must hold at least two images, for a covariance, "
                f"got {side.count}."
            )
    distance = float(np.sum((a.mean - b.mean) ** 2))
    distance += _trace(a) + _trace(b) - 2.0 * _trace_of_root(a, b)
    key = _key(a, "fid", "frechet_distance")
    return Score({key: max(distance, 0.0)}, _settings(a, b))


@define(
    keys={
        "kid": "kernel distance of the Inception features of two sets of images (0 is "
        "best)",
        "standard_deviation": "standard deviation of KID over subsets of the images",
    },
    range=(-np.inf, np.inf),
    higher_is_better=False,
    needs="images",
    deterministic=False,
    cost="slow",
    reference="Bińkowski et al. 2018, Demystifying MMD GANs",
)
def kid(
    images_a: Images,
    images_b: Images,
    *,
    weights: str | os.PathLike | None = None,
    features: Extractor | None = None,
    batch_size: int = 32,
    subsets: int = 100,
    subset_size: int = 1000,
    seed: int = 0,
) -> Score:
    r"""Kernel Inception distance between two sets of images.

    The unbiased estimate of the squared MMD of their features with the kernel
    :math:`(x^\top y / D + 1)^3`, averaged over random subsets (Bińkowski et al. 2018,
    Sec. 4). 0 is best. Small negative values occur, since the estimate is unbiased,
    also for few images.

    Args:
      images_a, images_b: the images to compare.
      weights, features, batch_size: see `metrics.images.features`.
      subsets: number of subsets.
      subset_size: images per subset and side. A side with fewer images is used whole;
        if both have fewer, there is one subset.
      seed: seed of the subsets.

    Returns:
      ``kid``, or ``kernel_distance`` with other features, and ``standard_deviation``
      over the subsets.
    """
    a, b = _both("kid", images_a, images_b, weights, features, batch_size, True)
    if min(a.count, b.count, subset_size) < 2 or subsets < 1:
        raise ValueError(
            "kid: `images_a`, `images_b` and `subset_size` must be at least two images "
            f"and `subsets` at least 1, got {a.count}, {b.count}, {subset_size} and "
            f"{subsets}."
        )
    rng = np.random.default_rng(seed)
    if max(a.count, b.count) <= subset_size:
        subsets = 1
    values = []
    for _ in range(subsets):
        x, y = (
            _features(side)[
                rng.choice(side.count, min(subset_size, side.count), replace=False)
            ].astype(np.float64)
            for side in (a, b)
        )
        values.append(_unbiased_mmd(x, y))
    settings = _settings(a, b) | {
        "subsets": subsets, "subset_size": subset_size, "seed": seed,
    }  # fmt: skip
    key = _key(a, "kid", "kernel_distance")
    return Score({key: np.mean(values), "standard_deviation": np.std(values)}, settings)


@define(
    keys={
        "precision": "share of generated images that look real (1 is best)",
        "recall": "share of real images that can be generated (1 is best)",
    },
    needs="images",
    cost="slow",
    reference="Kynkäänniemi et al. 2019, Improved Precision and Recall Metric for "
    "Assessing Generative Models",
)
def precision_recall(
    images_real: Images,
    images_generated: Images,
    *,
    weights: str | os.PathLike | None = None,
    features: Extractor | None = None,
    batch_size: int = 32,
    neighbours: int = 3,
) -> Score:
    """Share of generated images that look real, and of real ones that are generated.

    An image lies on the manifold of a set of images if, in the space of features, it is
    nearer to one of them than this one's k-th nearest neighbour in the set.
    ``precision`` is the share of the generated images on the manifold of the real
    images, ``recall`` the converse (Kynkäänniemi et al. 2019, Eqs. 1 and 2). Both lie
    in [0, 1], 1 is best. The paper uses features of VGG-16; here they are Inception's,
    or those of ``features``.

    Args:
      images_real, images_generated: the images to compare.
      weights, features, batch_size: see `metrics.images.features`.
      neighbours: k.
    """
    real, generated = _both(
        "precision_recall", images_real, images_generated, weights, features,
        batch_size, True,
    )  # fmt: skip
    if neighbours < 1 or min(real.count, generated.count) <= neighbours:
        raise ValueError(
            "precision_recall: `neighbours` must be at least 1 and less than the "
            f"images of each side, got {neighbours} with {real.count} and "
            f"{generated.count} images."
        )
    x, y = _features(generated), _features(real)
    values = {
        "precision": _share_on_manifold(x, y, neighbours),
        "recall": _share_on_manifold(y, x, neighbours),
    }
    return Score(values, _settings(real, generated) | {"neighbours": neighbours})


def _both(
    function: str,
    images_a: Images,
    images_b: Images,
    weights: str | os.PathLike | None,
    features: Extractor | None,
    batch_size: int,
    keep_features: bool,
) -> tuple[FeatureStatistics, FeatureStatistics]:
    names = ("images_a", "images_b")
    if function == "precision_recall":
        names = ("images_real", "images_generated")
    a, b = (
        statistics_of(
            function, name, images, weights, features, batch_size, keep_features
        )
        for name, images in zip(names, (images_a, images_b))
    )
    if a.extractor != b.extractor or a.mean.shape != b.mean.shape:
        raise ValueError(
            f"{function}: `{names[0]}` and `{names[1]}` must have features of the same "
            f"extractor, got {a.mean.shape[0]} of {a.extractor} and "
            f"{b.mean.shape[0]} of {b.extractor}."
        )
    return a, b


def _key(side: FeatureStatistics, name: str, other: str) -> str:
    """Returns the name of a distance, another one if the features are others."""
    return name if side.extractor == inception.NAME else other


def _settings(a: FeatureStatistics, b: FeatureStatistics) -> dict[str, Any]:
    return {"features": a.extractor, "samples_a": a.count, "samples_b": b.count}


def _features(side: FeatureStatistics) -> np.ndarray:
    """Returns the features, where `statistics_of` or the lack of moments kept them."""
    return cast(np.ndarray, side.features)


def _centred(side: FeatureStatistics) -> np.ndarray:
    r"""Rows :math:`X` with covariance :math:`X^\top X`."""
    rows = _features(side).astype(np.float64) - side.mean
    return rows / math.sqrt(side.count - 1)


def _covariance(side: FeatureStatistics) -> np.ndarray:
    if side.covariance is not None:
        return side.covariance
    rows = _centred(side)
    return rows.T @ rows


def _trace(side: FeatureStatistics) -> float:
    if side.covariance is not None:
        return float(np.trace(side.covariance))
    return float(np.sum(_centred(side) ** 2))


def _has_few(side: FeatureStatistics) -> bool:
    return side.features is not None and side.count < side.mean.shape[0]


def _trace_of_root(a: FeatureStatistics, b: FeatureStatistics) -> float:
    r"""Returns :math:`\operatorname{tr} (C_a C_b)^{1/2}`."""
    if _has_few(a) and _has_few(b):
        product = _centred(a) @ _centred(b).T
        return float(np.linalg.svd(product, compute_uv=False).sum())
    if _has_few(a) or _has_few(b):
        few, many = (a, b) if _has_few(a) else (b, a)
        root = _centred(few)
        product = root @ _covariance(many) @ root.T
    else:
        values, vectors = np.linalg.eigh(_covariance(a))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        product = root.T @ _covariance(b) @ root
    values = np.linalg.eigvalsh(0.5 * (product + product.T))
    return float(np.sqrt(np.maximum(values, 0.0)).sum())


def _unbiased_mmd(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the squared MMD with the cubic kernel, without pairs of equal rows."""

    def kernel(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (u @ v.T / u.shape[1] + 1.0) ** 3

    def mean_of_pairs(u: np.ndarray) -> float:
        gram = kernel(u, u)
        return (gram.sum() - np.trace(gram)) / (len(u) * (len(u) - 1))

    return mean_of_pairs(x) + mean_of_pairs(y) - 2.0 * kernel(x, y).mean()


def _share_on_manifold(
    rows: np.ndarray, members: np.ndarray, neighbours: int, block: int = 1000
) -> float:
    """Returns the share of the rows that lie on the manifold of the members."""
    rows, members = rows.astype(np.float64), members.astype(np.float64)
    norms = np.sum(members**2, axis=1)

    def squared_distances(part: np.ndarray) -> np.ndarray:
        products = part @ members.T
        return np.sum(part**2, axis=1)[:, None] + norms - 2.0 * products

    within = []
    for start in range(0, len(members), block):
        near = squared_distances(members[start : start + block])
        # A member is its own nearest neighbour, however its distance is rounded.
        near[np.arange(len(near)), start + np.arange(len(near))] = -np.inf
        within.append(np.partition(near, neighbours, axis=1)[:, neighbours])
    radii = np.concatenate(within)
    on = [
        (squared_distances(rows[start : start + block]) <= radii).any(axis=1)
        for start in range(0, len(rows), block)
    ]
    return float(np.concatenate(on).mean())
