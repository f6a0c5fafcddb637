"""The table of models: choice of beta, published values, intervals."""

import numpy as np
import pytest

from disentangle_jax import training
from disentangle_jax.experiments import model_table
from tests.experiments import made


def test_model_table_chooses_beta_by_validation_loss(tmp_path, monkeypatch):
    made.use_small_systems(monkeypatch)
    measured = []

    def loss(model, dataset, indices, beta):
        measured.append((model, dataset, indices[:20], beta))
        return abs(beta - 8.0)

    plain = model_table._validation_loss
    monkeypatch.setattr(model_table, "_validation_loss", loss)
    tested = made.config("model_table", models=("ae", "beta_vae"), betas=(2.0, 8.0))
    tested.eval.scores = ("mig", "modularity")
    tested.lanes.seeds = 2
    values = made.values(tested, tmp_path)
    assert values["beta"] == 8.0
    assert sorted(beta for *_, beta in measured) == [2.0, 2.0, 8.0, 8.0]
    # The loss itself: beta weighs the KL divergence of all 20 validation images, a
    # batch of 16 and a part of one.
    model, dataset, indices, _ = measured[0]
    assert set(indices) <= set(training.load_split(tested, "validation").indices)
    x = (dataset.images(indices) / 255).astype(np.float32)
    mean, log_var, _ = model.run.method.encode(model.state, x)
    kl = 0.5 * np.sum(mean**2 + np.exp(log_var) - 1 - log_var) / len(x)
    gap = plain(model, dataset, indices, 800.0) - plain(model, dataset, indices, 200.0)
    assert gap == pytest.approx(600.0 * float(kl), rel=1e-3)
    assert [len(v) for v in values["scores"].values()] == [2, 2]
    assert set(values["scores"]["ae"][0]) >= {"MIG", "ModExp", "mse"}
    text = (tmp_path / "scores.csv").read_text()
    assert "[0.093]" in text  # The paper's MIG of the AE stands beside ours.
    assert "beta_vae (beta 8)" in text
    caption = "Published values are those of shapes3d, not of rendered_shapes3d."
    assert caption in (tmp_path / "report.html").read_text()


def test_published_tables_have_the_papers_values():
    table = model_table.published_scores("shapes3d")
    assert len(table) == 15
    assert table["sae-12"]["DCI-d"] == 0.999 and table["wae"]["DCI-c"] == 0.162
    assert model_table.published_scores("mpi3d_real")["vlae-6"]["MIG"] == 0.279
    assert model_table.published_scores("mnist") == {}
    assert model_table.published_scores("rendered_shapes3d") == table


def test_intervals_over_seeds_by_hand():
    # t(0.975, 2) = 4.3027, sd = 0.1, n = 3.
    assert model_table.interval(np.array([0.4, 0.5, 0.6])) == "0.50 [0.25, 0.75]"
