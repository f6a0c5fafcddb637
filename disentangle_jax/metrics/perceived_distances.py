"""Perceived distances along factors under a reconstruction loss."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import losses
from disentangle_jax.batching import in_batches
from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.inputs import Score
from disentangle_jax.metrics.sources import check_dataset


@define(
    keys={"random": "mean distance of two random images"},
    range=(0.0, np.inf),
    higher_is_better=None,
    needs="dataset",
    deterministic=False,
    cost="medium",
    reference="Michlo et al. 2023, Overlooked Implications of the Reconstruction Loss "
    "for VAE Disentanglement",
)
def factor_importance(
    dataset: Any,
    *,
    pairs: int = 50_000,
    distance: Callable[[jax.Array, jax.Array], jax.Array] = losses.mse,
    batch_size: int = 512,
    seed: int = 0,
) -> Score:
    r"""Mean perceived distance along each factor (Michlo et al. 2023, Eqs. 1 and 2).

    .. math:: d_i = E_{a,\; b \in \mathcal Y^{(a, i)},\; a \ne b}
              [d_\mathrm{pcv}(x^{(a)}, x^{(b)})]

    where b differs from a in factor i alone; a model learns the factors with the
    largest distance first. ``random`` is the same over pairs of any two different
    points. The distance compares images in [0, 1], by default by their mean squared
    error, so it is ≥ 0. Images of datasets with a ``render`` function are rendered
    under `jit`.

    Args:
      dataset: has ``images(indices)`` (float in [0, 1] or uint8), ``index_of(factors)``
        and ``factor_sizes``, optionally ``factor_names``.
      pairs: pairs per factor; the paper takes at least 50,000.
      distance: JAX function ``[B, …], [B, …] -> [B]``: any reconstruction loss.
      batch_size: pairs to compare at once.
      seed: seed of the pairs.

    Returns:
      The mean distance of each factor, by name, largest first, and ``random``; in the
      same order, ``matrices["std"]`` and all ``matrices["distances"]``
      ``[K + 1, pairs]``.
    """
    check_dataset("factor_importance", dataset)
    if pairs < 1:
        raise ValueError(f"factor_importance: `pairs` must be positive, got {pairs}.")
    sizes = np.array([int(s) for s in dataset.factor_sizes])
    names = getattr(dataset, "factor_names", None)
    names = [f"factor_{k}" for k in range(len(sizes))] if names is None else names
    rng = np.random.default_rng(seed)

    # All pairs share their first members, which are rendered once.
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
    images = _images_of(dataset)
    compare = jax.jit(lambda left, right: distance(_unit(left), _unit(right)))

    def distances(rows: np.ndarray) -> dict[str, jax.Array]:
        left = images(a[rows])
        return {name: compare(left, images(b[rows])) for name, b in others.items()}

    results = in_batches(distances, np.arange(pairs), batch_size)
    names = sorted(set(others) - {"random"}, key=lambda name: -results[name].mean())
    names.append("random")
    found = np.stack([results[name] for name in names]).astype(np.float64)
    return Score(
        dict(zip(names, found.mean(axis=1))),
        {"pairs": pairs, "distance": distance.__name__, "seed": seed},
        matrices={"std": found.std(axis=1), "distances": found},
    )


def _unit(images: jax.Array) -> jax.Array:
    scale = 255.0 if images.dtype == jnp.uint8 else 1.0
    return images.astype(jnp.float32) / scale


def _images_of(dataset: Any) -> Callable[[np.ndarray], jax.Array]:
    """Returns a function from factors ``[B, K]`` to images ``[B, …]``."""
    render = getattr(dataset, "render", None)
    if render is not None:
        shrink = getattr(dataset, "shrink", lambda images: images)
        return jax.jit(lambda factors: shrink(render(factors)))
    return lambda factors: jnp.asarray(dataset.images(dataset.index_of(factors)))
