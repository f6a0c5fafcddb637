r"""Accuracy of clusters and relations with a reject option (AbsAE, paper Sec. 4).

A code belongs to the component with the highest density. It is rejected if a threshold
:math:`\alpha` is not reached. All functions take

* log_densities: ``[N, C]`` log-density of each row under each component;
* alpha: the threshold; 0 accepts all rows;
* threshold: ``"density"``, as in the published code, accepts rows with
  :math:`\max_k p_k(z) \ge \alpha`. A density has the unit of (code)\ :sup:`-D`, so the
  same :math:`\alpha` is strict for wide components and has no effect on narrow ones. In
  8 dimensions a component of standard deviation s has density :math:`(2.5 s)^{-8}` at
  its mean: 0.5 at s = 0.43, 1700 at s = 0.16. So accepted shares are comparable only
  between models of one scale. ``"posterior"`` accepts rows with
  :math:`\max_k p_k(z) / \sum_j p_j(z) \ge \alpha`, a probability without a scale; but
  outliers far from all components still have one certain nearest component.
"""

import numpy as np

from disentangle_jax.metrics.inputs import ArrayLike, Score, to_numpy
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
    """Returns which rows are not rejected."""
    if threshold not in _THRESHOLDS:
        raise unknown_name(function, "threshold", threshold, _THRESHOLDS)
    if alpha < 0:
        raise ValueError(f"{function}: `alpha` must be ≥ 0, got {alpha}.")
    if alpha == 0:
        return np.ones(len(densities), bool)
    best = densities.max(axis=1)
    if threshold == "density":
        return best >= np.log(alpha)
    # A row without any density has no posterior either.
    known = np.isfinite(best)
    gaps = densities - np.where(known, best, 0.0)[:, None]
    return known & (alpha * np.exp(gaps).sum(axis=1) <= 1.0)


def _accuracy(
    function: str,
    log_densities: ArrayLike,
    labels: ArrayLike,
    alpha: float,
    threshold: str,
    relations: ArrayLike | None = None,
) -> Score:
    """Returns the accuracy over accepted rows, averaged over relations if given."""
    densities = _densities(function, log_densities)
    labels = to_numpy(function, "labels", labels)
    if labels.shape != densities.shape[:1]:
        raise ValueError(
            f"{function}: `log_densities` must be [N, C] and `labels` [N], got "
            f"{densities.shape} and {labels.shape}."
        )
    accepted = _accepted(function, densities, alpha, threshold)
    right = densities.argmax(axis=1) == labels
    parts = {"all": accepted}
    if relations is not None:
        relations = to_numpy(function, "relations", relations)
        if relations.shape != right.shape:
            raise ValueError(
                f"{function}: `relations` must have shape {right.shape}, got "
                f"{relations.shape}."
            )
        parts = {
            f"relation_{r}": accepted & (relations == r) for r in np.unique(relations)
        }
    each = {n: right[own].mean() if own.any() else np.nan for n, own in parts.items()}
    known = [value for value in each.values() if not np.isnan(value)]
    values = {"accuracy": np.mean(known) if known else np.nan}
    values["accepted"] = accepted.mean()
    if relations is not None:
        values |= each
    settings = {"samples": len(right), "alpha": alpha, "threshold": threshold}
    return Score(values, settings)


def assign_components(
    log_densities: ArrayLike, *, alpha: float = 0.0, threshold: str = "density"
) -> np.ndarray:
    """Returns the component ``[N]`` of each row, -1 if it is rejected.

    Arguments: see `metrics.relations`.
    """
    densities = _densities("assign_components", log_densities)
    accepted = _accepted("assign_components", densities, alpha, threshold)
    return np.where(accepted, densities.argmax(axis=1), -1)


def component_factors(
    components: ArrayLike, factor_sizes: tuple[int, ...]
) -> np.ndarray:
    """Returns the factor values of components, as codes for other scores.

    AbsAE's codes for DCI, MIG and SAP (paper, Sec. 4.5): those scores search single
    dimensions for a factor, so the predicted factors replace the code.

    Args:
      components: ``[N]`` integers, row-major over the factors, without rejected rows.
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

    For one model, accuracy times accepted share never exceeds the accuracy at alpha 0,
    since rejection only leaves rows out.

    Args:
      labels: ``[N]`` true component.

    Other arguments: see `metrics.relations`.

    Returns:
      ``accuracy`` over accepted rows (NaN if there are none) and ``accepted``, their
      share.
    """
    return _accuracy("cluster_accuracy", log_densities, labels, alpha, threshold)


def relation_accuracy(
    log_densities: ArrayLike,
    labels: ArrayLike,
    relations: ArrayLike,
    *,
    alpha: float = 0.0,
    threshold: str = "density",
) -> Score:
    """`cluster_accuracy` of the outputs of relations, averaged over relations.

    Args:
      labels: ``[N]`` true component of the output.
      relations: ``[N]`` index of the relation that was applied.

    Other arguments: see `metrics.relations`.

    Returns:
      ``accuracy``, ``accepted``, and ``relation_r`` per relation r.
    """
    return _accuracy(
        "relation_accuracy", log_densities, labels, alpha, threshold, relations
    )


def outlier_rejection(
    log_densities: ArrayLike,
    outlier_log_densities: ArrayLike,
    *,
    alpha: float = 0.0,
    threshold: str = "density",
) -> Score:
    """Shares of outliers and of other rows that a threshold rejects.

    Args:
      outlier_log_densities: ``[M, C]`` of rows that should be rejected.

    Other arguments: see `metrics.relations`.

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
