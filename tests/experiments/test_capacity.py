"""Capacity: stages that continue, and from which capacity on a factor is known."""

import numpy as np

from disentangle_jax import evaluation, training
from disentangle_jax.experiments import capacity
from tests.experiments import made


def test_capacity_goes_on_from_stage_to_stage(tmp_path, monkeypatch):
    monkeypatch.setattr(capacity, "_IMAGES", 20)  # A batch of 16 and a part of one.
    tested = made.config("capacity", capacities=(1.0, 4.0), pairs=50)
    tested.method = {"name": "annealed_vae"}
    tested.optimizer.learning_rate = 0.05  # Divergences that are not near zero.
    values = made.values(tested, tmp_path)
    assert list(values["capacities"]) == ["1", "4"]
    measured = values["capacities"]["4"][0]
    assert len(measured["divergences"]) == 3 and min(measured["divergences"]) >= 0
    assert len(measured["known"]) == 6
    second = training.read_config(tmp_path / "capacity-4")
    assert second.train.start_from == "{workdir}/../capacity-1"
    assert (second.method.c_max, second.method.threshold) == (4.0, 1.0)
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
