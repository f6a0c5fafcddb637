"""HFVAE: a Concrete variable for the class and a group of continuous ones for style.

Paper: Esmaeili et al., "Structured Disentangled Representations", Eq. 4; sizes of its
Table 2, beta and gamma of its Table 3. Temperature, learning rate and the networks for
28 px are those of the authors' public example.

Command::

    python -m disentangle_jax.main --config=configs/hfvae.py

trains on a dSprites that needs no download. ``--config=configs/hfvae.py:dsprites``
takes the publisher's file, ``:mnist`` and ``:fashion`` those of MNIST and
Fashion-MNIST, ``:celeba`` those of CelebA, with convolutional networks;
``--config.lanes.seeds=5 --config.lanes.sweep.method.beta=2,3,4,6`` trains Fig. 6's
strengths in one program. ``--config=configs/hfvae.py:quick`` has smaller networks and
takes some minutes on a 2-core CPU. ``configs/experiments/structured.py`` runs the
paper's analyses.

The temperature is annealed by a schedule, a factor on ``method.temperature``: from 0.66
to 0.1 in the first 10,000 steps by
``--config.train.schedules.temperature="('linear', 1.0, 0.15, 0, 10000)"``.

Priors are independent. ``--config.method.correlation=full`` learns the correlation of
the continuous variables; ``between``, with two or more groups of them
(``--config.method.groups=(5,5,1)``), that between groups; a matrix is taken as given.

Expected: scores vary more by seed than by strength (paper, Sec. 5.1): train several.
Where the continuous variables tell images apart, what the class knows of an image they
know too, I(z; c) = I(x; c), and beta is a price on the class itself: after some epochs
at beta 4 it may hold nothing yet. Train longer, or begin with a smaller beta
(``--config.train.schedules.beta="('linear', 0.0, 1.0, 0, 10000)"``).
The last numbers of a code are its class as a one-hot vector.
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
        # The aggregate posterior is estimated from the batch: 32 are few.
        config.train.batch_size = 128
        config.model.widths = (400,)
        config.model.head_width = 200
    return config
