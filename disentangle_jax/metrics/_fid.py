"""How near two sets of images are, by the features of a network: FID and its kin.

    score = metrics.fid(images_a, images_b, weights="…/inception.npz")
    score["fid"]

The features are those of the Inception network of 2015-12-05, so that the numbers are
the field's. ``features=`` takes any other extractor; then the answer is not called FID.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from disentangle_jax.metrics import _inception
from disentangle_jax.metrics._inputs import ArrayLike, Score

# uint8 images [n, H, W, C] -> features [n, D].
Extractor = Callable[[np.ndarray], ArrayLike]


@dataclasses.dataclass(frozen=True)
class FeatureStatistics:
    """What the scores need to know of a set of images; see `feature_statistics`.

    Attributes:
      extractor: name of the network that the features are of.
      count: number of images.
      mean: ``[D]`` float64, mean feature.
      covariance: ``[D, D]`` float64, unbiased (over ``count - 1``); None where
        `features` hold the same in fewer numbers.
      features: ``[count, D]``; None where only the moments were kept.
    """

    extractor: str
    count: int
    mean: np.ndarray
    covariance: np.ndarray | None
    features: np.ndarray | None


Images = ArrayLike | Iterable[ArrayLike] | FeatureStatistics


def inception_features(
    images: ArrayLike | Iterable[ArrayLike],
    *,
    weights: str | os.PathLike | None = None,
    batch_size: int = 32,
) -> np.ndarray:
    """Returns the 2048 pooled features of the FID network, of each image.

    Args:
      images: ``[N, H, W, C]`` or ``[N, H, W]`` uint8, any size, C is 1 or 3; or an
        iterable of such batches, whose sizes may differ.
      weights: file of the weights, ``.npz``, ``.pth`` or ``.pt``.
      batch_size: images of one call of the network.

    Returns:
      ``[N, 2048]`` float32, each at least 0.
    """
    extract = _inception_extractor("inception_features", weights, batch_size)
    return np.concatenate(
        [extract(batch) for batch in _batches("inception_features", "images", images)]
    )


def check_inception_weights(weights: str | os.PathLike | None) -> None:
    """Raises an error that says where to get the weights, unless the file is there."""
    _inception.find("check_inception_weights", weights)


def feature_statistics(
    images: ArrayLike | Iterable[ArrayLike],
    *,
    weights: str | os.PathLike | None = None,
    features: Extractor | None = None,
    batch_size: int = 32,
    keep_features: bool = False,
) -> FeatureStatistics:
    """Returns the statistics of images, to be compared with several others.

    Mean and covariance are gathered batch by batch in float64, so an iterable may yield
    more images than memory holds.

    Args:
      images: as of `fid`.
      weights: as of `fid`.
      features: as of `fid`.
      batch_size: as of `fid`.
      keep_features: keep all features, which `kid` and `precision_recall` need; else
        they are kept only where there are fewer images than features.
    """
    return _statistics(
        "feature_statistics", "images", images, weights, features, batch_size,
        keep_features,
    )  # fmt: skip


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
    of two Gaussians (Heusel et al., "GANs Trained by a Two Time-Scale Update Rule",
    Eq. 6). Range [0, ∞), 0 for equal statistics.

    Images are treated as in pytorch-fid: over 255, bilinear to 299×299 without
    antialiasing, ``2 x - 1``; grey ones in three equal channels. The trace is exact, in
    float64, and no epsilon is added: from the features themselves where there are fewer
    images than features, since with their centred rows :math:`X / \sqrt{n - 1}` and
    :math:`Y / \sqrt{m - 1}` it is the nuclear norm of :math:`X Y^\top`; by eigenvalues
    otherwise. Code that takes a matrix square root of singular covariances differs in
    the last digits.

    The estimate is biased upwards for few images: compare values of equal counts only
    (the settings state them). The papers take 50,000.

    Args:
      images_a: ``[N, H, W, C]`` or ``[N, H, W]`` uint8, any size, C is 1 or 3; or an
        iterable of such batches; or their `feature_statistics`.
      images_b: the same of the other set.
      weights: file of the weights of the Inception network of 2015-12-05: ``.npz``, or
        the public ``.pth`` or ``.pt``, which are read without PyTorch.
      features: another extractor, ``images [n, H, W, C] uint8 -> [n, D]``, in place of
        Inception. The key of the answer is then ``frechet_distance``, not ``fid``.
      batch_size: images of one call of the network.

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
    :math:`(x^\top y / D + 1)^3`, averaged over random subsets (Bińkowski et al.,
    "Demystifying MMD GANs", Sec. 4). 0 is best; small negative values occur, since it
    is unbiased, also for few images.

    Args:
      images_a: as of `fid`.
      images_b: as of `fid`.
      weights: as of `fid`.
      features: as of `fid`; the first key is then ``kernel_distance``.
      batch_size: as of `fid`.
      subsets: number of subsets.
      subset_size: images of a subset of each side; where a side has no more, all of
        it are taken, and where both have no more, one subset is all there is.
      seed: of the subsets.

    Returns:
      ``kid`` (or ``kernel_distance``), and ``standard_deviation`` over the subsets.
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
            side.features[
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

    An image lies on the manifold of a set where, in the space of features, it is within
    the distance of one of its members to that member's k-th nearest other member.
    ``precision`` is the share of the generated images on the manifold of the real ones,
    ``recall`` the converse (Kynkäänniemi et al., "Improved Precision and Recall Metric
    for Assessing Generative Models", Eqs. 1 and 2). Both lie in [0, 1], 1 is best. The
    paper took features of VGG-16; these are Inception's, or those of ``features``.

    Args:
      images_real: as of `fid`.
      images_generated: as of `fid`.
      weights: as of `fid`.
      features: as of `fid`.
      batch_size: as of `fid`.
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
    values = {
        "precision": _share_on_manifold(generated.features, real.features, neighbours),
        "recall": _share_on_manifold(real.features, generated.features, neighbours),
    }
    return Score(values, _settings(real, generated) | {"neighbours": neighbours})


# --- features -------------------------------------------------------------------------


def _batches(
    function: str, argument: str, images: ArrayLike | Iterable[ArrayLike]
) -> Iterator[np.ndarray]:
    """Yields checked uint8 images ``[n, H, W, C]``."""
    whole = hasattr(images, "shape")  # NumPy, JAX, torch
    count = 0
    for batch in [images] if whole else images:
        if hasattr(batch, "detach"):
            batch = batch.detach().cpu()
        batch = np.asarray(batch)
        if batch.dtype != np.uint8:
            raise TypeError(
                f"{function}: `{argument}` must be uint8, got {batch.dtype}; for "
                "values in [0, 1] give (255 * images + 0.5).astype('uint8')."
            )
        shape = batch.shape
        # One image [H, W, C] is no batch of grey ones.
        if batch.ndim == 3 and shape[-1] > 4 and whole:
            batch = batch[..., None]
        if batch.ndim != 4 or batch.shape[-1] not in (1, 3) or 0 in shape[1:]:
            raise ValueError(
                f"{function}: `{argument}` must be [N, H, W, C] with C 1 or 3, or one "
                f"array [N, H, W], or an iterable of batches [n, H, W, C], got {shape}."
            )
        count += len(batch)
        if len(batch):
            yield batch
    if not count:
        raise ValueError(f"{function}: `{argument}` must hold images, got none.")


# Apart, so that images of any size share the compiled network.
_resize = jax.jit(_inception.resize)


@functools.cache
def _network() -> Callable[..., jax.Array]:
    from disentangle_jax import models  # which imports flax; scores need none

    return jax.jit(_inception.features, compiler_options=models.compiler_options())


def _inception_extractor(
    function: str, weights: str | os.PathLike | None, batch_size: int
) -> Callable[[np.ndarray], np.ndarray]:
    if batch_size < 1:
        raise ValueError(
            f"{function}: `batch_size` must be positive, got {batch_size}."
        )
    parameters = _inception.load(function, weights)
    largest = 0  # batch that the network was compiled for

    def extract(images: np.ndarray) -> np.ndarray:
        nonlocal largest
        size = largest = max(largest, min(batch_size, len(images)))
        parts = []
        for start in range(0, len(images), size):
            batch = images[start : start + size]
            # The last batch is filled up, so that one program serves all.
            batch = batch[np.arange(size) % len(batch)]
            parts.append(np.asarray(_network()(parameters, _resize(batch))))
        return np.concatenate(parts)[: len(images)]

    return extract


def _other_extractor(function: str, features: Extractor) -> Callable:
    def extract(images: np.ndarray) -> np.ndarray:
        values = features(images)
        if hasattr(values, "detach"):
            values = values.detach().cpu()
        values = np.asarray(values)
        if values.ndim != 2 or len(values) != len(images):
            raise ValueError(
                f"{function}: `features` must return [n, D] for n images, got shape "
                f"{values.shape} for {len(images)}."
            )
        return values

    return extract


def _statistics(
    function: str,
    argument: str,
    images: Images,
    weights: str | os.PathLike | None,
    features: Extractor | None,
    batch_size: int,
    keep_features: bool,
) -> FeatureStatistics:
    if isinstance(images, FeatureStatistics):
        if keep_features and images.features is None:
            raise ValueError(
                f"{function}: `{argument}` must be statistics with all features; make "
                "them with keep_features=True."
            )
        return images
    if features is None:
        name = _inception.NAME
        extract = _inception_extractor(function, weights, batch_size)
    else:
        name = getattr(features, "__name__", type(features).__name__)
        name = f"{name} (not Inception)"
        extract = _other_extractor(function, features)
    moments = _Moments(keep_features)
    for batch in _batches(function, argument, images):
        for start in range(0, len(batch), 1024):  # bounds the memory of one call
            rows = extract(batch[start : start + 1024])
            if not np.isfinite(rows).all():
                raise ValueError(
                    f"{function}: `features` must be finite, got NaN or infinite "
                    f"values for `{argument}`."
                )
            moments.add(rows)
    return moments.finish(name)


class _Moments:
    """Mean and covariance of rows that come batch by batch."""

    def __init__(self, keep_features: bool):
        self._keep = keep_features
        self._rows: list[np.ndarray] = []  # not yet in the sums, or all kept
        self._held = 0
        self._count = 0  # of the sums
        self._mean: Any = 0.0
        self._scatter: Any = 0.0

    def add(self, rows: np.ndarray) -> None:
        self._rows.append(rows)
        self._held += len(rows)
        if not self._keep and self._held >= rows.shape[1]:
            self._sum_up()

    def _sum_up(self) -> None:
        """Moves the held rows into the sums (Chan et al., updating of variances)."""
        rows = np.concatenate(self._rows).astype(np.float64)
        mean = rows.mean(axis=0)
        centred = rows - mean
        total = self._count + len(rows)
        delta = mean - self._mean
        weight = self._count * len(rows) / total
        self._scatter = (
            self._scatter + centred.T @ centred + weight * np.outer(delta, delta)
        )
        self._mean = self._mean + delta * (len(rows) / total)
        self._count, self._rows, self._held = total, [], 0

    def finish(self, extractor: str) -> FeatureStatistics:
        if self._count == 0 and (self._keep or self._held < self._rows[0].shape[1]):
            features = np.concatenate(self._rows)
            mean = features.mean(axis=0, dtype=np.float64)
            return FeatureStatistics(extractor, len(features), mean, None, features)
        if self._held:
            self._sum_up()
        covariance = self._scatter / max(self._count - 1, 1)
        return FeatureStatistics(extractor, self._count, self._mean, covariance, None)


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
        _statistics(
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


def _key(side: FeatureStatistics, inception: str, other: str) -> str:
    return inception if side.extractor == _inception.NAME else other


def _settings(a: FeatureStatistics, b: FeatureStatistics) -> dict[str, Any]:
    return {"features": a.extractor, "samples_a": a.count, "samples_b": b.count}


# --- distances ------------------------------------------------------------------------


def _centred(side: FeatureStatistics) -> np.ndarray:
    r"""Rows :math:`X` with covariance :math:`X^\top X`."""
    rows = side.features.astype(np.float64) - side.mean
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
    """Returns the squared MMD with the cubic kernel, without the equal pairs."""

    def kernel(u, v):
        return (u @ v.T / u.shape[1] + 1.0) ** 3

    def mean_of_pairs(u):
        gram = kernel(u, u)
        return (gram.sum() - np.trace(gram)) / (len(u) * (len(u) - 1))

    return mean_of_pairs(x) + mean_of_pairs(y) - 2.0 * kernel(x, y).mean()


def _share_on_manifold(
    asked: np.ndarray, members: np.ndarray, neighbours: int, block: int = 1000
) -> float:
    """Returns the share of the rows of `asked` that lie on the members' manifold."""
    asked, members = asked.astype(np.float64), members.astype(np.float64)
    norms = np.sum(members**2, axis=1)

    def squared_distances(rows):
        products = rows @ members.T
        return np.sum(rows**2, axis=1)[:, None] + norms - 2.0 * products

    radii = []
    for start in range(0, len(members), block):
        near = squared_distances(members[start : start + block])
        # A member is its own nearest: rounding must not make another one so.
        near[np.arange(len(near)), start + np.arange(len(near))] = -np.inf
        radii.append(np.partition(near, neighbours, axis=1)[:, neighbours])
    radii = np.concatenate(radii)
    on = [
        (squared_distances(asked[start : start + block]) <= radii).any(axis=1)
        for start in range(0, len(asked), block)
    ]
    return float(np.concatenate(on).mean())
