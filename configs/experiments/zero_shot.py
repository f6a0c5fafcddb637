"""Unseen combinations: does the model generalise to new pairs of class and feature?

Paper: Esmaeili et al., "Structured Disentangled Representations", Sec. 5.5 and Fig. 7.

Command::

    python -m disentangle_jax.main --config=configs/experiments/zero_shot.py

needs MNIST. It trains an HFVAE on all digits and finds the latents that follow the
stroke width (amount of ink) and the width of the character (second moment of its
columns). It then removes thick sevens and narrow zeros from the training set and trains
again. It does the same with a beta-VAE, which the paper does not.
``--config=configs/experiments/zero_shot.py:quick`` uses large squares and narrow hearts
of a rendered dSprites, which needs no download. ``:mini`` is a miniature: the images of
MNIST, networks of width 256 and 128, 2,400 steps of batch 512 (a tenth of the paper's
200 epochs), three seeds, and our estimator ``exact_stopped``.

Expected: the errors on the removed combinations are larger than on the others, because
thick digits have more to reconstruct, and close to those of the models that saw them.
"""

import pathlib

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("zero_shot", preset, ("quick", "mini"))
    hfvae = pathlib.Path(__file__).parents[1] / "hfvae.py"
    config = config_lib.load(f"{hfvae}:{'quick' if preset == 'quick' else 'mnist'}")
    config.experiment = experiment = ConfigDict()
    experiment.name = "zero_shot"
    experiment.label = "label"  # factor whose values are the classes
    # Class, measure of images that its feature follows, end of the range.
    experiment.combinations = ((7, "ink", "high"), (0, "width", "low"))
    experiment.share = 0.3  # of a class that counts as an end
    experiment.baseline = "beta_vae"
    experiment.baseline_beta = 4.0
    if preset == "mini":
        config.train.num_epochs = 0
        config = config_lib.mini(config, num_steps=2400)
        config.model.widths, config.model.head_width = (256,), 128
        config.method.concrete_density = "exact_stopped"
        config.lanes.seeds = 3
        config.eval.scores = ("mig",)
    if preset == "quick":
        config.train.num_steps = 400
        experiment.label = "shape"
        experiment.combinations = ((0, "ink", "high"), (2, "width", "low"))
    return config
