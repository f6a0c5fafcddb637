"""Impossibility: an entangled code with the same distribution of codes and images.

Paper: Locatello et al., "Challenging Common Assumptions in the Unsupervised Learning of
Disentangled Representations", Theorem 1.

Command::

    python -m disentangle_jax.main --config=configs/experiments/impossibility.py

trains a beta-VAE of the study on a rendered dSprites, which needs no download, and
turns its code by the bijection of the proof. ``:quick`` takes a few minutes on a 2-core
CPU. ``:mini`` is a miniature: images of 32 px, half of the channels, 15,000 steps,
three seeds, and beta 2, because images of a quarter of the pixels have smaller errors.

Expected: both codes have the same distribution, divergence and images, and the scores
of the turned code are lower.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("experiments/impossibility", preset, ("quick", "mini"))
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
    if preset == "mini":
        config = config_lib.mini(config, size=32, num_steps=15_000)
        config.model.channel_scale = 0.5
        config.method.beta = 2.0
        config.optimizer.learning_rate = 1e-3
        config.lanes.seeds = 3
        config.eval.scores = ("mig", "dci", "sap")
    if preset == "quick":
        config = config_lib.quick(config)
        config.method.beta = 1.0
        config.eval.scores = ("mig", "dci")
        experiment.samples = 2000
    return config
