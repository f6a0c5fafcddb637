"""QLAE: an autoencoder whose latents take values of learned codebooks.

Paper: Hsu et al., "Disentanglement via Latent Quantization" (2023). Each of twice as
many latents as factors has a codebook of 10 scalars. The weights decay strongly (AdamW,
0.1), batches of 128, 200,000 steps with learning rate 1e-3.

Command::

    python -m disentangle_jax.main --config=configs/qlae.py

trains the paper's loss on our `conv64` network; the authors' decoder is a larger one
that styles its features by the code. The public code has weights of 0.001 for dSprites
and Isaac3D:
``--config.method.lambda_quantisation=0.001 --config.method.lambda_commitment=0.001``.
``--config=configs/qlae.py:quick`` takes a few minutes on a 2-core CPU. ``:mini`` is a
miniature: images of 32 px, half of the channels, 6,000 steps of batch 32.

Expected: the paper reports higher InfoM and InfoC than those of the VAEs it compares
with. Traversals step through the codebook.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("qlae", preset, ("quick", "mini"))
    config = config_lib.default()
    config.model = {"name": "conv64", "latent_dim": 12, "stochastic": False}
    config.method.name = "qlae"
    config.optimizer.learning_rate = 1e-3
    config.optimizer.weight_decay = 0.1
    config.optimizer.clip = 1.0
    config.train.num_steps = 200_000
    config.eval.scores = ("dci", "mig", "info_mec")
    if preset == "mini":
        config = config_lib.mini(config, size=32, num_steps=6000)
        config.model.channel_scale = 0.5
        config.train.batch_size = 32
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channel_scale = 0.5
    return config
