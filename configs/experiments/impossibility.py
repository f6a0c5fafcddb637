"""Impossibility: an entangled code with the same distribution of codes and images.

Paper: Locatello et al., "Challenging Common Assumptions in the Unsupervised Learning of
Disentangled Representations", Theorem 1.

Command::

    python -m disentangle_jax.main --config=configs/experiments/impossibility.py

trains a beta-VAE of the study on a rendered dSprites, which needs no download, and
turns its code by the bijection of the proof. ``:quick`` takes a few minutes on a 2-core
CPU.

Expected: both codes have the same distribution, divergence and images, and the scores
of the turned code are lower.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("experiments/impossibility", preset, ("quick",))
    config = config_lib.study()
    config.data.split_recipe = "none"
    config.method.name = "beta_vae"
    config.method.beta = 8.0
    config.train.input = "device"
    config.eval.scores = (
        *("beta_vae_score", "factor_vae_score", "mig", "dci", "modularity", "sap"),
    )
    config.experiment = experiment = ConfigDict()
    experiment.name = "impossibility"
    experiment.alpha = 0.3  # of the matrix of the proof
    experiment.samples = 20_000  # draws of the prior
    if preset == "quick":
        config = config_lib.quick(config)
        config.method.beta = 1.0
        config.eval.scores = ("mig", "dci")
        experiment.samples = 2000
    return config
