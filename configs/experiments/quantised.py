"""QLAE and Tripod beside a structural autoencoder, beta-TCVAE and FactorVAE.

Paper: Hsu et al., "Disentanglement via Latent Quantization" (2023) and "Tripod: Three
Complementary Inductive Biases for Disentangled Representation Learning" (2024), who
compare them with VAEs by InfoMEC.

Command::

    python -m disentangle_jax.main --config=configs/experiments/quantised.py

trains each system with five seeds on a rendered 3D Shapes, with 12 latents, twice as
many as factors. Options of one system are set by
``--config.experiment.options.SYSTEM.SECTION.FIELD=VALUE``, for example
``--config.experiment.options.beta_tc_vae.method.beta=6.0``.

``:mini`` is a miniature: images of 32 px, narrow networks, 6,000 steps of batch 32,
three seeds; SAE-12 is that of ``configs/experiments/model_table.py:mini``, trained as
long as the others. ``:quick`` compares QLAE and Tripod with beta-TCVAE after 1,000
steps.

Expected: in the papers, QLAE has higher InfoM and InfoC than VAEs, and Tripod than
QLAE.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("experiments/quantised", preset, ("quick", "mini"))
    config = config_lib.default()
    # Smooth, since the Hessian penalty of Tripod compares second differences.
    config.model = {"name": "conv64", "latent_dim": 12, "nonlinearity": "mish"}
    config.method = {"name": "qlae"}
    config.lanes.seeds = 5
    config.eval.scores = ("dci", "mig", "info_mec")
    config.experiment = experiment = ConfigDict()
    experiment.name = "quantised"
    experiment.models = ("qlae", "tripod", "beta_tc_vae", "factor_vae", "sae-12")
    experiment.options = {}  # fields of single systems
    if preset == "mini":
        config = config_lib.mini(config, size=32, num_steps=6000)
        config.model.channel_scale = 0.5
        config.optimizer.learning_rate = 1e-3
        config.train.batch_size = 32
        config.lanes.seeds = 3
        config.eval.num_train = 5000
        config.eval.num_test = 2500
        experiment.options = {
            "sae-12": {"model": {"channels": 16, "norm_groups": 2}},
            "factor_vae": {
                "method": {"critic_width": 200, "critic_learning_rate": 1e-3}
            },
        }
    if preset == "quick":
        config = config_lib.quick(config)
        config.model.channel_scale = 0.5
        config.lanes.seeds = 1
        experiment.models = ("qlae", "tripod", "beta_tc_vae")
    return config
