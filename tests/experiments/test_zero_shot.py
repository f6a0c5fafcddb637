"""Unseen combinations: stopped and continued, what is removed, wrong configs."""

import json

import numpy as np
import pytest
from ml_collections import ConfigDict

from disentangle_jax import experiments, training
from disentangle_jax.experiments import zero_shot
from tests.training import tiny


def config(**options):
    """Returns the smallest zero-shot protocol."""
    tested = tiny.config(num_steps=4)
    tested.data.name = "rendered_dsprites"
    tested.data.drop = {"orientation": tuple(range(1, 40)), "x": tuple(range(4, 32))}
    tested.model = {
        "name": "hfvae-mlp",
        "widths": (8,),
        "head_width": 8,
        "latent_dim": 3,
        "discrete": (3,),
    }
    tested.method.name = "hfvae"
    tested.eval.batch_size = 512
    tested.experiment = ConfigDict(
        {
            "name": "zero_shot",
            "label": "shape",
            "combinations": ((0, "ink", "high"), (2, "width", "low")),
            **options,
        }
    )
    return tested


def test_a_stopped_protocol_continues_and_is_complete(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(zero_shot, "_TESTED", 300)
    trained = []
    plain = training.train

    def dies_in_the_second(run, **options):
        if len(trained) == 1:
            raise training.Interrupted(15, 2)
        return trains(run, **options)

    def trains(run, **options):
        trained.append(run.workdir.name)
        return plain(run, **options)

    monkeypatch.setattr(training, "train", dies_in_the_second)
    workdir = tmp_path / "zero"
    with pytest.raises(training.Interrupted):
        experiments.run(experiments.prepare(config(), workdir))
    monkeypatch.setattr(training, "train", trains)
    capsys.readouterr()
    page = experiments.run(experiments.prepare(config(), workdir))
    said = capsys.readouterr().out
    names = ["all-hfvae", "pruned-hfvae", "all-beta_vae", "pruned-beta_vae"]
    assert trained == names
    for number, name in enumerate(names, start=1):
        assert f"stage {number} of 4: {name}" in said
    assert "left in all" in said
    assert page.name == "report.html" and "Unseen combinations" in page.read_text()
    assert "Differences from the paper" in page.read_text()

    # The pruned training set lacks exactly the removed combinations.
    whole, pruned = (
        training.prepare(training.read_config(folder), folder)
        for folder in (workdir / "all-hfvae", workdir / "pruned-hfvae")
    )
    removed = np.load(workdir / "held_out.npy")
    assert len(removed) and set(whole.train_set.factors(removed)[:, 0]) == {0, 2}
    left = np.setdiff1d(whole.train_set.indices, removed)
    np.testing.assert_array_equal(pruned.train_set.indices, left)
    assert len(removed) == pytest.approx(
        0.3
        * np.isin(whole.train_set.factors(whole.train_set.indices)[:, 0], (0, 2)).sum(),
        rel=0.02,
    )

    result = json.loads((workdir / "result.json").read_text())
    assert set(result["values"]["errors"]) == {
        f"{part}-{method}"
        for part in ("all", "pruned")
        for method in ("hfvae", "beta_vae")
    }
    assert set(result["values"]["features"]) == {"ink", "width"}
    assert result["commit"] and result["versions"]["jax"]

    # Again: nothing is trained, the same numbers are found.
    experiments.run(experiments.prepare(config(), workdir))
    said = capsys.readouterr().out
    assert said.count("already trained and evaluated") == 4
    assert (
        json.loads((workdir / "result.json").read_text())["values"] == result["values"]
    )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"label": "shap"}, "did you mean 'shape'"),
        ({"combinations": ((3, "ink", "high"),)}, "a class below 3"),
        ({"combinations": ((0, "ink", "up"),)}, "one of ('low', 'high')"),
        ({"combinations": ((0, "high"),)}, "one of ('ink', 'width')"),
        ({"combinations": ()}, "must not be empty"),
        ({"share": 0.5}, "must lie in (0, 0.5)"),
        ({"sahre": 0.2}, "did you mean 'share'"),
        ({"name": "zeroshot"}, "did you mean 'zero_shot'"),
        ({"baseline": "beta_va"}, "did you mean 'beta_vae'"),
    ],
)
def test_contradictions_are_reported_before_training(tmp_path, options, message):
    with pytest.raises(ValueError) as error:
        experiments.prepare(config(**options), tmp_path / "zero")
    assert message.lower() in str(error.value).lower()
    assert not (tmp_path / "zero").exists()


def test_another_config_in_the_same_folder_is_refused(tmp_path, monkeypatch):
    changed = config()
    training.start_workdir(changed, tmp_path)
    changed.experiment.share = 0.1
    with pytest.raises(ValueError, match="experiment.share was"):
        experiments.prepare(changed, tmp_path)
