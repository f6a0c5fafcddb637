"""beta-TCVAE: a VAE with a weight on the total correlation of the codes.

Paper: Chen et al., "Isolating Sources of Disentanglement in VAEs". The settings are
those of Locatello et al., "Challenging Common Assumptions", Table 2: beta in 1, 2, 4,
6, 8, 10. ``--config.method.estimator=naive --config.method.kl=analytic`` chooses the
estimators of that study.

Command::

    python -m disentangle_jax.main --config=configs/beta_tc_vae.py

trains one model of the study. All six values of beta with five seeds each train in
one program with
``--config.lanes.seeds=5 --config.lanes.sweep.method.beta=1,2,4,6,8,10``.
``--config=configs/beta_tc_vae.py:quick`` takes a few minutes on a 2-core CPU.

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
