"""Factor importance: how strongly a reconstruction loss sees each factor.

Paper: Michlo et al., "Overlooked Implications of the Reconstruction Loss for VAE
Disentanglement", App. A, Table 1 and Fig. 1 of its supplement.

Command::

    python -m disentangle_jax.main --config=configs/experiments/factor_importance.py

measures 50,000 pairs of images per factor of three datasets that need no download; it
trains nothing. ``:paper`` measures the five datasets of the paper, which needs the
files of Cars3D, 3D Shapes, SmallNORB and dSprites.
``--config.experiment.datasets=dsprites,`` and
``--config.experiment.distances=mse,box_blur_mse`` choose other datasets and losses.
``:quick`` measures 2,000 pairs.

Expected: the paper's order of factors; on XYSquares every factor has 0.0104.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("experiments/factor_importance", preset, ("quick", "paper"))
    config = config_lib.default()
    config.experiment = experiment = ConfigDict()
    experiment.name = "factor_importance"
    experiment.datasets = ("xysquares", "rendered_dsprites", "rendered_shapes3d")
    if preset == "paper":
        experiment.datasets = (
            *("cars3d", "shapes3d", "smallnorb", "dsprites", "xysquares"),
        )
    experiment.distances = ("mse",)
    experiment.pairs = 2000 if preset == "quick" else 50_000
    return config
