"""Tripod: rounded codes, little multi-information, few mixed second derivatives.

Paper: Hsu et al., "Tripod: Three Complementary Inductive Biases for Disentangled
Representation Learning" (2024). Twice as many latents as factors take 12 even values
each; batches of 64, 250,000 steps with learning rate 2e-4, gradients clipped at 1.

Command::

    python -m disentangle_jax.main --config=configs/tripod.py

trains the paper's loss on our `conv64` network with a smooth nonlinearity, with its
weights for 3D Shapes; the authors' decoder is a larger residual one with normalisation.
Without it, codes begin with a deviation of 0.02, of which second differences are mostly
rounding errors: the Hessian penalty begins after 500 steps, and four directions, not
two, estimate it. The public code has other weights for MPI3D
(``--config.method.lambda_information=1e-8 --config.method.lambda_hessian=1e-4``),
Falcor3D (1e-10 and 1e-2) and Isaac3D (1e-4 and 1e-8).
``--config=configs/tripod.py:quick`` takes a few minutes on a 2-core CPU. ``:mini`` is a
miniature: images of 32 px, half of the channels, 6,000 steps of batch 32.

Expected: the paper reports higher InfoM and InfoC than QLAE's.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("tripod", preset, ("quick", "mini"))
    config = config_lib.default()
    config.model = {"name": "conv64", "latent_dim": 12, "stochastic": False}
    config.model.nonlinearity = "mish"
    config.method.name = "tripod"
    config.method.perturbations = 4
    config.train.schedules.lambda_hessian = ("linear", 0.0, 1.0, 500, 1000)
    config.optimizer.learning_rate = 2e-4
    config.optimizer.clip = 1.0
    config.train.batch_size = 64
    config.train.num_steps = 250_000
    config.eval.scores = ("dci", "mig", "info_mec")
    if preset == "mini":
        config = config_lib.mini(config, size=32, num_steps=6000)
        config.model.channel_scale = 0.5
        config.optimizer.learning_rate = 1e-3
        config.train.batch_size = 32
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channel_scale = 0.5
    return config
