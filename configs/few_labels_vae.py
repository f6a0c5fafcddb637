"""Semi-supervised beta-VAE: 1,000 labelled images align latents with factors.

Paper: Locatello et al., "Disentangling Factors of Variation Using Few Labels".

Command::

    python -m disentangle_jax.main --config=configs/few_labels_vae.py

``--config.data.num_labels=100`` uses fewer labels, ``--config.method.kind=cov`` another
supervised term. ``--config=configs/few_labels_vae.py:quick`` takes a few minutes on a
2-core CPU.

Expected: high scores, because latent k is trained to predict factor k.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("few_labels_vae", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "few_labels_vae"
    config.method.beta = 4.0
    config.method.gamma_sup = 10.0
    if preset == "quick":
        config = config_lib.quick(config)
    return config
