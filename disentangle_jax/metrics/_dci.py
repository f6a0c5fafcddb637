"""DCI: disentanglement, completeness, informativeness (Eastwood & Williams 2018)."""

from collections.abc import Callable, Sequence

import numpy as np

from disentangle_jax.metrics._inputs import ArrayLike, Arrays, Score, check_arrays
from disentangle_jax.metrics.estimators import (
    boosted_trees,
    lasso,
    logistic_regression,
    logits,
)
from disentangle_jax.types import unknown_name

# What an importance model returns: importances [D, K] of the single dimensions, and how
# right it is on train and on test rows (None where there are none): ``[N, K]`` booleans
# of a classifier, ``[1, K]`` informativeness of a regression.
Fit = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def _one_minus_entropy(weights: np.ndarray, axis: int, floor: float) -> np.ndarray:
    """1 − entropy (base: length of the axis) of weights normalised along the axis.

    A distribution over one element has no entropy: 1. Weights that are all zero count
    as uniform (0), so a dead latent weighs nothing and spoils nothing.
    """
    size = weights.shape[axis]
    total = weights.sum(axis=axis, keepdims=True)
    share = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 1.0 / size)
    share = (share + floor) / (share + floor).sum(axis=axis, keepdims=True)
    if size == 1:
        return np.ones(np.delete(weights.shape, axis))
    terms = share * np.log(np.where(share > 0, share, 1.0))
    return 1.0 + terms.sum(axis=axis) / np.log(size)


def disentanglement_completeness(
    importance: np.ndarray, *, floor: float = 1e-11, weighted: bool = True
) -> tuple[float, float]:
    """Disentanglement and completeness of an importance matrix ``[G, K]``.

    ``floor`` is added before the entropy; ``weighted`` weighs the factors of
    completeness by their total importance (all equal for a model whose columns sum
    to 1). A matrix without any importance gives (0, 0).
    """
    total = importance.sum()
    if total <= 0:
        return 0.0, 0.0
    per_code = _one_minus_entropy(importance, 1, floor)
    per_factor = _one_minus_entropy(importance, 0, floor)
    disentangled = float(np.sum(per_code * importance.sum(axis=1)) / total)
    if not weighted:
        return disentangled, float(per_factor.mean())
    return disentangled, float(np.sum(per_factor * importance.sum(axis=0)) / total)


