"""DIP-VAE-II: the covariance of the sampled codes is drawn to the identity.

Paper: Kumar et al., "Variational Inference of Disentangled Latent Concepts from
Unlabeled Observations". The settings are those of Locatello et al., "Challenging Common
Assumptions", Table 2: lambda_od in 1, 2, 5, 10, 20, 50, and lambda_d equal to it.

Command::

    python -m disentangle_jax.main --config=configs/dip_vae_ii.py

trains one model of the study. All six values of lambda_od with five seeds each train in
one program with
``--config.lanes.seeds=5 --config.lanes.sweep.method.lambda_od=1,2,5,10,20,50``.
``--config=configs/dip_vae_ii.py:quick`` takes a few minutes on a 2-core CPU.

Expected: the covariance of the codes approaches the identity as
lambda_od grows.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("dip_vae_ii", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "dip_vae_ii"
    config.method.lambda_od = 10.0
    if preset == "quick":
        config = config_lib.quick(config)
    return config
