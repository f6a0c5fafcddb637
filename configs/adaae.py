"""AdaAE-12: the structural decoder, where every layer sees all latents.

Paper: "Structure by Architecture: Disentangled Representations without Regularization",
Secs. 3 and 4.1.

Command::

    python -m disentangle_jax.main --config=configs/adaae.py

This is the ablation of SAE-12: it has the same decoder, but nothing orders the latents.
``--config=configs/adaae.py:quick`` has 16 channels and fewer steps, for a 2-core CPU.

Expected: less disentangled than SAE-12 (paper, Table 1).
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("adaae", preset, ("quick",))
    config = config_lib.default()
    config.model.name = "adaae-12"
    config.model.latent_dim = 12
    config.model.channels = 64
    config.method.name = "ae"
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channels = 16
    return config
