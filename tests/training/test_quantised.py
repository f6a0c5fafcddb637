"""Runs with quantised codes: meshes, resuming, evaluation, decay of weights."""

import jax
import numpy as np
import pytest

from disentangle_jax import evaluation, reports, training
from disentangle_jax.reports import explorer
from disentangle_jax.training import program as program_lib
from tests.training import tiny

METHODS = {
    "qlae": {"values": 4},
    "tripod": {"levels": 5, "activations": ("layer_2", "layer_3"), "epsilon": 5.0},
}


def config(name, **train):
    made = tiny.config(**{"num_steps": 6, "checkpoint_every": 3, **train})
    made.method = {"name": name, **METHODS[name]}
    made.optimizer.eps = 1e-3
    made.eval.scores = ("mig", "info_mec")
    return made


@pytest.fixture(scope="module", params=METHODS)
def whole(request, tmp_path_factory):
    """A run that was trained without a break, and its last state."""
    with pytest.MonkeyPatch.context() as patch:
        tiny.show_devices(patch, 1)
        folder = tmp_path_factory.mktemp("quantised")
        run = training.prepare(config(request.param), folder)
        return request.param, run, training.train(run)


def test_eight_devices_equal_one(whole, tmp_path, devices):
    name, _, carry = whole
    devices(8)
    sharded = training.train(training.prepare(config(name), tmp_path))
    assert len(sharded.alive.sharding.device_set) == 8
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5),
        sharded.state.params,
        carry.state.params,
    )


def test_lane_equals_its_solo_run(whole, tmp_path):
    # A few steps only: a code that lies between two values may be rounded to the other
    # one by a lane, whose sums are rounded differently.
    name, _, carry = whole
    made = config(name)
    made.lanes.rows = ({"train.seed": 5}, {"train.seed": 0})
    laned = training.train(training.prepare(made, tmp_path))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a[1], b[0], atol=1e-5),
        laned.state.params,
        carry.state.params,
    )
    gaps = jax.tree.map(lambda a: np.abs(a[0] - a[1]).max(), laned.state.params)
    assert max(jax.tree.leaves(gaps)) > 1e-2


def test_resumed_run_equals_uninterrupted(whole, tmp_path):
    name, _, carry = whole
    training.train(training.prepare(config(name, num_steps=3), tmp_path))
    resumed = training.train(training.prepare(config(name), tmp_path))
    jax.tree.map(np.testing.assert_array_equal, resumed, carry)


def test_scores_and_traversals_are_those_of_the_values(whole):
    name, run, _ = whole
    evaluation.evaluate(run)
    model = evaluation.load(run.workdir, with_dataset=True)
    values = np.asarray(model.run.method.latent_values(model.state, None, 9))
    count = 4 if name == "qlae" else 5
    assert values.shape == (3, count)
    images = run.test_set.images(run.test_set.indices[:20])
    codes = model.encode(images)
    for d in range(3):
        assert set(codes[:, d]) <= set(values[d])
    walks = evaluation.read_arrays(run.workdir)["traversals"]
    assert walks.shape[:3] == (2, 3, count)
    walk = model.traverse(codes[0], codes)
    for d in range(3):
        for number in range(count):
            changed = codes[:1].copy()
            changed[0, d] = values[d, number]
            np.testing.assert_array_equal(walk[d, number], model.decode(changed)[0])
    subject = explorer._subject(model)
    np.testing.assert_array_equal(subject.values, values)
    assert set(subject.bank[:, 0]) <= set(subject.values[0])
    reports.write(run.workdir)
    assert "Latent traversals 1" in (run.workdir / "report.html").read_text()


def test_weights_decay_and_biases_do_not(tmp_path):
    states = []
    for number, decay in enumerate((0.0, 0.5)):
        made = config("qlae", num_steps=1, checkpoint_every=1, log_every=1)
        made.optimizer.update(weight_decay=decay, clip=1.0, learning_rate=1e-2)
        run = training.prepare(made, tmp_path / str(number))
        start = jax.jit(lambda run=run: program_lib.initial(run))()
        states.append(training.train(run).state.params)
    gaps = jax.tree.map(lambda a, b: np.asarray(a - b), *states)
    for path, gap in jax.tree.leaves_with_path(gaps):
        before = start.state.params
        for entry in path:
            before = before[entry.key]
        decayed = 0.5 * 1e-2 * np.asarray(before) * (path[-1].key == "kernel")
        np.testing.assert_allclose(gap, decayed, atol=1e-7)
