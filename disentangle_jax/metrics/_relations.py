"""Accuracy of clusters and relations that may abstain (AbsAE, paper Sec. 4)."""

import numpy as np

from disentangle_jax.metrics._inputs import ArrayLike, Score, to_numpy


def _check(
    function: str, log_densities: ArrayLike, labels: ArrayLike, alpha: float
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are accepted, and which are right."""
    densities = np.asarray(log_densities, np.float64)  # −inf is a fine log-density
    labels = to_numpy(function, "labels", labels)
    if densities.ndim != 2 or labels.shape != densities.shape[:1]:
        raise ValueError(
            f"{function}: `log_densities` must be [N, C] and `labels` [N], got "
            f"{densities.shape} and {labels.shape}."
        )
    if np.isnan(densities).any():
        raise ValueError(f"{function}: `log_densities` must not hold NaN.")
    if alpha < 0:
        raise ValueError(f"{function}: `alpha` must be ≥ 0, got {alpha}.")
    accepted = np.ones(len(labels), bool)
    if alpha > 0:
        accepted = densities.max(axis=1) >= np.log(alpha)
    return accepted, densities.argmax(axis=1) == labels


def cluster_accuracy(
    log_densities: ArrayLike, labels: ArrayLike, *, alpha: float = 0.0
) -> Score:
    """Accuracy of the most likely component, over the rows that are not rejected.

    Args:
      log_densities: ``[N, C]`` log-density of each row under each component.
      labels: ``[N]`` true component.
      alpha: rows whose best density is below it are rejected; 0 accepts all.

    Returns:
      ``accuracy`` over accepted rows (NaN where none is) and ``accepted``, their share.
    """
    accepted, right = _check("cluster_accuracy", log_densities, labels, alpha)
    value = right[accepted].mean() if accepted.any() else np.nan
    return Score(
        {"accuracy": value, "accepted": accepted.mean()},
        {"samples": len(right), "alpha": alpha},
    )


def relation_accuracy(
    log_densities: ArrayLike,
    labels: ArrayLike,
    relations: ArrayLike,
    *,
    alpha: float = 0.0,
) -> Score:
    """`cluster_accuracy` of a relation's outputs, per relation and then averaged.

    Args:
      log_densities: ``[N, C]`` log-density of each output under each component.
      labels: ``[N]`` component that the relation leads to.
      relations: ``[N]`` which relation was applied.
      alpha: as in `cluster_accuracy`.

    Returns:
      ``accuracy``, ``accepted``, and ``relation_r`` for each relation r.
    """
    accepted, right = _check("relation_accuracy", log_densities, labels, alpha)
    relations = to_numpy("relation_accuracy", "relations", relations)
    if relations.shape != right.shape:
        raise ValueError(
            f"relation_accuracy: `relations` must have shape {right.shape}, got "
            f"{relations.shape}."
        )
    each = {}
    for r in np.unique(relations):
        own = accepted & (relations == r)
        each[f"relation_{r}"] = right[own].mean() if own.any() else np.nan
    known = [v for v in each.values() if not np.isnan(v)]
    values = {"accuracy": np.mean(known) if known else np.nan}
    values |= {"accepted": accepted.mean(), **each}
    return Score(values, {"samples": len(right), "alpha": alpha})
