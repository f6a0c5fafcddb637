"""Explicitness: how well a linear classifier ranks the values of each factor."""

import numpy as np

from disentangle_jax.metrics._inputs import ArrayLike, Score, check_arrays
from disentangle_jax.metrics.estimators import logistic_regression, logits


def roc_auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve; ties count half. NaN with one class only."""
    high, low = scores[positive], np.sort(scores[~positive])
    if not len(high) or not len(low):
        return float("nan")
    below = np.searchsorted(low, high, side="left")
    not_above = np.searchsorted(low, high, side="right")
    return float(np.mean(0.5 * (below + not_above)) / len(low))


def _macro_auc(coefficients: np.ndarray, x: np.ndarray, labels: np.ndarray) -> float:
    raw = logits(coefficients, x)
    p = np.exp(raw - raw.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    present = np.unique(labels)
    return float(np.mean([roc_auc(p[:, c], labels == c) for c in present]))


def explicitness(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    seed: int = 0,
) -> Score:
    r"""Explicitness (Ridgeway & Mozer 2018): mean one-vs-rest ROC-AUC.

    Codes are standardised with the mean and deviation of the training rows; a
    multinomial logistic regression (L2, C = 1) predicts each factor; the areas under
    the ROC curves of its class probabilities are averaged over the classes present in
    the scored rows, then over factors. In [0.5, 1] up to sampling noise, higher is
    better. A dead latent is standardised to 0 and changes nothing.

    Differs from common code in that the regression is solved to its optimum
    (scikit-learn's 100 iterations often stop before; below 1e-5 in the score), and in
    that dead latents and classes missing from the test rows are no error.

    Args:
      codes: ``[N, D]``.
      factors: ``[N, K]``, taken as labels.
      codes_test: ``[M, D]`` held-out codes.
      factors_test: ``[M, K]``.
      seed: accepted as in every score; the optimum is unique.

    Returns:
      ``explicitness`` on the test rows where given, else on the training rows, and
      ``explicitness_train``.
    """
    arrays = check_arrays(
        "explicitness", codes, factors, codes_test=codes_test,
        factors_test=factors_test,
    )  # fmt: skip
    mean = arrays.codes.mean(axis=0, dtype=np.float64)
    std = arrays.codes.std(axis=0, dtype=np.float64)
    # Rounding must not turn a constant latent into noise of unit variance.
    std = np.where(std > 1e-12 * np.abs(mean), std, np.inf)
    x = (arrays.codes - mean) / std
    fits = logistic_regression(x, arrays.labels, arrays.sizes, tolerance=1e-5)
    train = np.mean([_macro_auc(w, x, f) for w, f in zip(fits, arrays.labels.T)])
    value = train
    if arrays.codes_test is not None:
        x_test = (arrays.codes_test - mean) / std
        aucs = [_macro_auc(w, x_test, f) for w, f in zip(fits, arrays.labels_test.T)]
        value = np.nanmean(aucs)  # a factor may be constant in the test rows
    return Score(
        {"explicitness": value, "explicitness_train": train},
        arrays.settings(model="multinomial logistic regression", strength=1.0),
    )
