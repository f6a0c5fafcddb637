"""InfoVAE: the KL exchanged for a maximum mean discrepancy.

Paper: Zhao et al., "InfoVAE: Balancing Learning and Inference in Variational
Autoencoders", Eq. 6.

Command::

    python -m disentangle_jax.main --config=configs/info_vae.py

on the networks of the large study. ``--config=configs/info_vae.py:quick`` takes some
minutes on a 2-core CPU.

Expected: mutual information of codes and images stays, the MMD falls.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("info_vae", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "info_vae"
    config.method.alpha = 0.0
    config.method.lambda_ = 1000.0
    if preset == "quick":
        config = config_lib.quick(config)
    return config
