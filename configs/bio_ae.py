"""BioAE: an autoencoder with non-negative codes, little activity and small weights.

Paper: Whittington et al., "Disentanglement with Biological Constraints: A Theory of
Functional Cell Types" (2023). The weights of the penalties are those of the public code
of Hsu et al., "Disentanglement via Latent Quantization", for 3D Shapes, which compares
with it; 12 latents, batches of 128, 200,000 steps with learning rate 1e-3.

Command::

    python -m disentangle_jax.main --config=configs/bio_ae.py

trains it on our `conv64` network. ``--config=configs/bio_ae.py:quick`` takes a few
minutes on a 2-core CPU.

Expected: most codes are non-negative (``negative`` of metrics.jsonl is near 0), and
some latents are inactive.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("bio_ae", preset, ("quick",))
    config = config_lib.default()
    config.model = {"name": "conv64", "latent_dim": 12, "stochastic": False}
    config.method.name = "bio_ae"
    config.optimizer.learning_rate = 1e-3
    config.train.num_steps = 200_000
    config.eval.scores = ("dci", "mig", "info_mec")
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channel_scale = 0.5
    return config
