"""AbsAE and ReL: regions of the code for combinations of factors, and relations.

Paper: "Leveraging Relational Information for Learning Weakly Disentangled
Representations". Sizes are those of its Appendix A; batch sizes, learning rates and
weights are those of Sec. 4.2 and of its code. Epochs are counted as steps (dSprites:
58 batches of 1024 per epoch, 1,000 epochs of warm-up and 5,000 more).

Command::

    python -m disentangle_jax.main --config=configs/absae.py

trains on a rendered dSprites, which needs no download.
``--config=configs/absae.py:dsprites`` uses the publisher's file, ``:symbols`` the
handwritten symbols of HWF, and ``:shapes3d`` our rendering of 3D Shapes.
``--config=configs/absae.py:quick`` takes a few minutes on a 2-core CPU: it has narrow
networks, higher learning rates with a smaller beta, and labelled images in every step.

The report shows the decoded regions, relations on test images, and accuracies like
those of the paper's Tables 4 and 5. To use your own relations, call
``data.add_relations`` in a copy of this file and give their name as
``method.relations``.

Expected: with ``:quick`` on rendered dSprites (seed 0), 99.3 % of test images were
assigned to the right one of 27 regions, and 99.5 % of them were accepted at
alpha = 0.5. One relation led to the right region for 99.2 % of test images, ten
successive relations for 95.9 %. The density threshold alpha depends on the scale of the
code.
"""

from disentangle_jax import config as config_lib

_PRESETS = ("dsprites", "shapes3d", "symbols", "quick")


def get_config(preset: str = ""):
    config_lib.check_preset("absae", preset, _PRESETS)
    config = config_lib.default()
    config.data.name = "rendered_dsprites_27"
    config.model.name = "absae"
    config.model.channels = 32
    config.model.latent_dim = 8
    method = config.method
    method.name = "absae"
    method.relations = "dsprites"  # a name of data.relations
    method.relation_loss = "nll"  # as in the paper; its code has "mse"
    method.relation_batch = 128  # examples per relation
    method.warmup_steps = 58_000
    method.refit_every = 0  # 0: once, as in the paper
    method.labelled_batch = 0  # labelled images per step; 0 in the paper
    method.width = 1024  # units per layer of the discriminator and of ReL
    method.depth = 4
    method.beta = 0.2
    method.gamma = 1.0
    method.discriminator_learning_rate = 1e-4
    method.relation_learning_rate = 1e-4
    method.tau = 20.0  # labelled images per combination of factors
    method.covariance_scale = 0.1
    method.shrinkage = 1.0  # as a number of samples
    method.label_weight = 1.0
    config.optimizer.learning_rate = 1e-4
    config.train.batch_size = 1024
    config.train.num_steps = 348_000
    config.train.input = "device"
    config.eval.scores = ("mig",)
    if preset == "dsprites":
        config.data.name = "dsprites_27"
    if preset == "shapes3d":
        config.data.name = "rendered_shapes3d_120"
        config.model.channels = 64
        config.model.latent_dim = 16
        method.relations = "shapes3d"
        method.tau = 30.0
        config.optimizer.learning_rate = 1e-5
        method.discriminator_learning_rate = 1e-5
        method.relation_learning_rate = 1e-5
        # 13 batches of 1024 per epoch, 5,000 epochs of warm-up and 10,000 more.
        method.warmup_steps = 65_000
        config.train.num_steps = 195_000
    if preset == "symbols":
        config.data.name = "symbols_13"
        method.relations = "symbols"
        method.relation_batch = 256
        # 5 batches of 1024 per epoch (of the smaller dataset of symbols).
        method.warmup_steps = 5_000
        config.train.num_steps = 30_000
    if preset == "quick":
        config = _quick(config)
    return config


def _quick(config):
    """Returns `config` with narrow networks, fewer steps and labels in every step."""
    config.data.options.noisy_copies = 0
    config.model.channels = 8
    config.method.width = 256
    config.method.depth = 3
    config.method.warmup_steps = 500
    config.method.labelled_batch = 32
    config.method.label_weight = 0.1
    # At higher learning rates beta must be smaller: otherwise the codes change faster
    # than the discriminator can follow.
    config.optimizer.learning_rate = 1e-3
    config.method.beta = 0.005
    config.method.discriminator_learning_rate = 3e-3
    config.method.relation_learning_rate = 2e-3
    config.method.covariance_scale = 0.25
    config.method.shrinkage = 8.0
    config.train.batch_size = 64
    config.train.num_steps = 2000
    config.train.log_every = 50
    config.train.checkpoint_every = 250
    config.eval.num_train = 1000
    config.eval.num_test = 1000
    return config
