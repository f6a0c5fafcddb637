"""Each term of the ELBO removed in turn: rows, refusals, and a page."""

import json
import pathlib

import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import experiments
from disentangle_jax.methods.weighted_elbo import WEIGHTS
from disentangle_jax.training import lanes

FILE = pathlib.Path(__file__).parents[2] / "configs" / "experiments" / "elbo_terms.py"


def load(*overrides):
    return config_lib.load(f"{FILE}:quick", overrides)


def test_five_objectives_share_a_program(tmp_path):
    (pack,) = experiments.prepare(load(), tmp_path).packs
    weights = [
        tuple(lane.hyper[weight] for weight in WEIGHTS)
        for lane in lanes.expand(pack.config)
    ]
    assert weights == [
        (1, 1, 1, 1),
        (0, 1, 1, 1),
        (1, 0, 1, 1),
        (1, 1, 0, 1),
        (1, 1, 1, 0),
    ]


@pytest.mark.parametrize(
    "override", ["--config.method.name=vae", "--config.model.latent_dim=3"]
)
def test_contradictions(override, tmp_path):
    with pytest.raises(ValueError, match="`method.name` must be 'weighted_elbo' and"):
        experiments.prepare(load(override), tmp_path)


def test_page(tmp_path):
    config = load(
        "--config.train.num_steps=4",
        "--config.train.log_every=2",
        "--config.train.checkpoint_every=4",
        "--config.train.batch_size=8",
        "--config.model.widths=(8,)",
        "--config.model.head_width=8",
        "--config.eval.num_train=40",
        "--config.eval.num_test=20",
    )
    page = experiments.run(experiments.prepare(config, tmp_path)).read_text()
    for text in ("Where the posteriors", "Differences from the paper", "without ④"):
        assert text in page
    values = json.loads((tmp_path / "result.json").read_text())["values"]
    assert [name[0] for name in values] == list("ABCDE")
    for (one,) in values.values():
        log_likelihood = one["identifiability"] + one["evidence"]
        assert log_likelihood == pytest.approx(-one["reconstruction"], rel=1e-4)
