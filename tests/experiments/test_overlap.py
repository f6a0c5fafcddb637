"""Overlap: the stages of the grid and their betas."""

import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import evaluation, training
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


def test_the_paper_has_no_split_and_its_seeds_order_the_images():
    for preset in ("", ":spacing"):
        config = config_lib.load(f"{tiny.ROOT}/configs/experiments/overlap.py{preset}")
        assert config.data.split_recipe == "none" and not config.lanes.same_batches
