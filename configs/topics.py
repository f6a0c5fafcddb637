"""Topic models with the objective of HFVAE: ProdLDA and NVDM on 20 Newsgroups.

Paper: Esmaeili et al., "Structured Disentangled Representations", Sec. 5.2: two groups
of 25 topics; beta 0.1 lets topics of different groups correlate, and gamma 4 keeps
those of one group independent. Networks, prior and optimizer of ProdLDA are those of
its authors' public code (Srivastava and Sutton, "Autoencoding Variational Inference for
Topic Models"), with 200 epochs. Those of NVDM follow Miao et al., "Neural Variational
Inference for Text Processing", except that encoder and decoder are trained together,
not in turns.

Command::

    python -m disentangle_jax.main --config=configs/topics.py:prodlda

trains ProdLDA on scikit-learn's file of 20 Newsgroups; ``:nvdm`` trains NVDM on it.
Without a preset, ProdLDA learns a synthetic corpus of known topics that correlate in
pairs, which needs no download. ``:quick`` is the same with fewer steps and takes a
minute on a 2-core CPU. ``--config.method.beta=1 --config.method.gamma=1`` is the VAE
objective of ProdLDA and NVDM.

Expected: with ``:quick`` (half a minute of training) and the seeds 0, 1, 2, the pairs
of topics that correlate by 0.76 in the corpus correlate by 0.76, 0.78 and 1.00 in the
model, and 5, 3 and 5 of the five pairs lie in different groups; topics of one group
correlate by 0.16 on average. The VAE objective merges such pairs (0.98 to 1.00),
separates 3, 3 and 5 of them, and has 0.30 within groups. ``:nvdm`` with batch 200,
learning rate 1e-3 and 600 steps, three seeds: mean correlation 0.097 within and 0.131
between groups, perplexity per word 1031 ± 5; with the VAE objective 0.137 and 0.138,
and 982 ± 6. ``:prodlda`` for its 9,800 steps, seed 0: 4 active topics, correlation 0.42
within and 0.60 between groups; with the VAE objective all 50 topics, 0.586 and 0.588
(the paper: 11 and 50 topics).
"""

from disentangle_jax import config as config_lib


def get_config(preset: str = ""):
    config_lib.check_preset("topics", preset, ("prodlda", "nvdm", "quick"))
    config = config_lib.default()
    config.data.name = "synthetic_topics"
    config.model.name = "prodlda"
    config.model.groups = 2
    config.method.name = "prodlda"
    config.method.alpha = 1.0
    config.method.beta = 0.1
    config.method.gamma = 4.0
    config.optimizer.learning_rate = 2e-3
    config.optimizer.b1 = 0.99
    config.train.batch_size = 200
    config.train.num_steps = 10_000
    config.eval.batch_size = 256
    config.eval.scores = ()
    if preset in ("prodlda", "nvdm"):
        config.data.name = "newsgroups"
        config.model.latent_dim = 50
    else:
        config.data.options.documents = 10_000
        config.data.options.topics = 10
        config.model.latent_dim = 10
    if preset == "nvdm":
        config.model.name = config.method.name = "nvdm"
        config.optimizer.learning_rate = 5e-5
        config.optimizer.b1 = 0.9
        config.train.batch_size = 64
        config.train.num_steps = 150_000
    if preset == "quick":
        config.train.num_steps = 3000
        config.train.log_every = 100
        config.train.steps_per_dispatch = 10
    return config
