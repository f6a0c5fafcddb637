r"""Accuracy of clusters and relations that may abstain (AbsAE, paper Sec. 4).

A code belongs to the region whose density is highest there. It is rejected where that
density is below a threshold :math:`\alpha`:

* ``"density"``, what the published code does: :math:`\max_k p_k(z) \ge \alpha`. A
  density has the unit of (code)\ :sup:`-D`: the same :math:`\alpha` is strict for wide
  regions and void for narrow ones. In 8 dimensions a region of standard deviation s has
  a density of :math:`(2.5 s)^{-8}` at its mean: 0.5 at s = 0.43, 1700 at s = 0.16. So
  accepted shares can only be compared between models of one scale.
* ``"posterior"``: :math:`\max_k p_k(z) / \sum_j p_j(z) \ge \alpha`, a probability and
  free of scale; but outliers far from all regions still have a sure nearest one.
"""

import numpy as np

from disentangle_jax.metrics._inputs import ArrayLike, Score, to_numpy
from disentangle_jax.types import unknown_name

_THRESHOLDS = ("density", "posterior")


def _densities(function: str, log_densities: ArrayLike) -> np.ndarray:
    densities = np.asarray(log_densities, np.float64)  # −inf is a fine log-density
    if densities.ndim != 2:
        raise ValueError(
            f"{function}: `log_densities` must be [N, C], got {densities.shape}."
        )
    if np.isnan(densities).any():
        raise ValueError(f"{function}: `log_densities` must not hold NaN.")
    return densities


def _accepted(
    function: str, densities: np.ndarray, alpha: float, threshold: str
) -> np.ndarray:
    """Which rows are not rejected."""
    if threshold not in _THRESHOLDS:
        raise unknown_name(function, "threshold", threshold, _THRESHOLDS)
    if alpha < 0:
        raise ValueError(f"{function}: `alpha` must be ≥ 0, got {alpha}.")
    if alpha == 0:
        return np.ones(len(densities), bool)
    best = densities.max(axis=1)
    if threshold == "density":
        return best >= np.log(alpha)
    # A row that has no density anywhere has no posterior either.
    known = np.isfinite(best)
    gaps = densities - np.where(known, best, 0.0)[:, None]
    return known & (alpha * np.exp(gaps).sum(axis=1) <= 1.0)


def _check(
    function: str,
    log_densities: ArrayLike,
    labels: ArrayLike,
    alpha: float,
    threshold: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are accepted, and which are right."""
    densities = _densities(function, log_densities)
    labels = to_numpy(function, "labels", labels)
    if labels.shape != densities.shape[:1]:
        raise ValueError(
            f"{function}: `log_densities` must be [N, C] and `labels` [N], got "
            f"{densities.shape} and {labels.shape}."
        )
    accepted = _accepted(function, densities, alpha, threshold)
    return accepted, densities.argmax(axis=1) == labels


def assign_components(
    log_densities: ArrayLike, *, alpha: float = 0.0, threshold: str = "density"
) -> np.ndarray:
    """Returns the component each row belongs to, -1 where it is rejected.

    Args:
      log_densities: ``[N, C]`` log-density of each row under each component.
      alpha: least density (or posterior) of an accepted row; 0 accepts all.
      threshold: ``"density"`` or ``"posterior"``; see the top of this module.

    Returns:
      ``[N]`` int64.
    """
    densities = _densities("assign_components", log_densities)
    accepted = _accepted("assign_components", densities, alpha, threshold)
    return np.where(accepted, densities.argmax(axis=1), -1)


def component_factors(
    components: ArrayLike, factor_sizes: tuple[int, ...]
) -> np.ndarray:
    """Returns the factor values that components stand for, as codes for other scores.

    AbsAE's codes for DCI, MIG and SAP (paper, Sec. 4.5): those scores look for a factor
    in single dimensions, so the code is replaced by the factors that were read off it.

    Args:
      components: ``[N]`` integers, row-major over the factors; none rejected.
      factor_sizes: number of values of each of the K factors.

    Returns:
      ``[N, K]`` int64.
    """
    components = to_numpy("component_factors", "components", components).astype(int)
    total = int(np.prod(factor_sizes))
    if len(components) and not (components.min() >= 0 and components.max() < total):
        raise ValueError(
            f"component_factors: `components` must lie in [0, {total}), got "
            f"{components.min()} to {components.max()}; leave rejected rows out."
        )
    return np.stack(np.unravel_index(components, tuple(factor_sizes)), axis=1)


def cluster_accuracy(
    log_densities: ArrayLike,
    labels: ArrayLike,
    *,
    alpha: float = 0.0,
    threshold: str = "density",
) -> Score:
    """Accuracy of the most likely component, over the rows that are not rejected.

    Of one model, accuracy times accepted share never exceeds the accuracy at alpha 0:
    rejecting only leaves rows out.

    Args:
      log_densities: ``[N, C]`` log-density of each row under each component.
      labels: ``[N]`` true component.
      alpha: rows whose best density is below it are rejected; 0 accepts all.
      threshold: ``"density"`` or ``"posterior"``; see the top of this module.

    Returns:
      ``accuracy`` over accepted rows (NaN where none is) and ``accepted``, their share.
    """
    accepted, right = _check(
        "cluster_accuracy", log_densities, labels, alpha, threshold
    )
    value = right[accepted].mean() if accepted.any() else np.nan
    return Score(
        {"accuracy": value, "accepted": accepted.mean()},
        {"samples": len(right), "alpha": alpha, "threshold": threshold},
    )


def relation_accuracy(
    log_densities: ArrayLike,
    labels: ArrayLike,
    relations: ArrayLike,
    *,
    alpha: float = 0.0,
    threshold: str = "density",
) -> Score:
    """`cluster_accuracy` of a relation's outputs, per relation and then averaged.

    Args:
      log_densities: ``[N, C]`` log-density of each output under each component.
      labels: ``[N]`` component that the relation leads to.
      relations: ``[N]`` which relation was applied.
      alpha: as in `cluster_accuracy`.
      threshold: as in `cluster_accuracy`.

    Returns:
      ``accuracy``, ``accepted``, and ``relation_r`` for each relation r.
    """
    accepted, right = _check(
        "relation_accuracy", log_densities, labels, alpha, threshold
    )
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
    settings = {"samples": len(right), "alpha": alpha, "threshold": threshold}
    return Score(values, settings)


def outlier_rejection(
    log_densities: ArrayLike,
    outlier_log_densities: ArrayLike,
    *,
    alpha: float = 0.0,
    threshold: str = "density",
) -> Score:
    """How many outliers, and how many others, a threshold rejects.

    Args:
      log_densities: ``[N, C]`` of codes of ordinary images.
      outlier_log_densities: ``[M, C]`` of codes of what should be rejected.
      alpha: as in `cluster_accuracy`.
      threshold: as in `cluster_accuracy`.

    Returns:
      ``rejected_outliers`` and ``rejected``, shares in [0, 1].
    """
    shares = []
    for name, given in (
        ("outlier_log_densities", outlier_log_densities),
        ("log_densities", log_densities),
    ):
        densities = _densities("outlier_rejection", given)
        if not len(densities):
            raise ValueError(f"outlier_rejection: `{name}` must not be empty.")
        accepted = _accepted("outlier_rejection", densities, alpha, threshold)
        shares.append(1.0 - accepted.mean())
    return Score(
        dict(zip(("rejected_outliers", "rejected"), shares)),
        {"alpha": alpha, "threshold": threshold},
    )
