"""A config that trains in a second: a small perceptron on rendered 3D Shapes."""

import pathlib

import jax
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import training

ROOT = pathlib.Path(__file__).parents[2]


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


def topics(**fields):
    """Returns a topic model's config: four topics, thirty words, ``section__field``."""
    made = config_lib.load(f"{ROOT}/configs/topics.py:quick")
    made.data.options = {"documents": 200, "topics": 4, "vocabulary_size": 30}
    made.model.latent_dim = 4
    made.model.width = 8
    made.train.update(
        batch_size=20, num_steps=200, log_every=100, checkpoint_every=200,
        steps_per_dispatch=20,
    )  # fmt: skip
    made.eval.batch_size = 16
    for name, value in fields.items():
        section, field = name.split("__")
        made[section][field] = value
    return made


def absae(**method):
    """Returns a config whose codes lie in 27 labelled regions."""
    small = config()
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


def absae_labelled():
    """Returns the config of :func:`absae` with labelled images in every step."""
    return absae(name="absae_labelled", labelled_batch=4)


def trained_lanes(workdir):
    """Trains two values of beta as lanes for two steps; returns the run."""
    lanes = config(num_steps=2, checkpoint_every=2, log_every=1)
    lanes.method.name = "beta_vae"
    lanes.lanes.sweep["method.beta"] = (1.0, 8.0)
    with pytest.MonkeyPatch.context() as patch:
        show_devices(patch, 1)
        run = training.prepare(lanes, workdir)
        training.train(run)
        return run


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
