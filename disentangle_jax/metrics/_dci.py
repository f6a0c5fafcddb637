"""DCI: disentanglement, completeness, informativeness (Eastwood & Williams 2018)."""

from collections.abc import Callable, Sequence

import numpy as np

from disentangle_jax.metrics._inputs import ArrayLike, Arrays, Score, check_arrays
from disentangle_jax.types import unknown_name

# What an importance model returns: importances [D, K] of the single dimensions, and
# its informativeness on train and test rows (NaN where there are none).
Fit = tuple[np.ndarray, float, float]


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

    def fit(k: int) -> tuple[np.ndarray, float, float]:
        model = make()
        model.fit(arrays.codes, arrays.labels[:, k])
        train = np.mean(model.predict(arrays.codes) == arrays.labels[:, k])
        test = np.nan
        if arrays.codes_test is not None:
            guess = model.predict(arrays.codes_test)
            test = np.mean(guess == arrays.labels_test[:, k])
        return np.abs(model.feature_importances_), train, test

    # Threads: the tree builder releases the lock. Large factors first.
    order = np.argsort(arrays.sizes)[::-1]
    done = Parallel(n_jobs=jobs, prefer="threads")(delayed(fit)(k) for k in order)
    done = [done[i] for i in np.argsort(order)]
    importance = np.stack([d[0] for d in done], axis=1)
    return importance, np.mean([d[1] for d in done]), np.mean([d[2] for d in done])


def _gbt_exact(arrays: Arrays, seed: int) -> Fit:
    from sklearn.ensemble import GradientBoostingClassifier

    return _classifier_fit(
        arrays, lambda: GradientBoostingClassifier(random_state=seed), jobs=-1
    )


ESTIMATORS: dict[str, Callable[[Arrays, int], Fit]] = {
    "gbt_exact": _gbt_exact,
}


def dci(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    codes_test: ArrayLike | None = None,
    factors_test: ArrayLike | None = None,
    groups: Sequence[int] | None = None,
    estimator: str = "gbt_exact",
    seed: int = 0,
) -> Score:
    r"""Disentanglement, completeness and informativeness (Eastwood & Williams 2018)."""
    arrays = check_arrays(
        "dci", codes, factors, codes_test=codes_test, factors_test=factors_test,
        groups=groups,
    )  # fmt: skip
    if estimator not in ESTIMATORS:
        raise unknown_name("dci", "estimator", estimator, ESTIMATORS)
    importance, train, test = ESTIMATORS[estimator](arrays, seed)
    starts = np.cumsum((0, *arrays.groups[:-1]))
    importance = np.add.reduceat(importance, starts, axis=0)
    disentangled, complete = disentanglement_completeness(importance)
    values = {
        "disentanglement": disentangled,
        "completeness": complete,
        "informativeness": train if arrays.codes_test is None else test,
        "informativeness_train": train,
    }
    return Score(
        values,
        arrays.settings(estimator=estimator, seed=seed),
        matrices={"importance": importance},
    )
