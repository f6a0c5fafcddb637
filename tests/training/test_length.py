"""The length of training, in steps or in epochs of the training set."""

import numpy as np
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import data, training
from tests.training import tiny


def test_epochs_are_passes_over_the_set_at_hand(tmp_path):
    config = tiny.config(num_steps=0, num_epochs=3, steps_per_dispatch=2)
    config.data.name = "xysquares"
    run = training.prepare(config, tmp_path / "all")
    size = len(data.load("xysquares").indices)
    assert run.config.train.num_steps == (3 * size // 8) // 2 * 2
    assert run.config.train.num_epochs == 0  # resolved: this config can be stored
    assert config.train.num_epochs == 3
    # The same epochs of half the images are half the steps.
    np.save(tmp_path / "held_out.npy", data.load("xysquares").indices[::2])
    config.data.hold_out = str(tmp_path / "held_out.npy")
    half = training.prepare(config, tmp_path / "half").config.train.num_steps
    assert abs(half - run.config.train.num_steps / 2) <= 2
    config.data.hold_out = ""
    config.data.train_split = "train+validation"
    more = training.prepare(config, tmp_path / "more")
    assert len(more.train_set.indices) == pytest.approx(size * 8 / 7, abs=1)
    assert more.config.train.num_steps > run.config.train.num_steps


@pytest.mark.parametrize("steps, epochs", [(5, 2), (0, 0)])
def test_exactly_one_length_is_given(steps, epochs, tmp_path):
    config = tiny.config(num_steps=steps, num_epochs=epochs)
    with pytest.raises(ValueError, match="one of `train.num_steps` and `train.num_ep"):
        training.prepare(config, tmp_path)


def test_a_given_length_replaces_the_other():
    def lengths(*overrides, **train):
        made = config_lib.override(tiny.config(**train), overrides).train
        return made.num_steps, made.num_epochs

    steps, epochs = "--config.train.num_steps=7", "--config.train.num_epochs=2"
    assert lengths(steps, num_steps=0, num_epochs=200) == (7, 0)
    assert lengths(epochs, num_steps=300) == (0, 2)
    assert lengths(steps, epochs) == (7, 2)  # refused when the run is prepared
    assert lengths("--config.train.seed=1", num_steps=0, num_epochs=9) == (0, 9)
