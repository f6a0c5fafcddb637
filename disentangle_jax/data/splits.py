"""Train, validation and test indices of a dataset by a fixed seed."""

import numpy as np

from disentangle_jax.types import unknown_name


def split_indices(
    n: int, *, seed: int = 0, recipe: str = "paper"
) -> dict[str, np.ndarray]:
    """Returns the indices of the train, validation and test part of ``n`` images.

    Those that split put the last 20 % of ``RandomState(seed).permutation(n)`` into the
    test part, so they share it; each part is sorted.

    Args:
      n: number of images.
      seed: seed of the permutation.
      recipe: ``"paper"``, 70/10/20 as Structural Autoencoders (Sec. 3) states;
        ``"sae_code"``, 72/8/20 as its published code does (validation is 10 % of all
        images outside the test part); or ``"none"``, no split, as in the 12,600-model
        study and in Overlooked Implications of the Reconstruction Loss: each part is
        everything, so that models are evaluated on images that they were trained on.

    Returns:
      ``dict(train=[...], validation=[...], test=[...])`` of int64 vectors that
      together hold each of ``0 … n - 1`` once; with ``"none"``, each holds them all.
    """
    rest_parts = {"paper": (7, 1), "sae_code": (9, 1)}
    if recipe == "none":
        return dict.fromkeys(("train", "validation", "test"), np.arange(n))
    if recipe not in rest_parts:
        known = [*rest_parts, "none"]
        raise unknown_name("split_indices", "recipe", recipe, known)
    if n < 10:
        raise ValueError(
            f"split_indices: `n` must be at least 10 so that no part is empty, got {n}."
        )
    order = np.random.RandomState(seed).permutation(n)
    rest, test = np.split(order, [n - n // 5])
    train_part, validation_part = rest_parts[recipe]
    held_out = len(rest) * validation_part // (train_part + validation_part)
    train, validation = np.split(rest, [len(rest) - held_out])
    return {
        "train": np.sort(train),
        "validation": np.sort(validation),
        "test": np.sort(test),
    }
