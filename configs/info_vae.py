"""InfoVAE: a VAE whose KL term is replaced by a maximum mean discrepancy (MMD).

Paper: Zhao et al., "InfoVAE: Balancing Learning and Inference in Variational
Autoencoders", Eq. 6.

Command::

    python -m disentangle_jax.main --config=configs/info_vae.py

trains the networks of the large study. ``--config=configs/info_vae.py:quick`` takes a
few minutes on a 2-core CPU.

Expected: the MMD falls while the mutual information of codes and images stays.
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
