"""ControlVAE: a controller chooses beta so that the KL follows a set point.

Paper: Shao et al., "ControlVAE: Controllable Variational Autoencoder" (2020),
Algorithm 1 and its experiment on dSprites, where the set point grows to 18 nats. The
networks and the optimizer are those of Locatello et al., "Challenging Common
Assumptions".

Command::

    python -m disentangle_jax.main --config=configs/control_vae.py

The set point grows linearly from ``method.c_start`` to ``method.c_max``, its final
value from step ``method.threshold`` on. ``--config=configs/control_vae.py:quick`` takes
a few minutes on a 2-core CPU.

Expected: the KL divergence (``kl`` of metrics.jsonl) follows ``set_point``, and beta
falls to its minimum as the set point grows.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("control_vae", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "control_vae"
    config.method.c_max = 18.0
    if preset == "quick":
        config = config_lib.quick(config)
        config.method.threshold = 500.0
        config.method.k_i = 0.01  # as fast as the few steps need
    return config
