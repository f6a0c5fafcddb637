"""Overlap: the stages of the grid and their betas."""

import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import evaluation, experiments, training
from disentangle_jax.experiments import overlap
from tests.experiments import made
from tests.training import tiny


def test_overlap_trains_each_cell_with_betas_of_the_mean_over_latents(tmp_path):
    tested = made.config(
        "overlap", spacings=(8, 1), latents=(3,), betas=(0.3, 3.0), losses=("mse",)
    )
    tested.data.update(standardize=True, split_recipe="none")
    tested.train.input = "device"
    tested.lanes.same_batches = False
    values = made.values(tested, tmp_path)["scores"]
    cells = [
        f"xysquares-{spacing}/{method}-3-mse/beta={beta}"
        for spacing in (8, 1)
        for method in ("beta_vae", "ada_gvae")
        for beta in ("0.3", "3")
    ]
    assert list(values) == cells
    stored = training.read_config(tmp_path / "xysquares-1" / "ada_gvae-3-mse")
    betas = [row["method.beta"] for row in stored.lanes.rows]
    assert betas == pytest.approx([0.1, 1.0])
    assert stored.data.options.spacing == 1
    assert (tmp_path / "spacing_mig.png").exists()
    folder = next((tmp_path / "xysquares-1" / "ada_gvae-3-mse" / "lanes").iterdir())
    scores = evaluation.read_scores(folder)
    assert scores["settings"]["split"].startswith("the whole dataset")


def test_losses_and_datasets_have_figures(tmp_path):
    tested = made.config(
        "overlap",
        datasets=("xysquares", "rendered_dsprites"),
        frameworks=("beta_vae",),
        latents=(3,),
        betas=(0.3,),
    )
    tested.data.update(split_recipe="none")
    tested.model.width = 4
    made.values(tested, tmp_path)
    for name in ("datasets_mig", "losses_xysquares-8", "losses_rendered_dsprites"):
        assert (tmp_path / f"{name}.png").exists()
    page = (tmp_path / "report.html").read_text()
    assert "Differences from the paper" in page and "The networks are fc1200" in page


def test_datasets_are_prepared_as_in_the_paper():
    config = config_lib.load(f"{tiny.ROOT}/configs/experiments/overlap.py:adversarial")
    stages = overlap.Overlap().stages(config, None)
    for stage in stages:
        fields = {k: v for k, v in stage.fields.items() if k.startswith("data.options")}
        expected = {"data.options.spacing": 8} if "xysquares" in stage.name else {}
        if "cars3d" in stage.name or "smallnorb" in stage.name:
            expected["data.options.resize"] = "bilinear"
        if "smallnorb" in stage.name:
            expected["data.options.instances"] = "train"
        assert fields == expected
    assert len(stages) * len(stages[0].rows) == 160  # Table 4


def test_the_paper_has_no_split_and_its_seeds_order_the_images():
    for preset in ("", ":spacing"):
        config = config_lib.load(f"{tiny.ROOT}/configs/experiments/overlap.py{preset}")
        assert config.data.split_recipe == "none" and not config.lanes.same_batches


@pytest.mark.parametrize("preset, models", [("", 40), (":spacing", 160)])
def test_presets_train_the_models_of_table_4(preset, models, tmp_path):
    config = config_lib.load(f"{tiny.ROOT}/configs/experiments/overlap.py{preset}")
    experiment = experiments.prepare(config, tmp_path)
    assert sum(pack.models for pack in experiment.packs) == models
