"""Channel moments: by which numbers the images of each dataset are standardised.

Paper: Michlo et al., "Overlooked Implications of the Reconstruction Loss for VAE
Disentanglement", App. B.4, Table 2 of its supplement.

Command::

    python -m disentangle_jax.main --config=configs/experiments/channel_moments.py

measures three datasets that need no download; it trains nothing. ``:paper`` measures
the five datasets of the paper, which needs the files of Cars3D, 3D Shapes, SmallNORB
and dSprites. ``:quick`` measures about 2,000 images of each dataset.

Expected: the paper's numbers; on XYSquares each channel has 1/64 and 0.124035.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("experiments/channel_moments", preset, ("quick", "paper"))
    config = config_lib.default()
    config.experiment = experiment = ConfigDict()
    experiment.name = "channel_moments"
    experiment.datasets = ("xysquares", "rendered_dsprites", "rendered_shapes3d")
    experiment.images = 2000 if preset == "quick" else 0  # 0: all of them
    if preset == "paper":
        experiment.datasets = (
            *("cars3d", "shapes3d", "smallnorb", "dsprites", "xysquares"),
        )
    return config
