"""Extrapolation: does the encoder or the decoder limit the adaptation to new values?

Paper: Leeb et al., "Structure by Architecture", Secs. 3.2, 4.2 and A.3.2, Figs. 7 (no
spheres) and 12 (no extreme angles).

Command::

    python -m disentangle_jax.main --config=configs/experiments/extrapolation.py

trains eight models for 80,000 steps on a rendered 3D Shapes without spheres, then for
20,000 steps on all images, updating the encoder, the decoder or both. Preset
``:angles`` omits orientations 0, 1, 13 and 14. ``:quick`` compares SAE-12, VAE and AE
with narrow networks and few steps, which takes half an hour on a CPU. ``:mini`` is a
miniature for SAE-12 and AE: images of 16 px, 16 channels, 8,000 and 2,000 steps of
batch 32, three seeds.
``:shapes3d`` and ``:shapes3d_angles`` use the publisher's file.
``--config.train.start_optimizer=False`` starts the second stage with a fresh Adam. The
page has the error on novel test images and on the training images of the authors'
notebook.

Expected: in the paper, updating the decoder alone comes close to updating both;
updating the encoder alone does not.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    known = ("angles", "shapes3d", "shapes3d_angles", "quick", "mini")
    config_lib.check_preset("experiments/extrapolation", preset, known)
    config = config_lib.default()
    config.model.latent_dim = 12
    config.model.channels = 64
    config.train.num_steps = 80_000
    config.eval.scores = ("mig",)
    config.experiment = experiment = ConfigDict()
    experiment.name = "extrapolation"
    experiment.models = (
        *("sae-12", "sae-6", "vlae-12", "adaae-12"),
        *("ae", "wae", "vae", "beta_vae"),
    )
    experiment.beta = 2.0  # weight of the KL term of beta_vae
    experiment.factor = "shape"
    experiment.novel_values = (2,)  # values that the first stage omits: spheres
    experiment.second_steps = 20_000
    experiment.num_novel = 3200  # maximal number of evaluated images
    if preset.startswith("shapes3d"):
        config.data.name = "shapes3d"
    if preset.endswith("angles"):
        experiment.factor = "orientation"
        experiment.novel_values = (0, 1, 13, 14)
    if preset == "mini":
        config = config_lib.mini(config, size=16, num_steps=8000)
        config.model.channels = 16
        config.model.norm_groups = 2  # groups of 8 channels, as at full width
        config.optimizer.learning_rate = 3e-4  # At 1e-3 AEs learn the mean image.
        config.train.batch_size = 32
        config.lanes.seeds = 3
        experiment.second_steps = 2000
        experiment.models = ("sae-12", "ae")
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channels = 16
        config.model.norm_groups = 2  # groups of 8 channels, as at full width
        config.train.batch_size = 16
        config.train.num_steps = 2000
        experiment.second_steps = 600
        experiment.models = ("sae-12", "vae", "ae")
        experiment.num_novel = 640
    return config
