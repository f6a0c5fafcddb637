"""Classifying by region, and abstaining."""

import numpy as np
import pytest

from disentangle_jax import metrics

ALPHAS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 3.0, 1e9)


@pytest.fixture
def made(rng):
    """Densities of 400 points of four regions that overlap."""
    means = rng.normal(size=(4, 2))
    labels = rng.integers(0, 4, 400)
    z = means[labels] + 0.6 * rng.normal(size=(400, 2))
    gaps = ((z[:, None] - means[None]) ** 2).sum(axis=2)
    return -0.5 * gaps / 0.36 - np.log(2 * np.pi * 0.36), labels


def test_density_threshold_by_hand():
    # Densities 0.4, 0.2 | 0.05, 0.6 | 0.1, 0.1.
    log_densities = np.log([[0.4, 0.2], [0.05, 0.6], [0.1, 0.1]])
    assert metrics.assign_components(log_densities).tolist() == [0, 1, 0]
    assert metrics.assign_components(log_densities, alpha=0.3).tolist() == [0, 1, -1]
    assert metrics.assign_components(log_densities, alpha=0.5).tolist() == [-1, 1, -1]
    # Posteriors 2/3, 12/13, 1/2.
    posterior = {"threshold": "posterior"}
    found = metrics.assign_components(log_densities, alpha=0.6, **posterior)
    assert found.tolist() == [0, 1, -1]
    found = metrics.assign_components(log_densities, alpha=0.5, **posterior)
    assert found.tolist() == [0, 1, 0]
    score = metrics.cluster_accuracy(log_densities, [1, 1, 0], alpha=0.6, **posterior)
    assert dict(score) == {"accuracy": 0.5, "accepted": pytest.approx(2 / 3)}


@pytest.mark.parametrize("threshold", ["density", "posterior"])
def test_rejecting_cannot_make_more_rows_right(made, threshold):
    """accuracy(alpha) · accepted(alpha) ≤ accuracy(0), which Table 4 contradicts."""
    scores = [
        metrics.cluster_accuracy(*made, alpha=alpha, threshold=threshold)
        for alpha in ALPHAS
    ]
    accepted = [score["accepted"] for score in scores]
    assert accepted == sorted(accepted, reverse=True)
    for score in scores:
        if score["accepted"]:
            right = score["accuracy"] * score["accepted"]
            assert right <= scores[0]["accuracy"] + 1e-12


def test_an_alpha_that_rejects_everything(made):
    score = metrics.cluster_accuracy(*made, alpha=1e9)
    assert score["accepted"] == 0 and np.isnan(score["accuracy"])
    assert (metrics.assign_components(made[0], alpha=1e9) == -1).all()
    relations = np.arange(400) % 3
    score = metrics.relation_accuracy(*made, relations, alpha=1e9)
    assert score["accepted"] == 0 and np.isnan(score["accuracy"])


def test_regions_without_density_are_never_chosen():
    log_densities = np.array([[-np.inf, -5.0], [-np.inf, -np.inf]])
    assert metrics.assign_components(log_densities)[0] == 1
    for threshold in ("density", "posterior"):
        found = metrics.assign_components(
            log_densities, alpha=0.001, threshold=threshold
        )
        assert found[1] == -1


def test_relations_are_averaged_evenly():
    # Relation 0: 1 of 3 right; relation 1: its single row right.
    log_densities = np.log([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
    score = metrics.relation_accuracy(log_densities, [0, 1, 1, 1], [0, 0, 0, 1])
    assert score["accuracy"] == pytest.approx((1 / 3 + 1) / 2)
    assert score["relation_0"] == pytest.approx(1 / 3) and score["relation_1"] == 1


def test_outliers():
    near, far = np.log([[0.8, 0.1], [0.4, 0.2]]), np.log([[0.3, 0.1], [1e-9, 1e-5]])
    score = metrics.outlier_rejection(near, far, alpha=0.35)
    assert dict(score) == {"rejected_outliers": 1.0, "rejected": 0.0}
    score = metrics.outlier_rejection(near, far, alpha=0.5)
    assert dict(score) == {"rejected_outliers": 1.0, "rejected": 0.5}
    # A posterior knows the nearest region, however far it is.
    score = metrics.outlier_rejection(near, far, alpha=0.9, threshold="posterior")
    assert score["rejected_outliers"] == 0.5
    with pytest.raises(ValueError, match="`outlier_log_densities` must not be empty"):
        metrics.outlier_rejection(near, near[:0])


def test_factor_codes():
    factors = metrics.component_factors(np.array([0, 26, 14]), (3, 3, 3))
    assert factors.tolist() == [[0, 0, 0], [2, 2, 2], [1, 1, 2]]
    with pytest.raises(ValueError, match="leave rejected rows out"):
        metrics.component_factors(np.array([0, -1]), (3, 3))


def test_wrong_arguments(made):
    with pytest.raises(ValueError, match="`threshold` must be one of.*'density'"):
        metrics.cluster_accuracy(*made, threshold="densty")
    with pytest.raises(ValueError, match="`alpha` must be ≥ 0"):
        metrics.assign_components(made[0], alpha=-1)
    with pytest.raises(ValueError, match="must not hold NaN"):
        metrics.assign_components(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match=r"`log_densities` must be \[N, C\]"):
        metrics.assign_components(np.zeros(3))
