"""Which factor a reconstruction loss sees most (Michlo et al. 2023, App. A)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from disentangle_jax.metrics._inputs import Score


def _mean_squared(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a - b) ** 2).reshape(len(a), -1).mean(axis=1)


def _unit_images(dataset: Any, indices: np.ndarray) -> np.ndarray:
    images = np.asarray(dataset.images(indices))
    if images.dtype == np.uint8:
        return images.astype(np.float32) / 255.0
    return images.astype(np.float32)


def factor_importance(
    dataset: Any,
    *,
    pairs: int = 50_000,
    distance: Callable[[np.ndarray, np.ndarray], np.ndarray] = _mean_squared,
    batch_size: int = 512,
    seed: int = 0,
) -> Score:
    r"""Average perceived distance along the traversals of each factor (Eqs. 1 and 2).

    .. math:: d_i = E_{a,\; b \in \mathcal Y^{(a, i)},\; a \ne b}
              [d_\mathrm{pcv}(x^{(a)}, x^{(b)})]

    where b differs from a in factor i alone; a model learns the factors with the
    largest distance first. ``random`` is the same over pairs of any two different
    points. The distance is the mean squared error of images in [0, 1], so ≥ 0.

    Args:
      dataset: anything with ``images(indices)`` (float in [0, 1] or uint8),
        ``index_of(factors)``, ``factor_sizes`` and perhaps ``factor_names``.
      pairs: pairs for each factor; the paper takes at least 50,000.
      distance: ``[B, …], [B, …] -> [B]``.
      batch_size: pairs compared at once.
      seed: seeds the pairs.

    Returns:
      The mean distance of each factor, by name, largest first, and ``random``; the
      standard deviations in the same order are in ``matrices["std"]``.
    """
    for name in ("images", "index_of", "factor_sizes"):
        if not hasattr(dataset, name):
            raise TypeError(
                "factor_importance: `dataset` must have images(indices), "
                "index_of(factors) and factor_sizes, got "
                f"{type(dataset).__name__} without `{name}`."
            )
    if pairs < 1:
        raise ValueError(f"factor_importance: `pairs` must be positive, got {pairs}.")
    sizes = np.array([int(s) for s in dataset.factor_sizes])
    names = getattr(dataset, "factor_names", None)
    names = [f"factor_{k}" for k in range(len(sizes))] if names is None else names
    rng = np.random.default_rng(seed)

    def statistics(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
        found = []
        first, second = dataset.index_of(a), dataset.index_of(b)
        for start in range(0, len(a), batch_size):
            part = slice(start, start + batch_size)
            left = _unit_images(dataset, np.asarray(first)[part])
            right = _unit_images(dataset, np.asarray(second)[part])
            found.append(np.asarray(distance(left, right), np.float64))
        found = np.concatenate(found)
        return found.mean(), found.std()

    results = {}
    for k, name in enumerate(names):
        if sizes[k] < 2:
            continue
        a = rng.integers(sizes, size=(pairs, len(sizes)))
        b = a.copy()
        b[:, k] = (a[:, k] + rng.integers(1, sizes[k], size=pairs)) % sizes[k]
        results[str(name)] = statistics(a, b)
    if not results:
        raise ValueError(
            "factor_importance: `dataset` must have a factor with two values, got "
            f"sizes {tuple(sizes)}."
        )
    a = rng.integers(sizes, size=(pairs, len(sizes)))
    b = rng.integers(sizes, size=(pairs, len(sizes)))
    same = (a == b).all(axis=1)
    while same.any():
        b[same] = rng.integers(sizes, size=(int(same.sum()), len(sizes)))
        same = (a == b).all(axis=1)
    ordered = dict(sorted(results.items(), key=lambda item: -item[1][0]))
    ordered["random"] = statistics(a, b)
    return Score(
        {name: mean for name, (mean, _) in ordered.items()},
        {"pairs": pairs, "distance": distance.__name__.strip("_"), "seed": seed},
        matrices={"std": np.array([std for _, std in ordered.values()])},
    )
