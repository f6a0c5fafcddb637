"""Unseen combinations: are a seen class and a seen feature put together?

Paper: Esmaeili et al., "Structured Disentangled Representations", Sec. 5.5 and Fig. 7.

Command::

    python -m disentangle_jax.main --config=configs/experiments/zero_shot.py

needs MNIST. It trains an HFVAE on all digits, reads stroke width off one of its
latents, takes thick sevens and thin zeros out of the training set, trains anew, and
does the same with a beta-VAE. ``--config=configs/experiments/zero_shot.py:quick`` runs
on a rendered dSprites that needs no download, with large squares and small hearts.

Expected: the errors on the removed combinations are above those on seen ones, since
thick digits have more to reconstruct, and close to those of the models that saw them.
"""

import pathlib

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("zero_shot", preset, ("quick",))
    hfvae = pathlib.Path(__file__).parents[1] / "hfvae.py"
    config = config_lib.load(f"{hfvae}:{preset or 'mnist'}")
    config.experiment = experiment = ConfigDict()
    experiment.name = "zero_shot"
    experiment.label = "label"  # factor whose values are the classes
    experiment.combinations = ((7, "high"), (0, "low"))  # class, end of the feature
    experiment.share = 0.3  # of a class that is an end
    experiment.baseline = "beta_vae"
    experiment.baseline_beta = 4.0
    if preset == "quick":
        config.train.num_steps = 400
        experiment.label = "shape"
        experiment.combinations = ((0, "high"), (2, "low"))
    return config
