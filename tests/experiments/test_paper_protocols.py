"""Extrapolation, overlap, factor importance, capacity and the table of systems."""

import json
import pathlib

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from disentangle_jax import experiments, metrics, training
from disentangle_jax.experiments import _capacity, _model_table, _systems
from tests.training import tiny


@pytest.fixture(autouse=True)
def one_device(monkeypatch):
    tiny.show_devices(monkeypatch, 1)


def config(name, **options):
    tested = tiny.config(num_steps=2, log_every=1, checkpoint_every=2)
    tested.experiment = ConfigDict({"name": name, **options})
    return tested


def run(tested, workdir: pathlib.Path) -> dict:
    page = experiments.run(experiments.prepare(tested, workdir))
    assert page.exists()
    return json.loads((workdir / "result.json").read_text())["values"]


@pytest.fixture
def small_systems(monkeypatch):
    """Perceptrons in the places of two systems: they compile in a second."""
    small = {"ae": ("fc1200", "ae"), "beta_vae": ("fc1200", "beta_vae")}
    monkeypatch.setattr(_systems, "_BASELINES", small)


def test_extrapolation_freezes_what_it_says_and_scores_novel_images(
    tmp_path, small_systems
):
    tested = config("extrapolation", models=("ae",), second_steps=2, num_novel=20)
    values = run(tested, tmp_path)
    assert set(values["mse_x1000"]["ae"]) == {"neither", "encoder", "decoder", "both"}
    assert values["novel_images"] == 20
    assert values["untrained"] == ["ae"]  # After two steps.
    first, *others = [
        next(training.load_trained(training.prepare(training.read_config(f), f))).state
        for f in (tmp_path / "ae" / n for n in ("first", "encoder", "decoder", "both"))
    ]
    for state, moved in zip(others, ({"encoder"}, {"decoder"}, {"encoder", "decoder"})):
        for part in ("encoder", "decoder"):
            same = jax.tree.map(
                lambda a, b: bool((a == b).all()),
                first.params[part],
                state.params[part],
            )
            assert jax.tree.all(same) == (part not in moved)
    # By hand, for the first seed: the error of the stage-one model on spheres.
    stored = training.read_config(tmp_path / "ae" / "first")
    model = next(training.load_trained(training.prepare(stored, tmp_path / "ae/first")))
    spheres = training.load_split(tested, "test").keep(shape=[2])
    chosen = np.random.default_rng(0).permutation(spheres.indices)[:20]
    assert set(spheres.factors(chosen)[:, spheres.factor_names.index("shape")]) == {2}
    images = spheres.images(chosen)
    code = model.run.method.encode(model.state, images / np.float32(255)).mean
    drawn = model.run.method.output(model.run.method.decode(model.state, code))
    error = np.square(np.clip(drawn, 0, 1) - images / 255).mean() * 1000
    assert values["mse_x1000"]["ae"]["neither"][0] == pytest.approx(error, rel=1e-4)


def test_overlap_trains_each_cell_with_betas_of_the_mean_over_latents(tmp_path):
    tested = config(
        "overlap", spacings=(8, 1), latents=(3,), betas=(0.3, 3.0), losses=("mse",)
    )
    tested.data.standardize = True
    values = run(tested, tmp_path)["scores"]
    cells = [
        f"xysquares-{spacing}/{method}-3-mse/beta={beta}"
        for spacing in (8, 1)
        for method in ("beta_vae", "ada_gvae")
        for beta in ("0.3", "3")
    ]
    assert list(values) == cells
    stored = training.read_config(tmp_path / "xysquares-1" / "ada_gvae-3-mse")
    assert stored.lanes.sweep["method.beta"] == pytest.approx((0.1, 1.0))
    assert stored.data.options.spacing == 1
    assert (tmp_path / "spacing_mig.png").exists()


def test_capacity_goes_on_from_stage_to_stage(tmp_path):
    tested = config("capacity", capacities=(1.0, 4.0), pairs=50)
    tested.method = {"name": "annealed_vae", "c_max": 25.0}
    values = run(tested, tmp_path)
    assert list(values["capacities"]) == ["1", "4"]
    measured = values["capacities"]["4"][0]
    assert len(measured["divergences"]) == 3 and min(measured["divergences"]) >= 0
    assert len(measured["known"]) == 6
    second = training.read_config(tmp_path / "capacity-4")
    assert second.train.start_from == str(tmp_path / "capacity-1")
    assert (second.method.c_max, second.method.threshold) == (4.0, 1.0)


