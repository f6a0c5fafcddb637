"""HFVAE: a discrete (Concrete) variable for the class, continuous ones for the style.

Paper: Esmaeili et al., "Structured Disentangled Representations", Eq. 4. Sizes are
those of its Table 2, beta and gamma those of its Table 3. Temperature, learning rate
and the networks for 28 px are those of the authors' public example.

Command::

    python -m disentangle_jax.main --config=configs/hfvae.py

trains on a rendered dSprites, which needs no download.
``--config=configs/hfvae.py:dsprites`` uses the publisher's file, ``:mnist`` MNIST,
``:fashion`` Fashion-MNIST, and ``:celeba`` CelebA with convolutional networks.
``--config.lanes.seeds=5 --config.lanes.sweep.method.beta=2,3,4,6`` trains the values of
Fig. 6 in one program. ``--config=configs/hfvae.py:quick`` has smaller networks and
takes a few minutes on a 2-core CPU. ``configs/experiments/structured.py`` runs the
paper's analyses.

A schedule, which multiplies ``method.temperature``, anneals the temperature:
``--config.train.schedules.temperature="('linear', 1.0, 0.15, 0, 10000)"`` lowers it
from 0.66 to 0.1 in the first 10,000 steps.

Priors are independent by default. ``--config.method.correlation=full`` learns the
correlations of the continuous variables. With two or more groups of them
(``--config.method.groups=(5,5,1)``), ``between`` learns those between groups. A matrix
is used as given.

Expected: scores vary more with the seed than with beta (paper, Sec. 5.1), so train
several seeds. If the continuous variables identify the image, they also determine the
class, I(z; c) = I(x; c), and beta penalises the class itself: after a few epochs with
beta 4 it may carry no information yet. Train longer, or start with a smaller beta
(``--config.train.schedules.beta="('linear', 0.0, 1.0, 0, 10000)"``). The last elements
of a code are its class as a one-hot vector.
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    known = ("mnist", "fashion", "dsprites", "celeba", "quick")
    config_lib.check_preset("hfvae", preset, known)
    config = config_lib.default()
    config.data.name = "rendered_dsprites"
    config.model.name = "hfvae-mlp"
    config.model.latent_dim = 10
    config.model.discrete = (3,)
    config.method.name = "hfvae"
    config.method.alpha = 1.0
    config.method.beta = 4.0
    config.method.gamma = 3.0
    config.method.temperature = 0.66
    config.optimizer.learning_rate = 1e-3
    config.train.batch_size = 512
    config.train.num_steps = 20_000
    if preset == "dsprites":
        config.data.name = "dsprites"
    if preset in ("mnist", "fashion"):
        config.data.name = "mnist" if preset == "mnist" else "fashion_mnist"
        config.model.discrete = (10,)
    if preset == "celeba":
        config.data.name = "celeba"
        config.model.name = "conv64"
        config.model.latent_dim = 20
        config.model.discrete = (2,)
        config.optimizer.learning_rate = 1e-4
    if preset == "quick":
        config = config_lib.quick(config)
        # The batch estimates the aggregate posterior; 32 examples are too few.
        config.train.batch_size = 128
        config.model.widths = (400,)
        config.model.head_width = 200
    return config
