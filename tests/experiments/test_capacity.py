"""Capacity: stages that continue, and from which capacity on a factor is known."""

import numpy as np

from disentangle_jax import config as config_lib
from disentangle_jax import evaluation, training
from disentangle_jax.experiments import capacity
from tests.experiments import made
from tests.training import tiny


def test_capacity_goes_on_from_stage_to_stage(tmp_path, monkeypatch):
    monkeypatch.setattr(capacity, "_IMAGES", 20)  # A batch of 16 and a part of one.
    tested = made.config("capacity", capacities=(1.0, 4.0), pairs=50)
    tested.method = {"name": "annealed_vae"}
    tested.train.num_steps = 8
    tested.optimizer.learning_rate = 0.05  # Divergences that are not near zero.
    values = made.values(tested, tmp_path)
    assert list(values["capacities"]) == ["1", "4"]
    measured = values["capacities"]["4"][0]
    assert len(measured["divergences"]) == 3 and min(measured["divergences"]) >= 0
    assert len(measured["known"]) == 6
    second = training.read_config(tmp_path / "capacity-4")
    assert second.train.start_from == "{workdir}/../capacity-1"
    # The capacity grows linearly over both stages, 4 nats in 8 steps.
    first = training.read_config(tmp_path / "capacity-1")
    for stage, start, end, steps in ((first, 0.0, 1.0, 2), (second, 1.0, 4.0, 6)):
        method = stage.method
        assert (method.c_start, method.c_max) == (start, end)
        assert method.threshold == stage.train.num_steps == steps
    assert (first.data.seed, second.data.seed) == (0, 1)
    assert (tmp_path / "reconstructions.png").exists()
    assert "Differences from the paper" in (tmp_path / "report.html").read_text()
    # By hand, over all of the images.
    model = evaluation.load(tmp_path / "capacity-4")
    test_set = model.run.test_set
    chosen = np.random.default_rng(0).permutation(test_set.indices)[:20]
    x = (test_set.images(chosen) / 255).astype(np.float32)
    mean, log_var, _ = model.run.method.encode(model.state, x)
    kl = 0.5 * np.mean(mean**2 + np.exp(log_var) - 1 - log_var, axis=0)
    np.testing.assert_allclose(measured["divergences"], kl, rtol=1e-4)


def test_a_factor_is_known_from_where_it_stays_known():
    shares = {0.0: [0.3], 1.0: [0.0, 0.1], 2.0: [0.2, 0.4], 3.0: [0.5]}
    assert capacity.first_known(shares, 0.25) == 2.0
    assert capacity.first_known(shares, 0.6) is None


def test_the_paper_has_its_network_and_length():
    config = config_lib.load(f"{tiny.ROOT}/configs/experiments/capacity.py")
    stages = capacity.Capacity().stages(config, None)
    assert sum(stage.fields["train.num_steps"] for stage in stages) == 100_000
    assert stages[-1].fields["method.c_max"] == 25.0
    assert config.model.kernel_variant == "burgess"
    assert not config.lanes.sweep and config.data.split_recipe == "none"
