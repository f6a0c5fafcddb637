"""DIP-VAE-I: covariance of the posterior means near the identity.

Paper: Kumar et al., "Variational Inference of Disentangled Latent Concepts from
Unlabeled Observations"; the study's setting is that of Locatello et al., "Challenging
Common Assumptions", Table 2: lambda_od in 1, 2, 5, 10, 20, 50, lambda_d ten times as
large.

Command::

    python -m disentangle_jax.main --config=configs/dip_vae_i.py

trains one model of the study; all six strengths and five seeds in one program with
``--config.lanes.seeds=5 --config.lanes.sweep.method.lambda_od=1,2,5,10,20,50``.
``--config=configs/dip_vae_i.py:quick`` takes some minutes on a 2-core CPU.

Expected: the off-diagonal covariance of the means falls as lambda_od grows.
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
