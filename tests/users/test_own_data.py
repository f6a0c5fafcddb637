"""A user trains on images of their own, and loads the model again."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import data, evaluation, main, training
from tests.training import tiny

TINY = [
    "--config.model.name=fc1200", "--config.model.width=8",
    "--config.model.latent_dim=3",
    "--config.train.batch_size=8", "--config.train.num_steps=4",
    "--config.train.log_every=2", "--config.train.checkpoint_every=4",
    "--config.eval.num_train=40", "--config.eval.num_test=20",
    "--config.eval.batch_size=16", "--config.eval.hybrid_bank=8",
]  # fmt: skip


def tiny_config():
    config = config_lib.override(config_lib.default(), TINY)
    config.method.name = "vae"
    return config


@pytest.fixture(scope="module", autouse=True)
def one_device():
    with pytest.MonkeyPatch.context() as patch:
        tiny.show_devices(patch, 1)
        yield


def squares(count=400):
    """Images of one square each, with its continuous place and one of two colours."""
    rng = np.random.default_rng(0)
    place, colour = rng.uniform(size=(count, 2)), rng.integers(2, size=count)
    images = np.zeros((count, 64, 64, 3), np.uint8)
    for image, (y, x), c in zip(images, place, colour):
        top, left = (int(48 * v) for v in (y, x))
        image[top : top + 16, left : left + 16, c] = 255
    return images, np.column_stack([place, colour])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of the command line on an npz file, in a folder of its own."""
    folder = tmp_path_factory.mktemp("own")
    images, factors = squares()
    np.savez(
        folder / "my.npz", images=images, factors=factors,
        factor_names=np.array(["y", "x", "colour"]),
    )  # fmt: skip
    code = main.main([
        f"--config={tiny.ROOT}/configs/beta_vae.py", f"--workdir={folder}/run",
        "--config.data.name=npz", f"--config.data.options.file={folder}/my.npz",
        "--config.eval.scores=mig,sap,mcc,unsupervised", *TINY,
    ])  # fmt: skip
    assert code == 0
    return folder


def test_the_command_trains_evaluates_and_reports(trained):
    scores = evaluation.read_scores(trained / "run")
    assert set(scores["metrics"]) >= {"mig", "sap", "mcc", "unsupervised"}
    assert scores["metrics"]["mig"]["settings"]["continuous_factors"] == [0, 1]
    assert scores["settings"]["factors"] == ["y", "x", "colour"]
    assert (trained / "run" / "report.html").exists()


def test_the_model_loads_without_the_dataset(trained):
    """In a fresh interpreter, with the file of the images gone."""
    images, _ = squares()
    with_data = evaluation.load_models(
        training.prepare(training.read_config(trained / "run"), trained / "run")
    )
    codes = next(with_data).encode(images[:5])
    np.save(trained / "codes.npy", codes)
    np.save(trained / "images.npy", images[:5])
    (trained / "my.npz").rename(trained / "gone.npz")
    script = textwrap.dedent("""
        import numpy as np
        from disentangle_jax import evaluation

        model = evaluation.load("run")
        codes = model.encode(np.load("images.npy"))
        np.testing.assert_allclose(codes, np.load("codes.npy"), rtol=1e-5, atol=1e-6)
        assert model.decode(codes).shape == (5, 64, 64, 3)
        assert model.traverse(codes[0], codes, steps=4).shape == (3, 4, 64, 64, 3)
        assert model.traverse(codes[0]).shape == (3, 9, 64, 64, 3)
        assert model.sample(6).shape == (6, 64, 64, 3)
        assert "encoder" in model.params
        print(model.card)
        try:
            model.run.test_set.images([0])
        except ValueError as error:
            print(error)
    """)
    try:
        out = subprocess.run(
            [sys.executable, "-c", script], cwd=trained, text=True,
            capture_output=True, env=tiny_environment(),
        )  # fmt: skip
    finally:
        (trained / "gone.npz").rename(trained / "my.npz")
    assert out.returncode == 0, out.stderr
    assert "- dataset: npz, 280 training images (64, 64, 3), factors: y, x, colour" in (
        out.stdout
    )
    assert "- method: beta_vae" in out.stdout and "4 of 4 steps" in out.stdout
    assert "loaded without its dataset 'npz'" in out.stdout


def tiny_environment():
    import os

    return {**os.environ, "PYTHONPATH": str(tiny.ROOT)}


def test_training_from_python_with_any_dataset(tmp_path):
    images, _ = squares()
    config = tiny_config()
    mine = data.from_arrays("mine", images)
    model = evaluation.fit(config, tmp_path / "run", dataset=mine)
    assert model.encode(images[:7]).shape == (7, 3)
    assert int(model.state.step) == 4
    again = evaluation.load(tmp_path / "run")
    np.testing.assert_array_equal(again.encode(images[:7]), model.encode(images[:7]))
    # The dataset is asked for where it is needed.
    with pytest.raises(ValueError, match="the dataset .mine., passed in Python"):
        training.prepare(training.read_config(tmp_path / "run"), tmp_path / "run")
    run = training.prepare(config, tmp_path / "run", dataset=mine)
    scores = evaluation.evaluate(run)
    assert scores["errors"]["mig"] == "mig: needs factors, and there are none."
    assert scores["reconstruction"]["mse"] > 0


def test_pairs_of_your_own_data(tmp_path):
    """Methods that see pairs say why a dataset does not allow them."""
    images, factors = squares()
    config = tiny_config()
    config.method.name = "ada_gvae"
    cases = {
        "needs a dataset with factors": data.from_arrays("mine", images),
        "has continuous ones": data.from_arrays("mine", images, factors),
    }
    for reason, dataset in cases.items():
        with pytest.raises(ValueError, match=reason):
            training.prepare(config, tmp_path / "run", dataset=dataset)
    labels = np.column_stack([(4 * factors[:, :2]).astype(int), factors[:, 2]])
    mine = data.from_arrays("mine", images, labels, factor_sizes=(4, 4, 2))
    run = training.prepare(config, tmp_path / "run", dataset=mine)
    assert run.train_set.factor_sizes == (4, 4, 2)


def test_a_config_of_several_models_is_not_fitted(tmp_path):
    config = tiny_config()
    config.lanes.seeds = 2
    mine = data.from_arrays("mine", squares()[0])
    with pytest.raises(ValueError, match="must be that of one model, got 2 lanes"):
        evaluation.fit(config, tmp_path / "run", dataset=mine)
