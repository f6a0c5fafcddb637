"""DCI-ES: the curve by hand, the probes against a loop, and codes that differ in E."""

import numpy as np
import pytest

from disentangle_jax import metrics
from disentangle_jax.metrics.inputs import check_arrays
from disentangle_jax.metrics.loss_capacity import _features, explicitness_of


def test_curves_by_hand():
    assert explicitness_of(np.array([0.3, 0.3, 0.3])) == pytest.approx(1.0)
    assert explicitness_of(np.array([1.0, 0.5, 0.0])) == pytest.approx(0.0)
    # Half a step from 1 to 0 remains above the smallest loss: 1 − 2 (1/2 + 1/4).
    assert explicitness_of(np.array([1.0, 1.0, 0.0])) == pytest.approx(-0.5)
    many = np.ones(1001)
    many[-1] = 0
    assert explicitness_of(many) == pytest.approx(-1.0, abs=2e-3)
    # A probe that does worse than a smaller one does not count.
    assert explicitness_of(np.array([0.4, 0.9, 0.2])) == pytest.approx(
        explicitness_of(np.array([0.4, 0.4, 0.2]))
    )


def test_against_a_loop(rng):
    factors = np.stack([rng.integers(s, size=360) for s in (4, 7)], axis=1)
    codes = np.sin(factors @ rng.normal(size=(2, 3))) + 0.1 * rng.normal(size=(360, 3))
    train, test = slice(0, 240), slice(240, 360)
    given = {"codes_test": codes[test], "factors_test": factors[test]}
    score = metrics.dci_es(codes[train], factors[train], probes=5, **given)
    arrays = check_arrays("t", codes[train], factors[train], *given.values())
    x, x_test = _features(arrays, arrays.test, 16, 0)
    assert x.shape == (240, 1 + 3 + 16)
    curves = []
    for k in range(2):
        mean, std = factors[train, k].mean(), factors[train, k].std()
        y, y_test = (factors[train, k] - mean) / std, (factors[test, k] - mean) / std
        curve = []
        for size in (0, 2, 4, 8, 16):
            used = x[:, : 4 + size]
            # A ridge regression is least squares with a row per penalty.
            penalty = np.sqrt(1e-6 * len(x) * np.mean(used**2, axis=0))
            rows = np.concatenate([used, np.diag(penalty)])
            aim = np.concatenate([y, np.zeros(len(penalty))])
            w = np.linalg.lstsq(rows, aim, rcond=None)[0]
            error = 0.0
            for row, value in zip(x_test, y_test):
                error += (float(row[: 4 + size] @ w) - value) ** 2
            curve.append(error / len(y_test))
        curves.append(curve)
    np.testing.assert_allclose(score.matrices["loss_capacity"].T, curves, rtol=1e-7)
    areas, best = [], []
    for curve in curves:
        lowest = [min(curve[: j + 1]) for j in range(5)]
        steps = [(a + b) / 2 - lowest[-1] for a, b in zip(lowest, lowest[1:])]
        areas.append(1 - sum(0.25 * s for s in steps) / 0.5)
        best.append(1 - lowest[-1])
    assert score["explicitness"] == pytest.approx(np.mean(areas), abs=1e-9)
    assert score["informativeness"] == pytest.approx(np.mean(best), abs=1e-9)
    assert score["size"] == pytest.approx(2 / 3)


def test_features_are_those_of_a_gaussian_kernel(rng):
    codes = rng.normal(size=(60, 2))
    factors = rng.integers(3, size=(60, 2))
    arrays = check_arrays("t", codes, factors, codes, factors)
    x, same = _features(arrays, arrays.test, 40_000, 0)
    np.testing.assert_array_equal(x, same)
    z = x[:, 1:3]
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-12)
    squared = ((z[:, None] - z[None]) ** 2).sum(-1)
    kernel = x[:, 3:] @ x[:, 3:].T / 40_000
    np.testing.assert_allclose(kernel, np.exp(-squared / (2 * 2)), atol=0.03)


def test_codes_that_need_larger_models_are_less_explicit(rng):
    u = rng.uniform(-1, 1, size=(3000, 2))
    factors = np.round(u, 2)
    mixed = u @ np.array([[1.0, 0.5], [-0.4, 1.0]])
    bent = np.stack(
        [np.sin(2.5 * u[:, 0]), np.cos(2.5 * u[:, 0]), u[:, 1] ** 3], axis=1
    )
    found = {}
    for name, codes in (("linear", mixed), ("bent", bent)):
        half = {"codes_test": codes[1500:], "factors_test": factors[1500:]}
        found[name] = metrics.dci_es(codes[:1500], factors[:1500], **half)
    assert found["linear"]["explicitness"] > 0.999
    assert found["linear"]["informativeness"] > 0.999
    assert found["bent"]["informativeness"] > 0.9
    assert found["bent"]["explicitness"] < 0.95
    nothing = metrics.dci_es(rng.normal(size=(3000, 4)), factors)
    assert nothing["informativeness"] < 0.02 and nothing["explicitness"] > 0.98
    assert nothing["size"] == 0.5 and "held-out" in nothing.settings["scored_on"]
    with pytest.raises(ValueError, match="dci_es: `probes` must be at least 2"):
        metrics.dci_es(mixed, factors, probes=1)
