"""Scores of an importance matrix: DCI, and MED from mutual information.

Both compute disentanglement and completeness from importances :math:`R_{ik} \\ge 0` of
latent i for factor k (Eastwood & Williams 2018).
"""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from disentangle_jax.metrics.descriptions import define
from disentangle_jax.metrics.estimators import (
    boosted_trees,
    lasso,
    logistic_regression,
    logits,
)
from disentangle_jax.metrics.information import Information, information
from disentangle_jax.metrics.inputs import (
    ArrayLike,
    Arrays,
    Score,
    check_arrays,
    standardised,
    unit_interval,
)
from disentangle_jax.metrics.intervals import Bootstrap, OfInformation
from disentangle_jax.types import unknown_name

# What an importance model returns: importances [D, K] of the single dimensions, and its
# success on train and on test rows (None without test rows): booleans [N, K] for a
# classifier, informativeness [1, K] for a regression.
Fit = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def _one_minus_entropy(weights: np.ndarray, axis: int, floor: float) -> np.ndarray:
    """Returns 1 − entropy (base: length of the axis) of weights normalised along it.

    A distribution over one element has no entropy: 1. Weights that are all zero count
    as uniform: 0.
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
    """Returns disentanglement and completeness of an importance matrix ``[G, K]``.

    `floor` is added before the entropy; `weighted` weighs the factors of completeness
    by their total importance (all equal for a model whose columns sum to 1). A zero
    matrix gives (0, 0).
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


