"""Distances along factors, beside the published ones."""

import types

import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import experiments
from disentangle_jax.experiments import overlooked
from tests.experiments import made
from tests.training import tiny


def test_factor_importance_of_xysquares(tmp_path):
    tested = config_lib.load("configs/experiments/factor_importance.py")
    tested.experiment.update(datasets=("xysquares",), pairs=200)
    values = made.values(tested, tmp_path)["xysquares"]["mse"]
    assert values["x_red"] == pytest.approx(128 / 12288, rel=1e-5)
    assert "0.0104 ± 0.0000" in (tmp_path / "xysquares_mse.csv").read_text()
    assert "200 pairs, not the paper" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("name", ["factor_importance", "channel_moments"])
def test_the_papers_datasets_are_prepared_as_in_the_paper(name, tmp_path, monkeypatch):
    loaded = {}

    def load(name, *, data_dir, split, **options):
        loaded[name] = (split, options)
        return types.SimpleNamespace(factor_sizes=(2,))

    monkeypatch.setattr(overlooked.data, "load", load)
    file = f"{tiny.ROOT}/configs/experiments/{name}.py:paper"
    experiments.prepare(config_lib.load(file), tmp_path)
    bilinear = {"resize": "bilinear"}
    assert loaded == {
        "cars3d": ("all", bilinear),
        "shapes3d": ("all", {}),
        "smallnorb": ("all", bilinear | {"instances": "train"}),
        "dsprites": ("all", {}),
        "xysquares": ("all", {}),
    }


def test_moments_beside_the_published_ones(tmp_path):
    tested = config_lib.load(
        f"{tiny.ROOT}/configs/experiments/channel_moments.py:quick",
        ["--config.experiment.datasets=xysquares,", "--config.experiment.images=300"],
    )
    values = made.values(tested, tmp_path)["xysquares"]
    # 64 of 4096 pixels are 1; the deviation within an image divides by 4095.
    assert values["mean"] == pytest.approx([1 / 64] * 3)
    deviation = (1 / 64 * 63 / 64 * 4096 / 4095) ** 0.5
    assert values["standard_deviation"] == pytest.approx([deviation] * 3, rel=1e-9)
    text = (tmp_path / "moments.csv").read_text()
    assert "xysquares,1,0.015625,0.124035,0.015625,0.124035" in text
