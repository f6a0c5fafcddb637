"""Ada-GVAE: learns from pairs of images that share some factors.

Paper: Locatello et al., "Weakly-Supervised Disentanglement Without Compromises"; losses
and distance as in Michlo et al., "Overlooked Implications of the Reconstruction Loss",
App. B.

Command::

    python -m disentangle_jax.main --config=configs/ada_gvae.py

trains on pairs that differ in k ~ U[1, K] factors.
``--config.data.changed_factors=1`` or ``dlib`` chooses other pairs,
``--config.method.distance=kl`` the original threshold.
``--config=configs/ada_gvae.py:quick`` takes a few minutes on a 2-core CPU.

Expected: clearly higher scores than beta-VAE on the same images.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("ada_gvae", preset, ("quick",))
    config = config_lib.study()
    config.method.name = "ada_gvae"
    config.method.beta = 1.0
    if preset == "quick":
        config = config_lib.quick(config)
    return config
