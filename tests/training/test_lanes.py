"""A lane is the run that its config alone would give; a poisoned one hurts nobody."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import evaluation, rows, training
from disentangle_jax.training import lanes
from disentangle_jax.training import program as program_lib
from tests.training import tiny


def laned(method="beta_vae", **method_fields):
    config = tiny.config(num_steps=50, log_every=10, checkpoint_every=50)
    config.method.name = method
    config.method.update(method_fields)
    config.model.width = 16
    config.model.latent_dim = 6
    # Adam divides by the size of a gradient: with its usual eps, rounding decides
    # the direction of an update whose gradient is almost zero.
    config.optimizer.eps = 1e-3
    return config


CASES = {
    "beta_vae": ({"beta": 1.0}, "method.beta", (1.0, 4.0)),
    "factor_vae": ({"gamma": 1.0, "critic_width": 16}, "method.gamma", (1.0, 20.0)),
    "ada_gvae": ({}, "method.beta", (1.0, 4.0)),
    "control_vae": ({"threshold": 20.0}, "method.c_max", (2.0, 8.0)),
    "slow_vae": ({}, "method.gamma", (1.0, 10.0)),
    "bio_ae": ({}, "method.lambda_activity", (0.01, 1.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_lane_equals_its_solo_run(tmp_path, name):
    fields, swept, values = CASES[name]
    config = laned(name, **fields)
    config.lanes.seeds = 4
    config.lanes.sweep[swept] = values
    run = training.prepare(config, tmp_path / "lanes")
    assert len(run.lanes) == 8
    carry = training.train(run)
    number = 6  # The second value, the third seed.
    assert run.lanes[number].name == f"{swept.split('.')[1]}={values[1]:g},seed=2"
    alone = rows.alone(config, run.lanes[number].fields)
    solo = training.train(training.prepare(alone, tmp_path / "solo"))
    lane, solo = lanes.take(carry.state, number), lanes.take(solo.state, 0)
    scale = max(float(np.abs(p).max()) for p in jax.tree.leaves(solo.params))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * scale),
        lane.params,
        solo.params,
    )
    # And the others are other models.
    other = lanes.take(carry.state, 0)
    gaps = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), lane, other)
    assert max(jax.tree.leaves(gaps.params)) > 1e-2


@pytest.mark.parametrize(
    "method, source, own",
    [
        ("beta_vae", "stream", False),
        ("beta_vae", "stream", True),
        ("beta_vae", "device", True),
        ("ada_gvae", "device", True),
    ],
)
def test_lanes_with_batches_of_their_own_equal_solo_too(tmp_path, method, source, own):
    config = laned(method, beta=1.0)
    config.train.update(num_steps=10, checkpoint_every=10, input=source)
    config.lanes.update(seeds=2, same_batches=not own)
    run = training.prepare(config, tmp_path / "lanes")
    carry = training.train(run)
    alone = rows.alone(config, run.lanes[1].fields)
    assert alone.data.seed == (1 if own else 0)
    solo = training.train(training.prepare(alone, tmp_path / "solo"))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
        lanes.take(carry.state.params, 1),
        lanes.take(solo.state.params, 0),
    )


def test_poisoned_lane_is_frozen_and_the_others_do_not_notice(tmp_path, capsys):
    config = laned(beta=1.0)
    config.train.update(num_steps=12, log_every=4, checkpoint_every=4)
    config.lanes.sweep["optimizer.learning_rate"] = (1e-3, 1e30, 1e-2)
    poisoned = training.prepare(config, tmp_path / "poisoned")
    carry = training.train(poisoned)
    said = capsys.readouterr().out
    assert "lane learning_rate=1e+30,seed=0 became non-finite at step 2" in said
    assert "2 lanes go on" in said
    np.testing.assert_array_equal(carry.alive, [True, False, True])
    np.testing.assert_array_equal(carry.state.step, [12, 1, 12])
    for leaf in jax.tree.leaves(carry.state.params):
        assert np.isfinite(leaf).all()  # The frozen lane keeps its last good state.
    config.lanes.sweep["optimizer.learning_rate"] = (1e-3, 2e-3, 1e-2)
    healthy = training.train(training.prepare(config, tmp_path / "healthy"))
    for number in (0, 2):
        jax.tree.map(
            np.testing.assert_array_equal,
            lanes.take(carry.state, number),
            lanes.take(healthy.state, number),
        )
    folders = [model.workdir for model in poisoned.models()]
    assert training.read_metrics(folders[1]) == []
    written = training.read_metrics(folders[2])
    assert [row["step"] for row in written] == [4, 8, 12]


def test_all_lanes_dead_stops_the_run(tmp_path):
    config = laned(beta=1.0)
    config.lanes.sweep["optimizer.learning_rate"] = (1e30, 1e31)
    with pytest.raises(training.NonFiniteLoss, match="no checkpoint was saved yet"):
        training.train(training.prepare(config, tmp_path))


@pytest.mark.parametrize("chunk, same_batches", [(2, True), (0, True), (0, False)])
def test_chunks_and_dispatches_of_several_steps_change_nothing(
    chunk, same_batches, tmp_path
):
    config = laned(beta=1.0)
    config.train.update(num_steps=12, log_every=4, checkpoint_every=12)
    config.lanes.update(seeds=4, same_batches=same_batches)
    plain = training.train(training.prepare(config, tmp_path / "plain"))
    config.lanes.chunk = chunk
    config.train.steps_per_dispatch = 4
    chunked = training.train(training.prepare(config, tmp_path / "chunked"))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        plain.state.params,
        chunked.state.params,
    )
    written = [
        training.read_metrics(tmp_path / kind / "lanes" / "seed=3")
        for kind in ("plain", "chunked")
    ]
    for left, right in zip(*written, strict=True):
        assert left["loss"] == pytest.approx(right["loss"], rel=1e-5)


@pytest.mark.parametrize("mesh, together", [((1, 8), 1), ((2, 4), 5), ((8, 1), 1)])
def test_meshes_equal_one_device(tmp_path, mesh, together, devices):
    config = laned(beta=1.0)
    config.train.update(num_steps=5, log_every=5, checkpoint_every=5)
    config.lanes.seeds = 8
    config.train.update(mesh=mesh, steps_per_dispatch=together)
    devices(8)
    sharded = training.train(training.prepare(config, tmp_path / "sharded"))
    kernel = jax.tree.leaves(sharded.state.params)[-1]
    assert kernel.sharding.shard_shape(kernel.shape)[0] == 8 // mesh[0]
    devices(1)
    config.train.mesh = ()
    single = training.train(training.prepare(config, tmp_path / "single"))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        sharded.state.params,
        single.state.params,
    )


def test_resume_with_another_number_of_devices(tmp_path, devices):
    config = laned(beta=1.0)
    config.train.update(num_steps=8, log_every=4, checkpoint_every=4)
    config.lanes.seeds = 2
    whole = training.train(training.prepare(config, tmp_path / "whole"))
    config.train.num_steps = 4
    devices(4)
    training.train(training.prepare(config, tmp_path / "parts"))
    devices(2)
    config.train.num_steps = 8
    carry = training.train(training.prepare(config, tmp_path / "parts"))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
        carry.state.params,
        whole.state.params,
    )


def test_lane_run_resumes_exactly(tmp_path):
    config = laned(beta=1.0)
    config.train.update(num_steps=8, log_every=4, checkpoint_every=4)
    config.train.ema_decay = 0.9
    config.lanes.seeds = 2
    whole = training.train(training.prepare(config, tmp_path / "whole"))
    config.train.num_steps = 4
    training.train(training.prepare(config, tmp_path / "parts"))
    config.train.num_steps = 8
    parts = training.train(training.prepare(config, tmp_path / "parts"))
    jax.tree.map(np.testing.assert_array_equal, parts, whole)


def test_export_writes_an_ordinary_run(tmp_path):
    config = laned(beta=1.0)
    config.train.update(num_steps=4, log_every=2, checkpoint_every=4)
    config.lanes.seeds = 2
    run = training.prepare(config, tmp_path / "lanes")
    carry = training.train(run)
    scores = evaluation.evaluate(run)
    alone = training.export_lane(run, "seed=1", tmp_path / "alone")
    # It is evaluated as any run is, with the same result.
    found = training.prepare(training.read_config(tmp_path / "alone"), alone.workdir)
    assert not found.laned
    own = evaluation.evaluate(found)
    assert own["reconstruction"]["mse"] == pytest.approx(
        scores["seed=1"]["reconstruction"]["mse"], rel=1e-6
    )
    assert own["settings"]["seed"] == 1
    assert [r["step"] for r in training.read_metrics(alone.workdir)] == [2, 4]
    # And goes on for longer.
    longer = training.read_config(tmp_path / "alone")
    longer.train.num_steps = 6
    after = training.train(training.prepare(longer, tmp_path / "alone"))
    assert int(after.step) == 6
    moved = jax.tree.map(
        lambda a, b: float(jnp.abs(a[0] - b[1]).max()), after.state, carry.state
    )
    assert max(jax.tree.leaves(moved.params)) < 0.01
    with pytest.raises(ValueError, match="export_lane: `name` must be one of"):
        training.export_lane(run, "seed=7", tmp_path / "more")
    with pytest.raises(ValueError, match="`workdir` must not exist"):
        training.export_lane(run, "seed=1", tmp_path / "alone")


def test_listed_rows_are_lanes_as_those_of_a_product_are(tmp_path):
    product = laned(beta=1.0)
    product.lanes.seeds = 2
    product.lanes.sweep["method.beta"] = (1.0, 8.0)
    listed = laned(beta=1.0)
    listed.lanes.rows = tuple(
        {"method.beta": beta, "train.seed": seed}
        for beta in (1.0, 8.0)
        for seed in (0, 1)
    )
    run = training.prepare(listed, tmp_path)
    assert run.lanes == training.prepare(product, tmp_path).lanes
    assert run.laned
    # Written and read back, it is the same run; a lane of it has no rows.
    training.start_workdir(listed, tmp_path)
    again = training.read_config(tmp_path)
    assert training.prepare(again, tmp_path).lanes == run.lanes
    fields = run.lanes[3].fields
    assert rows.alone(listed, fields) == rows.alone(product, fields)
    listed.lanes.rows = listed.lanes.rows[:1]
    assert training.prepare(listed, tmp_path / "one").laned


def test_steps_per_dispatch_and_device_input(tmp_path):
    config = laned(beta=1.0)
    config.train.update(
        num_steps=8, log_every=4, checkpoint_every=8, steps_per_dispatch=4
    )
    config.train.input = "device"
    carry = training.train(training.prepare(config, tmp_path / "four"))
    config.train.steps_per_dispatch = 1
    one = training.train(training.prepare(config, tmp_path / "one"))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        carry.state.params,
        one.state.params,
    )


def test_lanes_draw_the_batches_of_their_solo_runs_on_the_device(tmp_path, monkeypatch):
    config = laned(beta=1.0)
    config.train.update(input="device", steps_per_dispatch=2)
    config.lanes.rows = ({"train.seed": 5}, {"train.seed": 7})
    config.lanes.same_batches = False

    def step(self, key, state, batch, hyper):
        return state, {"loss": jnp.float32(0), "image": batch["image"]}

    def images(config):
        """The images of two steps, ``[2, L, B, …]``, that lanes train on."""
        run = training.prepare(config, tmp_path)
        monkeypatch.setattr(type(run.method), "step", step)
        program = program_lib.build(run)
        carry = program_lib.initial(run)
        inputs = {"step": jnp.int32(3), "batches": {}, "constants": program.constants}
        return np.asarray(program.steps(carry, inputs)[1]["image"])

    own = images(config)
    for number, row in enumerate(config.lanes.rows):
        alone = rows.alone(config, row)
        assert alone.data.seed == row["train.seed"]
        np.testing.assert_array_equal(own[:, number], images(alone)[:, 0])
    assert not np.array_equal(own[:, 0], own[:, 1])
    config.lanes.chunk = 1
    np.testing.assert_array_equal(images(config), own)
    config.lanes.same_batches = True
    shared = images(config)
    np.testing.assert_array_equal(shared[:, 0], shared[:, 1])


def test_device_input_moves_nothing_to_the_device(tmp_path):
    config = laned(beta=1.0)
    config.train.input = "device"
    run = training.prepare(config, tmp_path)
    program = program_lib.build(run)
    carry = jax.jit(lambda: program_lib.initial(run))()
    constants = jax.device_put(program.constants)
    inputs = {"step": jnp.int32(0), "batches": {}, "constants": constants}
    steps = jax.jit(program.steps)
    steps(carry, inputs)
    with jax.transfer_guard_host_to_device("disallow"):
        carry, _ = steps(carry, inputs)
    assert int(carry.step) == 1


def test_moving_average_is_scored(tmp_path):
    config = laned(beta=1.0)
    config.train.update(num_steps=3, log_every=1, checkpoint_every=1)
    config.train.ema_decay = 0.5
    run = training.prepare(config, tmp_path)
    # The average of the written-out recursion over the parameters after each step.
    seen = []
    for steps in (1, 2, 3):
        config.train.num_steps = steps
        carry = training.train(training.prepare(config, tmp_path))
        seen.append(carry.state.params)
    first = training.prepare(config, tmp_path / "fresh")
    start = jax.jit(lambda: program_lib.initial(first))().state.params
    expected = start
    for params in seen:
        expected = jax.tree.map(lambda a, p: 0.5 * a + 0.5 * p, expected, params)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7),
        carry.average,
        expected,
    )
    scored = program_lib.evaluated_state(run, carry)
    assert scored.params is carry.average


def test_accumulated_gradients_wait_for_the_last_batch(tmp_path):
    config = laned(beta=1.0)
    config.optimizer.accumulate = 2
    config.train.update(num_steps=1, log_every=1, checkpoint_every=1)
    first = training.train(training.prepare(config, tmp_path))
    run = training.prepare(config, tmp_path)
    start = jax.jit(lambda: program_lib.initial(run))()
    jax.tree.map(np.testing.assert_array_equal, first.state.params, start.state.params)
    config.train.num_steps = 2
    second = training.train(training.prepare(config, tmp_path))
    moved = jax.tree.map(
        lambda a, b: float(np.abs(a - b).max()), second.state.params, start.state.params
    )
    assert min(jax.tree.leaves(moved)) > 0


@pytest.mark.parametrize(
    "change, message",
    [
        ({"lanes.sweep": {"method.beta": (1.0, -1.0)}}, "must be non-negative"),
        (
            {"method.name": "hfvae", "method.temperature": 0.0},
            "`method.temperature` must be positive",
        ),
        ({"lanes.sweep": {"optimizer.learning_rate": (0.0,)}}, "must be positive"),
        ({"lanes.sweep": {"method.beta": ()}}, "must not be empty"),
        ({"lanes.sweep": {"model.width": (8.0,)}}, "change the program"),
        ({"lanes.rows": ({"method.beta": 8.0},)}, "must all give 'train.seed'"),
        (
            {"lanes.rows": ({"train.seed": 0}, {"train.seed": 0})},
            "got two that are named",
        ),
        ({"lanes.sweep": {"method.beta": (1.0, 1.0)}}, "got two that are named"),
        (
            {"lanes.rows": ({"train.seed": 0, "model.width": 8.0},)},
            "change the program",
        ),
        ({"lanes.sweep": {"method.betta": (8.0,)}}, "Did you mean 'method.beta'?"),
        ({"lanes.seeds": 0}, "`lanes.seeds` must be positive"),
        ({"lanes.seeds": 3, "lanes.chunk": 2}, "must divide the 3 lanes"),
        ({"train.mesh": (3, 3)}, "whose product is the 8 devices"),
        ({"train.mesh": (8, 1)}, "dividing the 1 lanes"),
        ({"train.steps_per_dispatch": 3}, "must be a multiple of the 3 steps"),
        ({"train.ema_decay": 1.0}, r"must lie in \[0, 1\)"),
        ({"train.input": "disk"}, "`train.input` must be one of"),
        ({"method.beta": float("nan")}, "finite"),
    ],
)
def test_bad_lanes_are_told_before_compiling(tmp_path, change, message, devices):
    devices(8)
    config = laned(beta=1.0)
    for path, value in change.items():
        section, field = path.split(".")
        config[section][field] = value
    with pytest.raises(ValueError, match=message):
        training.prepare(config, tmp_path)


def test_bad_schedules_are_told_before_compiling(tmp_path):
    config = laned(beta=1.0)
    config.train.schedules.betta = ("linear", 0.0, 1.0, 0, 10)
    with pytest.raises(ValueError, match="Did you mean 'beta'?"):
        training.prepare(config, tmp_path)
    del config.train.schedules.betta
    config.train.schedules.beta = ("linea", 0.0, 1.0, 0, 10)
    with pytest.raises(ValueError, match="Did you mean 'linear'?"):
        training.prepare(config, tmp_path)
    config.train.schedules.beta = ("linear", 0.0)
    with pytest.raises(ValueError, match="missing 3 required positional"):
        training.prepare(config, tmp_path)
