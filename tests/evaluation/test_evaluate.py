"""Evaluation writes numbers with their recipe, once, and reads them back."""

import dataclasses
import types

import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import data, evaluation, files, metrics, training
from disentangle_jax.evaluation import loop
from disentangle_jax.reports.scores import failures
from tests.evaluation import made
from tests.training import tiny


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


def test_without_a_split_cars3d_has_enough_images_for_the_study(tiny_lanes):
    cars = data.Dataset(
        "cars", image_shape=(64, 64, 3), images=None,
        factor_names=("elevation", "azimuth", "object"), factor_sizes=(4, 24, 183),
    )  # fmt: skip
    config = tiny_lanes.config.copy_and_resolve_references()
    config.eval.update(num_train=10_000, num_test=5000)
    counts = {}
    for recipe in ("paper", "none"):
        parts = [cars.split(part, recipe=recipe) for part in ("train", "test")]
        run = dataclasses.replace(
            tiny_lanes, config=config, train_set=parts[0], test_set=parts[1]
        )
        examples = evaluation.Examples(run)
        assert len(np.unique(examples.indices)) == len(examples.indices)
        counts[recipe] = (examples.num_train, len(examples.indices))
    assert counts == {"paper": (2342, 3513), "none": (10_000, 15_000)}


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


def grid(**fields):
    """A dataset whose images are the values of its factors."""
    sizes = (3, 4, 5)

    def images(indices):
        values = np.unravel_index(indices // fields.get("copies", 1), sizes)
        return np.stack(values, axis=-1).astype(np.uint8).reshape(-1, 1, 1, 3)

    return data.Dataset(
        "grid", image_shape=(1, 1, 3), images=images, factor_sizes=sizes,
        factor_names=("a", "b", "c"), **fields,
    )  # fmt: skip


def encode(images):
    a, b, c = images.reshape(-1, 3).T.astype(np.float32)
    return np.stack([a, 0.3 * b + 0.2 * a, c + 0.1 * b], axis=-1)


def votes_by_a_loop(dataset):
    """The FactorVAE score as Kim & Mnih define it, in disentanglement_lib's order."""
    rs = np.random.RandomState(0)

    def codes(factors):
        return encode(dataset.images(dataset.index_of(factors))).astype(np.float64)

    def draw(count):
        return np.stack([rs.randint(s, size=count) for s in (3, 4, 5)], axis=1)

    scale = codes(draw(10_000)).var(axis=0, ddof=1)
    table, right = np.zeros((3, 3), int), []
    for vote in range(15_000):
        held, factors = rs.randint(3), draw(64)
        factors[:, held] = factors[0, held]
        latent = np.argmin(codes(factors).var(axis=0, ddof=1) / scale)
        if vote < 10_000:
            table[latent, held] += 1
        else:
            right.append(table[latent].argmax() == held)
    return np.mean(right)


def test_scores_that_fix_a_factor_sample_the_dataset():
    dataset, encoded = grid(), []

    def codes(dataset, indices):
        encoded.extend(indices)
        return encode(dataset.images(indices))

    run = made.run((1, 1, 1))
    run.config.eval.scores = ("beta_vae_score", "factor_vae_score", "flatness")
    run.config.eval.interventions = "dataset"
    run.test_set = dataset
    model = types.SimpleNamespace(run=run, codes=codes, shows_images=False)
    rows = np.arange(0, 60, 7)  # Too few rows to draw from.
    seen = types.SimpleNamespace(
        codes=encode(dataset.images(rows)),
        factors=dataset.factors(rows),
        split=lambda rows: (rows[:6], rows[6:]),
    )
    found = evaluation.get("codes")(run).evaluate(model, seen)
    assert found.errors == {}
    score = found.scores["factor_vae_score"]
    assert score.settings["sampling"] == "dataset"
    assert float(score) == pytest.approx(votes_by_a_loop(dataset), abs=1e-12)
    direct = metrics.beta_vae_score(encode, dataset)
    assert dict(found.scores["beta_vae_score"]) == dict(direct)
    assert sorted(encoded) == list(range(60))  # Each image once, for all scores.
    run.config.eval.interventions = "codes"
    found = evaluation.get("codes")(run).evaluate(model, seen)
    assert "arrays" in found.scores["beta_vae_score"].settings["sampling"]


def test_interventions_draw_all_copies_of_a_combination():
    dataset, seen = grid(copies=3), []

    class Indices:
        """The encoder sees indices instead of images."""

        factor_sizes, index_of, copies = dataset.factor_sizes, dataset.index_of, 3
        images = staticmethod(lambda indices: indices)

    def encoder(indices):
        seen.extend(indices)
        return encode(dataset.images(indices))

    for score in (metrics.factor_vae_score, metrics.beta_vae_score):
        seen.clear()
        score(encoder, Indices, num_train=200, num_eval=50)
        assert set(seen) == set(range(180))


def test_interventions_need_a_grid(tmp_path):
    config = tiny.config()
    config.data.name = "rendered_dsprites_27"
    config.eval.interventions = "dataset"
    with pytest.raises(ValueError, match="`eval.interventions` must be 'codes' for"):
        training.prepare(config, tmp_path)


def test_encode_takes_bytes_and_floats_in_the_unit_interval(tiny_lanes):
    model = next(evaluation.load_models(tiny_lanes))
    images = tiny_lanes.test_set.images(tiny_lanes.test_set.indices[:3])
    codes = model.encode(images)
    for same in (images / 255.0, (images / 255.0).astype(np.float32), images * 1):
        np.testing.assert_array_equal(model.encode(same), codes)
    for wrong in (images.astype(np.float32), images.astype(int) - 1, images * 2.5):
        with pytest.raises(
            ValueError, match="`images` must be uint8 in 0 … 255, or floats"
        ):
            model.encode(wrong)
    with pytest.raises(ValueError, match=r"shape \[B, 64, 64, 3\], got \(64, 64, 3\)"):
        model.encode(images[0])


def test_scores_without_labels_are_skipped_with_the_reason(tiny_lanes):
    known = tiny_lanes.test_set
    plain = data.Dataset(
        "plain", image_shape=known.image_shape, images=known.images, length=50
    )
    config = tiny_lanes.config.copy_and_resolve_references()
    config.eval.scores = ("unsupervised", "mig", "dci")
    run = dataclasses.replace(tiny_lanes, config=config, test_set=plain)
    model = next(evaluation.load_models(tiny_lanes))._replace(run=run)
    seen = evaluation.Seen(model, evaluation.Examples(run))
    found = evaluation.get("codes")(run).evaluate(model, seen)
    assert list(found.scores) == ["kl", "kl_active", "unsupervised"]
    assert found.errors == {
        name: f"{name}: needs factors, and there are none." for name in ("mig", "dci")
    }
    scores = {
        "errors": found.errors,
        "settings": {"num_train": seen.num_train, "num_test": 17},
        "config": {"eval": {"num_train": 40, "num_test": 20}},
    }
    assert failures(scores) == [
        "mig: not computed: mig: needs factors, and there are none.",
        "dci: not computed: dci: needs factors, and there are none.",
        "eval.num_train: 33 examples instead of 40: the test split has no more.",
        "eval.num_test: 17 examples instead of 20: the test split has no more.",
    ]
