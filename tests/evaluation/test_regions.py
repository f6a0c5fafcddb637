"""Runs whose codes lie in regions: the fit between steps, lanes, scores and page."""

import json
import shutil

import jax
import numpy as np
import pytest

from disentangle_jax import reports, training
from disentangle_jax.training import lanes
from disentangle_jax.training import program as program_lib
from tests.training import tiny


def config(**method):
    small = tiny.config()
    small.data.name = "rendered_dsprites_27"
    small.data.options.noisy_copies = 0
    small.model.latent_dim = 4
    small.method = {
        "name": "absae",
        "relation_batch": 4,
        "warmup_steps": 4,
        "tau": 3.0,
        "width": 8,
        "depth": 1,
        **method,
    }
    small.optimizer.eps = 1e-3
    small.train.input = "device"
    return small


def same(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


def near(left, right):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-5), left, right
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that was trained without a break and evaluated."""
    with pytest.MonkeyPatch.context() as patch:
        tiny.show_devices(patch, 1)
        folder = tmp_path_factory.mktemp("regions") / "run"
        run = training.prepare(config(labelled_batch=4), folder)
        carry = training.train(run)
        scores = training.evaluate(run)
        return run, carry, scores


def test_the_fit_happens_once_and_survives_a_break(finished, tmp_path):
    run, carry, _ = finished
    assert [s for s in range(13) if program_lib.fits_before(run, s)] == [4]
    assert carry.state.model_state["prior"]["present"].all()
    # Again from the checkpoint that was saved at the end of the warm-up.
    shutil.copytree(run.workdir, tmp_path / "again")
    for step in (8, 12):
        shutil.rmtree(tmp_path / "again" / "checkpoints" / str(step))
    again = training.train(training.prepare(run.config, tmp_path / "again"))
    same(again.state, carry.state)


def test_refits_where_asked(tmp_path):
    run = training.prepare(config(refit_every=3), tmp_path)
    steps = [s for s in range(13) if program_lib.fits_before(run, s)]
    assert steps == [4, 7, 10]


def test_lanes_of_seeds_and_tau_equal_solo(tmp_path):
    many = config(labelled_batch=4)
    many.train.update(num_steps=8, checkpoint_every=8)
    many.lanes.seeds = 5
    many.lanes.sweep["method.tau"] = (2.0, 3.0)
    run = training.prepare(many, tmp_path / "lanes")
    carry = training.train(run)
    number = 3  # tau 2, seed 3
    alone = lanes.config_of(many, run.lanes[number])
    assert alone.method.tau == 2 and alone.train.seed == 3
    solo = training.train(training.prepare(alone, tmp_path / "solo"))
    lane = lanes.take(carry.state, number)
    near(lane.params, solo.state.params)
    near(lane.model_state, solo.state.model_state)
    other = lanes.take(carry.state, 8)  # tau 3, the same seed
    gap = np.abs(
        other.model_state["prior"]["means"] - solo.state.model_state["prior"]["means"]
    )
    assert gap.max() > 1e-3


def test_eight_devices_equal_one(finished, tmp_path, devices):
    _, carry, _ = finished
    devices(8)
    eight = training.train(training.prepare(config(labelled_batch=4), tmp_path))
    near(eight.state.params, carry.state.params)
    near(eight.state.model_state, carry.state.model_state)


def test_scores_of_regions_and_relations(finished):
    run, _, scores = finished
    found = scores["regions"]
    assert found["fitted"] == found["regions"] == 27
    assert found["factor_sizes"] == [3, 3, 3] and found["tau"] == 3
    assert len(found["clusters"]) == 2 * 6 and len(found["relations"]) == 2 * 3 * 12
    everything = found["clusters"][0]
    assert everything["alpha"] == 0 and everything["accepted"] == 1
    for rows in (
        found["clusters"],
        [r for r in found["relations"] if (r["source"], r["depth"]) == ("images", 5)],
    ):
        for row in rows:
            if row["accepted"] and rows is found["clusters"]:
                right = row["accuracy"] * row["accepted"]
                assert right <= everything["accuracy"] + 1e-9
            assert (row["accuracy"] is None) == (row["accepted"] == 0)
    assert set(found["factor_codes"]) == {"dci", "mig", "sap"}
    stored = json.loads((run.workdir / "scores.json").read_text())
    assert stored["regions"] == json.loads(json.dumps(found))


def test_page_shows_regions_and_relations(finished):
    run, _, _ = finished
    page = reports.write(run.workdir).read_text()
    for text in (
        "Which region does a test image fall into?",
        "Do relations lead to the right region?",
        "Are outliers rejected?",
        "Three relations, one after the other",
        "Means of the regions",
    ):
        assert text in page
    for name in ("region_means", "relations", "relation_chains"):
        content = (run.workdir / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG")
    pictures = np.load(run.workdir / "pictures.npz")
    assert pictures["region_means"].shape == (27, 64, 64, 1)
    assert pictures["relation_strips"].shape == (5 * 6, 3, 64, 64, 1)
    assert pictures["chain_strips"].shape == (6, 5, 64, 64, 1)
    assert pictures["chains"].shape == (6, 3)


def test_wrong_configs(tmp_path):
    short = config()
    short.train.update(num_steps=4)
    several = config()
    several.train.update(steps_per_dispatch=2, log_every=2, checkpoint_every=4)
    several.method.refit_every = 3
    own = config()
    own.train.input = "stream"
    own.lanes.update(seeds=2, same_batches=False)
    plain = config()
    plain.method.tau = 0.0
    for wrong, message in (
        (short, "must be more than the 4 steps of `method.warmup_steps`"),
        (several, "`method.refit_every` must be a multiple of the 2 steps"),
        (own, "`lanes.same_batches` must be True"),
        (plain, "`method.tau` must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            training.prepare(wrong, tmp_path)
