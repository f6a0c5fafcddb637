"""InfoM, InfoE and InfoC: modularity, explicitness, compactness in bits of a kind."""

import numpy as np
from scipy.special import digamma

from disentangle_jax.metrics._information import information
from disentangle_jax.metrics._inputs import ArrayLike, Arrays, Score, check_arrays
from disentangle_jax.metrics.estimators import logistic_regression, logits
from disentangle_jax.types import unknown_name


def knn_information(x: np.ndarray, labels: np.ndarray, neighbours: int) -> float:
    """Ross's (2014) estimate of I(x; label) in nats, for one continuous variable.

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
        # The neighbour itself stays outside, whatever the sums below round to.
        radius = radius - 4.0 * np.spacing(np.abs(own) + radius)
        near = np.searchsorted(every, own + radius, side="right")
        near -= np.searchsorted(every, own - radius, side="left")
        inside[labels == c] = near
        k_used[labels == c] = k
    total = len(x)
    own_count = np.bincount(labels)[labels]
    mean = digamma(k_used).mean() - digamma(own_count).mean() - digamma(inside).mean()
    return max(0.0, float(digamma(total) + mean))


def _knn_matrix(arrays: Arrays, neighbours: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = arrays.codes.astype(np.float64)
    std = codes.std(axis=0)
    codes = codes / np.where(std > 0, std, 1.0)
    # Ties have no order of neighbours: a tiny noise gives them one.
    size = np.maximum(1.0, np.abs(codes).mean(axis=0))
    codes = codes + 1e-10 * size * rng.standard_normal(codes.shape)
    return np.array(
        [[knn_information(z, f, neighbours) for f in arrays.labels.T] for z in codes.T]
    )


def info_mec(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    information_estimator: str = "knn",
    neighbours: int = 10,
    bins: int = 20,
    seed: int = 0,
) -> Score:
    r"""InfoMEC (Hsu et al. 2023, Disentanglement via Latent Quantization).

    With :math:`N_{ik} = I(z_i; f_k) / H(f_k)` over the *active* latents (those whose
    range is more than 1/20 of the largest range):

    * ``modularity`` (InfoM): mean over latents of
      :math:`(\max_k N_{ik} / \sum_k N_{ik} - 1/K) / (1 - 1/K)`;
    * ``compactness`` (InfoC): the same over latents for each factor, mean over factors;
    * ``explicitness`` (InfoE): mean over factors of
      :math:`1 - \mathrm{CE}_k / H(f_k)`, CE the training log-loss of a logistic
      regression of the factor on standardised codes (C = 10⁶, practically unpenalised).

    All in [0, 1], higher is better. A latent (a factor) that shares no information
    counts 0; with one factor (one active latent) modularity (compactness) is 1.

    Args:
      codes: ``[N, D]``.
      factors: ``[N, K]``, taken as labels.
      codes_test: accepted as in every score; the definition uses training rows.
      factors_test: as ``codes_test``.
      information_estimator: "knn" (Ross 2014, the paper's) or "histogram" (plug-in,
        ``bins`` equal-width bins), which cannot exceed the entropy.
      neighbours: of the "knn" estimate.
      bins: of the "histogram" estimate.
      seed: seeds the noise that breaks ties between neighbours.
    """
    arrays = check_arrays(
        "info_mec", codes, factors, codes_test=codes_test, factors_test=factors_test
    )
    probabilities = [np.bincount(f) / len(f) for f in arrays.labels.T]
    entropy = np.array([-np.sum(p[p > 0] * np.log(p[p > 0])) for p in probabilities])
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
    extent = np.ptp(arrays.codes, axis=0)
    active = extent > extent.max() / 20.0
    nmi = mi[active] / np.where(entropy > 0, entropy, np.inf)

    def concentration(values: np.ndarray, axis: int) -> float:
        n = values.shape[axis]
        if n == 1:
            return 1.0
        total = values.sum(axis=axis)
        share = values.max(axis=axis) / np.where(total > 0, total, np.inf)
        return float(np.mean(np.where(total > 0, (share - 1 / n) / (1 - 1 / n), 0.0)))

    if not active.any():
        modular = compact = 0.0
    else:
        modular, compact = concentration(nmi, 1), concentration(nmi, 0)
    std = arrays.codes.std(axis=0, dtype=np.float64)
    x = arrays.codes - arrays.codes.mean(axis=0, dtype=np.float64)
    x = x / np.where(std > 0, std, np.inf)
    fits = logistic_regression(
        x, arrays.labels, arrays.sizes, strength=1e6, tolerance=1e-4, steps=100
    )
    loss = []
    for w, f in zip(fits, arrays.labels.T):
        raw = logits(w, x)
        peak = raw.max(axis=1)
        log_z = np.log(np.exp(raw - peak[:, None]).sum(axis=1)) + peak
        loss.append(np.mean(log_z - raw[np.arange(len(f)), f]))
    explicit = 1.0 - np.array(loss) / np.where(entropy > 0, entropy, np.inf)
    return Score(
        {
            "modularity": modular,
            "explicitness": np.mean(np.clip(explicit, 0.0, 1.0)),
            "compactness": compact,
            "active_latents": active.sum(),
        },
        arrays.settings(information_estimator=information_estimator, **more),
        matrices={"nmi": mi / np.where(entropy > 0, entropy, np.inf)},
    )
