"""Features that a model learned without labels, read off one latent."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


def ink(images: jax.Array) -> jax.Array:
    """Returns the amount of ink ``[N]``, the mean brightness of ``[N, H, W, C]``.

    Within a class it is the stroke width of digits and the size of sprites.
    """
    return jnp.asarray(images, jnp.float32).mean(axis=(1, 2, 3))


def width(images: jax.Array) -> jax.Array:
    """Returns the standard deviation ``[N]`` of the ink along the columns, in pixels.

    The square root of its central second moment: the width of a character, whatever
    the amount of its ink and its position.
    """
    columns = jnp.asarray(images, jnp.float32).sum(axis=(1, 3))
    share = columns / jnp.maximum(columns.sum(axis=1, keepdims=True), 1e-12)
    place = jnp.arange(columns.shape[1], dtype=jnp.float32)[None]
    centred = place - (share * place).sum(axis=1, keepdims=True)
    return jnp.sqrt((share * centred**2).sum(axis=1))


MEASURES = {"ink": ink, "width": width}


class Feature(NamedTuple):
    """A learned feature, and the bounds of its extreme values.

    Attributes:
      latent: position in the code.
      sign: 1 or -1, such that the feature grows with the measure that chose it.
      correlation: rank correlation with that measure within classes, in [0, 1].
      bounds: ``{class: (low, high)}``, quantiles of the feature within the class.
    """

    latent: int
    sign: int
    correlation: float
    bounds: dict[int, tuple[float, float]]

    def values(self, codes: np.ndarray) -> np.ndarray:
        """Returns the feature ``[N]`` of codes ``[N, D]``."""
        return self.sign * codes[:, self.latent]


def choose_feature(
    codes: np.ndarray, measure: np.ndarray, labels: np.ndarray, share: float
) -> Feature:
    """Returns the latent that follows a measure of the images most, within classes.

    The measure may be one of ``MEASURES``, or the feature of another model, to find it
    again. Rank correlations with each latent are averaged over the classes.

    Args:
      codes: ``[N, D]`` continuous latents.
      measure: ``[N]``.
      labels: ``[N]`` classes.
      share: share of each class beyond each bound.
    """
    classes = np.unique(labels)
    ranked = np.zeros(codes.shape[1])
    for value in classes:
        inside = labels == value
        ranks = np.apply_along_axis(_ranks, 0, codes[inside])
        ranked += _correlation(ranks, _ranks(measure[inside])) / len(classes)
    latent = int(np.abs(ranked).argmax())
    sign = 1 if ranked[latent] >= 0 else -1
    feature = sign * codes[:, latent]
    bounds = {
        int(value): tuple(
            float(q) for q in np.quantile(feature[labels == value], [share, 1 - share])
        )
        for value in classes
    }
    return Feature(latent, sign, abs(float(ranked[latent])), bounds)


def in_combinations(
    features: Mapping[str, Feature],
    codes: np.ndarray,
    labels: np.ndarray,
    combinations: tuple[tuple[int, str, str], ...],
) -> np.ndarray:
    """Returns which images ``[N]`` have a class and an extreme value of a feature.

    Args:
      features: features and their bounds, by the measure that chose them.
      codes: ``[N, D]`` continuous latents.
      labels: ``[N]`` classes.
      combinations: a class, a measure, and ``"low"`` or ``"high"``.
    """
    chosen = np.zeros(len(codes), bool)
    for label, measure, side in combinations:
        values = features[measure].values(codes)
        low, high = features[measure].bounds[label]
        beyond = values <= low if side == "low" else values >= high
        chosen |= (labels == label) & beyond
    return chosen


def _ranks(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)


def _correlation(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    columns = columns - columns.mean(0)
    values = values - values.mean()
    scale = np.sqrt((columns**2).sum(0) * (values**2).sum())
    return columns.T @ values / np.maximum(scale, 1e-12)
