"""Regions and relations: the analyses of Tables 1, 4 and 5 and Figs. 2-12 of AbsAE.

Paper: "Leveraging Relational Information for Learning Weakly Disentangled
Representations", Sec. 4.

Command::

    python -m disentangle_jax.main --config=configs/experiments/relations.py:dsprites

uses the publisher's file; ``:symbols`` and ``:shapes3d`` are the other datasets. All
have the paper's sizes and numbers of steps, and three seeds, whose mean and standard
deviation the page reports. AbsAE as the paper has it and our variant with labelled
images in every step (``configs/absae_labelled.py``) are trained side by side.
``:quick`` is for a 2-core CPU: ``configs/absae.py:quick`` on a rendered dSprites with
three numbers of labels, one seed, and one hyperparameter value for each other method.
``:mini`` is the same at 32 px with three seeds. Both need no download.
``:mini_long`` trains AbsAE alone, for 10,000 instead of 4,000 steps, after which ten
relations lead as far as one.
``:shapes3d_mini`` is a miniature of 3D Shapes, on our rendering at 32 px with 16
channels and 12,000 steps, and ``:symbols_mini`` of the symbols, on real handwriting of
45 px with 15,000 steps. A third of the steps of 3D Shapes come before the regions are
fitted, as in the paper; with 500 of 10,000 its regions overlapped. For symbols it is a
fifteenth (in the paper a sixth). Both train AbsAE as the paper has it only;
``--config.experiment.labelled_batch=32 --config.experiment.baselines=True`` adds the
others.
``--config.experiment.baselines=False`` omits the other methods,
``--config.experiment.labelled_batch=0`` our variant.

Expected: accuracy grows with tau. Relations lead to the right region at depth 10 as
often as at depth 1. The factors of AbsAE, which are read from its regions, score above
the codes of the others.
"""

import pathlib

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib

_MINIATURES = {  # Their numbers of steps, and those before the regions are fitted.
    "mini": (4000, 500),
    "mini_long": (10_000, 500),
    "symbols_mini": (15_000, 1000),
    "shapes3d_mini": (12_000, 4000),
}
_PRESETS = ("dsprites", "shapes3d", "symbols", "quick", *_MINIATURES)


def get_config(preset: str = ""):
    config_lib.check_preset("relations", preset, _PRESETS)
    absae = pathlib.Path(__file__).parents[1] / "absae.py"
    name = preset.removesuffix("_long").replace("mini", "quick") or "dsprites"
    config = config_lib.load(f"{absae}:{name}")
    config.lanes.seeds = 3
    config.eval.scores = ("mig", "sap", "dci")
    config.experiment = experiment = ConfigDict()
    experiment.name = "relations"
    experiment.taus = (10.0, 20.0, 30.0)  # labelled images per combination of factors
    experiment.betas = (0.05, 0.2, 1.0)  # of AbsAE, for the trade-off
    experiment.labelled_batch = (
        32  # labelled images per step of our variant; 0: not run
    )
    experiment.label_weight = 1.0  # their weight
    experiment.baselines = True  # whether to train other methods, given several factors
    experiment.vae_betas = (1.0, 4.0, 16.0)
    experiment.gammas = (1.0, 10.0, 40.0)  # of FactorVAE
    experiment.supervised_weights = (10.0,)  # of the term for few labels
    if preset in _MINIATURES:
        size = None if preset == "symbols_mini" else 32
        steps, config.method.warmup_steps = _MINIATURES[preset]
        config = config_lib.mini(config, size=size, num_steps=steps)
    if preset == "quick":
        config.lanes.seeds = 1
    if preset in ("quick", *_MINIATURES):
        experiment.label_weight = 0.1
        experiment.betas = ()
        experiment.vae_betas = (4.0,)
        experiment.gammas = (10.0,)
    if preset in _MINIATURES and preset != "mini":
        experiment.labelled_batch, experiment.baselines = 0, False
    return config
