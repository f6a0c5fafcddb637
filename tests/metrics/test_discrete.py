"""Discrete variables against labels: by brute force and by hand."""

import itertools

import numpy as np
import pytest

from disentangle_jax import metrics


@pytest.mark.parametrize("classes, labels", [(4, 4), (5, 3), (2, 4), (1, 3)])
def test_matching_by_brute_force(classes, labels, rng):
    c, y = rng.integers(classes, size=60), rng.integers(labels, size=60)
    c[:20] = y[:20] % classes
    best = 0.0
    # Every one-to-one map; -1 is a class that matches nothing.
    for chosen in itertools.permutations([*range(labels), *[-1] * classes], classes):
        best = max(best, float(np.mean(np.array(chosen)[c] == y)))
    score = metrics.matching_accuracy(7 - c, 10 * y)
    assert float(score) == pytest.approx(best, abs=1e-12)
    purity = sum(np.bincount(y[c == k], minlength=1).max() for k in range(classes)) / 60
    assert score["purity"] == pytest.approx(purity, abs=1e-12)
    assert score.settings["samples"] == 60


def test_matching_ignores_names():
    y = np.repeat(np.arange(5), 4)
    assert float(metrics.matching_accuracy((y + 3) % 5, y)) == 1.0
    with pytest.raises(ValueError, match=r"`classes` must be \[N\].*argmax"):
        metrics.matching_accuracy(np.eye(5)[y], y)
    with pytest.raises(ValueError, match="`labels` must have as many entries"):
        metrics.matching_accuracy(y, y[:3])


def plug_in(a, b):
    """Mutual information of two label vectors, one cell at a time."""
    total = 0.0
    for i in np.unique(a):
        for j in np.unique(b):
            p = np.mean((a == i) & (b == j))
            if p > 0:
                total += p * np.log(p / np.mean(a == i) / np.mean(b == j))
    return total


def test_gap_against_loops(rng):
    n = 300
    y = rng.integers(3, size=n)
    classes = np.where(rng.random(n) < 0.8, y, rng.integers(3, size=n))
    style = y + 0.8 * rng.normal(size=n)
    noise = rng.normal(size=n)
    codes = np.column_stack([style, noise, np.eye(3)[classes]])
    score = metrics.class_information(codes, y, discrete=(3,))
    want = []
    for column in (style, noise):
        edges = np.linspace(column.min(), column.max(), 21)[1:-1]
        want.append(plug_in(np.searchsorted(edges, column, side="right"), y))
    want.append(plug_in(classes, y))
    np.testing.assert_allclose(score.matrices["mi"], want, atol=1e-9)
    assert score["discrete"] == pytest.approx(want[2], abs=1e-9)
    assert score["continuous"] == pytest.approx(max(want[:2]), abs=1e-9)
    assert float(score) == pytest.approx(want[2] - max(want[:2]), abs=1e-9)
    alone = metrics.class_information(codes[:, :2], y, discrete=())
    assert float(alone) == pytest.approx(-max(want[:2]), abs=1e-9)
    with pytest.raises(ValueError, match="`discrete` must hold numbers of categories"):
        metrics.class_information(codes, y, discrete=(6,))


def test_information_of_categories():
    # Certain of one of two, in equal parts: log 2. The same for all: nothing.
    certain = np.array([[40.0, 0.0], [0.0, 40.0]])
    same = np.array([[1.0, 2.0, 3.0]] * 2)
    got = metrics.category_information(
        np.concatenate([certain, same], axis=1), discrete=(2, 3)
    )
    np.testing.assert_allclose(got, [np.log(2), 0.0], atol=1e-6)
    # Three quarters and one quarter, swapped: log 2 minus the entropy of (3/4, 1/4).
    logits = np.log([[3.0, 1.0], [1.0, 3.0]])
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    got = metrics.category_information(logits)
    np.testing.assert_allclose(got, [np.log(2) - entropy], atol=1e-6)
    with pytest.raises(ValueError, match="`discrete` must add up to the 2 columns"):
        metrics.category_information(logits, discrete=(3,))


def test_forests_that_regress(rng):
    """Each factor in a latent of its own, against scikit-learn by hand."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.preprocessing import minmax_scale

    factors = rng.integers(6, size=(200, 2))
    codes = factors + 0.3 * rng.normal(size=(200, 2))
    score = metrics.dci(
        codes[:150],
        factors[:150],
        codes_test=codes[150:],
        factors_test=factors[150:],
        estimator="forest_regression",
        seed=3,
    )
    informed = []
    for k in range(2):
        y = minmax_scale(factors[:, k].astype(float))
        forest = RandomForestRegressor(random_state=3).fit(codes[:150], y[:150])
        error = np.mean((forest.predict(codes[150:]) - y[150:]) ** 2)
        informed.append(1 - 12 * error)
        np.testing.assert_allclose(
            score.matrices["importance"][:, k], forest.feature_importances_, atol=1e-12
        )
    assert score["informativeness"] == pytest.approx(np.mean(informed), abs=1e-12)
    assert score["disentanglement"] > 0.6


def test_pruned():
    assert metrics.pruned_latents([2.0, 0.04, 0.0, 0.06]) == 2
    assert metrics.pruned_latents([2.0, 0.04], threshold=0.01) == 0
    with pytest.raises(ValueError, match="`threshold` must be positive"):
        metrics.pruned_latents([1.0], threshold=0.0)
