"""Samples and FID of a trained run, with an extractor in Inception's place."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from disentangle_jax import evaluation, main, metrics, sampling, training
from disentangle_jax.evaluation import examples
from tests.evaluation import made
from tests.training import tiny


@pytest.fixture(scope="module")
def trained(tiny_lanes):
    """A run of two lanes that asks for FID; `other_features` stands for the weights."""
    config = tiny_lanes.config.copy_and_resolve_references()
    config.eval.fid_weights = "weights.npz"
    config.eval.fid_images = 20
    config.eval.num_samples = 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "check_inception_weights", lambda weights: None)
        return training.prepare(config, tiny_lanes.workdir)


@functools.cache
def directions():
    return np.random.default_rng(0).normal(size=(64 * 64 * 3, 6)) / 100


def projections(images):
    """Six random projections of 64×64 images."""
    return images.reshape(len(images), -1) @ directions()


@pytest.fixture
def other_features(monkeypatch):
    """Replaces Inception, which takes minutes, and records what it was shown."""
    shown = []
    plain = metrics.feature_statistics

    def statistics(images, *, weights, keep_features):
        shown.append(np.concatenate(list(images)))
        return plain(shown[-1], features=projections, keep_features=keep_features)

    monkeypatch.setattr(metrics, "feature_statistics", statistics)
    return shown


def test_fid_of_reconstructions_prior_and_hybrids(trained, other_features):
    scores = evaluation.evaluate(trained)
    test, *rest = other_features
    assert len(rest) == 2 * 3  # the test images once, for both lanes
    assert all(images.shape == (20, 64, 64, 3) for images in other_features)
    model = next(evaluation.load_models(trained))
    np.testing.assert_array_equal(model.decode(model.encode(test)), rest[0])
    values = scores[trained.lanes[0].name]["metrics"]
    for name, images in zip(("reconstruction", "prior", "hybrid"), rest):
        want = float(metrics.fid(test, images, features=projections))
        assert values["fid"]["values"][name] == pytest.approx(want)
        want = float(metrics.kid(test, images, features=projections))
        assert values["kid"]["values"][name] == pytest.approx(want)
    settings = values["fid"]["settings"]
    assert settings["samples_a"] == settings["samples_b"] == 20
    assert settings["hybrid_bank"] == 8 and settings["split"] == "test"
    saved = evaluation.read_scores(evaluation.folders(trained)[1])
    assert "fid" in saved["metrics"]


def test_only_reconstructions_are_limited_by_the_test_split(trained, other_features):
    few = trained.test_set.narrow(trained.test_set.indices[:12])
    run = dataclasses.replace(next(iter(trained.models())), test_set=few)
    model = next(evaluation.load_models(trained))._replace(run=run)
    evaluator = evaluation.Generation(run)
    result = evaluator.evaluate(model, evaluation.Seen(model, evaluation.Examples(run)))
    assert [len(images) for images in other_features] == [12, 12, 20, 20]
    counts = {"reconstruction": 12, "prior": 20, "hybrid": 20}
    assert result.scores["fid"].settings["images"] == counts


def test_hybrids_recombine_variables_or_dimensions(rng):
    bank = rng.normal(size=(6, 3))
    for parts, whole in (("variables", True), ("dimensions", False)):
        run = made.run((2, 1))
        run.config.eval.hybrid_parts = parts
        groups = examples.hybrid_groups(run)
        drawn = np.asarray(
            sampling.hybrid(jax.random.key(0), jnp.asarray(bank), 50, groups=groups)
        )
        pairs = {tuple(row) for row in np.float32(bank[:, :2]).tolist()}
        found = {tuple(row) for row in np.float32(drawn[:, :2]).tolist()}
        assert (found <= pairs) == whole
    assert examples.hybrid_groups(made.run((1, 1, 4), discrete=(4,))) == (1, 1, 4)


def test_hybrid_images_come_from_codes_of_training_images(trained):
    model = next(evaluation.load_models(trained))
    bank = evaluation.training_codes(model, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    indices = rng.choice(trained.train_set.indices, 8, replace=False)
    want = model.encode(trained.train_set.images(indices))
    np.testing.assert_allclose(bank, want, rtol=1e-4, atol=1e-5)


def test_sample_writes_codes_images_and_sheets(trained, capsys):
    argv = ["sample", str(trained.workdir), "--config.eval.num_samples=5"]
    assert main.main(argv) == 0
    out = capsys.readouterr().out
    lanes = evaluation.folders(trained)
    for folder in lanes:
        assert f"samples: {folder / 'samples' / 'hybrid.png'}" in out
        with Image.open(folder / "samples" / "prior.png") as picture:
            assert picture.size == (8 * 130, 130)  # 64 px are doubled.
    with np.load(lanes[0] / "samples.npz") as arrays:
        samples = dict(arrays)
    assert samples["prior_codes"].shape == samples["hybrid_codes"].shape == (5, 3)
    assert samples["chunk_hybrid_codes"].shape == (3, 8, 3)
    for column, stored in zip(samples["hybrid_codes"].T, samples["bank"].T):
        assert np.isin(column, stored).all()
    for d, codes in enumerate(samples["chunk_hybrid_codes"]):
        others = np.arange(3) != d
        assert (codes[:, others] == samples["base_code"][others]).all()
    model = next(evaluation.load_models(trained))
    for name in ("prior", "hybrid"):
        want = model.decode(samples[f"{name}_codes"])
        # Another batch size may round a pixel to its neighbour.
        assert np.abs(samples[name].astype(int) - want).max() <= 1
    # The same again, for the seed is the same.
    assert main.main(argv) == 0
    with np.load(lanes[0] / "samples.npz") as again:
        np.testing.assert_array_equal(again["prior_codes"], samples["prior_codes"])


def test_missing_weights_are_reported_before_training(tmp_path):
    config = tiny.config()
    config.eval.fid_weights = str(tmp_path / "none.pth")
    with pytest.raises(FileNotFoundError, match="Fetch pt_inception-2015-12-05"):
        training.prepare(config, tmp_path / "run")
    config.eval.fid_weights = ""
    config.eval.scores = ("fid",)
    with pytest.raises(ValueError, match="`eval.scores` must be one of"):
        training.prepare(config, tmp_path / "run")
