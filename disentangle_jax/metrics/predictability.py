"""Scores of linear predictions of the factors: SAP and explicitness."""

from collections.abc import Sequence

import numpy as np

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.estimators import linear_svm, logistic_regression, logits
from disentangle_jax.metrics.information import top_two
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Arrays,
    Score,
    check_arrays,
    standardised,
)
from disentangle_jax.metrics.intervals import Bootstrap
from disentangle_jax.types import unknown_name


def _blocks_of(codes: np.ndarray, groups: tuple[int, ...]) -> np.ndarray:
    """Returns codes ``[N, D]`` as blocks ``[G, N, d]``, padded with zeros."""
    out = np.zeros((len(groups), len(codes), max(groups)))
    start = 0
    for g, size in enumerate(groups):
        out[g, :, :size] = codes[:, start : start + size]
        start += size
    return out


def _svm_correct(arrays: Arrays, C: float) -> np.ndarray:
    """Returns ``[M, G, K]``: which rows a linear SVM on one variable gets right."""
    train = _blocks_of(arrays.codes, arrays.groups)
    test, labels = train, arrays.labels
    if arrays.codes_test is not None:
        test = _blocks_of(arrays.codes_test, arrays.groups)
        labels = arrays.labels_test
    w = linear_svm(train, arrays.labels, arrays.sizes, C=C)
    out = np.empty((len(labels), len(w), len(arrays.sizes)), bool)
    stops = np.cumsum(arrays.sizes)
    for g in range(len(w)):
        decision = test[g] @ w[g, :, :-1].T + w[g, :, -1]
        for k, (size, stop) in enumerate(zip(arrays.sizes, stops)):
            guess = decision[:, stop - size : stop].argmax(axis=1)
            out[:, g, k] = guess == labels[:, k]
    return out


def _r_squared(arrays: Arrays) -> np.ndarray:
    """Returns R² ``[G, K]`` of the least-squares fit of each factor on a variable."""
    codes = arrays.codes.astype(np.float64)
    codes = codes - codes.mean(axis=0)
    codes[:, codes.var(axis=0) <= 1e-12] = 0.0
    y = arrays.factors.astype(np.float64)
    y = y - y.mean(axis=0)
    spread = np.sum(y**2, axis=0)
    out, start = [], 0
    for size in arrays.groups:
        block = codes[:, start : start + size]
        gram, cross = block.T @ block, block.T @ y
        fitted = np.sum(cross * (np.linalg.pinv(gram, hermitian=True) @ cross), axis=0)
        # A factor may vary only in the test rows.
        out.append(fitted / np.where(spread > 0, spread, np.inf))
        start += size
    return np.stack(out)


def _sap_interval(score: Score, bootstrap: Bootstrap) -> dict[str, np.ndarray]:
    first, second = top_two(bootstrap.accuracy(score), 1)
    return {"sap": np.mean(first - second, axis=-1)}


@define(
    keys={"sap": "gap between the two latents that predict a factor best (1 is best)"},
    groups=True,
    invariant_to=("permutation",),
    interval=_sap_interval,
    reference="Kumar et al. 2018, Variational Inference of Disentangled Latent "
    "Concepts from Unlabeled Observations",
)
def sap(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    estimator: str = "svm",
    C: float = 0.01,
    seed: int = 0,
) -> Score:
    r"""Separated attribute predictability (Kumar et al. 2018).

    .. math:: \frac1K \sum_k s_{(1)k} - s_{(2)k}

    where :math:`s_{ik}` measures how well latent variable i alone predicts factor k. In
    [0, 1], higher is better; with a single variable the second value is 0.

    * ``estimator="svm"`` (the study's): accuracy, on the test rows if given, of a
      one-vs-rest linear SVM with squared hinge loss and balanced classes. A linear SVM
      on one feature cannot separate the middle classes of an ordinal factor, so a
      perfect code does not score 1.
    * ``estimator="r2"``: :math:`R^2` of least squares on the training rows (the squared
      correlation), the form for continuous factors, which always take it.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score. Without
        test rows the SVM is scored on the training rows, which a model of one weight
        can hardly overfit. The SVM or the regression sees all dimensions of a
        multi-dimensional variable. There is no randomness.
      estimator: "svm" or "r2".
      C: inverse of the penalty of the SVM.

    Returns:
      ``sap``; the matrix of s is in ``matrices["predictability"]``.
    """
    arrays = check_arrays("sap", codes, factors, codes_test, factors_test, groups)
    if estimator not in ("svm", "r2"):
        raise unknown_name("sap", "estimator", estimator, ("svm", "r2"))
    matrix, more = _r_squared(arrays), {}
    settings = arrays.settings(estimator=estimator, continuous_as="values (R²)")
    classes = [k for k in range(matrix.shape[1]) if k not in arrays.continuous]
    if estimator == "svm" and classes:
        correct = _svm_correct(arrays.of_factors(classes), C)
        matrix[:, classes] = correct.mean(axis=0)
        settings |= {"C": C}
        if arrays.codes_test is None:
            settings |= {"scored_on": "training rows"}
        if not arrays.continuous:
            more = {"correct": correct}
    first, second = top_two(matrix, 0)
    return Score(
        {"sap": np.mean(first - second)},
        settings,
        matrices={"predictability": matrix, **more},
    )


def roc_auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Returns the area under the ROC curve; ties count half. NaN with one class."""
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


@define(
    keys={
        "explicitness": "ROC area of linear classifiers of the factors (1 is best)",
        "explicitness_train": "the same on the training rows",
    },
    cost="medium",
    reference="Ridgeway & Mozer 2018, Learning Deep Disentangled Embeddings with the "
    "F-Statistic Loss",
)
def explicitness(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    seed: int = 0,
) -> Score:
    r"""Explicitness (Ridgeway & Mozer 2018): mean one-vs-rest ROC-AUC.

    Codes are standardised by the mean and deviation of the training rows; a multinomial
    logistic regression (L2, C = 1) predicts each factor; the areas under the ROC curves
    of its class probabilities are averaged over the classes present in the scored rows,
    then over factors. In [0.5, 1] up to sampling noise, higher is better. A dead latent
    is standardised to 0 and changes nothing.

    Two differences from common code: the regression is solved to its optimum
    (scikit-learn often stops earlier, after 100 iterations; the score differs by less
    than 1e-5), and dead latents or classes missing from the test rows are no error.

    Args:
      codes, factors, codes_test, factors_test, seed: as in every score. There is no
        randomness.

    Returns:
      ``explicitness`` on the test rows if given, else on the training rows, and
      ``explicitness_train``.
    """
    arrays = check_arrays("explicitness", codes, factors, codes_test, factors_test)
    x = standardised(arrays.codes)
    fits = logistic_regression(x, arrays.labels, arrays.sizes, tolerance=1e-5)
    train = np.mean([_macro_auc(w, x, f) for w, f in zip(fits, arrays.labels.T)])
    value = train
    if arrays.codes_test is not None:
        x_test = standardised(arrays.codes_test, arrays.codes)
        aucs = [_macro_auc(w, x_test, f) for w, f in zip(fits, arrays.labels_test.T)]
        value = np.nanmean(aucs)  # a factor may be constant in the test rows
    settings = arrays.settings(model="multinomial logistic regression", C=1.0)
    if arrays.codes_test is None:
        settings |= {"scored_on": "training rows"}
    return Score({"explicitness": value, "explicitness_train": train}, settings)
