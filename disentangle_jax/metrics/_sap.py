"""SAP: the gap between the two latents that predict a factor best by themselves."""

from collections.abc import Sequence

import numpy as np

from disentangle_jax.metrics._information import top_two
from disentangle_jax.metrics._inputs import ArrayLike, Arrays, Score, check_arrays
from disentangle_jax.metrics.estimators import linear_svm
from disentangle_jax.types import unknown_name


def blocks_of(codes: np.ndarray, groups: tuple[int, ...]) -> np.ndarray:
    """Codes ``[N, D]`` as blocks ``[G, N, d]``, narrow ones padded with zeros."""
    out = np.zeros((len(groups), len(codes), max(groups)))
    start = 0
    for g, size in enumerate(groups):
        out[g, :, :size] = codes[:, start : start + size]
        start += size
    return out


def _svm_correct(arrays: Arrays, strength: float) -> np.ndarray:
    """``[M, G, K]`` rows that a linear SVM on one latent variable gets right."""
    train = blocks_of(arrays.codes, arrays.groups)
    test, labels = train, arrays.labels
    if arrays.codes_test is not None:
        test = blocks_of(arrays.codes_test, arrays.groups)
        labels = arrays.labels_test
    w = linear_svm(train, arrays.labels, arrays.sizes, strength=strength)
    out = np.empty((len(labels), len(w), len(arrays.sizes)), bool)
    stops = np.cumsum(arrays.sizes)
    for g in range(len(w)):
        decision = test[g] @ w[g, :, :-1].T + w[g, :, -1]
        for k, (size, stop) in enumerate(zip(arrays.sizes, stops)):
            guess = decision[:, stop - size : stop].argmax(axis=1)
            out[:, g, k] = guess == labels[:, k]
    return out


def _r_squared(arrays: Arrays) -> np.ndarray:
    """``[G, K]`` R² of the least-squares fit of each factor on each variable."""
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


def sap(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    estimator: str = "svm",
    strength: float = 0.01,
    seed: int = 0,
) -> Score:
    r"""Separated attribute predictability (Kumar et al. 2018).

    .. math:: \frac1K \sum_k s_{(1)k} - s_{(2)k}

    where :math:`s_{ik}` says how well latent variable i alone predicts factor k. In
    [0, 1], higher is better; a single variable has a second of 0.

    * ``estimator="svm"`` (the study's): accuracy, on the test rows where given, of a
      one-vs-rest linear SVM with squared hinge loss, C = ``strength`` and balanced
      classes. A linear SVM on one feature cannot separate the middle classes of an
      ordinal factor, so a perfect code does not score 1.
    * ``estimator="r2"``: :math:`R^2` of least squares on the training rows (the squared
      correlation), the form for continuous factors.

    Args:
      codes: ``[N, D]``.
      factors: ``[N, K]``.
      codes_test: ``[M, D]`` held-out codes; without them the SVM is scored on the
        training rows, which a model of one weight can hardly overfit.
      factors_test: ``[M, K]``.
      groups: sizes of multi-dimensional latent variables: the SVM or the regression
        then sees all dimensions of a variable.
      estimator: "svm" or "r2".
      strength: C of the SVM.
      seed: accepted as in every score; the optimum is unique.

    Returns:
      ``sap``; the matrix of s is in ``matrices["predictability"]``.
    """
    arrays = check_arrays(
        "sap", codes, factors, codes_test=codes_test, factors_test=factors_test,
        groups=groups,
    )  # fmt: skip
    if estimator == "svm":
        correct = _svm_correct(arrays, strength)
        matrix, more = correct.mean(axis=0), {"correct": correct}
        settings = arrays.settings(estimator=estimator, strength=strength)
    elif estimator == "r2":
        matrix, more = _r_squared(arrays), {}
        settings = arrays.settings(estimator=estimator)
    else:
        raise unknown_name("sap", "estimator", estimator, ("svm", "r2"))
    first, second = top_two(matrix, 0)
    return Score(
        {"sap": np.mean(first - second)},
        settings,
        matrices={"predictability": matrix, **more},
    )
