"""The table of models: choice of beta, published values, distances, intervals."""

import types

import jax
import numpy as np
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import evaluation, experiments, metrics, sampling, training
from disentangle_jax.experiments import bank_sizes, model_table, protocol, systems
from disentangle_jax.experiments import model_table_page as page
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
    assert values["beta"] == {"beta_vae": 8.0}
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
    table = page.published_scores("shapes3d")
    assert len(table) == 15
    assert table["sae-12"]["DCI-d"] == 0.999 and table["wae"]["DCI-c"] == 0.162
    assert page.published_scores("mpi3d_real")["vlae-6"]["MIG"] == 0.279
    assert page.published_scores("mnist") == {}
    assert page.published_scores("rendered_shapes3d") == table


def test_intervals_over_seeds_by_hand():
    # t(0.975, 2) = 4.3027, sd = 0.1, n = 3.
    assert page.interval(np.array([0.4, 0.5, 0.6])) == "0.50 [0.25, 0.75]"


@pytest.fixture
def extracted(monkeypatch):
    """Replaces Inception by six projections; counts the images of each call."""
    counts, plain = [], metrics.feature_statistics
    directions = np.random.default_rng(0).normal(size=(64 * 64 * 3, 6)) / 100

    def statistics(images, *, weights, keep_features):
        images = np.concatenate(list(images))
        counts.append(len(images))
        return plain(
            images,
            features=lambda batch: batch.reshape(len(batch), -1) @ directions,
            keep_features=keep_features,
        )

    monkeypatch.setattr(metrics, "feature_statistics", statistics)
    monkeypatch.setattr(metrics, "check_inception_weights", lambda weights: None)
    return counts


def test_figures_slips_banks_and_fid_of_the_chosen_beta(
    tmp_path, monkeypatch, extracted
):
    made.use_small_systems(monkeypatch)
    monkeypatch.setattr(
        *(model_table, "_validation_loss"), lambda m, d, i, beta: abs(beta - 8.0)
    )
    tested = made.config(
        "model_table",
        models=("ae", "ae+code_split", "beta_vae"),
        betas=(2.0, 8.0),
        banks=(4, 2),
        bank_images=6,
        options={"ae+code_split": {"data": {"split_recipe": "sae_code"}}},
    )
    tested.eval.fid_weights = str(tmp_path / "weights.npz")
    tested.eval.fid_images = 10
    folder = tmp_path / "run"
    values = made.values(tested, folder)
    # Test images, reconstructions, prior and hybrid samples of three models, not of
    # the beta that was not chosen; then, per model, two banks of two kinds.
    assert extracted == [10] * 4 * 3 + [6] * (3 + 2 * 2) * 3
    for (seed,) in values["scores"].values():
        assert {"FID reconstruction", "FID prior", "FID hybrid", "bce"} <= seed.keys()
    banks = values["banks"]["ae"]
    assert {kind: list(sizes) for kind, sizes in banks.items()} == {
        "reconstruction": ["0"],
        "rows": ["2", "4"],
        "hybrid": ["2", "4"],
        "prior": ["0"],
    }
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        *("fid_reconstructions.png", "fid_samples.png", "loss_and_fid.png"),
        *("traversals.png", "chunks.png", "samples.png", "reconstructions.png"),
        *("banks_beta_vae.png", "bars.png", "slips.csv"),
    }
    row = (folder / "slips.csv").read_text().splitlines()[1].split(",")
    assert row[:2] == ["ae+code_split", "ae"]
    errors = [values["scores"][name][0]["mse"] for name in row[:2]]
    assert row[-1] == f"{errors[0] - errors[1]:+.4f}"
    report = (folder / "report.html").read_text()
    assert "Differences from the paper" in report
    assert "rendered_shapes3d is our rendering" in report
    # Nothing is computed again, neither scores nor distances.
    made.values(tested, folder)
    assert len(extracted) == 12 + 21


def test_distances_by_the_number_of_stored_codes_by_hand(tiny_lanes):
    model = next(evaluation.load_models(tiny_lanes))
    found = list(bank_sizes._codes(model, np.arange(3), [2, 5], 9))
    assert [(kind, size) for kind, size, _ in found] == [
        *(("reconstruction", 0), ("prior", 0)),
        *(("rows", 2), ("hybrid", 2), ("rows", 5), ("hybrid", 5)),
    ]
    indices = model.run.train_set.indices
    chosen = np.random.default_rng(0).choice(indices, 5, replace=False)
    stored = model.encode(model.run.train_set.images(chosen))
    for kind, size, codes in found[2:]:
        bank = stored[:size]
        gaps = np.abs(np.asarray(codes)[:, None] - bank[None])  # [9, size, D]
        if kind == "rows":  # Each code is one of the stored codes as a whole,
            assert gaps.max(axis=2).min(axis=1).max() < 1e-4
        else:  # or each of its dimensions comes from one of them.
            assert gaps.min(axis=1).max() < 1e-4
    hybrids = np.asarray(found[-1][2])
    want = sampling.hybrid(jax.random.split(jax.random.key(0), 3)[2], stored, 9)
    np.testing.assert_allclose(hybrids, want, atol=1e-4)


def shown(values, models=None):
    tested = made.config("model_table")
    return page.Shown(tested, models or {}, values, (), {})


