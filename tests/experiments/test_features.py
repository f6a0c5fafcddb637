"""The latent that follows a measure, and its extreme values."""

import numpy as np
import pytest

from disentangle_jax.experiments import features


def test_the_feature_is_the_latent_that_follows_the_ink_within_classes(rng):
    labels = rng.integers(0, 3, 600)
    ink = rng.random(600)
    codes = rng.normal(size=(600, 4))
    codes[:, 2] = -3 * ink + 0.05 * rng.normal(size=600) + 10 * labels
    codes[:, 0] = labels + 0.01 * rng.normal(size=600)  # Follows the class, not ink.
    feature = features.choose_feature(codes, ink, labels, 0.25)
    assert (feature.latent, feature.sign) == (2, -1)
    assert 0.95 < feature.correlation <= 1.0
    chosen = features.in_combinations(
        {"ink": feature}, codes, labels, ((1, "ink", "high"),)
    )
    assert set(labels[chosen]) == {1}
    assert chosen.sum() == pytest.approx(0.25 * (labels == 1).sum(), abs=1)
    # The high end of the feature has the most ink of its class.
    assert ink[chosen].min() > np.quantile(ink[labels == 1], 0.65)


def test_width_is_the_spread_of_the_ink_along_the_columns(rng):
    images = rng.integers(0, 256, (5, 6, 8, 2)).astype(np.uint8)
    images[4] = 0
    got = np.asarray(features.width(images))
    for image, value in zip(images[:4].astype(float), got):
        total = image.sum()
        centre = sum(image[:, x].sum() * x for x in range(8)) / total
        second = sum(image[:, x].sum() * (x - centre) ** 2 for x in range(8)) / total
        assert value == pytest.approx(second**0.5, rel=1e-5)
    assert got[4] == 0  # An empty image has no width, not NaN.
    # Twice as wide, and neither more ink nor another height changes it.
    bar = np.zeros((3, 8, 16, 1), np.uint8)
    bar[0, :, 4:8], bar[1, :, 4:12], bar[2, 3:5, 4:8] = 100, 200, 255
    narrow, wide, low = np.asarray(features.width(bar))
    assert wide == pytest.approx(((8**2 - 1) / 12) ** 0.5, rel=1e-5)
    assert narrow == low == pytest.approx(((4**2 - 1) / 12) ** 0.5, rel=1e-5)


def test_each_combination_has_a_feature_of_its_own():
    codes = np.array([[0.0, 3.0], [1.0, 2.0], [2.0, 1.0], [3.0, 0.0]])
    labels = np.array([0, 0, 7, 7])
    found = {
        "width": features.Feature(0, 1, 1.0, {0: (0.5, 9.0), 7: (-9.0, 9.0)}),
        "ink": features.Feature(1, 1, 1.0, {0: (-9.0, 9.0), 7: (-9.0, 0.5)}),
    }
    rows = ((7, "ink", "high"), (0, "width", "low"))
    chosen = features.in_combinations(found, codes, labels, rows)
    np.testing.assert_array_equal(chosen, [True, False, True, False])
