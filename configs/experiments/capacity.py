"""Capacity: in which order does a VAE learn the factors as its capacity grows?

Paper: Burgess et al., "Understanding disentangling in beta-VAE", Sec. 4, with the
AnnealedVAE of Locatello et al., "Challenging Common Assumptions".

Command::

    python -m disentangle_jax.main --config=configs/experiments/capacity.py

raises the capacity of one model linearly from 0 to 25 nats in 100,000 steps and
measures it at ten capacities, on a rendered dSprites, which needs no download.
``--config.data.name=dsprites`` uses the publisher's file; CelebA needs up to 50 nats.
``--config=configs/experiments/capacity.py:quick`` has four stages.
``:mini`` is a miniature: images of 32 px, half of the channels, 16,000 steps, six
capacities and three seeds. Its gamma of 15 was chosen on other seeds: with 50 and 100
and a learning rate of 1e-3, models stayed at the mean image.

Expected: in the paper, position is learned first, then scale, shape and orientation.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("experiments/capacity", preset, ("quick", "mini"))
    config = config_lib.study()
    config.data.split_recipe = "none"
    config.model.kernel_variant = "burgess"
    config.method.name = "annealed_vae"
    config.method.gamma = 1000.0
    config.train.num_steps = 100_000
    config.train.input = "device"
    config.optimizer.learning_rate = 5e-4
    config.eval.scores = ("mig",)
    config.experiment = experiment = ConfigDict()
    experiment.name = "capacity"
    experiment.capacities = (
        *(2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0, 22.5, 25.0),
    )
    experiment.known = 0.1  # share of a factor's entropy that counts as known
    experiment.pairs = 5000  # for the mean distance along each factor
    if preset == "mini":
        config = config_lib.mini(config, size=32, num_steps=16_000)
        config.model.channel_scale = 0.5
        config.method.gamma = 15.0
        config.lanes.seeds = 3
        experiment.capacities = (1.0, 2.0, 4.0, 8.0, 16.0, 25.0)
    if preset == "quick":
        config = config_lib.quick(config)
        config.method.gamma = 30.0
        config.train.num_steps = 1600
        experiment.capacities = (2.0, 6.0, 12.0, 20.0)
    return config