def _classifier_fit(arrays: Arrays, make: Callable) -> Fit:
    """Fits one scikit-learn classifier with importances per factor."""
    from joblib import Parallel, delayed

    def fit(k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        model = make()
        model.fit(arrays.codes, arrays.labels[:, k])
        train = model.predict(arrays.codes) == arrays.labels[:, k]
        test = None
        if arrays.test is not None:
            test = model.predict(arrays.test.codes) == arrays.test.labels[:, k]
        return np.abs(model.feature_importances_), train, test

    # Threads suffice, since the tree builder releases the lock. Large factors go first.
    order = np.argsort(arrays.sizes)[::-1]
    done = Parallel(n_jobs=-1, prefer="threads")(delayed(fit)(k) for k in order)
    done = [done[i] for i in np.argsort(order)]
    importance = np.stack([d[0] for d in done], axis=1)
    train = np.stack([d[1] for d in done], axis=1)
    if arrays.test is None:
        return importance, train, None
    return importance, train, np.stack([d[2] for d in done], axis=1)


def _gbt_exact(arrays: Arrays, seed: int) -> Fit:
    from sklearn.ensemble import GradientBoostingClassifier

    return _classifier_fit(
        arrays, lambda: GradientBoostingClassifier(random_state=seed)
    )


def _forest(arrays: Arrays, seed: int) -> Fit:
    from sklearn.ensemble import RandomForestClassifier

    return _classifier_fit(arrays, lambda: RandomForestClassifier(random_state=seed))


def correct(logits: np.ndarray, labels: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Returns ``[N, K]``: which labels the logits ``[N, sum(sizes)]`` predict."""
    stops = np.cumsum(sizes)
    guesses = [logits[:, b - s : b].argmax(axis=1) for s, b in zip(sizes, stops)]
    return np.stack(guesses, axis=1) == labels


def _gbt(arrays: Arrays, seed: int) -> Fit:
    codes_test = None if arrays.test is None else arrays.test.codes
    fit = boosted_trees(arrays.codes, arrays.labels, arrays.sizes, codes_test)
    train = correct(fit.logits, arrays.labels, arrays.sizes)
    if arrays.test is None:
        return fit.importance, train, None
    test = correct(fit.logits_test, arrays.test.labels, arrays.sizes)
    return fit.importance, train, test


def _logistic(arrays: Arrays, seed: int) -> Fit:
    x = standardised(arrays.codes)
    coefficients = logistic_regression(x, arrays.labels, arrays.sizes)
    importance = [np.abs(w[:, :-1]).mean(axis=0) for w in coefficients]
    train = np.concatenate([logits(w, x) for w in coefficients], axis=1)
    train = correct(train, arrays.labels, arrays.sizes)
    if arrays.test is None:
        return np.stack(importance, axis=1), train, None
    x_test = standardised(arrays.test.codes, arrays.codes)
    test = np.concatenate([logits(w, x_test) for w in coefficients], axis=1)
    test = correct(test, arrays.test.labels, arrays.sizes)
    return np.stack(importance, axis=1), train, test


_ALPHAS = (1e-4, 1e-3, 1e-2, 0.1, 0.2, 0.4, 0.8, 1.0)
_FOLDS = 10


def _lasso(arrays: Arrays, seed: int) -> Fit:
    x, y = (
        unit_interval(arrays.codes, arrays.codes),
        unit_interval(arrays.factors, arrays.factors),
    )
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
    if arrays.test is not None:
        test = informativeness(
            unit_interval(arrays.test.codes, arrays.codes),
            unit_interval(arrays.test.factors, arrays.factors),
        )
    return np.abs(w).T, informativeness(x, y), test


def _forest_regression(arrays: Arrays, seed: int) -> Fit:
    from sklearn.ensemble import RandomForestRegressor

    parts = {"train": (arrays.codes, unit_interval(arrays.factors, arrays.factors))}
    if arrays.test is not None:
        targets = unit_interval(arrays.test.factors, arrays.factors)
        parts["test"] = (arrays.test.codes, targets)
    importance: list[np.ndarray] = []
    informed: dict[str, list[float]] = {name: [] for name in parts}
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


# Models of factor values; the others predict classes.
_REGRESSIONS = ("forest_regression", "lasso")


def _fit(arrays: Arrays, estimator: str, seed: int) -> Fit:
    """Fits the estimator, and a forest regression to factors that are continuous."""
    if estimator in _REGRESSIONS or not arrays.continuous:
        return ESTIMATORS[estimator](arrays, seed)
    every = range(arrays.factors.shape[1])
    classes = [k for k in every if k not in arrays.continuous]
    values = arrays.of_factors(arrays.continuous)
    fits = [(list(arrays.continuous), _forest_regression(values, seed))]
    if classes:
        fits.append((classes, ESTIMATORS[estimator](arrays.of_factors(classes), seed)))
    importance = np.empty((arrays.codes.shape[1], len(every)))
    success = [np.full((1, len(every)), np.nan) for _ in range(2)]
    for columns, (own, *parts) in fits:
        importance[:, columns] = own
        for whole, part in zip(success, parts):
            if part is not None:
                whole[:, columns] = part.mean(axis=0, keepdims=True)
    return importance, success[0], None if arrays.test is None else success[1]


def _dci_interval(score: Score, bootstrap: Bootstrap) -> dict[str, np.ndarray]:
    return {"informativeness": bootstrap.accuracy(score).mean(axis=-1)}


@define(
    keys={
        "disentanglement": "each latent predicts one factor (1 is best)",
        "completeness": "each factor is predicted by one latent (1 is best)",
        "informativeness": "accuracy of predicting factors from codes (1 is best)",
        "informativeness_train": "the same on the training rows",
    },
    cost="medium",
    groups=True,
    options={"estimator": tuple(ESTIMATORS)},
    conventions={
        "disent": {"estimator": "gbt_exact", "scored_on": "test"},
        "dlib": {"estimator": "gbt_exact", "scored_on": "test"},
        "ubisoft": {"estimator": "lasso", "scored_on": "train"},
    },
    matrices={
        "importance": (
            "Which latents predict each factor",
            "Importance of each latent to the model that predicts a factor from the "
            "code (DCI); each column adds up to 1.",
        )
    },
    interval=_dci_interval,
    reference="Eastwood & Williams 2018, A Framework for the Quantitative Evaluation "
    "of Disentangled Representations",
)
def dci(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    estimator: str = "gbt",
    scored_on: str = "test",
    seed: int = 0,
) -> Score:
    r"""Disentanglement, completeness, informativeness (Eastwood & Williams 2018).

    A model predicts each factor from the code; :math:`R_{ik} \ge 0` is the importance
    of latent i for factor k. With :math:`H_b` the entropy in base b of the normalised
    row or column,

    .. math::
       D = \sum_i \rho_i \, (1 - H_K(R_{i\cdot})), \quad
       C = \sum_k \tau_k \, (1 - H_G(R_{\cdot k})), \quad
       \rho_i = \frac{\sum_k R_{ik}}{\sum R}, \;
       \tau_k = \frac{\sum_i R_{ik}}{\sum R}

    and informativeness is the mean accuracy of the model over factors (an accuracy, not
    an error), on the test rows. Without test rows a second model is fitted to a random
    four fifths of the rows and scored on the others; the importances are those of all
    rows. All in [0, 1], higher is better. Dead latents have no importance and no
    weight. With one factor (one latent variable) D (C) is 1.

    The estimators are different scores under one name; report which one you use:

    * ``"gbt"`` (default): gradient-boosted trees, the study's model with a faster
      search for splits (see `metrics.estimators`). It takes seconds instead of minutes,
      and all three values are within 0.02 of ``"gbt_exact"`` (typically 0.005, 0.014 at
      most in our comparisons). The result is the same for every seed, device and
      number of cores.
    * ``"gbt_exact"``: scikit-learn's ``GradientBoostingClassifier()``, the published
      definition. Use it to compare with published values to the third digit.
    * ``"forest"``: scikit-learn's ``RandomForestClassifier()``, Gini importances.
    * ``"forest_regression"``: scikit-learn's ``RandomForestRegressor()`` of min-max
      scaled factors, as in the original paper and in HFVAE's Table 3; informativeness
      is the mean of max(0, 1 − 12 MSE).
    * ``"lasso"``: as in the ubisoft library: min-max scaled codes and factors, the
      penalty chosen by 10-fold cross-validation, importances |w|, unweighted
      completeness, and informativeness the mean of max(0, 1 − 12 MSE).
    * ``"logistic"``: multinomial logistic regression on standardised codes; importances
      are means of |w| over classes.

    Continuous factors are predicted by a regression: that of ``"lasso"``, and
    ``"forest_regression"`` with every other estimator.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score; the
        factors are labels (values for ``"lasso"`` and ``"forest_regression"``). The
        importances of a multi-dimensional variable are the sums over its dimensions.
        The seed is that of ``"gbt_exact"`` and the forests.
      estimator: see above.
      scored_on: rows of the informativeness: "test" (or held-out) or "train".

    Returns:
      ``disentanglement``, ``completeness``, ``informativeness``,
      ``informativeness_train``; the importances are in ``matrices["importance"]``.
    """
    arrays = check_arrays("dci", codes, factors, codes_test, factors_test, groups)
    if estimator not in ESTIMATORS:
        raise unknown_name("dci", "estimator", estimator, ESTIMATORS)
    if scored_on not in ("test", "train"):
        raise unknown_name("dci", "scored_on", scored_on, ("test", "train"))
    importance, train, test = _fit(arrays, estimator, seed)
    regression = estimator if estimator in _REGRESSIONS else "forest_regression"
    settings = arrays.settings(
        estimator=estimator, seed=seed, continuous_as=f"values ({regression})"
    )
    if scored_on == "train":
        test = train
        settings |= {"scored_on": "training rows"}
    elif test is None:
        test = _fit(arrays.held_out(seed)[0], estimator, seed)[2]
        settings |= {"scored_on": "a held-out fifth of the rows"}
    starts = np.cumsum((0, *arrays.groups[:-1]))
    importance = np.add.reduceat(importance, starts, axis=0)
    disentangled, complete = (
        disentanglement_completeness(importance, floor=0.0, weighted=False)
        if estimator == "lasso"
        else disentanglement_completeness(importance)
    )
    scored = cast(np.ndarray, test)  # There are test rows by now.
    values = {
        "disentanglement": disentangled,
        "completeness": complete,
        "informativeness": np.mean(scored),
        "informativeness_train": np.mean(train),
    }
    more = {"correct": scored} if scored.dtype == bool else {}
    return Score(values, settings, matrices={"importance": importance, **more})


def _information_importance(mi: np.ndarray) -> np.ndarray:
    """Returns informations ``[..., D, K]`` whose columns are scaled to sum to 1."""
    total = mi.sum(axis=-2, keepdims=True)
    return mi / np.where(total > 0, total, np.inf)


def _med(info: Information, cells: int) -> np.ndarray:
    importance = _information_importance(info.mi)
    return np.array([disentanglement_completeness(r)[0] for r in importance])


@define(
    keys={
        "med": "DCI disentanglement from mutual information (1 is best)",
        "completeness": "DCI completeness from mutual information (1 is best)",
    },
    groups=True,
    matrices={
        "importance": (
            "Share of the information about each factor",
            "Mutual information of each latent and each factor (MED), scaled so that "
            "each column adds up to 1.",
        )
    },
    interval=OfInformation("med", _med),
    reference="Cao et al. 2022, An Empirical Study on Disentanglement of Negative-free "
    "Contrastive Learning",
)
def med(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    bins: int = 20,
    top_k: int | None = None,
    seed: int = 0,
) -> Score:
    r"""Mutual-information-based entropy disentanglement (Cao et al. 2022).

    The disentanglement of `dci` with importances
    :math:`R_{ik} = I(\hat z_i; f_k) / \sum_j I(\hat z_j; f_k)` (bins as in `mig`).
    These need no classifier, so the score scales to codes with thousands of dimensions.
    In [0, 1], higher is better.

    Args:
      codes, factors, codes_test, factors_test, groups, seed: as in every score. There
        is no test part; the seed is that of the cells of ``groups``.
      bins: equal-width bins.
      top_k: keep only the ``top_k`` most important latents of each factor (their
        union), which makes codes of different width comparable; None keeps all.

    Returns:
      ``med`` and ``completeness``.
    """
    arrays = check_arrays(
        "med", codes, factors, codes_test, factors_test, groups, factor_bins=bins
    )
    if top_k is not None and top_k < 1:
        raise ValueError(f"med: `top_k` must be positive, got {top_k}.")
    mi = information(arrays, bins=bins, bin_factors=False, seed=seed)[0].mi
    if top_k is not None:
        mi = mi[np.unique(np.argsort(-mi, axis=0, kind="stable")[:top_k])]
    importance = _information_importance(mi)
    disentangled, complete = disentanglement_completeness(importance)
    return Score(
        {"med": disentangled, "completeness": complete},
        arrays.settings(bins=bins, top_k=top_k),
        matrices={"importance": importance},
    )
