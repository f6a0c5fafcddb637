"""HFVAE's analyses: which runs they make, what is refused, a whole page (slow)."""

import json
import pathlib

import numpy as np
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import experiments
from disentangle_jax.experiments import structured_page as page
from disentangle_jax.training import lanes

FILE = pathlib.Path(__file__).parents[2] / "configs" / "experiments" / "structured.py"


def load(*overrides):
    return config_lib.load(f"{FILE}:quick", overrides)


def test_stages_are_baselines_and_lanes_of_weights(tmp_path):
    config = load(
        "--config.experiment.baselines=vae,beta_tc_vae",
        "--config.experiment.terms=True",
        "--config.experiment.equal=(2.0,)",
        "--config.experiment.between=(1.0, 8.0)",
    )
    packs = experiments.prepare(config, tmp_path).packs
    stages = {pack.name: pack.config for pack in packs}
    assert list(stages) == ["hfvae", "vae", "beta_tc_vae", "terms", "equal", "between"]
    for name in ("vae", "beta_tc_vae"):
        assert stages[name].model.discrete == () and stages[name].method.name == name
        assert stages[name].model.widths == config.model.widths
        assert list(stages[name].lanes.rows) == [
            {"train.seed": 0},
            {"train.seed": 1},
        ]
    assert stages["beta_tc_vae"].method.beta == 4.0

    def weights(name):
        return [
            tuple(lane.hyper[w] for w in ("alpha", "beta", "gamma"))
            for lane in lanes.expand(stages[name])
        ]

    twice = lambda *rows: [row for row in rows for _ in range(2)]  # noqa: E731
    assert weights("terms") == twice((0, 4, 3), (1, 0, 3), (1, 4, 0))
    assert weights("equal") == twice((1, 2, 2))
    assert weights("between") == twice((1, 1, 3), (1, 8, 3))
    seeds = [row["train.seed"] for row in stages["terms"].lanes.rows]
    assert seeds == [0, 1] * 3


def test_fig_6_has_seven_values_and_50_seeds(real_data, tmp_path):
    folder = f"--config.data.data_dir={real_data / 'mnist'}"
    config = config_lib.load(f"{FILE}:fig6", [folder])
    models = {p.name: p.models for p in experiments.prepare(config, tmp_path).packs}
    assert models == {"hfvae": 50, "equal": 7 * 50, "between": 7 * 50}
    lines = page.deviations(config).text
    assert "here 50 seeds" in lines and "authors' code" in lines
    config.method.concrete_density = "exact_stopped"
    assert "our own estimator" in page.deviations(config).text


def test_all_objectives_of_table_1(real_data, tmp_path):
    folder = f"--config.data.data_dir={real_data / 'mnist'}"
    config = config_lib.load(f"{FILE}:objectives", [folder])
    packs = experiments.prepare(config, tmp_path).packs
    assert len(packs) == 10
    assert {p.config.method.name for p in packs} >= {"anchor_vae", "factor_vae"}


def test_table_3_has_the_published_scores_in_brackets():
    found = [{name: 0.5 for name in page._TABLE_3}] * 2
    table = page.table_3({"hfvae": found, "other": found}, "rendered_dsprites")
    first, second = table.rows
    assert first[1] == "0.500 ± 0.000 [0.63 ± 0.08]"
    assert first[2] == "0.500 ± 0.000 [0.39 ± 0.16]"
    assert second[1] == "0.500 ± 0.000"
    assert "those of dsprites" in table.caption


@pytest.mark.parametrize(
    "override, message",
    [
        ("--config.experiment.baselines=wae,", "Did you mean 'vae'"),
        ("--config.experiment.label=shap", "Did you mean 'shape'"),
        ("--config.experiment.images=1", "`experiment.images` must be at least 2"),
        ("--config.lanes.sweep.method.beta=1,2", "`lanes.sweep` must be empty"),
        ("--config.method.name=vae", "`method.name` must be one of hfvae"),
        ("--config.experiment.equal=(-1.0,)", "must be non-negative"),
    ],
)
def test_contradictions(override, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        experiments.prepare(load(override), tmp_path)


@pytest.mark.slow
def test_a_whole_page(tmp_path):
    config = load(
        "--config.train.num_steps=20",
        "--config.experiment.images=200",
        "--config.experiment.terms=True",
        "--config.experiment.forest_scores=True",
        "--config.eval.num_train=200",
        "--config.eval.num_test=100",
    )
    page = experiments.run(experiments.prepare(config, tmp_path))
    for title in (
        "Classes, information on the label",
        "Each weight set to 0 in turn",
        "Differences from the paper",
    ):
        assert title in page.read_text()
    values = json.loads((tmp_path / "result.json").read_text())["values"]
    assert [len(values[name]) for name in values] == [2, 2, 2, 6]
    for one in values["hfvae"]:
        assert 1 / 3 - 0.1 < one["accuracy"] <= 1
        assert one["gap"] == pytest.approx(
            one["label_in_discrete"] - one["label_in_continuous"]
        )
        assert len(one["latent_information"]) == 10
        assert one["pruned"] == np.sum(np.array(one["latent_information"]) < 0.05)
        assert 0 <= one["moved"]["kept_by_own_classes"]["all"] <= 1
        assert 0 <= one["discrete_information"] <= np.log(3)
        assert 0 <= one["kim"] <= 1 and 0 <= one["eastwood_disentanglement"] <= 1
    assert "accuracy" not in values["vae"][0]
