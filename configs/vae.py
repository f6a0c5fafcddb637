"""Variational autoencoder on the hourglass networks.

Paper: "Structure by Architecture: Disentangled Representations without Regularization",
Secs. 3 and A.2.

Command::

    python -m disentangle_jax.main --config=configs/vae.py

``--config.method.kl=sae_code`` uses the KL of the published code.
``--config=configs/vae.py:quick`` has 16 channels and fewer steps, for a 2-core CPU.

Expected: blurrier reconstructions than those of SAE-12 (paper, Fig. 2).
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("vae", preset, ("quick",))
    config = config_lib.default()
    config.model.name = "vae"
    config.model.latent_dim = 12
    config.model.channels = 64
    config.method.name = "vae"
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channels = 16
    return config
