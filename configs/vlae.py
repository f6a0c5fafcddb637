"""Variational ladder autoencoder, VLAE-12.

Paper: "Structure by Architecture: Disentangled Representations without Regularization",
Secs. 3 and A.2.1, after Zhao et al. 2017.

Command::

    python -m disentangle_jax.main --config=configs/vlae.py

``--config=configs/vlae.py:quick`` has 32 channels and fewer steps, for a 2-core CPU.

Expected: ordered latents, and blurrier reconstructions than those of SAE-12 (paper,
Figs. 2 and 4).
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("vlae", preset, ("quick",))
    config = config_lib.default()
    config.model.name = "vlae-12"
    config.model.latent_dim = 12
    config.model.channels = 64
    config.method.name = "vlae"
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channels = 32
    return config
