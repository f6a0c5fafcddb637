"""Topic models with two objectives: stages, refusals, tables of a page."""

import json
import pathlib

import numpy as np
import pytest
from ml_collections import ConfigDict

from disentangle_jax import config as config_lib
from disentangle_jax import experiments
from disentangle_jax.training import lanes
from tests.training import tiny

FILE = pathlib.Path(__file__).parents[2] / "configs" / "experiments" / "topics.py"


def small(**options):
    config = tiny.topics(train__num_steps=40, train__log_every=20)
    config.train.checkpoint_every = 40
    config.lanes.seeds = 2
    config.experiment = ConfigDict({"name": "topics", **options})
    return config


def test_each_network_has_both_objectives(tmp_path):
    packs = experiments.prepare(small(), tmp_path).packs
    assert [pack.name for pack in packs] == ["prodlda", "nvdm"]
    for pack in packs:
        assert pack.config.model.name == pack.config.method.name == pack.name
        weights = [
            tuple(lane.hyper[w] for w in ("alpha", "beta", "gamma"))
            for lane in lanes.expand(pack.config)
        ]
        assert weights == [(1, 1, 1)] * 2 + [(1, 0.1, 4)] * 2


def test_setting_of_the_paper():
    config = config_lib.load(f"{FILE}:")
    assert config.data.options.preprocessing == "scholar"
    assert (config.model.latent_dim, config.model.groups) == (50, 2)
    assert (config.method.beta, config.method.gamma) == (0.1, 4.0)
    assert (config.train.num_epochs, config.train.num_steps) == (200, 0)
    assert config.experiment.options["nvdm"]["optimizer"]["learning_rate"] == 5e-5


def test_contradictions(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'nvdm'"):
        experiments.prepare(small(networks=("nvdn",)), tmp_path)
    config = small()
    config.method.beta = config.method.gamma = 1.0
    with pytest.raises(ValueError, match="must differ from 1, the VAE objective"):
        experiments.prepare(config, tmp_path)


def test_page(tmp_path):
    page = experiments.run(
        experiments.prepare(small(networks=("prodlda",)), tmp_path)
    ).read_text()
    for text in (
        "VAE against HFVAE",
        "prodlda, HFVAE: the most correlated topics",
        "Differences from the paper",
        "[50]",
        "[11]",
    ):
        assert text in page
    values = json.loads((tmp_path / "result.json").read_text())["values"]["prodlda"]
    assert list(values) == ["VAE", "HFVAE"]
    for objective, runs in values.items():
        assert [one["seed"] for one in runs] == [0, 1]
        # The numbers are those of the models' own scores.
        folders = sorted((tmp_path / "prodlda" / "lanes").iterdir())
        scores = [json.loads((f / "scores.json").read_text()) for f in folders]
        counts = [
            s["metrics"]["active_topics"]["values"]["active_topics"] for s in scores
        ]
        assert np.isin([one["active topics"] for one in runs], counts).all(), objective
