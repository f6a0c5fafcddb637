"""AbsAE with labelled images in every step: our variant, beside the paper's form.

Paper: "Leveraging Relational Information for Learning Weakly Disentangled
Representations", whose labels influence only the fit of the regions. Here the encoder
also sees labelled images after the warm-up, whose codes are drawn to their own region.
Everything else, with the presets, is that of ``configs/absae.py``.

Command::

    python -m disentangle_jax.main --config=configs/absae_labelled.py:quick

takes a few minutes on a 2-core CPU.

Expected: with ``:quick`` on rendered dSprites (seed 0, 2,000 steps, then with a
70/10/20 split), 99.3 % of test images were assigned to the right one of 27 regions, and
99.5 % of them were accepted at alpha = 0.5. One relation led to the right region for
99.2 % of test images, ten successive relations for 95.9 %.
"""

import pathlib

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config = config_lib.load(f"{pathlib.Path(__file__).parent / 'absae.py'}:{preset}")
    config.method.name = "absae_labelled"
    config.method.labelled_batch = 32  # labelled images per step
    config.method.label_weight = 1.0
    if preset == "quick":
        config.method.label_weight = 0.1
    if preset == "quick":
        config.train.num_steps = 2000
    return config
