"""Structural autoencoder, SAE-12.

Paper: "Structure by Architecture: Disentangled Representations without
Regularization", Secs. 2.2 and 3, Table 1 (3D-Shapes; five seeds: 0, 1, 2, 3, 4).

Command::

    python -m disentangle_jax.main --config=configs/sae.py --config.train.seed=0

trains the paper's setting, 12 blocks of 64 channels, 12 latents of one dimension, batch
128, 100,000 steps of Adam 5e-4, on `rendered_shapes3d`, which needs no download.
``--config.data.name=shapes3d`` takes the real file. This is work for an accelerator.

``--config=configs/sae.py:quick`` is the same network with fewer channels and steps, for
a 2-core CPU: about four minutes.

Expected: see the results section of README.md.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("sae", preset, ("quick",))
    config = config_lib.default()
    config.model.latent_dim = 12
    config.model.channels = 64
    if preset == "quick":
        config.model.channels = 16
        config.optimizer.learning_rate = 1e-3
        config.train.batch_size = 32
        config.train.num_steps = 2000
        config.train.log_every = 20
        config.train.checkpoint_every = 200
        config.eval.num_train = 2000
        config.eval.num_test = 1000
    return config
