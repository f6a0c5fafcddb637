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


# Study networks with 10 latents on 64×64×3. A convolution k×k from I to O channels has
# k²·I·O + O parameters, a dense layer I·O + O.
DLIB_ENCODER = (
    (16 * 3 * 32 + 32)  # 1 568
    + (16 * 32 * 32 + 32)  # 16 416
    + (4 * 32 * 64 + 64)  # 8 256: 2×2 kernels
    + (4 * 64 * 64 + 64)  # 16 448
    + (4 * 4 * 64 * 256 + 256)  # 262 400
    + 2 * (256 * 10 + 10)  # 5 140: mean and log-variance
)
DLIB_DECODER = (
    (10 * 256 + 256)  # 2 816
    + (256 * 1024 + 1024)  # 263 168
    + (16 * 64 * 64 + 64)  # 65 600
    + (16 * 64 * 32 + 32)  # 32 800
    + (16 * 32 * 32 + 32)  # 16 416
    + (16 * 32 * 3 + 3)  # 1 539
)
BURGESS = (
    (16 * 3 * 32 + 32)
    + 3 * (16 * 32 * 32 + 32)
    + (4 * 4 * 32 * 256 + 256)
    + (256 * 256 + 256)
    + 2 * (256 * 10 + 10)
    + (10 * 256 + 256)
    + (256 * 256 + 256)
    + (256 * 512 + 512)
    + 3 * (16 * 32 * 32 + 32)
    + (16 * 32 * 3 + 3)
)
MICHLO = (
    (16 * 3 * 32 + 32)
    + (16 * 32 * 32 + 32)
    + (16 * 32 * 64 + 64)
    + (16 * 64 * 64 + 64)
    + (5 * 5 * 64 * 256 + 256)  # 64 px become 33, 17, 9, 5 with padding 2
    + 2 * (256 * 10 + 10)
    + DLIB_DECODER
)


@pytest.mark.parametrize(
    "variant, count",
    [
        ("dlib", DLIB_ENCODER + DLIB_DECODER),
        ("burgess", BURGESS),
        ("michlo", MICHLO),
    ],
)
def test_study_counts(variant, count):
    assert models.parameter_count("conv64", SMALL, kernel_variant=variant) == count


def test_study_totals():
    # The sums above, written out once.
    assert DLIB_ENCODER + DLIB_DECODER == 692_567
    assert BURGESS == 504_055
    assert MICHLO == 913_751


def test_fc1200_count():
    pixels = 64 * 64
    encoder = (pixels * 1200 + 1200) + (1200 * 1200 + 1200) + 2 * (1200 * 10 + 10)
    decoder = (10 * 1200 + 1200) + 2 * (1200 * 1200 + 1200) + (1200 * pixels + pixels)
    assert models.parameter_count("fc1200", (64, 64, 1)) == encoder + decoder


def test_network_of_the_co_authors_faces():
    channels, h, w = (3, 64, 128, 128, 256), 512, 4 * 4 * 256
    pairs = list(zip(channels, channels[1:]))
    encoder = sum(16 * i * o + o for i, o in pairs) + (w * h + h)
    encoder += (h * 2 + 2) + 2 * ((h + 2) * 20 + 20)  # classes, then mean and deviation
    decoder = (22 * h + h) + (h * w + w) + sum(16 * i * o + i for i, o in pairs)
    # Scale and shift of each hidden channel: two maps of each size but the images'.
    norms = 2 * (sum(channels[1:]) + h) + 2 * (h + w + sum(channels[1:-1]))
    count = models.parameter_count("hfvae-conv", SMALL)
    assert count == encoder + decoder + norms
