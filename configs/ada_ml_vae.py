"""Ada-ML-VAE: Ada-GVAE with the product of the shared posteriors.

Paper: Locatello et al., "Weakly-Supervised Disentanglement Without Compromises".

Command::

    python -m disentangle_jax.main --config=configs/ada_ml_vae.py

trains on pairs that differ in k ~ U[1, K] factors.
``--config=configs/ada_ml_vae.py:quick`` takes a few minutes on a 2-core CPU.

Expected: scores close to those of Ada-GVAE.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("ada_ml_vae", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "ada_ml_vae"
    config.method.beta = 1.0
    if preset == "quick":
        config = config_lib.quick(config)
    return config
