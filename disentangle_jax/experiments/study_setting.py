"""The setting of the large study, and where a sweep differs from it.

Locatello et al., "Challenging Common Assumptions in the Unsupervised Learning of
Disentangled Representations" (2019), and its published code.
"""

from collections.abc import Mapping
from typing import Any

from disentangle_jax import rows

# Options that a config does not name have the study's value.
_SETTING = {
    "data.split_recipe": "none",
    "data.options.size": 64,
    "model.name": "conv64",
    "model.channel_scale": 1.0,
    "model.latent_dim": 10,
    "optimizer.learning_rate": 1e-4,
    "train.batch_size": 64,
    "train.num_steps": 300_000,
    "train.input": "device",
    "lanes.same_batches": False,
    "eval.num_train": 10_000,
    "eval.num_test": 5_000,
    "eval.interventions": "dataset",
}
_ALWAYS = (
    "MIG, DCI, SAP, modularity and the downstream tasks take images that are drawn "
    "without replacement; the study draws with replacement.",
    "BetaVAE and FactorVAE draw as the study does, but each image is encoded once: on "
    "coloured, noisy and Scream dSprites it keeps the noise of its first draw.",
    "DCI and GBT accuracies are those of our boosted trees, which split at histogram "
    "bins; DCI is within 0.02 of scikit-learn's trees, eval.scores "
    "'dci(estimator=gbt_exact)'.",
    "Cars are numbered by their file names; in the study by the order of the file "
    "system.",
    "Only mean codes are scored; the study also scores sampled ones, of which this "
    "page has the total correlation.",
)


def deviations(config: Mapping[str, Any]) -> list[str]:
    """Returns how a sweep differs from the study, a sentence each.

    Args:
      config: the config that its models share, as JSON holds it.
    """
    found = _SETTING | rows.flat(config)
    lines = [
        f"`{field}` is {found[field]!r}; in the study it is {value!r}."
        for field, value in _SETTING.items()
        if found[field] != value
    ]
    return [*lines, *_ALWAYS]
