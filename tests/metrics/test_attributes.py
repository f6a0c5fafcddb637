"""TAD against a loop, by hand, and with multi-dimensional variables."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score, roc_auc_score

from disentangle_jax import metrics


def loop(codes, attributes, threshold=0.75, share=0.2):
    """The definition for binary attributes, one pair at a time."""
    total, captured = 0.0, 0
    for k, y in enumerate(attributes.T):
        areas = [roc_auc_score(y, z) for z in codes.T]
        areas = sorted(max(a, 1 - a) for a in areas)
        others = [f for j, f in enumerate(attributes.T) if j != k]
        known = max(mutual_info_score(y, f) for f in others) / mutual_info_score(y, y)
        if areas[-1] >= threshold and known <= share:
            total, captured = total + areas[-1] - areas[-2], captured + 1
    return total, captured


@pytest.fixture
def faces(rng):
    """Six attributes: two go together, one is in no latent, the rest in one or two."""
    attributes = (rng.random((500, 6)) < [0.5, 0.3, 0.1, 0.4, 0.4, 0.5]).astype(int)
    attributes[:, 4] = np.where(rng.random(500) < 0.95, attributes[:, 3], 1)
    weights = rng.normal(size=(6, 5))
    weights[:5, :5] += 3 * np.eye(5)
    weights[5] = 0
    return attributes @ weights + rng.normal(size=(500, 5)), attributes


def test_against_a_loop(faces):
    codes, attributes = faces
    codes[:, 1] *= -1  # A detector may point either way.
    for settings in ({}, {"threshold": 0.6}, {"largest_share": 1.0}):
        score = metrics.tad(codes, attributes, **settings)
        renamed = {"threshold": settings.get("threshold", 0.75)}
        want = loop(
            codes, attributes, share=settings.get("largest_share", 0.2), **renamed
        )
        assert (score["tad"], score["captured"]) == pytest.approx(want, abs=1e-12)
    assert 0 < metrics.tad(codes, attributes)["captured"] < 5
    everything = metrics.tad(codes, attributes, largest_share=1.0)
    assert everything["captured"] > metrics.tad(codes, attributes)["captured"]


def test_by_hand():
    """Two independent attributes: one in a latent of its own, one in two latents."""
    attributes = np.tile([[0, 0], [0, 1], [1, 0], [1, 1]], (10, 1))
    a, b = attributes.T
    codes = np.stack([a, b, np.where(a > 0, b, 0.5), np.zeros(40)], axis=1)
    score = metrics.tad(codes, attributes)
    areas = score.matrices["auroc"]
    # z2 is b where a is 1 and between the values of b elsewhere.
    np.testing.assert_allclose(areas[:, 0], [1, 0.5, 0.5, 0.5], atol=1e-12)
    np.testing.assert_allclose(areas[:, 1], [0.5, 1, 0.875, 0.5], atol=1e-12)
    assert dict(score) == pytest.approx({"tad": 0.5 + 0.125, "captured": 2})
    assert metrics.tad(codes[:, :1], attributes)["tad"] == pytest.approx(0.5)
    same = np.stack([a, a], axis=1)  # Each explains the other.
    assert dict(metrics.tad(codes, same)) == {"tad": 0.0, "captured": 0.0}


def test_factors_of_several_values(rng):
    factors = np.stack([rng.integers(3, size=200), rng.integers(4, size=200)], axis=1)
    codes = rng.normal(size=(200, 2)) + factors
    areas = metrics.tad(codes, factors).matrices["auroc"]
    for i, k in itertools.product(range(2), range(2)):
        each = [roc_auc_score(factors[:, k] == c, codes[:, i]) for c in range(3 + k)]
        want = np.mean([max(a, 1 - a) for a in each])
        assert areas[i, k] == pytest.approx(want, abs=1e-12)


def test_groups_detect_by_their_best_direction(rng):
    attributes = rng.integers(2, size=(400, 2))
    noise = rng.normal(size=400)
    signal = attributes + 0.05 * rng.normal(size=(400, 2))
    codes = np.stack([signal[:, 0] + noise, noise, signal[:, 1]], axis=1)
    single = metrics.tad(codes, attributes)
    grouped = metrics.tad(codes, attributes, groups=(2, 1))
    assert single.matrices["auroc"][:, 0].max() < 0.8
    assert grouped.matrices["auroc"].shape == (2, 2)
    assert grouped.matrices["auroc"][0, 0] == pytest.approx(1.0)
    assert grouped["tad"] > 0.85 and grouped["captured"] == 2
