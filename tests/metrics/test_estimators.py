"""Estimators against scikit-learn and against optimality conditions."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.svm import LinearSVC

from disentangle_jax.metrics import estimators
from disentangle_jax.metrics.estimators.boosting import _class_edges, bin_edges


@pytest.fixture
def problem(rng):
    labels = np.stack([rng.integers(s, size=240) for s in (3, 4)], axis=1)
    x = labels @ rng.normal(size=(2, 3)) + 0.5 * rng.normal(size=(240, 3))
    return x, labels, (3, 4)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_logistic_regression_is_the_optimum(problem, C):
    x, labels, sizes = problem
    fits = estimators.logistic_regression(x, labels, sizes, C=C, tolerance=1e-9)
    for k, fit in enumerate(fits):
        model = LogisticRegression(C=C, tol=1e-10, max_iter=5000)
        model.fit(x, labels[:, k])
        np.testing.assert_allclose(fit[:, :-1], model.coef_, atol=2e-4)
        logits = estimators.logits(fit, x)
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(p, model.predict_proba(x), atol=2e-5)


def test_logistic_regression_weights_and_missing_classes(problem):
    x, labels, sizes = problem
    weights = (labels != 2).astype(float)  # as if class 2 did not exist
    fits = estimators.logistic_regression(
        x, labels, sizes, weights=weights, tolerance=1e-9
    )
    for k, fit in enumerate(fits):
        keep = labels[:, k] != 2
        model = LogisticRegression(tol=1e-10, max_iter=5000)
        model.fit(x[keep], labels[keep, k])
        guess = estimators.logits(fit, x).argmax(axis=1)
        assert 2 not in guess
        np.testing.assert_array_equal(guess, model.predict(x))


def test_linear_svm_is_the_optimum(problem):
    x, labels, sizes = problem
    w = estimators.linear_svm(x.T[:, :, None], labels, sizes)
    for i in range(3):
        start = 0
        for k, size in enumerate(sizes):
            model = LinearSVC(
                C=0.01, class_weight="balanced", dual=False, tol=1e-10, max_iter=10_000
            )
            model.fit(x[:, i : i + 1], labels[:, k])
            own = w[i, start : start + size]
            start += size
            np.testing.assert_allclose(own[:, 0], model.coef_[:, 0], atol=1e-6)
            np.testing.assert_allclose(own[:, 1], model.intercept_, atol=1e-6)
    block = estimators.linear_svm(x[None], labels, sizes)[0]
    model = LinearSVC(C=0.01, class_weight="balanced", dual=False, tol=1e-10)
    model.fit(x, labels[:, 0])
    np.testing.assert_allclose(block[:3, :-1], model.coef_, atol=1e-6)
    padded = np.concatenate([x, np.zeros((240, 1))], axis=1)[None]
    np.testing.assert_allclose(
        estimators.linear_svm(padded, labels, sizes)[0, :, [0, 1, 2, 4]].T,
        block,
        atol=1e-9,
    )


def test_lasso_is_the_optimum(problem):
    x, labels, _ = problem
    x = np.concatenate([x, np.full((240, 1), 0.7)], axis=1)  # a dead latent
    alphas = np.array([1e-3, 0.05, 0.5])
    w, b = estimators.lasso(x, labels, alphas)
    for a, alpha in enumerate(alphas):
        for k in range(2):
            model = Lasso(alpha=alpha, tol=1e-12, max_iter=100_000)
            model.fit(x, labels[:, k])
            np.testing.assert_allclose(w[0, a, k], model.coef_, atol=1e-7)
            np.testing.assert_allclose(b[0, a, k], model.intercept_, atol=1e-7)
    folds = np.ones((2, 240))
    folds[1, 100:] = 0.0
    part, _ = estimators.lasso(x, labels, alphas, weights=folds)
    alone, _ = estimators.lasso(x[:100], labels[:100], alphas)
    np.testing.assert_allclose(part[0], w[0], atol=1e-12)
    np.testing.assert_allclose(part[1], alone[0], atol=1e-9)


def exact_trees(x, labels, x_test, rounds):
    models = []
    for k in range(labels.shape[1]):
        model = GradientBoostingClassifier(n_estimators=rounds, random_state=0)
        models.append(model.fit(x, labels[:, k]))
    importance = np.stack([m.feature_importances_ for m in models], axis=1)
    return importance, [m.predict_proba(x_test) for m in models]


def softmax_parts(logits, sizes):
    parts = np.split(logits.astype(np.float64), np.cumsum(sizes)[:-1], axis=1)
    return [np.exp(p) / np.exp(p).sum(axis=1, keepdims=True) for p in parts]


def test_boosted_trees_are_exact_on_few_values(rng):
    """With a bin for every value the trees are scikit-learn's, split by split."""
    x = rng.integers(12, size=(300, 3)) * np.array([1.0, 0.3, 2.0])
    noise = rng.normal(size=300)
    labels = np.stack([
        np.digitize(x[:, 0] + x[:, 1] + noise, [4, 8]),
        (x[:, 2] + 4 * noise > 10).astype(int),  # two classes: one tree in scikit-learn
    ], axis=1)  # fmt: skip
    sizes = (3, 2)
    fit = estimators.boosted_trees(x, labels, sizes, x, rounds=20)
    importance, probabilities = exact_trees(x, labels, x, 20)
    np.testing.assert_allclose(fit.importance, importance, atol=5e-3)
    for got, want in zip(softmax_parts(fit.logits_test, sizes), probabilities):
        assert np.mean(np.abs(got - want)) < 5e-3
    np.testing.assert_allclose(fit.logits, fit.logits_test, atol=1e-4)


