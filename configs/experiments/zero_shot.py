"""Unseen combinations: does the model generalise to new pairs of class and feature?

Paper: Esmaeili et al., "Structured Disentangled Representations", Sec. 5.5 and Fig. 7.

Command::

    python -m disentangle_jax.main --config=configs/experiments/zero_shot.py

needs MNIST. It trains an HFVAE on all digits and measures stroke width with one of its
latents. It then removes thick sevens and thin zeros from the training set and trains
again. It does the same with a beta-VAE.
``--config=configs/experiments/zero_shot.py:quick`` uses large squares and small hearts
of a rendered dSprites, which needs no download.

Expected: the errors on the removed combinations are larger than on the others, because
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
    experiment.combinations = ((7, "high"), (0, "low"))  # class, end of the range
    experiment.share = 0.3  # of a class that counts as an end
    experiment.baseline = "beta_vae"
    experiment.baseline_beta = 4.0
    if preset == "quick":
        config.train.num_steps = 400
        experiment.label = "shape"
        experiment.combinations = ((0, "high"), (2, "low"))
    return config
