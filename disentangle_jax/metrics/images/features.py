"""Features of images by a network, and their mean and covariance.

Arguments that mean the same in all functions:

* images: ``[N, H, W, C]`` or ``[N, H, W]`` uint8, any size, C is 1 or 3; or an iterable
  of such batches, whose sizes may differ;
* weights: file of the weights of the Inception network of 2015-12-05: ``.npz``, or the
  public ``.pth`` or ``.pt``, which are read without PyTorch;
* features: another extractor, ``images [n, H, W, C] uint8 -> [n, D]``, instead of
  Inception;
* batch_size: images per call of the network.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np

from disentangle_jax.batching import in_batches
from disentangle_jax.metrics.images import inception
from disentangle_jax.metrics.inputs import ArrayLike

# uint8 images [n, H, W, C] -> features [n, D].
Extractor = Callable[[np.ndarray], ArrayLike]


@dataclasses.dataclass(frozen=True)
class FeatureStatistics:
    """Statistics of the features of images; see `feature_statistics`.

    Attributes:
      extractor: name of the network that computed the features.
      count: number of images.
      mean: ``[D]`` float64, mean feature.
      covariance: ``[D, D]`` float64, unbiased (over ``count - 1``); None if `features`
        are kept instead.
      features: ``[count, D]``; None if only the moments were kept.
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
    """Returns the pooled features ``[N, 2048]`` of the FID network, float32, ≥ 0.

    Arguments: see `metrics.images.features`.
    """
    extract = _inception_extractor("inception_features", weights, batch_size)
    return np.concatenate(
        [extract(batch) for batch in _batches("inception_features", "images", images)]
    )


def check_inception_weights(weights: str | os.PathLike | None) -> None:
    """Raises an error that explains where to get the weights, unless they are read."""
    inception.load("check_inception_weights", weights)


def feature_statistics(
    images: ArrayLike | Iterable[ArrayLike],
    *,
    weights: str | os.PathLike | None = None,
    features: Extractor | None = None,
    batch_size: int = 32,
    keep_features: bool = False,
) -> FeatureStatistics:
    """Returns the statistics of images, for comparison with several others.

    Mean and covariance are accumulated batch by batch in float64, so an iterable may
    yield more images than memory holds.

    Args:
      keep_features: keep all features, which `kid` and `precision_recall` need;
        otherwise they are kept only if there are fewer images than features.

    Other arguments: see `metrics.images.features`.
    """
    return statistics_of(
        "feature_statistics", "images", images, weights, features, batch_size,
        keep_features,
    )  # fmt: skip


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
        # One image [H, W, C] must not pass for a batch of grey images.
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


# Compiled separately, so that images of any size share the compiled network.
_resize = jax.jit(inception.resize)


@functools.cache
def _network() -> Callable[..., jax.Array]:
    from disentangle_jax import models  # imports flax, which no score needs

    return jax.jit(inception.features, compiler_options=models.compiler_options())


def _inception_extractor(
    function: str, weights: str | os.PathLike | None, batch_size: int
) -> Callable[[np.ndarray], np.ndarray]:
    if batch_size < 1:
        raise ValueError(
            f"{function}: `batch_size` must be positive, got {batch_size}."
        )
    parameters = inception.load(function, weights)
    largest = 0  # batch that the network was compiled for

    def extract(images: np.ndarray) -> np.ndarray:
        nonlocal largest
        largest = max(largest, min(batch_size, len(images)))
        return in_batches(
            lambda batch: _network()(parameters, _resize(batch)), images, largest
        )

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


def statistics_of(
    function: str,
    argument: str,
    images: Images,
    weights: str | os.PathLike | None,
    features: Extractor | None,
    batch_size: int,
    keep_features: bool,
) -> FeatureStatistics:
    """Returns `feature_statistics` of an argument of `function`."""
    if isinstance(images, FeatureStatistics):
        if keep_features and images.features is None:
            raise ValueError(
                f"{function}: `{argument}` must be statistics with all features; make "
                "them with keep_features=True."
            )
        return images
    if features is None:
        name = inception.NAME
        extract = _inception_extractor(function, weights, batch_size)
    else:
        name = getattr(features, "__name__", type(features).__name__)
        name = f"{name} (not Inception)"
        extract = _other_extractor(function, features)
    moments = _Moments(keep_features)
    for batch in _batches(function, argument, images):
        for start in range(0, len(batch), 1024):  # bounds the memory per call
            rows = extract(batch[start : start + 1024])
            if not np.isfinite(rows).all():
                raise ValueError(
                    f"{function}: `features` must be finite, got NaN or infinite "
                    f"values for `{argument}`."
                )
            moments.add(rows)
    return moments.finish(name)


class _Moments:
    """Accumulates mean and covariance of rows batch by batch."""

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
