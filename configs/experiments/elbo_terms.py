"""The four terms of the ELBO: what happens without each of them.

Paper: Esmaeili et al., "Structured Disentangled Representations", Sec. 2 and Fig. 2.

Command::

    python -m disentangle_jax.main --config=configs/experiments/elbo_terms.py

needs MNIST. It trains a VAE with two latents, with all terms (panel A) and without each
of them (B to E), as lanes of one program. ``:quick`` needs no download and takes a few
minutes on a rendered dSprites. ``:mini`` is a miniature: MNIST, networks of width 256
and 128, 3,000 steps of batch 32 (the objective decodes every code for every image of a
batch) and three seeds.

Expected: as in the paper. After 1,000 steps of batch 32 with widths (128,) and 64, one
seed: I(x; z) is 5.2 nats with all terms, 0.0 without ① (every posterior is the prior)
and 9.6 without ②; log p(x) is -174 with all terms and -545 without ③; KL(q(z), p(z)) is
-1.1 (an estimate from small batches may be negative) and 6.2 without ④.
"""

import pathlib

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib
from disentangle_jax import methods


def get_config(preset: str = ""):
    config_lib.check_preset("elbo_terms", preset, ("quick", "mini"))
    hfvae = pathlib.Path(__file__).parents[1] / "hfvae.py"
    config = config_lib.load(f"{hfvae}:{'quick' if preset == 'quick' else 'mnist'}")
    config.model.latent_dim = 2
    config.model.discrete = ()
    weights = methods.hyperparameters("weighted_elbo")
    config.method = ConfigDict({"name": "weighted_elbo", **weights})
    config.train.batch_size = 32 if preset else 128
    config.train.num_epochs = 0 if preset else 50
    config.train.input = "device"
    config.eval.scores = ("mig",)
    config.experiment = experiment = ConfigDict()
    experiment.name = "elbo_terms"
    experiment.images = 8  # test images whose posteriors are shown
    experiment.draws = 150  # draws from each posterior
    if preset == "mini":
        config = config_lib.mini(config, num_steps=3000)
        config.model.widths, config.model.head_width = (256,), 128
        config.lanes.seeds = 3
    if preset == "quick":
        config.train.num_steps = 1000
    return config
