"""AnnealedVAE: the KL term follows a capacity that grows during training.

Paper: Burgess et al., "Understanding disentangling in beta-VAE". The settings are those
of Locatello et al., "Challenging Common Assumptions", Table 2: c_max in 5, 10, 25, 50,
75, 100, gamma 1000, threshold 100,000 steps.

Command::

    python -m disentangle_jax.main --config=configs/annealed_vae.py

trains one model of the study. All six values of c_max with five seeds each train in
one program with
``--config.lanes.seeds=5 --config.lanes.sweep.method.c_max=5,10,25,50,75,100``.
``--config=configs/annealed_vae.py:quick`` takes a few minutes on a 2-core CPU.

Expected: the KL follows the capacity: |KL - C| stays below one nat.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("annealed_vae", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "annealed_vae"
    config.method.c_max = 25.0
    if preset == "quick":
        config = config_lib.quick(config)
        config.method.threshold = 300.0
    return config
