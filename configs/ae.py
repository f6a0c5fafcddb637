"""Hourglass autoencoder, the plain baseline.

Paper: "Structure by Architecture: Disentangled Representations without Regularization",
Secs. 3 and A.2.

Command::

    python -m disentangle_jax.main --config=configs/ae.py

takes 100,000 steps and needs an accelerator. ``--config=configs/ae.py:quick`` has 16
channels and fewer steps, for a 2-core CPU.

Expected: reconstructions as good as those of SAE-12, lower disentanglement (paper,
Table 1).
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("ae", preset, ("quick",))
    config = config_lib.default()
    config.model.name = "ae"
    config.model.latent_dim = 12
    config.model.channels = 64
    config.method.name = "ae"
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channels = 16
    return config
