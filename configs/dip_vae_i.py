"""DIP-VAE-I: the covariance of the posterior means is drawn to the identity.

Paper: Kumar et al., "Variational Inference of Disentangled Latent Concepts from
Unlabeled Observations". The settings are those of Locatello et al., "Challenging Common
Assumptions", Table 2: lambda_od in 1, 2, 5, 10, 20, 50, and lambda_d ten times that.

Command::

    python -m disentangle_jax.main --config=configs/dip_vae_i.py

trains one model of the study. All six values of lambda_od with five seeds each train in
one program with
``--config.lanes.seeds=5 --config.lanes.sweep.method.lambda_od=1,2,5,10,20,50``.
``--config=configs/dip_vae_i.py:quick`` takes a few minutes on a 2-core CPU.

Expected: the off-diagonal covariance of the means falls as lambda_od
grows.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("dip_vae_i", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "dip_vae_i"
    config.method.lambda_od = 10.0
    if preset == "quick":
        config = config_lib.quick(config)
    return config
