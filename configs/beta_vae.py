"""beta-VAE: a VAE with a weight on the KL term.

Paper: Higgins et al., "beta-VAE". The settings are those of Locatello et al.,
"Challenging Common Assumptions", Table 2: beta in 1, 2, 4, 6, 8, 16.

Command::

    python -m disentangle_jax.main --config=configs/beta_vae.py

trains one model of the study. All six values of beta with five seeds each train in
one program with
``--config.lanes.seeds=5 --config.lanes.sweep.method.beta=1,2,4,6,8,16``.
``--config=configs/beta_vae.py:quick`` takes a few minutes on a 2-core CPU.

Expected: as beta grows, the KL falls and the reconstruction error rises.
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
