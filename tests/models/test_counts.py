"""Parameter counts: those of the published runs, and those worked out by hand."""

import pytest

from disentangle_jax import models

SMALL, LARGE = (64, 64, 3), (128, 128, 3)

# Printed by the published runs, or derived from formulas that reproduce those.
PUBLISHED = {
    ("ae", SMALL): 1_022_671,
    ("wae", SMALL): 1_022_671,
    ("vae", SMALL): 1_024_219,
    ("sae-2", SMALL): 973_007,
    ("sae-3", SMALL): 997_903,
    ("sae-4", SMALL): 1_022_799,
    ("sae-6", SMALL): 1_072_591,
    ("sae-12", SMALL): 1_221_967,
    ("adaae-12", SMALL): 1_230_415,
    ("vlae-2", SMALL): 869_259,
    ("vlae-3", SMALL): 887_019,
    ("vlae-4", SMALL): 904_779,
    ("vlae-6", SMALL): 940_299,
    ("vlae-12", SMALL): 1_046_859,
    ("ae", LARGE): 5_311_139,
    ("sae-16", LARGE): 6_597_411,
    ("adaae-16", LARGE): 6_628_131,
    ("vlae-16", LARGE): 5_881_763,
}


@pytest.mark.parametrize("name, image_shape", PUBLISHED)
def test_published_counts(name, image_shape):
    assert models.parameter_count(name, image_shape) == PUBLISHED[name, image_shape]


def test_robot_finger_run():
    # 256 channels, strided convolutions down and 4×4 transposed ones up.
    count = models.parameter_count(
        "ae", LARGE, channels=256, latent_dim=16, resampling="stride"
    )
    assert count == 21_426_963
