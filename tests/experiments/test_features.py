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
    chosen = features.in_combinations(feature, codes, labels, ((1, "high"),))
    assert set(labels[chosen]) == {1}
    assert chosen.sum() == pytest.approx(0.25 * (labels == 1).sum(), abs=1)
    # The high end of the feature has the most ink of its class.
    assert ink[chosen].min() > np.quantile(ink[labels == 1], 0.65)
