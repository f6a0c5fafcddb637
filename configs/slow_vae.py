"""SlowVAE: learns from pairs in time, between which factors change rarely and a little.

Paper: Klindt et al., "Towards Nonlinear Disentanglement in Natural Data with Temporal
Sparse Coding" (2021). The networks and the optimizer are those of Locatello et al.,
"Challenging Common Assumptions"; weights and rate are those of the public code.

Command::

    python -m disentangle_jax.main --config=configs/slow_vae.py

trains on pairs whose factors move by a discretised Laplace distribution (LAP in the
paper). ``--config.data.changed_factors=uniform`` chooses the pairs that it calls UNI.
``--config=configs/slow_vae.py:quick`` takes a few minutes on a 2-core CPU.

Expected: the paper reports higher scores than those of beta-VAE. Latents whose factor
did not change move little between the images of a pair.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("slow_vae", preset, ("quick",))
    config = config_lib.study()
    config.data.changed_factors = "laplace"
    config.method.name = "slow_vae"
    if preset == "quick":
        config = config_lib.quick(config)
    return config
