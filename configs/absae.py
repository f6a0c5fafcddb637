"""AbsAE and ReL: regions of the code for combinations of factors, relations as moves.

Paper: "Leveraging Relational Information for Learning Weakly Disentangled
Representations". Sizes of its Appendix A, batches, rates and weights of Sec. 4.2 and of
its code; epochs are counted as steps (dSprites: 58 batches of 1024 an epoch, 1,000
epochs of warm-up and 5,000 more).

Command::

    python -m disentangle_jax.main --config=configs/absae.py

trains on a dSprites that needs no download. ``--config=configs/absae.py:dsprites``
takes the publisher's file, ``:symbols`` the handwritten symbols of HWF, ``:shapes3d``
our rendering of 3D Shapes. ``--config=configs/absae.py:quick`` takes some minutes on a
2-core CPU: narrow networks, faster rates beside a smaller beta, and some labelled
images in every step.

A run's page shows the decoded regions, relations on test images, and accuracies like
those of the paper's Tables 4 and 5. Relations of your own: ``data.add_relations`` in a
copy of this file, and their name as ``method.relations``.

Expected: the quick setting on rendered dSprites (seed 0) gave test images the right one
of 27 regions in 99.3 %, 99.5 % of them accepted at alpha = 0.5; one relation led to the
right region in 99.2 % of test images, ten in a row in 95.9 %. The density threshold
alpha depends on the scale of the code.
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
    method.relations = "dsprites"  # a name that data.relations knows
    method.relation_loss = "nll"  # the paper's; "mse" is its code's
    method.relation_batch = 128  # of each relation
    method.warmup_steps = 58_000
    method.refit_every = 0  # once, as in the paper
    method.labelled_batch = 0  # labelled images a step; the paper has none
    method.width = 1024  # of the discriminator and of ReL
    method.depth = 4
    method.beta = 0.2
    method.gamma = 1.0
    method.discriminator_learning_rate = 1e-4
    method.relation_learning_rate = 1e-4
    method.tau = 20.0  # labelled images of each combination
    method.covariance_scale = 0.1
    method.shrinkage = 1.0  # in samples
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
        # 13 batches of 1024 an epoch, 5,000 epochs of warm-up and 10,000 more.
        method.warmup_steps = 65_000
        config.train.num_steps = 195_000
    if preset == "symbols":
        config.data.name = "symbols_13"
        method.relations = "symbols"
        method.relation_batch = 256
        # 5 batches of 1024 an epoch (of the smaller set of symbols).
        method.warmup_steps = 5_000
        config.train.num_steps = 30_000
    if preset == "quick":
        config = _quick(config)
    return config


def _quick(config):
    """Returns `config` with narrow networks, faster steps and labels in every step."""
    config.data.options.noisy_copies = 0
    config.model.channels = 8
    config.method.width = 256
    config.method.depth = 3
    config.method.warmup_steps = 500
    config.method.labelled_batch = 32
    config.method.label_weight = 0.1
    # At faster rates the codes outrun the discriminator unless beta is smaller.
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
