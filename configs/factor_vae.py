"""FactorVAE: a critic estimates the total correlation of the codes.

Paper: Kim & Mnih, "Disentangling by Factorising". The settings are those of Locatello
et al., "Challenging Common Assumptions", Table 2: gamma in 10, 20, 30, 40, 50, 100.

Command::

    python -m disentangle_jax.main --config=configs/factor_vae.py

trains one model of the study. All six values of gamma with five seeds each train in
one program with
``--config.lanes.seeds=5 --config.lanes.sweep.method.gamma=10,20,30,40,50,100``.
``--config=configs/factor_vae.py:quick`` takes a few minutes on a 2-core CPU.

Expected: the critic's loss stays below log 2 while the codes are dependent.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("factor_vae", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "factor_vae"
    config.method.gamma = 30.0
    if preset == "quick":
        config = config_lib.quick(config)
        config.method.critic_width = 200
    return config
