"""Extrapolation: is the encoder or the decoder the obstacle to new values?

Paper: Leeb et al., "Structure by Architecture", Secs. 3.2 and 4.2, A.3.2; its Figs. 7
(no spheres) and 12 (no extreme angles).

Command::

    python -m disentangle_jax.main --config=configs/experiments/extrapolation.py

trains eight models for 80,000 steps on a rendered 3D Shapes without spheres, then
20,000 on everything with encoder, decoder or both updated. Preset ``:angles`` leaves
out orientations 0, 1, 13, 14; ``:quick`` compares SAE-12, VAE and AE with narrow
networks and few steps, half an hour on a CPU. ``--config.data.name=shapes3d`` takes the
publisher's file, ``--config.experiment.novel_split=train`` the images that the authors'
notebook scores,
``--config.train.start_optimizer=False`` a fresh Adam in the second stage.

Expected: in the paper updating the decoder alone comes close to updating both; the
encoder alone stays far.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("experiments/extrapolation", preset, ("angles", "quick"))
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
    experiment.beta = 2.0  # of beta_vae
    experiment.factor = "shape"
    experiment.novel_values = (2,)  # that the first stage lacks: spheres
    experiment.second_steps = 20_000
    experiment.novel_split = (
        "test"  # split of the scored images; "train" as the notebook
    )
    experiment.num_novel = 3200  # scored images, at most
    if preset == "angles":
        experiment.factor = "orientation"
        experiment.novel_values = (0, 1, 13, 14)
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channels = 16
        config.model.norm_groups = 2  # of 8 channels, as at full width
        config.train.batch_size = 16
        config.train.num_steps = 2000
        experiment.second_steps = 600
        experiment.models = ("sae-12", "vae", "ae")
        experiment.num_novel = 640
    return config
