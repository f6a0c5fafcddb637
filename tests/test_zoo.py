"""Exported models load back bit for bit, and the shipped ones work."""

import jax
import numpy as np
import pytest

from disentangle_jax import commands, evaluation, training, zoo
from disentangle_jax.training import stored_runs


@pytest.fixture(scope="module")
def evaluated(tiny_lanes):
    evaluation.evaluate(tiny_lanes)
    return tiny_lanes.workdir / "lanes" / tiny_lanes.lanes[1].name


def test_export_loads_back_bit_for_bit(evaluated, tmp_path, capsys):
    path = tmp_path / "model.safetensors"
    assert commands.get("export")([str(evaluated), str(path)])() == 0
    model, loaded = evaluation.load(evaluated), evaluation.load_exported(path)
    for part in ("params", "model_state"):
        own, read = getattr(model.state, part), getattr(loaded.state, part)
        jax.tree.map(np.testing.assert_array_equal, read, own)
    images = loaded.run.test_set.images(np.arange(3))
    np.testing.assert_array_equal(loaded.encode(images), model.encode(images))
    codes = model.encode(images)
    np.testing.assert_array_equal(loaded.decode(codes), model.decode(codes))
    assert int(loaded.state.step) == int(model.state.step)
    card = evaluation.read_card(path)
    assert "scores: " in card and "commit: " in card
    assert card == loaded.card and card.startswith(model.card)


def test_methods_of_loaded_models_know_the_size_of_the_dataset(evaluated, monkeypatch):
    seen = []

    def make(config, train_set):
        seen.append(len(train_set.indices))
        return make_method(config, train_set)

    make_method = stored_runs.make_method
    monkeypatch.setattr(stored_runs, "make_method", make)
    run = evaluation.load(evaluated, with_dataset=True).run
    known = training.describe_dataset(run)
    images = run.test_set.images(run.test_set.indices[:3])
    training.described_run(run.config, known, run.workdir, images)
    assert seen == [len(run.train_set.indices)]


@pytest.mark.parametrize("kept", [0, 3, 100, -5])
def test_damaged_files_are_named(evaluated, kept, tmp_path):
    path = tmp_path / "model.safetensors"
    commands.get("export")([str(evaluated), str(path)])()
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"model.safetensors is damaged"):
        evaluation.load_exported(path)


def test_wrong_names_are_refused(evaluated):
    with pytest.raises(ValueError, match=r"zoo: `name` must be one of"):
        zoo.load("nothing")
    with pytest.raises(ValueError, match=r"`path` must end in .safetensors"):
        evaluation.export(evaluation.load(evaluated), "model.npz")


@pytest.mark.parametrize("name", zoo.names())
def test_shipped_models_reconstruct(name):
    model = zoo.load(name)
    images = model.run.test_set.images(model.run.test_set.indices)
    found = model.decode_all(model.encode(images)).astype(float)
    error = np.square(found - images).mean()
    assert error < 0.5 * np.square(images - images.mean(0)).mean()
    assert "licence: Apache-2.0" in zoo.card(name)


def test_stored_images_have_no_factors():
    test_set = zoo.load("hfvae/mnist-28").run.test_set
    assert len(test_set) == len(test_set.indices) == 32
    with pytest.raises(ValueError, match="without its dataset 'mnist'"):
        test_set.factors(test_set.indices)


def test_the_zoo_stays_small():
    sizes = [zoo.path(name).stat().st_size for name in zoo.names()]
    assert len(sizes) <= 12 and sum(sizes) < 6e6