def _classifier_fit(arrays: Arrays, make: Callable, jobs: int) -> Fit:
    """Fits one scikit-learn classifier with importances for each factor."""
    from joblib import Parallel, delayed

    def fit(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        model = make()
        model.fit(arrays.codes, arrays.labels[:, k])
        train = model.predict(arrays.codes) == arrays.labels[:, k]
        test = None
        if arrays.codes_test is not None:
            test = model.predict(arrays.codes_test) == arrays.labels_test[:, k]
        return np.abs(model.feature_importances_), train, test

    # Threads: the tree builder releases the lock. Large factors first.
    order = np.argsort(arrays.sizes)[::-1]
    done = Parallel(n_jobs=jobs, prefer="threads")(delayed(fit)(k) for k in order)
    done = [done[i] for i in np.argsort(order)]
    importance = np.stack([d[0] for d in done], axis=1)
    train = np.stack([d[1] for d in done], axis=1)
    if arrays.codes_test is None:
        return importance, train, None
    return importance, train, np.stack([d[2] for d in done], axis=1)


def _gbt_exact(arrays: Arrays, seed: int) -> Fit:
    from sklearn.ensemble import GradientBoostingClassifier

    return _classifier_fit(
        arrays, lambda: GradientBoostingClassifier(random_state=seed), jobs=-1
    )


def _forest(arrays: Arrays, seed: int) -> Fit:
    from sklearn.ensemble import RandomForestClassifier

    return _classifier_fit(
        arrays, lambda: RandomForestClassifier(random_state=seed), jobs=-1
    )


def correct(logits: np.ndarray, labels: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """``[N, K]``: which labels the logits ``[N, sum(sizes)]`` get right."""
    stops = np.cumsum(sizes)
    guesses = [logits[:, b - s : b].argmax(axis=1) for s, b in zip(sizes, stops)]
    return np.stack(guesses, axis=1) == labels


def _gbt(arrays: Arrays, seed: int) -> Fit:
    fit = boosted_trees(arrays.codes, arrays.labels, arrays.sizes, arrays.codes_test)
    train = correct(fit.logits, arrays.labels, arrays.sizes)
    if arrays.codes_test is None:
        return fit.importance, train, None
    test = correct(fit.logits_test, arrays.labels_test, arrays.sizes)
    return fit.importance, train, test


def _logistic(arrays: Arrays, seed: int) -> Fit:
    mean = arrays.codes.mean(axis=0, dtype=np.float64)
    std = arrays.codes.std(axis=0, dtype=np.float64)
    std = np.where(std > 0, std, 1.0)
    x = (arrays.codes - mean) / std
    coefficients = logistic_regression(x, arrays.labels, arrays.sizes)
    importance = [np.abs(w[:, :-1]).mean(axis=0) for w in coefficients]
    train = np.concatenate([logits(w, x) for w in coefficients], axis=1)
    train = correct(train, arrays.labels, arrays.sizes)
    if arrays.codes_test is None:
        return np.stack(importance, axis=1), train, None
    x_test = (arrays.codes_test - mean) / std
    test = np.concatenate([logits(w, x_test) for w in coefficients], axis=1)
    test = correct(test, arrays.labels_test, arrays.sizes)
    return np.stack(importance, axis=1), train, test


_ALPHAS = (1e-4, 1e-3, 1e-2, 0.1, 0.2, 0.4, 0.8, 1.0)
_FOLDS = 10


def _unit(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Columns scaled so that those of ``like`` fill [0, 1]; constant ones become 0."""
    low, high = like.min(axis=0).astype(np.float64), like.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return (values - low) / width


def _lasso(arrays: Arrays, seed: int) -> Fit:
    x, y = _unit(arrays.codes, arrays.codes), _unit(arrays.factors, arrays.factors)
    n = len(x)
    folds = min(_FOLDS, n)
    fold = np.concatenate(
        [np.full(len(part), i) for i, part in enumerate(np.array_split(x, folds))]
    )
    held_out = fold[None, :] == np.arange(folds)[:, None]
    w, b = lasso(x, y, np.array(_ALPHAS), weights=(~held_out).astype(np.float64))
    guess = np.einsum("ni,faki->fnak", x, w) + b[:, None]
    error = (guess - y[None, :, None, :]) ** 2
    # Each fold's mean error first, then the mean over folds, as cross-validation does.
    share = held_out / held_out.sum(axis=1, keepdims=True)
    best = np.einsum("fnak,fn->ak", error, share).argmin(axis=0)
    w, b = lasso(x, y, np.array(_ALPHAS))
    pick = np.arange(y.shape[1])
    w, b = w[0, best, pick], b[0, best, pick]

    def informativeness(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        error = np.mean((x @ w.T + b - y) ** 2, axis=0, keepdims=True)
        return np.maximum(0.0, 1.0 - 12.0 * error)

    test = None
    if arrays.codes_test is not None:
        test = informativeness(
            _unit(arrays.codes_test, arrays.codes),
            _unit(arrays.factors_test, arrays.factors),
        )
    return np.abs(w).T, informativeness(x, y), test


def _forest_regression(arrays: Arrays, seed: int) -> Fit:
    from sklearn.ensemble import RandomForestRegressor

    parts = {"train": (arrays.codes, _unit(arrays.factors, arrays.factors))}
    if arrays.codes_test is not None:
        targets = _unit(arrays.factors_test, arrays.factors)
        parts["test"] = (arrays.codes_test, targets)
    importance, informed = [], {name: [] for name in parts}
    for k in range(arrays.factors.shape[1]):
        forest = RandomForestRegressor(random_state=seed, n_jobs=-1)
        x, y = parts["train"]
        forest.fit(x, y[:, k])
        importance.append(forest.feature_importances_)
        for name, (x, y) in parts.items():
            error = np.mean((forest.predict(x) - y[:, k]) ** 2)
            informed[name].append(max(0.0, 1.0 - 12.0 * error))
    rows = {name: np.array(values)[None] for name, values in informed.items()}
    return np.stack(importance, axis=1), rows["train"], rows.get("test")


ESTIMATORS: dict[str, Callable[[Arrays, int], Fit]] = {
    "gbt": _gbt,
    "gbt_exact": _gbt_exact,
    "forest": _forest,
    "forest_regression": _forest_regression,
    "lasso": _lasso,
    "logistic": _logistic,
}


def dci(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    estimator: str = "gbt",
    seed: int = 0,
) -> Score:
    r"""Disentanglement, completeness, informativeness (Eastwood & Williams 2018).

    A model predicts each factor from the code and tells how much each latent mattered,
    :math:`R_{ik} \ge 0`. With :math:`H_b` the entropy in base b of the normalised row
    or column,

    .. math::
       D = \sum_i \rho_i \, (1 - H_K(R_{i\cdot})), \quad
       C = \sum_k \tau_k \, (1 - H_G(R_{\cdot k})), \quad
       \rho_i = \frac{\sum_k R_{ik}}{\sum R}, \;
       \tau_k = \frac{\sum_i R_{ik}}{\sum R}

    and informativeness is the mean accuracy of the model over factors (an accuracy, not
    an error), on the test rows where given, else on the training rows. All in [0, 1],
    higher is better. Dead latents have no importance and no weight. With one factor
    (one latent variable) D (C) is 1.

    The estimators are different scores under one name; say which you report:

    * ``"gbt"`` (default): our gradient-boosted trees, the study's model with a faster
      search for splits (see `metrics.estimators`). Seconds instead of minutes, and all
      three values within 0.02 of ``"gbt_exact"`` (0.005 is typical), which makes it the
      default. Same for every seed.
    * ``"gbt_exact"``: scikit-learn's ``GradientBoostingClassifier()``, the published
      definition. Use it to compare with published numbers to the third digit.
    * ``"forest"``: scikit-learn's ``RandomForestClassifier()``, Gini importances.
    * ``"forest_regression"``: scikit-learn's ``RandomForestRegressor()`` of min-max
      scaled factors, the original paper's kind of model, which HFVAE's Table 3 uses
      too; informativeness mean max(0, 1 − 12 MSE).
    * ``"lasso"``: the ubisoft library's: min-max scaled codes and factors, lasso with
      the penalty of best 10-fold cross-validation, importances |w|, completeness
      an unweighted mean and informativeness mean max(0, 1 − 12 MSE).
    * ``"logistic"``: multinomial logistic regression on standardised codes, importances
      the mean of |w| over classes.

    Args:
      codes: ``[N, D]``.
      factors: ``[N, K]``, taken as labels (as values by ``"lasso"`` and
        ``"forest_regression"``).
      codes_test: ``[M, D]`` held-out codes.
      factors_test: ``[M, K]``.
      groups: sizes of multi-dimensional latent variables: the importances of the
        dimensions of a variable are added up, so groups of size one change nothing.
      estimator: see above.
      seed: seeds ``"gbt_exact"`` and the forests.

    Returns:
      ``disentanglement``, ``completeness``, ``informativeness``,
      ``informativeness_train``; the importances are in ``matrices["importance"]``.
    """
    arrays = check_arrays(
        "dci", codes, factors, codes_test=codes_test, factors_test=factors_test,
        groups=groups,
    )  # fmt: skip
    if estimator not in ESTIMATORS:
        raise unknown_name("dci", "estimator", estimator, ESTIMATORS)
    importance, train, test = ESTIMATORS[estimator](arrays, seed)
    starts = np.cumsum((0, *arrays.groups[:-1]))
    importance = np.add.reduceat(importance, starts, axis=0)
    if estimator == "lasso":
        disentangled, complete = disentanglement_completeness(
            importance, floor=0.0, weighted=False
        )
    else:
        disentangled, complete = disentanglement_completeness(importance)
    scored = train if test is None else test
    values = {
        "disentanglement": disentangled,
        "completeness": complete,
        "informativeness": np.mean(scored),
        "informativeness_train": np.mean(train),
    }
    more = {"correct": scored} if scored.dtype == bool else {}
    return Score(
        values,
        arrays.settings(estimator=estimator, seed=seed),
        matrices={"importance": importance, **more},
    )
