"""Overlap: the stages of the grid and their betas."""

import pytest

from disentangle_jax import training
from tests.experiments import made


def test_overlap_trains_each_cell_with_betas_of_the_mean_over_latents(tmp_path):
    tested = made.config(
        "overlap", spacings=(8, 1), latents=(3,), betas=(0.3, 3.0), losses=("mse",)
    )
    tested.data.standardize = True
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
