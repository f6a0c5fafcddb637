"""The smallest configs of protocols, and how to run one."""

import json
import pathlib

import pytest
from ml_collections import ConfigDict

from disentangle_jax import experiments
from disentangle_jax.experiments import systems
from tests.training import tiny


def config(name, **options):
    """Returns a protocol that trains each model for two steps."""
    made = tiny.config(num_steps=2, log_every=1, checkpoint_every=2)
    made.method.name = "ae"  # The default: most protocols choose methods themselves.
    made.experiment = ConfigDict({"name": name, **options})
    return made


def values(tested: ConfigDict, workdir: pathlib.Path) -> dict:
    """Runs a protocol; returns its values."""
    page = experiments.run(experiments.prepare(tested, workdir))
    assert page.exists()
    return json.loads((workdir / "result.json").read_text())["values"]


def use_small_systems(patch: pytest.MonkeyPatch) -> None:
    """Replaces the networks of two models by perceptrons, which compile fast."""
    small = {"ae": ("fc1200", "ae"), "beta_vae": ("fc1200", "beta_vae")}
    patch.setattr(systems, "_BASELINES", small)
