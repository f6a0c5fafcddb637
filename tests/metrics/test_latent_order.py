"""Positions of factors in the order of the latents."""

import numpy as np
import pytest

from disentangle_jax import metrics


def test_ordering_by_hand():
    importance = np.array([[3.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 2.0, 1.0]])
    found = metrics.ordering(importance)
    assert found["position_0"] == pytest.approx((0 * 3 + 0.5 * 1) / 4)
    assert found["position_1"] == 1.0 and found["position_2"] == pytest.approx(0.5)
    assert float(found) == pytest.approx(0.875)
    grouped = metrics.ordering(importance, groups=(2, 1))
    assert grouped["position_0"] == 0.0 and grouped["position_2"] == pytest.approx(
        1 / 3
    )
    dead = metrics.ordering(np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert np.isnan(dead["position_1"]) and dead["spread"] == 0.0
    for wrong in (importance[:1], -importance, importance[0]):
        with pytest.raises(ValueError, match="ordering: `importance`"):
            metrics.ordering(wrong)
    with pytest.raises(ValueError, match="add up to 3"):
        metrics.ordering(importance, groups=(2, 2))