def test_boosted_trees_on_continuous_codes(problem):
    x, labels, sizes = problem
    fit = estimators.boosted_trees(x, labels, sizes, bins=256)  # more bins than rows
    importance, probabilities = exact_trees(x, labels, x, 100)
    np.testing.assert_allclose(fit.importance, importance, atol=0.02)
    for got, want in zip(softmax_parts(fit.logits, sizes), probabilities):
        assert np.mean(got.argmax(axis=1) == want.argmax(axis=1)) > 0.98


def test_boosted_trees_without_information():
    x = np.zeros((50, 2))
    labels = (np.arange(50) % 3)[:, None]
    fit = estimators.boosted_trees(x, labels, (3,), x)
    np.testing.assert_array_equal(fit.importance, 0.0)
    p = softmax_parts(fit.logits, (3,))[0]
    np.testing.assert_allclose(p, np.bincount(labels[:, 0])[None] / 50 + 0 * p, 1e-5)


def test_boosted_trees_separate_classes_that_do_not_overlap(rng):
    """One threshold per bin separates the classes, wherever they meet."""
    labels = rng.choice(3, p=[0.13, 0.46, 0.41], size=500)
    x = np.stack([labels + 0.9 * rng.random(500), rng.normal(size=500)], axis=1)
    fit = estimators.boosted_trees(x, labels[:, None], (3,), rounds=5, bins=8)
    np.testing.assert_allclose(fit.importance[:, 0], [1.0, 0.0], atol=1e-6)
    with pytest.raises(ValueError, match="`bins` must lie in"):
        estimators.boosted_trees(x, labels[:, None], (3,), bins=300)


def test_class_edges_against_a_loop(rng):
    values = np.sort(np.round(rng.normal(size=60), 2))
    labels = rng.integers(3, size=60)
    edges = np.array([-0.5, 0.1, 0.6]) + 1e-3
    best = []
    for low, high in zip([-np.inf, *edges], [*edges, np.inf]):
        inside = (values > low) & (values <= high)
        x, y = values[inside], labels[inside]
        scored = []
        for cut in 0.5 * (np.unique(x)[1:] + np.unique(x)[:-1]):
            sides = y[x <= cut], y[x > cut]
            purity = sum(np.sum(np.bincount(s) ** 2) / len(s) for s in sides)
            scored.append((-purity, cut))
        best.append(min(scored)[1])
    np.testing.assert_allclose(_class_edges(values, labels, edges), best)


def test_bin_edges():
    column = np.array([3.0, 1.0, 1.0, 2.0, 7.0])[:, None]
    np.testing.assert_array_equal(bin_edges(column, 8), [[1.5, 2.5, 5.0]])
    many = np.arange(1000.0)[:, None]
    edges = bin_edges(many, 10)[0]
    np.testing.assert_allclose(edges, np.arange(1, 10) * 100 - 0.5)
    two = np.concatenate([column, np.zeros((5, 1))], axis=1)
    np.testing.assert_array_equal(bin_edges(two, 8)[1], np.inf)