def test_published_values_stand_beside_scores_of_dimensions_only():
    names = [*page.published_scores("shapes3d")["sae-6"]]
    alone = dict.fromkeys(names, 0.25) | {"mse": 0.01}
    both = alone | {f"{name} by variable": 0.75 for name in names}
    parts = {
        part.name: part
        for part in (
            *(page._score_table(shown({"sae-6": [both], "ae": [alone]})),),
            *page._grouped_table(shown({"sae-6": [both], "ae": [alone]})),
        )
    }
    assert [row[:2] for row in parts["scores"].rows] == [
        ["sae-6", "0.250 [0.815]"],
        ["ae", "0.250 [0.326]"],
    ]
    (row,) = parts["scores_by_variable"].rows
    assert row == ["sae-6", *["0.750"] * 6]
    assert "Ours" in parts["scores_by_variable"].caption


def test_numbers_are_found_by_dimension_and_by_variable():
    def entry(**values):
        return {"values": values, "settings": {}, "matrices": {}}

    found = {
        "dci(estimator=gbt_exact)": entry(disentanglement=0.1, completeness=0.2),
        "mig": entry(mig=0.3),
        "dci(estimator=gbt_exact)_grouped": entry(
            disentanglement=0.6, completeness=0.7
        ),
        "mig_grouped": entry(mig=0.8),
    }
    scores = {"metrics": found, "reconstruction": {"mse": 0.5}}
    values = page.numbers(types.SimpleNamespace(scores=scores), {"prior": 9.0})
    assert values == {
        **{"DCI-d": 0.1, "DCI-c": 0.2, "MIG": 0.3, "FID prior": 9.0, "mse": 0.5},
        **{"DCI-d by variable": 0.6, "DCI-c by variable": 0.7, "MIG by variable": 0.8},
    }


def test_the_ordering_heads_the_factors_that_were_scored(rng):
    # The Robot Finger Dataset has nine factors, of which two are constant.
    factors = [f"factor {place}" for place in range(9)]
    score = {
        "values": {"mig": 0.5},
        "settings": {"constant_factors_left_out": [0, 2]},
        "matrices": {"mi": rng.uniform(size=(4, 7)).tolist()},
    }
    scores = {"metrics": {"mig": score}, "settings": {"factors": factors}}
    model = types.SimpleNamespace(scores=scores)
    (table,) = page._orderings(shown({}, {"ae": [model]}))
    kept = [factors[place] for place in (1, 3, 4, 5, 6, 7, 8)]
    assert list(table.head) == ["model", "spread", *kept]
    assert len(table.rows[0]) == len(table.head)


@pytest.mark.parametrize("preset", ["as_published", "slips", "celeba", "rfd"])
def test_presets(preset, tmp_path):
    tested = config_lib.load(f"configs/experiments/model_table.py:{preset}")
    assert "beta_vae" in tested.experiment.models
    if preset in ("celeba", "rfd"):
        assert tested.experiment.betas == (2.0,)
        assert tested.data.options.get("official_parts", None) is (
            False if preset == "celeba" else None
        )
        return
    tested.data.name = "rendered_shapes3d"
    packs = {p.name: p.config for p in experiments.prepare(tested, tmp_path).packs}
    if preset == "as_published":
        assert {c.data.split_recipe for c in packs.values()} == {"sae_code"}
        assert {c.eval.hybrid_parts for c in packs.values()} == {"dimensions"}
        for name, config in packs.items():
            kl = "sae_code" if "vae" in name or "vlae" in name else None
            assert config.method.get("kl") == kl
        assert packs["wae"].method.mmd_compat == "sae_code"
        lines = model_table.deviations(tested).text
        assert "72/8/20" in lines and "MMD as published" not in lines
    else:
        assert packs["vae+code_kl"].method.kl == "sae_code"
        assert "kl" not in packs["vae"].method
        assert packs["sae-12+code_split"].data.split_recipe == "sae_code"
        lines = model_table.deviations(tested).text
        assert "- vae, beta_vae, vlae-12, wae: KL divergence and MMD as pub" in lines


def test_architectures_and_priors():
    found = {name: systems.architecture(name) for name in systems.names()}
    assert found["sae-6"] == "Structural" and found["vlae-12"] == "Ladder"
    assert found["adaae-16"] == "Adaptive" and found["wae"] == "Baseline"
    with_prior = {name for name in systems.names() if systems.has_prior(name)}
    assert with_prior >= {"vae", "beta_vae", "wae", "vlae-6"}
    assert not with_prior & {"ae", "sae-12", "adaae-12"}


def test_values_of_a_model_are_kept_until_their_settings_change(tiny_lanes, tmp_path):
    run = types.SimpleNamespace(config=tiny_lanes.config, workdir=tmp_path)
    model, computed = types.SimpleNamespace(run=run), []

    def compute():
        computed.append(1)
        return {"value": len(computed)}

    for settings, want in (({"n": (1, 2)}, 1), ({"n": (1, 2)}, 1), ({"n": 3}, 2)):
        assert protocol.kept(model, "x", settings, compute) == {"value": want}


def test_one_system_of_a_preset_needs_no_further_options(tmp_path):
    config = config_lib.load("experiments/model_table:mini")
    config.experiment.models = ("wae",)
    prepared = experiments.prepare(config, tmp_path / "run")
    assert {pack.name for pack in prepared.packs} == {"wae"}
