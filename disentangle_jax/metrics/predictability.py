"""Scores of linear predictions of the factors: SAP and explicitness."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import expit

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.estimators import linear_svm, logistic_regression, logits
from disentangle_jax.metrics.information import top_two
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Arrays,
    Score,
    check_arrays,
    standardised,
    unit_interval,
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
    if arrays.test is not None:
        test = _blocks_of(arrays.test.codes, arrays.groups)
        labels = arrays.test.labels
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
    conventions={
        "disent": {"estimator": "svm", "C": 0.01},
        "dlib": {"estimator": "svm", "C": 0.01},
        "ubisoft": {"estimator": "r2"},
    },
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
        if arrays.test is None:
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


def _macro_auc(p: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean one-vs-rest ROC area of probabilities ``[N, S]``."""
    p = p / p.sum(axis=1, keepdims=True)
    present = np.unique(labels)
    return float(np.mean([roc_auc(p[:, c], labels == c) for c in present]))


# Function of codes that returns the unnormalised probabilities [N, S] of each factor.
_Classifier = Callable[[np.ndarray], list[np.ndarray]]


def _multinomial(arrays: Arrays) -> _Classifier:
    """Multinomial logistic regressions (L2, C = 1) on standardised codes."""
    x = standardised(arrays.codes)
    fits = logistic_regression(x, arrays.labels, arrays.sizes, tolerance=1e-5)

    def probabilities(codes: np.ndarray) -> list[np.ndarray]:
        raw = [logits(w, standardised(codes, arrays.codes)) for w in fits]
        return [np.exp(r - r.max(axis=1, keepdims=True)) for r in raw]

    return probabilities


def _one_vs_rest(arrays: Arrays) -> _Classifier:
    """A logistic regression per class, with balanced weights, on min-max scaled codes.

    scikit-learn's ``LogisticRegression(class_weight="balanced", multi_class="ovr")``.
    """
    sizes = arrays.sizes
    hot = np.concatenate(
        [f[:, None] == np.arange(s) for f, s in zip(arrays.labels.T, sizes)], axis=1
    )
    count = np.where(hot, hot.sum(axis=0), (~hot).sum(axis=0))
    x = unit_interval(arrays.codes, arrays.codes)
    fits = logistic_regression(
        x, hot.astype(np.int32), (2,) * hot.shape[1], weights=len(x) / (2.0 * count),
        tolerance=1e-5,
    )  # fmt: skip

    def probabilities(codes: np.ndarray) -> list[np.ndarray]:
        x = unit_interval(codes, arrays.codes)
        raw = np.stack([logits(w, x) for w in fits])
        p = expit(raw[..., 1] - raw[..., 0]).T
        return np.split(p, np.cumsum(sizes)[:-1], axis=1)

    return probabilities


_CLASSIFIERS = {"multinomial": _multinomial, "one_vs_rest": _one_vs_rest}


@define(
    keys={
        "explicitness": "ROC area of linear classifiers of the factors (1 is best)",
        "explicitness_train": "the same on the training rows",
    },
    cost="medium",
    conventions={
        "dlib": {
            "model": "multinomial",
            "factor_bins": None,
            "rescale": False,
            "scored_on": "test",
        },
        "ubisoft": {
            "model": "one_vs_rest",
            "factor_bins": 10,
            "rescale": True,
            "scored_on": "train",
        },
    },  # fmt: skip
    reference="Ridgeway & Mozer 2018, Learning Deep Disentangled Embeddings with the "
    "F-Statistic Loss",
)
def explicitness(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    model: str = "multinomial",
    factor_bins: int | None = None,
    rescale: bool = False,
    scored_on: str = "test",
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
      model: "multinomial" (above), or "one_vs_rest": a binary regression per class with
        balanced classes, on codes scaled to [0, 1], whose probabilities are divided by
        their sum, as in the ubisoft library.
      factor_bins: bins of all factors, scaled to [0, 1]; None keeps their values.
      rescale: return 2 (area − 1/2), which is 0 at chance.
      scored_on: "test" for the test rows if given, or "train".

    Returns:
      ``explicitness`` on the test rows if given, else on the training rows, and
      ``explicitness_train``.
    """
    arrays = check_arrays("explicitness", codes, factors, codes_test, factors_test)
    for argument, name, known in (
        ("model", model, tuple(_CLASSIFIERS)),
        ("scored_on", scored_on, ("test", "train")),
    ):
        if name not in known:
            raise unknown_name("explicitness", argument, name, known)
    settings = arrays.settings(
        model=model, C=1.0, factor_bins=factor_bins, rescale=rescale
    )
    if factor_bins is not None:
        arrays = arrays.in_bins(factor_bins)
    probabilities = _CLASSIFIERS[model](arrays)
    aucs = map(_macro_auc, probabilities(arrays.codes), arrays.labels.T)
    value = train = np.mean(list(aucs))
    if arrays.test is None or scored_on == "train":
        settings |= {"scored_on": "training rows"}
    else:
        test = arrays.test
        aucs = map(_macro_auc, probabilities(test.codes), test.labels.T)
        value = np.nanmean(list(aucs))  # a factor may be constant in the test rows
    if rescale:
        value, train = 2.0 * value - 1.0, 2.0 * train - 1.0
    return Score({"explicitness": value, "explicitness_train": train}, settings)
