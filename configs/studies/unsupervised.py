"""The large study of unsupervised disentanglement: 12,600 models.

Paper: Locatello et al., "Challenging Common Assumptions in the Unsupervised Learning of
Disentangled Representations", Sec. 5 and Table 2: 7 datasets × 6 methods × 6
hyperparameter values × 50 seeds, in 42 groups of 300 models that share a program.

Command::

    python -m launch.sweep --config=configs/studies/unsupervised.py --workdir=DIR \\
        --cluster=slurm --gpus=1 --partition=NAME
    python -m launch.sweep status --workdir=DIR
    python -m disentangle_jax.main study DIR

``--dry_run`` prints the packs and an estimate of the time. ``:dsprites`` trains the
1,800 models of dSprites only. ``:mini`` trains 2 datasets × 6 methods × 3
hyperparameter values × 3 seeds of a small network for a few steps, which takes ten
minutes on an idle 2-core CPU. Its datasets are dSprites, from the complete file in the
data folder (``DISENTANGLE_DATA_DIR``), and rendered dSprites, which need no download.
If the file is missing, the packs of the first fail with a message that says what to
fetch, and the study covers the second only.

Expected (the paper, at full size): seeds and hyperparameters matter more than the
method. The method alone explains 1 … 89 % of the variance of a score, with its
hyperparameter 4 … 93 %. A hyperparameter value chosen on one dataset and score beats a
random one in 80.7 % of cases on another seed, 59.3 % on another dataset, 54.9 % on
another dataset and score.
"""

from ml_collections import ConfigDict

from disentangle_jax import config as config_lib

DATASETS = (
    "dsprites",
    "color_dsprites",
    "noisy_dsprites",
    "scream_dsprites",
    "smallnorb",
    "cars3d",
    "shapes3d",
)
# Fixed fields of each method, its swept field and the six values of it.
METHODS = {
    "beta_vae": ({}, "beta", (1.0, 2.0, 4.0, 6.0, 8.0, 16.0)),
    "annealed_vae": ({}, "c_max", (5.0, 10.0, 25.0, 50.0, 75.0, 100.0)),
    "factor_vae": ({}, "gamma", (10.0, 20.0, 30.0, 40.0, 50.0, 100.0)),
    "dip_vae_i": ({}, "lambda_od", (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)),
    "dip_vae_ii": ({}, "lambda_od", (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)),
    "beta_tc_vae": (
        {"estimator": "naive", "kl": "analytic"},
        "beta",
        (1.0, 2.0, 4.0, 6.0, 8.0, 10.0),
    ),
}
SEEDS = 50

MINI_DATASETS = ("dsprites", "rendered_dsprites")
MINI_SEEDS = 3
# The annealing must end within the few steps, and the critic must be small.
MINI_FIXED = {
    "annealed_vae": {"threshold": 300.0},
    "factor_vae": {"critic_width": 64, "critic_learning_rate": 1e-3},
}


def get_config(preset: str = ""):
    config_lib.check_preset("studies/unsupervised", preset, ("mini", "dsprites"))
    config = config_lib.study()
    # As the study: no split, and a seed also orders the images.
    config.data.split_recipe = "none"
    config.train.input = "device"
    config.lanes.same_batches = False
    config.train.checkpoint_every = 10_000
    config.train.log_every = 1000
    config.train.keep_checkpoints = 1
    config.eval.scores = (
        "beta_vae_score",
        "factor_vae_score",
        "mig",
        "dci",
        "modularity",
        "sap",
        "downstream",
    )
    config.eval.interventions = "dataset"
    config.eval.batch_size = 1024
    # Labels that a logistic regression predicts the factors from, beside the trees of
    # `downstream`.
    config.study = ConfigDict({"logistic_labels": (10, 100, 1000, 10_000)})
    if preset == "mini":
        config.study.logistic_labels = (10, 100)
        config.model.name = "fc1200"
        config.model.width = 64
        config.model.latent_dim = 6
        config.optimizer.learning_rate = 1e-3
        config.train.batch_size = 32
        config.train.num_steps = 800
        config.train.log_every = 100
        config.train.checkpoint_every = 400
        config.eval.interventions = "codes"  # Encoding the whole set takes minutes.
        config.eval.batch_size = 64
        config.eval.num_train = 1000
        config.eval.num_test = 500
        config.eval.hybrid_bank = 32
    return config


def sweep(add, preset: str = ""):
    mini = preset == "mini"
    datasets = {"mini": MINI_DATASETS, "dsprites": ("dsprites",)}.get(preset, DATASETS)
    for dataset in datasets:
        for method, (fixed, field, values) in METHODS.items():
            fixed = {**fixed, **(MINI_FIXED.get(method, {}) if mini else {})}
            fields = {"data.name": dataset, "method.name": method}
            fields |= {f"method.{name}": value for name, value in fixed.items()}
            for strength in values[::2] if mini else values:
                for seed in range(MINI_SEEDS if mini else SEEDS):
                    add(
                        {**fields, f"method.{field}": strength, "train.seed": seed},
                        dataset=dataset,
                        method=method,
                        strength=strength,
                        seed=seed,
                    )
