"""Regions and relations: Tables 1, 4, 5 and Fig. 5 of the AbsAE paper, in form.

Paper: "Leveraging Relational Information for Learning Weakly Disentangled
Representations", Sec. 4.

Command::

    python -m disentangle_jax.main --config=configs/experiments/relations.py:dsprites

with the publisher's file; ``:symbols`` and ``:shapes3d`` likewise, at the paper's sizes
and numbers of steps. ``:quick`` is for a 2-core CPU and needs no download:
``configs/absae.py:quick`` with three numbers of labels, and one strength of each other
method. ``--config.experiment.baselines=False`` leaves the other methods out.

Expected: accuracy grows with tau; relations lead to the right region at depth 10 as at
depth 1; AbsAE's factors, being read off, score above the codes of the others.
"""

import pathlib

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib

_PRESETS = ("dsprites", "shapes3d", "symbols", "quick")


def get_config(preset: str = ""):
    config_lib.check_preset("relations", preset, _PRESETS)
    absae = pathlib.Path(__file__).parents[1] / "absae.py"
    config = config_lib.load(f"{absae}:{preset or 'dsprites'}")
    config.experiment = experiment = ConfigDict()
    experiment.name = "relations"
    experiment.taus = (10.0, 20.0, 30.0)  # labelled images of each combination
    experiment.betas = (0.05, 0.2, 1.0)  # AbsAE's, for the trade-off
    experiment.baselines = True  # the other methods, where there are several factors
    experiment.vae_betas = (1.0, 4.0, 16.0)
    experiment.gammas = (1.0, 10.0, 40.0)  # FactorVAE's
    experiment.supervised_weights = (10.0,)  # of the few labels
    if preset == "quick":
        experiment.betas = ()
        experiment.vae_betas = (4.0,)
        experiment.gammas = (10.0,)
    return config
