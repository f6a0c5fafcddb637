"""Overlap: a pixel-wise loss cannot order images without overlap; a blurred one can.

Paper: Michlo et al., "Overlooked Implications of the Reconstruction Loss for VAE
Disentanglement", Secs. 5.3, 5.4 and 6.1; Table 4 of its supplement.

Command::

    python -m disentangle_jax.main --config=configs/experiments/overlap.py

compares MSE with BoxBlurMSE on XYSquares for beta-VAE and Ada-GVAE, with five seeds
(Fig. 11). Preset ``:spacing`` varies the spacing of the squares from 8 to 1 (Fig. 9).
``:adversarial`` trains eight values of beta on five datasets (Fig. 6; it needs Cars3D,
3D Shapes, SmallNORB and dSprites). ``:quick`` is the comparison of Fig. 11 with three
seeds and narrow fully connected networks, which takes 45 minutes on one core of a CPU.
``:mini`` and ``:mini_spacing`` are miniatures of Figs. 11 and 9: images of 16 px
(squares and spacing scaled with them), fully connected networks of width 256 with ReLU
and 9 latents, and 6,000 steps.

Expected: in the paper, Ada-GVAE with the blurred loss disentangles XYSquares, and
neither method does with MSE. The smaller the spacing, the easier it is for MSE.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    known = ("spacing", "adversarial", "quick", "mini", "mini_spacing")
    config_lib.check_preset("experiments/overlap", preset, known)
    config = config_lib.default()
    config.data.name = "xysquares"
    config.data.split_recipe = "none"
    config.data.standardize = True
    config.data.changed_factors = "uniform"
    config.model.name = "conv64"
    config.model.kernel_variant = "michlo"
    config.optimizer.learning_rate = 1e-3
    config.train.batch_size = 256
    config.train.num_steps = 57_600
    config.train.input = "device"
    config.lanes.seeds = 5
    config.lanes.same_batches = False
    config.experiment = experiment = ConfigDict()
    experiment.name = "overlap"
    experiment.datasets = ("xysquares",)
    experiment.spacings = (8,)  # of the squares of xysquares
    experiment.frameworks = ("beta_vae", "ada_gvae")
    experiment.latents = (25,)
    experiment.losses = ("mse", "box_blur_mse")
    experiment.betas = (0.0001, 0.0316)  # of the KL, a mean over latents
    if preset == "spacing":
        experiment.spacings = (8, 7, 6, 5, 4, 3, 2, 1)
        experiment.latents = (9,)
        experiment.losses = ("mse",)
        experiment.betas = (0.001, 0.00316)
    if preset == "adversarial":
        config.train.num_steps = 115_200
        config.train.input = "stream"
        config.lanes.seeds = 1
        config.lanes.same_batches = True
        experiment.datasets = (
            *("dsprites", "shapes3d", "cars3d", "smallnorb", "xysquares"),
        )
        experiment.latents = (9, 25)
        experiment.losses = ("mse",)
        experiment.betas = (*(0.000316, 0.001, 0.00316, 0.01, 0.0316, 0.1, 0.316, 1.0),)
    if preset.startswith("mini"):
        config = config_lib.mini(config, size=16, num_steps=6000)
        config.model = {"name": "fc1200", "width": 256, "latent_dim": 9}
        config.model.decoder_nonlinearity = "relu"
        experiment.latents = (9,)
        experiment.betas = (0.001,)
    if preset == "mini_spacing":
        experiment.spacings = (8, 6, 4, 2, 1)
        experiment.frameworks = ("ada_gvae",)
        experiment.losses = ("mse",)
        config.lanes.seeds = 3
    if preset == "quick":
        config = config_lib.quick(config)
        # As many units as the squares have places, which the last layer must
        # distinguish. A quarter of the convolutional network learned less in as many
        # steps.
        config.model = {"name": "fc1200", "width": 192, "latent_dim": 9}
        config.train.batch_size = 128
        config.train.num_steps = 1400
        config.train.log_every = 100
        config.train.checkpoint_every = 350
        config.lanes.seeds = 3
        experiment.latents = (9,)
        experiment.betas = (0.001,)
    return config
