"""beta-VAE: the KL weighted.

Paper: Higgins et al., "beta-VAE"; the study's setting is that of Locatello et al.,
"Challenging Common Assumptions", Table 2: beta in 1, 2, 4, 6, 8, 16.

Command::

    python -m disentangle_jax.main --config=configs/beta_vae.py

trains one model of the study; all six strengths and five seeds in one program with
``--config.lanes.seeds=5 --config.lanes.sweep.method.beta=1,2,4,6,8,16``.
``--config=configs/beta_vae.py:quick`` takes some minutes on a 2-core CPU.

Expected: the KL falls and the reconstruction worsens as beta grows.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("beta_vae", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "beta_vae"
    config.method.beta = 4.0
    if preset == "quick":
        config = config_lib.quick(config)
    return config
