"""Distances along factors, beside the published ones."""

import pytest

from disentangle_jax import config as config_lib
from tests.experiments import made


def test_factor_importance_of_xysquares(tmp_path):
    tested = config_lib.load("configs/experiments/factor_importance.py")
    tested.experiment.update(datasets=("xysquares",), pairs=200)
    values = made.values(tested, tmp_path)["xysquares"]["mse"]
    assert values["x_red"] == pytest.approx(128 / 12288, rel=1e-5)
    assert "0.0104 ± 0.0000" in (tmp_path / "xysquares_mse.csv").read_text()
