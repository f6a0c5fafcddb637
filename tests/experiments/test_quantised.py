"""The comparison of quantised codes with others: stages, table, errors."""

import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import experiments
from disentangle_jax.experiments import quantised
from tests.experiments import made

FILE = f"{made.tiny.ROOT}/configs/experiments/quantised.py"


def config(**options):
    tested = made.config("quantised", **options)
    tested.data.options.size = 8
    tested.model = {"name": "conv64", "latent_dim": 3, "channel_scale": 0.1}
    tested.eval.scores = ("dci", "mig", "info_mec")
    return tested


@pytest.mark.slow
def test_systems_side_by_side(tmp_path):
    tested = config(models=("qlae", "tripod", "beta_tc_vae"))
    tested.lanes.seeds = 2
    values = made.values(tested, tmp_path)
    assert list(values["scores"]) == ["qlae", "tripod", "beta_tc_vae"]
    for models in values["scores"].values():
        assert len(models) == 2 and {"InfoM", "DCI-d", "MIG", "mse"} <= set(models[0])
    assert values["untrained"] == list(values["scores"])
    assert "qlae (untrained)" in (tmp_path / "scores.csv").read_text()
    assert "Latent traversals" in (tmp_path / "report.html").read_text()


def test_miniature_has_the_sizes_of_the_others(tmp_path):
    packs = experiments.prepare(config_lib.load(f"{FILE}:mini"), tmp_path).packs
    assert {pack.name for pack in packs} == set(quantised.SYSTEMS)
    for pack in packs:
        assert pack.models == 3 and pack.steps == 6000
        assert pack.config.model.latent_dim == 12 and pack.config.train.batch_size == 32
    table = config_lib.load(f"{made.tiny.ROOT}/configs/experiments/model_table.py:mini")
    (sae,) = (pack.config for pack in packs if pack.name == "sae-12")
    table.train.num_steps = 6000  # Of the systems beside it here.
    for section in ("data", "optimizer", "train"):
        assert sae[section] == table[section]
    for field in ("channels", "norm_groups", "latent_dim"):
        assert sae.model[field] == table.model[field]


@pytest.mark.parametrize("name", quantised.SYSTEMS)
def test_each_system_can_be_trained_alone(name, tmp_path):
    small = config_lib.load(f"{FILE}:mini")
    small.experiment.models = (name,)
    prepared = experiments.prepare(small, tmp_path, ["experiment.models"])
    assert [pack.name for pack in prepared.packs] == [name]


def test_errors(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'tripod'"):
        experiments.prepare(config(models=("tripods",)), tmp_path)
    tested = config(models=("qlae",))
    tested.eval.scores = ("mig",)
    with pytest.raises(ValueError, match="must contain 'info_mec', 'dci'"):
        experiments.prepare(tested, tmp_path)
