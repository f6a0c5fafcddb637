"""A config that trains in a second: a small perceptron on rendered 3D Shapes."""

import jax
import pytest

from disentangle_jax import config as config_lib


def config(**train):
    """Returns the tiny config, with fields of its train section changed."""
    tiny = config_lib.default()
    tiny.model.name = "fc1200"
    tiny.model.width = 8
    tiny.model.latent_dim = 3
    tiny.method.name = "vae"
    tiny.train.batch_size = 8
    tiny.train.num_steps = 12
    tiny.train.log_every = 2
    tiny.train.checkpoint_every = 4
    tiny.eval.num_train = 40
    tiny.eval.num_test = 20
    tiny.eval.batch_size = 16
    tiny.eval.scores = ("mig",)
    tiny.eval.hybrid_bank = 8
    tiny.train.update(train)
    return tiny


_device_list = jax.devices


def show_devices(patch: pytest.MonkeyPatch, count: int) -> None:
    """Lets runs see the first `count` of the virtual devices."""
    patch.setattr(jax, "devices", lambda *_: _device_list()[:count])
    patch.setattr(jax, "device_count", lambda: count)


FILE = """
from tests.training import tiny

def get_config(preset=""):
    return tiny.config(num_steps=200, log_every=2, checkpoint_every=10)
"""
