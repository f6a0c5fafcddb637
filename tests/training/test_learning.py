"""Every method learns: 300 steps of the study's methods on real dSprites, and of the
autoencoders of "Structure by Architecture" on rendered 3D Shapes.

``pytest -m slow -s tests/training/test_learning.py`` prints a row per model.
"""

import pathlib

import numpy as np
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import evaluation, training

CONFIGS = pathlib.Path(__file__).parents[2] / "configs"

# Swept field with a low and a high value, and the term that falls as it is raised.
STUDY = {
    "beta_vae": ("method.beta", (1.0, 8.0), "kl"),
    "annealed_vae": ("method.gamma", (1.0, 1000.0), "capacity_gap"),
    "factor_vae": ("method.gamma", (1.0, 50.0), "total_correlation"),
    "beta_tc_vae": ("method.beta", (1.0, 8.0), "total_correlation"),
    "dip_vae_i": ("method.lambda_od", (0.1, 10.0), "dip_penalty"),
    "dip_vae_ii": ("method.lambda_od", (0.1, 10.0), "dip_penalty"),
}


def learn(config, workdir):
    """Trains and evaluates `config`; returns `(config, rows, scores)` of each model."""
    run = training.prepare(config, workdir)
    training.train(run)
    scores = evaluation.evaluate(run)
    models = []
    for lane, folder in zip(run.lanes, evaluation.folders(run), strict=True):
        own = scores[lane.name] if run.laned else scores
        rows = training.read_metrics(folder)
        if "capacity" in rows[0]:
            for one in rows:
                one["capacity_gap"] = abs(one["kl"] - one["capacity"])
        models.append((lane, rows, own))
        print(row(config, *models[-1]))
    return models


def row(config, lane, rows, scores) -> str:
    """Returns the table row of one model."""
    swept = ",".join(part for part in lane.name.split(",") if "seed" not in part)
    terms = {
        name: end(rows, name)
        for name in rows[0]
        if name not in ("step", "loss", "images_per_second")
    }
    error = scores["reconstruction"]
    cells = [
        f"{config.method.name}/{config.model.name}",
        swept or "-",
        f"{rows[0]['loss']:.4g} → {end(rows, 'loss'):.4g}",
        " ".join(f"{name} {value:.4g}" for name, value in terms.items()),
        f"{error['mse']:.5f} / {error['mse_of_mean_image']:.5f}",
        " ".join(
            f"{name} {next(iter(score['values'].values())):.3f}"
            for name, score in scores["metrics"].items()
        ),
    ]
    return "| " + " | ".join(cells) + " |"


def end(rows, name) -> float:
    """Returns the mean of a term over the last fifth of training."""
    return float(np.mean([r[name] for r in rows[-max(1, len(rows) // 5) :]]))


def check(models) -> None:
    """Asserts what holds for every model: it learned, and its scores are scores."""
    for _, rows, scores in models:
        assert end(rows, "loss") < 0.9 * rows[0]["loss"]
        assert not scores["errors"]
        for score in scores["metrics"].values():
            assert 0 <= next(iter(score["values"].values())) <= 1
    errors = models[0][2]["reconstruction"]  # Of the low strength.
    assert errors["mse"] < 0.9 * errors["mse_of_mean_image"]


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDY)
def test_study_method_on_real_dsprites(name, tmp_path, real_data):
    field, values, term = STUDY[name]
    config = config_lib.load(f"{CONFIGS / name}.py:quick")
    config.data.name = "dsprites"
    config.data.data_dir = str(real_data / "dsprites")
    config.train.update(num_steps=300, log_every=10, checkpoint_every=300)
    config.train.batch_size = 64
    config.lanes.sweep = {field: values}
    config.eval.scores = ("mig", "dci", "sap", "modularity")
    if name == "annealed_vae":
        config.method.c_max = 10.0
    if name == "factor_vae":
        config.method.critic_learning_rate = 1e-3  # Few steps need a fast critic.
    models = learn(config, tmp_path)
    check(models)
    ends = []
    for value, (_, rows, _) in zip(values, models, strict=True):
        # Nats of a 64 x 64 image: no worse than a coin per pixel, no better than 0.
        assert 0 < end(rows, "reconstruction") < 64 * 64 * np.log(2)
        assert 0 < end(rows, "kl") < 100
        # The penalty is logged with its weight.
        ends.append(end(rows, term) / (value if term == "dip_penalty" else 1.0))
    low, high = ends
    assert high < low
    if name == "annealed_vae":
        assert high < 1.0  # Nats: the KL follows the capacity.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sae", "ae", "vlae", "adaae"])
def test_autoencoder_on_rendered_shapes3d(name, tmp_path):
    config = config_lib.load(f"{CONFIGS / name}.py:quick")
    config.train.update(num_steps=300, log_every=10, checkpoint_every=300)
    config.train.batch_size = 16
    config.eval.scores = ("mig", "dci", "sap", "modularity")
    if name == "vlae":
        config.lanes.sweep = {"method.beta": (1.0, 8.0)}
    models = learn(config, tmp_path)
    check(models)
    if name == "vlae":
        low, high = (end(rows, "kl") for _, rows, _ in models)
        assert 0 < high < low
