"""InfoMEC: modularity, explicitness and compactness of normalised information."""

import warnings
from collections.abc import Sequence

import numpy as np
from scipy.spatial import KDTree
from scipy.special import digamma

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.estimators import logistic_regression, logits
from disentangle_jax.metrics.information import information, label_entropies
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Arrays,
    Score,
    check_arrays,
    standardised,
)
from disentangle_jax.metrics.votes import lengths
from disentangle_jax.types import unknown_name


def knn_information(x: np.ndarray, labels: np.ndarray, neighbours: int) -> float:
    """Returns Ross's (2014) estimate of I(x; label) in nats for a continuous variable.

    In one dimension the k-th neighbour is found in a sorted window, without a tree.
    Labels that occur once are left out.
    """
    counts = np.bincount(labels)
    keep = counts[labels] > 1
    x, labels = x[keep], labels[keep]
    if not len(x):
        return 0.0
    every = np.sort(x)
    inside = np.empty(len(x))
    k_used = np.empty(len(x))
    for c in np.unique(labels):
        own = np.sort(x[labels == c])
        n = len(own)
        k = min(neighbours, n - 1)
        padded = np.concatenate([np.full(k, -np.inf), own, np.full(k, np.inf)])
        radius = np.full(n, np.inf)
        for left in range(k + 1):
            low = own - padded[k - left : k - left + n]
            high = padded[2 * k - left : 2 * k - left + n] - own
            radius = np.minimum(radius, np.maximum(low, high))
        # The neighbour itself stays outside, however the sums below are rounded.
        radius = radius - 4.0 * np.spacing(np.abs(own) + radius)
        near = np.searchsorted(every, own + radius, side="right")
        near -= np.searchsorted(every, own - radius, side="left")
        inside[labels == c] = near
        k_used[labels == c] = k
    total = len(x)
    own_count = np.bincount(labels)[labels]
    mean = digamma(k_used).mean() - digamma(own_count).mean() - digamma(inside).mean()
    return max(0.0, float(digamma(total) + mean))


def _vector_knn_information(
    x: np.ndarray, labels: np.ndarray, neighbours: int
) -> float:
    """Returns the same estimate for vectors ``[N, d]`` and Euclidean distances."""
    keep = np.bincount(labels)[labels] > 1
    x, labels = x[keep], labels[keep]
    if not len(x):
        return 0.0
    every = KDTree(x)
    inside, k_used = np.empty(len(x)), np.empty(len(x))
    for c in np.unique(labels):
        own = labels == c
        k = min(neighbours, own.sum() - 1)
        radius = KDTree(x[own]).query(x[own], k=[k + 1])[0][:, 0]
        # The neighbour itself stays outside.
        radius = radius * (1.0 - 1e-12)
        inside[own] = every.query_ball_point(x[own], radius, return_length=True)
        k_used[own] = k
    own_count = np.bincount(labels)[labels]
    mean = digamma(k_used).mean() - digamma(own_count).mean() - digamma(inside).mean()
    return max(0.0, float(digamma(len(x)) + mean))


