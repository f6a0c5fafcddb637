"""Structural autoencoder, SAE-12.

Paper: "Structure by Architecture: Disentangled Representations without
Regularization", Secs. 2.2 and 3, Table 1 (3D-Shapes; five seeds: 0, 1, 2, 3, 4).

Command::

    python -m disentangle_jax.main --config=configs/sae.py --config.train.seed=0

trains with the paper's settings: 12 blocks of 64 channels, 12 latents of one dimension,
batches of 128, 100,000 steps of Adam with learning rate 5e-4. It needs an accelerator.
The dataset `rendered_shapes3d` needs no download; ``--config.data.name=shapes3d`` uses
the publisher's file. ``--config.lanes.seeds=5`` trains the five seeds in one program.

``--config=configs/sae.py:quick`` has 16 channels and 1,300 steps, which take a few
minutes on a 2-core CPU. ``:mini`` is a miniature, which takes about as long and learns
more: images of 32 px, 16 channels in 2 normalisation groups, and 8,000 steps of batch
32.

Expected: in the paper, DCI disentanglement 0.999 and MIG 0.586. ``:mini`` (seed 1) gave
0.627 and 0.345 in four minutes on two cores, ``:quick`` (seed 0) 0.441 and 0.292.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("sae", preset, ("quick", "mini"))
    config = config_lib.default()
    config.model.latent_dim = 12
    config.model.channels = 64
    if preset == "mini":
        config = config_lib.mini(config, size=32, num_steps=8000)
        config.model.channels = 16
        config.model.norm_groups = 2  # groups of 8 channels, as at full width
        config.optimizer.learning_rate = 1e-3
        config.train.batch_size = 32
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channels = 16
        config.train.num_steps = 1300
    return config
