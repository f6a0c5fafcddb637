"""Wasserstein autoencoder with the inverse-multiquadric MMD.

Paper: "Structure by Architecture: Disentangled Representations without Regularization",
Secs. 3 and A.2.

Command::

    python -m disentangle_jax.main --config=configs/wae.py

``--config.method.mmd_compat="sae_code"`` divides the MMD by the batch size once more,
as the published code does. ``--config=configs/wae.py:quick`` has 16 channels and fewer
steps, for a 2-core CPU.

Expected: close to the plain autoencoder (paper, Table 1).
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("wae", preset, ("quick",))
    config = config_lib.default()
    config.model.name = "wae"
    config.model.latent_dim = 12
    config.model.channels = 64
    config.method.name = "wae"
    config.method.lambda_ = 10.0
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channels = 16
    return config
