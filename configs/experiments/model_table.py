"""The fifteen systems of "Structure by Architecture" side by side.

Paper: Leeb et al., "Structure by Architecture: Structured Representations without
Regularization", Tables 1 to 4, Figs. 2, 3, 5, 9 and 10.

Command::

    python -m disentangle_jax.main --config=configs/experiments/model_table.py

trains each system with five seeds on a rendered 3D Shapes. The presets ``:shapes3d``,
``:mpi3d_toy``, ``:mpi3d_realistic``, ``:mpi3d_real``, ``:celeba`` and ``:rfd`` use the
publishers' files with the paper's settings. FID needs
``--config.eval.fid_weights=FILE``. ``:quick`` compares SAE-12, AE, VAE and AdaAE-12
with narrow networks, which takes an hour on one core of a CPU. ``:mini`` is a
miniature for six systems: images of 16 px, 16 channels, 10,000 steps of batch 32, three
seeds.

Expected: in the paper, SAE-12 has the highest DCI-d on 3D Shapes (0.999), and AE and
AdaAE-12 are far below; structural decoders put high-level factors first.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    sets = ("shapes3d", "mpi3d_toy", "mpi3d_realistic", "mpi3d_real", "celeba", "rfd")
    config_lib.check_preset("experiments/model_table", preset, (*sets, "quick", "mini"))
    config = config_lib.default()
    config.model.latent_dim = 12
    config.model.channels = 64
    config.lanes.seeds = 5
    config.eval.scores = ("dci", "irs", "mig", "sap", "modularity")
    config.experiment = experiment = ConfigDict()
    experiment.name = "model_table"
    experiment.models = (
        *("sae-12", "sae-6", "sae-4", "sae-3", "sae-2"),
        *("vlae-12", "vlae-6", "vlae-4", "vlae-3", "vlae-2"),
        *("adaae-12", "ae", "vae", "beta_vae", "wae"),
    )
    experiment.betas = (2.0, 4.0, 6.0, 8.0, 16.0)  # the validation loss chooses
    if preset in sets:
        config.data.name = preset
    if preset in ("celeba", "rfd"):
        config.model.latent_dim = 32
        config.model.channels = 128
        config.train.batch_size = 32
        config.train.num_steps = 200_000
        experiment.models = ("sae-16", "vlae-16", "adaae-16", "ae", "vae", "wae")
    if preset == "rfd":
        config.model.channels = 256
        config.optimizer.learning_rate = 5e-5
    if preset == "mini":
        config = config_lib.mini(config, size=16, num_steps=10_000)
        config.model.channels = 16
        config.model.norm_groups = 2  # groups of 8 channels, as at full width
        config.optimizer.learning_rate = 1e-3
        config.train.batch_size = 32
        config.lanes.seeds = 3
        experiment.models = ("sae-12", "adaae-12", "ae", "vae", "beta_vae", "wae")
        experiment.betas = (2.0,)
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channels = 16
        config.model.norm_groups = 2  # groups of 8 channels, as at full width
        config.train.batch_size = 16
        config.train.num_steps = 1500
        config.lanes.seeds = 3
        experiment.models = ("sae-12", "ae", "vae", "adaae-12")
    return config
