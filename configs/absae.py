"""AbsAE and ReL: regions of the code for combinations of factors, and relations.

Paper: "Leveraging Relational Information for Learning Weakly Disentangled
Representations". Sizes are those of its Appendix A; batch sizes, learning rates,
weights and epochs are those of Sec. 4.2 and of its code. 72 % of the images are trained
on, 8 % validate and 20 % test (Sec. 4.1), and the split comes before the noisy copies.
Epochs are counted as steps: dSprites has 61,236 training images with their copies,
1,000 epochs of warm-up and 5,000 more; HWF 36,486; 3D Shapes, in our choice of images,
13,824, with 5,000 and 10,000 epochs. Labels influence only the fit of the regions;
``configs/absae_labelled.py`` is our variant that uses them in every step.

Command::

    python -m disentangle_jax.main --config=configs/absae.py

trains on a rendered dSprites, which needs no download. ``:dsprites`` uses the
publisher's file, ``:symbols`` the handwritten symbols of HWF, and ``:shapes3d`` 3D
Shapes (``--config.data.name=rendered_shapes3d_120`` for our rendering of it).
``:quick`` has narrow networks and few steps, which take a few minutes on a 2-core CPU;
``:symbols_quick`` and ``:shapes3d_quick`` (our rendering) are the same for the others.

The report shows the decoded regions, relations on test images, and accuracies like
those of the paper's Tables 4 and 5. To use your own relations, call
``data.add_relations`` in a copy of this file and give their name as
``method.relations``.

Expected: with ``:quick`` on rendered dSprites (seed 0, then with a 70/10/20 split),
97.6 % of test images were assigned to the right one of 27 regions, and 71 % of them
were accepted at alpha = 0.5 (the density threshold depends on the scale of the code).
One relation led to the right region for 96.3 % of test images, ten successive relations
for 95.7 %.
"""

from disentangle_jax import config as config_lib

_SETS = ("dsprites", "shapes3d", "symbols")
_PRESETS = (*_SETS, "quick", "symbols_quick", "shapes3d_quick")


def get_config(preset: str = ""):
    config_lib.check_preset("absae", preset, _PRESETS)
    config = config_lib.default()
    config.data.name = "rendered_dsprites_27"
    config.data.split_recipe = "sae_code"  # 72/8/20
    config.model.name = "absae"
    config.model.channels = 32
    config.model.latent_dim = 8
    method = config.method
    method.name = "absae"
    method.relations = "dsprites"  # a name of data.relations
    method.relation_loss = "nll"  # as in the paper; its code has "mse"
    method.relation_batch = 128  # examples per relation; for HWF its code has 256
    method.warmup_steps = _steps(1_000, 61_236)
    method.refit_every = 0  # 0: once, as in the paper
    method.width = 1024  # units per layer of the discriminator and of ReL
    method.depth = 4
    method.beta = 0.2
    method.gamma = 1.0
    method.discriminator_learning_rate = 1e-4
    method.relation_learning_rate = 1e-4
    method.tau = 20.0  # labelled images per combination of factors
    method.covariance_scale = 0.1
    method.shrinkage = 1.0  # as a number of samples
    config.optimizer.learning_rate = 1e-4
    config.train.batch_size = 1024
    config.train.num_steps = _steps(6_000, 61_236)
    config.train.input = "device"
    config.eval.scores = ("mig",)
    if preset == "dsprites":
        config.data.name = "dsprites_27"
    if preset.startswith("shapes3d"):
        config.data.name = "shapes3d_120"
        config.model.channels = 64
        config.model.latent_dim = 16
        method.relations = "shapes3d"
        method.tau = 30.0
        config.optimizer.learning_rate = 1e-5
        method.discriminator_learning_rate = 1e-5
        method.relation_learning_rate = 1e-5
        method.warmup_steps = _steps(5_000, 13_824)
        config.train.num_steps = _steps(15_000, 13_824)
    if preset.startswith("symbols"):
        config.data.name = "symbols_13"
        method.relations = "symbols"
        # An epoch draws as many images as HWF has for training, each symbol as often.
        method.warmup_steps = _steps(1_000, 36_486)
        config.train.num_steps = _steps(6_000, 36_486)
    if preset.endswith("quick"):
        config = _small(config)
    if preset == "shapes3d_quick":
        config.data.name = "rendered_shapes3d_120"
        config.model.channels = 16
    if preset == "symbols_quick":
        config.data.options.crop = True
    return config


def _steps(epochs: int, images: int) -> int:
    """Returns the number of batches of 1024 in `epochs` over `images`."""
    return epochs * images // 1024


def _small(config):
    """Returns `config` with narrow networks, small batches and fewer steps."""
    config.data.options.noisy_copies = 0
    config.model.channels = 8
    config.method.width = 256
    config.method.depth = 3
    config.method.warmup_steps = 500
    # At higher learning rates beta must be smaller: otherwise the codes change faster
    # than the discriminator can follow.
    config.optimizer.learning_rate = 1e-3
    config.method.beta = 0.005
    config.method.discriminator_learning_rate = 3e-3
    config.method.relation_learning_rate = 2e-3
    config.method.covariance_scale = 0.25
    config.method.shrinkage = 8.0
    config.train.batch_size = 64
    config.train.num_steps = 4000
    config.train.log_every = 50
    config.train.checkpoint_every = 250
    config.eval.num_train = 1000
    config.eval.num_test = 1000
    return config