def _knn_matrix(arrays: Arrays, neighbours: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = arrays.codes.astype(np.float64)
    std = codes.std(axis=0)
    codes = codes / np.where(std > 0, std, 1.0)
    # A tiny noise orders the neighbours of tied values.
    size = np.maximum(1.0, np.abs(codes).mean(axis=0))
    codes = codes + 1e-10 * size * rng.standard_normal(codes.shape)
    found = []
    for block in np.split(codes, np.cumsum(arrays.groups[:-1]), axis=1):
        estimate = knn_information if block.shape[1] == 1 else _vector_knn_information
        z = block[:, 0] if block.shape[1] == 1 else block
        found.append([estimate(z, f, neighbours) for f in arrays.labels.T])
    return np.array(found)


def _concentration(values: np.ndarray, axis: int) -> float:
    """Returns the mean share of the largest value, rescaled from [1/n, 1] to [0, 1]."""
    n = values.shape[axis]
    if n == 1:
        return 1.0
    total = values.sum(axis=axis)
    share = values.max(axis=axis) / np.where(total > 0, total, np.inf)
    return float(np.mean(np.where(total > 0, (share - 1 / n) / (1 - 1 / n), 0.0)))


def _balanced_explicitness(arrays: Arrays) -> np.ndarray:
    """Returns InfoE ``[K]`` of scikit-learn's regressions with balanced classes.

    Unpenalised regressions are far from their optimum after 100 iterations, so that the
    published values depend on the solver. With balanced classes the regression without
    features predicts all classes equally often: its log-loss is log(classes).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    x = standardised(arrays.codes)
    explained = []
    for f in arrays.labels.T:
        model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            p = model.fit(x, f).predict_proba(x)
        own = p[np.arange(len(f)), np.searchsorted(model.classes_, f)]
        tiny = np.finfo(np.float64).eps
        loss = -np.mean(np.log(np.clip(own, tiny, 1.0 - tiny)))
        explained.append(1.0 - loss / np.log(len(model.classes_)))
    return np.array(explained)


def _log_losses(arrays: Arrays) -> np.ndarray:
    """Returns the training log-losses ``[K]`` of unpenalised logistic regressions."""
    x = standardised(arrays.codes)
    fits = logistic_regression(
        x, arrays.labels, arrays.sizes, C=1e6, tolerance=1e-4, steps=100
    )
    losses = []
    for w, f in zip(fits, arrays.labels.T):
        raw = logits(w, x)
        peak = raw.max(axis=1)
        log_z = np.log(np.exp(raw - peak[:, None]).sum(axis=1)) + peak
        losses.append(np.mean(log_z - raw[np.arange(len(f)), f]))
    return np.array(losses)


@define(
    keys={
        "modularity": "each active latent informs about one factor (1 is best)",
        "explicitness": "a linear classifier predicts the factors (1 is best)",
        "compactness": "one latent has the information about a factor (1 is best)",
        "active_latents": "number of latents that vary",
    },
    deterministic=False,
    cost="medium",
    groups=True,
    invariant_to=("permutation", "shift", "global_scale"),
    conventions={
        "infomec": {
            "information_estimator": "knn",
            "neighbours": 10,
            "class_weight": "balanced",
        }
    },  # fmt: skip
    reference="Hsu et al. 2023, Disentanglement via Latent Quantization",
)
def info_mec(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    information_estimator: str = "knn",
    neighbours: int = 10,
    bins: int = 20,
    class_weight: str | None = None,
    seed: int = 0,
) -> Score:
    r"""InfoMEC (Hsu et al. 2023, Disentanglement via Latent Quantization).

    With :math:`N_{ik} = I(z_i; f_k) / H(f_k)` over the *active* latents (those whose
    range is more than 1/20 of the largest range):

    * ``modularity`` (InfoM): mean over latents of
      :math:`(\max_k N_{ik} / \sum_k N_{ik} - 1/K) / (1 - 1/K)`;
    * ``compactness`` (InfoC): the same over latents per factor, mean over factors;
    * ``explicitness`` (InfoE): mean over factors of
      :math:`1 - \mathrm{CE}_k / H(f_k)`, where CE is the training log-loss of a
      logistic regression of the factor on standardised codes (C = 10⁶, practically
      unpenalised).

    All in [0, 1], higher is better. A latent (a factor) without information counts 0;
    with one factor (one active latent) modularity (compactness) is 1.

    Modularity and compactness are shares, whatever the amount of information: of codes
    that are independent of the factors they are shares of the estimator's noise, and by
    the "knn" estimate, which is 0 for many pairs, often 0.5 to 1. Read them together
    with explicitness, which is 0 for such codes; with "histogram", whose bias is about
    the same for all pairs, they are near 0.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score. There
        is no test part; the seed is that of the noise that breaks ties between
        neighbours. Multi-dimensional variables have Euclidean distances, and the
        length of their dimensions' ranges is their range.
      information_estimator: "knn" (Ross 2014, the paper's) or "histogram" (plug-in,
        ``bins`` equal-width bins), which cannot exceed the entropy.
      neighbours: number of neighbours of the "knn" estimate.
      bins: number of bins of continuous factors, and of the codes in the "histogram"
        estimate.
      class_weight: "balanced" for the authors' code: all classes of a factor weigh the
        same in the regression, which scikit-learn fits with at most 100 iterations, and
        the log of the number of classes takes the place of H. None weighs rows alike.
    """
    if class_weight not in (None, "balanced"):
        raise unknown_name("info_mec", "class_weight", class_weight, ("balanced",))
    arrays = check_arrays(
        "info_mec", codes, factors, codes_test, factors_test, groups, factor_bins=bins
    )
    entropy = label_entropies(arrays.labels)
    entropy = np.where(entropy > 0, entropy, np.inf)
    if information_estimator == "knn":
        mi = _knn_matrix(arrays, neighbours, seed)
        more = {"neighbours": neighbours, "seed": seed}
    elif information_estimator == "histogram":
        mi = information(arrays, bins=bins, bin_factors=False, seed=seed)[0].mi
        more = {"bins": bins}
    else:
        raise unknown_name(
            "info_mec", "information_estimator", information_estimator,
            ("knn", "histogram"),
        )  # fmt: skip
    extent = lengths(np.ptp(arrays.codes, axis=0), arrays.groups)
    active = extent > extent.max() / 20.0
    nmi = mi / entropy
    modular = compact = 0.0
    if active.any():
        modular = _concentration(nmi[active], 1)
        compact = _concentration(nmi[active], 0)
    if class_weight is None:
        explicit = np.clip(1.0 - _log_losses(arrays) / entropy, 0.0, 1.0)
    else:
        explicit = _balanced_explicitness(arrays)
    return Score(
        {
            "modularity": modular,
            "explicitness": np.mean(explicit),
            "compactness": compact,
            "active_latents": active.sum(),
        },
        arrays.settings(
            information_estimator=information_estimator,
            class_weight=class_weight,
            **more,
        ),
        matrices={"nmi": nmi},
    )
