"""Topic models: the VAE objective against HFVAE's, on 20 Newsgroups.

Paper: Esmaeili et al., "Structured Disentangled Representations", Sec. 5.2 and App. D.

Command::

    python -m disentangle_jax.main --config=configs/experiments/topics.py

needs scikit-learn's file of 20 Newsgroups, which is prepared by the rules of the script
that the authors used (``preprocessing="scholar"``). It trains ProdLDA (200 epochs) and
NVDM with 50 topics in two groups of 25, with the VAE objective and with HFVAE's (beta
0.1, gamma 4), three seeds each. ``:quick`` needs no download: ProdLDA on a synthetic
corpus, a few minutes on a 2-core CPU. ``:mini`` is a miniature on the posts: ProdLDA
for 100 epochs, and NVDM for 20 epochs of batch 200 with Adam 1e-3.

Expected: in the paper, 11 topics of ProdLDA are active with HFVAE's objective and all
50 with the VAE's, and only HFVAE has topics that correlate. ``configs/topics.py`` lists
what we measured with other rules of preparing the posts: 4 and 50 active topics.
"""

import pathlib

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("experiments/topics", preset, ("quick", "mini"))
    topics = pathlib.Path(__file__).parents[1] / "topics.py"
    config = config_lib.load(f"{topics}:{'quick' if preset == 'quick' else 'prodlda'}")
    config.experiment = experiment = ConfigDict()
    experiment.name = "topics"
    experiment.networks = ("prodlda", "nvdm")
    config.lanes.seeds = 3
    if preset == "quick":
        experiment.networks = ("prodlda",)
        config.lanes.seeds = 1
        config.train.num_steps = 1000
        return config
    config.data.options.preprocessing = "scholar"
    config.data.train_split = "train+validation"  # all 11,314 posts
    config.train.num_steps, config.train.num_epochs = 0, 200
    # The authors' of NVDM.
    rate, batch_size, num_epochs = 5e-5, 64, 850
    if preset == "mini":
        rate, batch_size, num_epochs = 1e-3, 200, 20
        config.train.seed = 1
        config.train.num_epochs = 100
        config.train.log_every = 100
    experiment.options = {
        "nvdm": {
            "optimizer": {"learning_rate": rate, "b1": 0.9},
            "train": {"batch_size": batch_size, "num_epochs": num_epochs},
        }
    }
    return config