def test_a_factor_is_known_from_where_it_stays_known():
    shares = {0.0: [0.3], 1.0: [0.0, 0.1], 2.0: [0.2, 0.4], 3.0: [0.5]}
    assert _capacity.first_known(shares, 0.25) == 2.0
    assert _capacity.first_known(shares, 0.6) is None


def test_model_table_chooses_beta_by_validation_loss(
    tmp_path, monkeypatch, small_systems
):
    measured = []

    def loss(model, dataset, indices, beta):
        measured.append((model, dataset, indices[:32], beta))
        return abs(beta - 8.0)

    plain = _model_table._validation_loss
    monkeypatch.setattr(_model_table, "_validation_loss", loss)
    tested = config("model_table", models=("ae", "beta_vae"), betas=(2.0, 8.0))
    tested.eval.scores = ("mig", "modularity")
    tested.lanes.seeds = 2
    values = run(tested, tmp_path)
    assert values["beta"] == 8.0
    assert sorted(beta for *_, beta in measured) == [2.0, 2.0, 8.0, 8.0]
    # The loss itself: beta weighs the KL divergence of validation images.
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


def test_published_tables_have_the_papers_values():
    table = _model_table.published("shapes3d")
    assert len(table) == 15
    assert table["sae-12"]["DCI-d"] == 0.999 and table["wae"]["DCI-c"] == 0.162
    assert _model_table.published("mpi3d_real")["vlae-6"]["MIG"] == 0.279
    assert _model_table.published("mnist") == {}


def test_intervals_over_seeds_by_hand():
    # t(0.975, 2) = 4.3027, sd = 0.1, n = 3.
    assert _model_table.interval(np.array([0.4, 0.5, 0.6])) == "0.50 [0.25, 0.75]"


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
    with pytest.raises(ValueError, match="that add up"):
        metrics.ordering(importance, groups=(2, 2))


def test_factor_importance_of_xysquares(tmp_path):
    tested = config("factor_importance", datasets=("xysquares",), pairs=200)
    values = run(tested, tmp_path)["xysquares"]["mse"]
    assert values["x_red"] == pytest.approx(128 / 12288, rel=1e-5)
    assert "0.0104 ± 0.0000" in (tmp_path / "xysquares_mse.csv").read_text()


@pytest.mark.parametrize(
    "name, options, fields, message",
    [
        ("extrapolation", {"models": ("sae-22",)}, {}, "did you mean 'sae-2'"),
        (
            "extrapolation",
            {"novel_values": (0, 1, 2, 3)},
            {},
            "some, but not all, of 0 … 3",
        ),
        ("extrapolation", {"factor": "shap"}, {}, "did you mean 'shape'"),
        ("extrapolation", {"novel_split": "tset"}, {}, "did you mean 'test'"),
        ("extrapolation", {}, {"optimizer.frozen": ("encoder",)}, "must be empty"),
        ("extrapolation", {}, {"data.drop": {"shape": (1,)}}, "`data.drop` must be"),
        ("overlap", {"frameworks": ("vae",)}, {}, "did you mean 'beta_vae'"),
        ("overlap", {"betas": ()}, {}, "`experiment.betas` must not be empty"),
        ("overlap", {"spacings": (9,)}, {"data.standardize": True}, "in [1, 8]"),
        ("capacity", {"capacities": (5.0, 2.0)}, {}, "must be increasing"),
        ("capacity", {}, {}, "must be 'annealed_vae'"),
        ("model_table", {"models": ()}, {}, "must not be empty"),
        ("model_table", {}, {"lanes.sweep": {"method.beta": (1.0,)}}, "sweep `lanes"),
        ("factor_importance", {"distances": ("msee",)}, {}, "did you mean 'mse'"),
    ],
)
def test_contradictions_are_told(tmp_path, name, options, fields, message):
    tested = config(name, **options)
    for field, value in fields.items():
        section, field = field.split(".")
        tested[section][field] = value
    with pytest.raises(ValueError) as error:
        experiments.prepare(tested, tmp_path / "run")
    assert message.lower() in str(error.value).lower()
    assert not (tmp_path / "run").exists()
