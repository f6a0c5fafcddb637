"""beta-TCVAE: the total correlation of the codes weighted.

Paper: Chen et al., "Isolating Sources of Disentanglement in VAEs"; the study's setting
is that of Locatello et al., "Challenging Common Assumptions", Table 2: beta in 1, 2, 4,
6, 8, 10 (its estimator: ``--config.method.estimator=naive``).

Command::

    python -m disentangle_jax.main --config=configs/beta_tc_vae.py

trains one model of the study; all six strengths and five seeds in one program with
``--config.lanes.seeds=5 --config.lanes.sweep.method.beta=1,2,4,6,8,10``.
``--config=configs/beta_tc_vae.py:quick`` takes some minutes on a 2-core CPU.

Expected: the total correlation falls as beta grows.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("beta_tc_vae", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "beta_tc_vae"
    config.method.beta = 6.0
    if preset == "quick":
        config = config_lib.quick(config)
    return config
