"""Which factor a reconstruction loss sees most (Michlo et al. 2023, App. A)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import losses
from disentangle_jax.metrics._inputs import Score


def factor_importance(
    dataset: Any,
    *,
    pairs: int = 50_000,
    distance: Callable[[jax.Array, jax.Array], jax.Array] = losses.mse,
    batch_size: int = 512,
    seed: int = 0,
) -> Score:
    r"""Average perceived distance along the traversals of each factor (Eqs. 1 and 2).

    .. math:: d_i = E_{a,\; b \in \mathcal Y^{(a, i)},\; a \ne b}
              [d_\mathrm{pcv}(x^{(a)}, x^{(b)})]

    where b differs from a in factor i alone; a model learns the factors with the
    largest distance first. ``random`` is the same over pairs of any two different
    points. The distance is that of images in [0, 1], by default their mean squared
    error, so ≥ 0. Sets with a ``render`` function are drawn inside the compiled loop.

    Args:
      dataset: anything with ``images(indices)`` (float in [0, 1] or uint8),
        ``index_of(factors)``, ``factor_sizes`` and perhaps ``factor_names``.
      pairs: pairs for each factor; the paper takes at least 50,000.
      distance: JAX function ``[B, …], [B, …] -> [B]``: any reconstruction loss.
      batch_size: pairs compared at once.
      seed: seeds the pairs.

    Returns:
      The mean distance of each factor, by name, largest first, and ``random``; in the
      same order, ``matrices["std"]`` and all ``matrices["distances"]``
      ``[K + 1, pairs]``.
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

    # All pairs have the same first members, so that these are drawn once.
    a = rng.integers(sizes, size=(pairs, len(sizes)))
    others = {}
    for k, name in enumerate(names):
        if sizes[k] < 2:
            continue
        others[str(name)] = b = a.copy()
        b[:, k] = (a[:, k] + rng.integers(1, sizes[k], size=pairs)) % sizes[k]
    if not others:
        raise ValueError(
            "factor_importance: `dataset` must have a factor with two values, got "
            f"sizes {tuple(sizes)}."
        )
    others["random"] = b = rng.integers(sizes, size=(pairs, len(sizes)))
    same = (a == b).all(axis=1)
    while same.any():
        b[same] = rng.integers(sizes, size=(int(same.sum()), len(sizes)))
        same = (a == b).all(axis=1)
    images, compare = (
        _drawing(dataset),
        jax.jit(lambda left, right: distance(_unit(left), _unit(right))),
    )
    parts: dict[str, list] = {name: [] for name in others}
    for start in range(0, pairs, batch_size):
        # The last batch is filled up, so that one program serves all.
        rows = np.arange(start, start + batch_size) % pairs
        left = images(a[rows])
        for name, b in others.items():
            parts[name].append(compare(left, images(b[rows])))
    results = {
        name: np.concatenate(jax.device_get(part))[:pairs].astype(np.float64)
        for name, part in parts.items()
    }
    random = results.pop("random")
    ordered = dict(sorted(results.items(), key=lambda item: -item[1].mean()))
    ordered["random"] = random
    found = np.stack(list(ordered.values()))
    return Score(
        dict(zip(ordered, found.mean(axis=1))),
        {"pairs": pairs, "distance": distance.__name__, "seed": seed},
        matrices={"std": found.std(axis=1), "distances": found},
    )


def _unit(images: jax.Array) -> jax.Array:
    scale = 255.0 if images.dtype == jnp.uint8 else 1.0
    return images.astype(jnp.float32) / scale


def _drawing(dataset: Any) -> Callable[[np.ndarray], jax.Array]:
    """Returns a function from factors ``[B, K]`` to images ``[B, …]``."""
    render = getattr(dataset, "render", None)
    if render is not None:
        return jax.jit(render)
    return lambda factors: jnp.asarray(dataset.images(dataset.index_of(factors)))
