"""Evaluation writes numbers with their recipe, once, and reads them back."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import evaluation, files, metrics, training
from disentangle_jax.evaluation import loop


@pytest.fixture(scope="module")
def evaluated(tiny_lanes):
    return tiny_lanes, evaluation.evaluate(tiny_lanes)


def test_each_lane_has_scores_config_and_recipe(evaluated):
    run, scores = evaluated
    assert list(scores) == ["beta=1,seed=0", "beta=8,seed=0"]
    for name, folder in zip(scores, evaluation.folders(run), strict=True):
        saved = files.read_json(folder / "scores.json")
        assert saved == scores[name] == evaluation.read_scores(folder)
        assert f"beta={saved['config']['method']['beta']:g},seed=0" == folder.name
        assert saved["config"]["lanes"]["sweep"] == {}
        stored = files.read_json(folder / "config.json")
        del stored["format"]
        assert saved["config"] == stored
        assert saved["settings"]["num_train"] == 40
        assert saved["settings"]["step"] == 2
        assert saved["evaluators"] == ["codes", "reconstruction", "generation"]
        assert {"jax", "flax", "numpy", "python"} <= saved["versions"].keys()
        assert len(training.read_metrics(folder)) == 2


def test_evaluating_again_gives_the_same_numbers(evaluated):
    run, scores = evaluated
    again = evaluation.evaluate(run)
    for name, found in again.items():
        assert found["reconstruction"] == scores[name]["reconstruction"]
        assert found["metrics"] == scores[name]["metrics"]


def test_error_against_a_plain_loop(evaluated):
    run, scores = evaluated
    model = list(evaluation.load_models(run))[1]
    indices = np.random.default_rng(0).permutation(run.test_set.indices)[:60]
    errors = []
    for index in indices:
        x = run.test_set.images([index])[0].astype(np.float64) / 255
        posterior = run.method.encode(model.state, jnp.asarray(x[None], jnp.float32))
        logits = run.method.decode(model.state, posterior.mean)
        logits = np.asarray(logits, np.float64)
        errors.append(np.mean((x - 1 / (1 + np.exp(-logits[0]))) ** 2))
    found = scores["beta=8,seed=0"]["reconstruction"]
    assert found["mse"] == pytest.approx(np.mean(errors), rel=1e-5)


def test_small_test_split_keeps_the_ratio(tiny_lanes):
    few = tiny_lanes.test_set.narrow(tiny_lanes.test_set.indices[:30])
    examples = evaluation.Examples(dataclasses.replace(tiny_lanes, test_set=few))
    assert examples.num_train == 20
    assert len(examples.indices) == 30


def test_stored_scores_are_taken_where_they_are_up_to_date(evaluated, monkeypatch):
    run, _ = evaluated
    computed = []
    plain = loop._evaluate
    monkeypatch.setattr(
        loop, "_evaluate", lambda *args: computed.append(1) or plain(*args)
    )
    assert evaluation.is_complete(run)
    assert len(list(evaluation.evaluate_models(run, again=False))) == 2
    assert computed == []
    config = run.config.copy_and_resolve_references()
    config.eval.num_test = 10
    other = training.prepare(config, run.workdir)
    assert not evaluation.is_complete(other)
    first, *_ = evaluation.evaluate_models(other, again=False)
    assert computed == [1, 1] and first[1]["settings"]["num_test"] == 10


def test_a_folder_loads_as_its_model(tiny_lanes):
    images = tiny_lanes.test_set.images(tiny_lanes.test_set.indices[:4])
    models = list(evaluation.load_models(tiny_lanes))
    codes = [model.encode(images) for model in models]
    assert not np.array_equal(*codes)
    found = evaluation.load(evaluation.folders(tiny_lanes)[1])
    np.testing.assert_array_equal(found.encode(images), codes[1])
    assert found.params is found.state.params
    np.testing.assert_allclose(
        found.posterior(images).mean, codes[1], rtol=1e-5, atol=1e-6
    )
    with pytest.raises(ValueError, match="holds 2 models; name the folder of one"):
        evaluation.load(tiny_lanes.workdir)
    with pytest.raises(ValueError, match="'beta=8,seed=0'"):
        evaluation.load(tiny_lanes.workdir / "lanes" / "beta=9,seed=0")


def test_apply_gives_a_row_per_image_whatever_the_batches(tiny_lanes):
    model = next(evaluation.load_models(tiny_lanes))
    indices = tiny_lanes.test_set.indices[:37]  # Two batches of 16 and one of 5.
    sums = model.apply(
        lambda state, images: images.sum(axis=(1, 2, 3)), tiny_lanes.test_set, indices
    )
    want = tiny_lanes.test_set.images(indices).sum(axis=(1, 2, 3))
    np.testing.assert_array_equal(sums, want)
    codes, errors = evaluation.encode_images(model, tiny_lanes.test_set, indices)
    assert codes.shape == (37, 3)
    assert {name: len(values) for name, values in errors.items()} == {
        "mse": 37,
        "bce": 37,
    }


def test_numbers_know_their_direction():
    named = ("mig", "dci.completeness", "bce", "fid.prior", "unknown")
    found = [evaluation.describe_number(*n.partition(".")[::2]) for n in named]
    assert [number.arrow for number in found] == ["↑", "↑", "↓", "↓", ""]
    assert found[0].highest == 1 and found[2].meaning
    assert all(
        evaluation.describe_number(name, key).meaning
        for name in metrics.names()
        for key in metrics.describe(name).keys
    )
