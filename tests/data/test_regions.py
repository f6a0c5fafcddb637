"""Datasets in labelled regions: bands, splits before copies, labelled images."""

import numpy as np
import pytest

from disentangle_jax import data


def combinations(dataset):
    factors = dataset.factors(dataset.indices)
    return np.ravel_multi_index(tuple(factors.T), dataset.factor_sizes)


@pytest.fixture(scope="module")
def sprites():
    return data.load("rendered_dsprites_27", split="all")


def test_rendered_dsprites_are_those_of_the_bands(sprites):
    # 3 shapes × 3 scales × 6 orientations × 15 × 15 places: facts of the paper's code.
    assert len(sprites) == 3 * 3 * 6 * 15 * 15 == 12_150
    assert sprites.factor_names == ("shape", "x", "y")
    assert sprites.factor_sizes == (3, 3, 3)
    assert (np.bincount(combinations(sprites)) == 450).all()
    # The position of the ink determines the band.
    images = sprites.images(sprites.indices)[..., 0] / 255
    ink = images.sum(axis=(1, 2))
    pixel = np.arange(64)
    x = (images.sum(axis=1) @ pixel) / ink
    y = (images.sum(axis=2) @ pixel) / ink
    _, column, row = sprites.factors(sprites.indices).T
    for place, factor in ((x, column), (y, row)):
        for band, (low, high) in enumerate([(13, 21), (26, 35), (41, 49)]):
            own = place[factor == band]
            assert low < own.min() and own.max() < high


def test_split_comes_before_the_copies(sprites):
    train = data.load("rendered_dsprites_27", split="train", noisy_copies=1)
    test = data.load("rendered_dsprites_27", split="test", noisy_copies=1)
    plain = sprites.split("train")
    assert len(train) == 3 * len(plain.indices) == 3 * 8505
    assert len(test.indices) == 2430  # Plain, and none of them is in training.
    assert not set(plain.indices) & set(test.indices)
    count = len(plain.indices)
    chosen = np.array([0, 5, 700])
    first = plain.images(plain.indices[chosen])
    np.testing.assert_array_equal(train.images(chosen), first)
    gaussian = train.images(chosen + count)
    assert (gaussian[first == 0] == 0).all() and (gaussian != first).any()
    bernoulli = train.images(chosen + 2 * count)
    assert ((bernoulli == first) | (bernoulli == 0)).all()
    kept = (bernoulli > 0).sum() / (first > 0).sum()
    assert abs(kept - 0.7) < 0.05
    np.testing.assert_array_equal(
        train.factors(chosen + count), plain.factors(plain.indices[chosen])
    )
    # The training part lies in memory, so that steps can draw from it.
    draw, arrays = data.device_sampler(train)
    assert arrays["images"].shape == (len(train), 64, 64, 1)


@pytest.mark.parametrize(
    "recipe, shares", [("paper", (7, 1, 2)), ("sae_code", (7.2, 0.8, 2))]
)
def test_every_recipe_splits_before_the_copies(sprites, recipe, shares):
    """Another recipe used to split the whole and dropped the copies."""
    parts = data.split_indices(len(sprites), recipe=recipe)
    options = {"split_recipe": recipe, "noisy_copies": 1}
    for (split, indices), share in zip(parts.items(), shares):
        assert len(indices) == round(12_150 * share / 10)
        found = data.load("rendered_dsprites_27", split=split, **options)
        copies = 3 if split == "train" else 1
        assert len(found.indices) == copies * len(indices)
        np.testing.assert_array_equal(
            found.images(found.indices[: len(indices)]), sprites.images(indices)
        )


def test_smaller_sprites_are_means_of_pixels(sprites):
    small = data.load("rendered_dsprites_27", split="test", size=32)
    assert small.image_shape == (32, 32, 1)
    chosen = small.indices[:5]
    large = sprites.images(chosen).astype(float).reshape(5, 32, 2, 32, 2)
    means = np.round(large.mean(axis=(2, 4)))
    np.testing.assert_array_equal(small.images(chosen)[..., 0], means)
    # The noise is added to the smaller images.
    options = {"size": 32, "noisy_copies": 1}
    train = data.load("rendered_dsprites_27", split="train", **options)
    copy = train.images([2 * len(train) // 3])  # The first with Bernoulli noise.
    plain = train.images([0])
    assert ((copy == plain) | (copy == 0)).all() and (copy != plain).any()


def test_bands_of_the_coarse_real_grid(real_data):
    folder = real_data / "dsprites"
    sprites = data.load("dsprites_27", data_dir=folder, split="all")
    # x and y: 0, 2, 4 | 14, 16 | 28, 30; orientations 0, 4, 36; scales 2, 3, 4.
    assert len(sprites) == 3 * 3 * 3 * 7 * 7
    counts = np.bincount(combinations(sprites)).reshape(3, 3, 3)
    places = np.array([3, 2, 2])
    np.testing.assert_array_equal(counts[0], 9 * np.outer(places, places))
    whole = np.load(folder / "dsprites_downsampled.npz", allow_pickle=True)
    places = np.unravel_index(whole["original_dataset_indices"], (3, 6, 40, 32, 32))
    shape, scale, turn, x, y = places
    upright = np.isin(turn, [0, 4, 36])
    small = upright & np.isin(scale, [2, 3, 4]) & (shape == 1) & (x <= 4) & (y >= 27)
    wanted = whole["imgs"][small]
    found = sprites.keep(shape=[1], x=[0], y=[2])
    found = sprites.images(found.indices)[..., 0] // 255

    def rows(images):
        return sorted(image.tobytes() for image in images)

    assert rows(found) == rows(wanted)


def test_symbols_are_even_and_cropped_where_asked(real_data):
    options = {"data_dir": real_data / "symbols", "split_recipe": "sae_code"}
    raw = data.load("symbols_13", **options)
    counts = np.bincount(raw.factors(raw.indices)[:, 0])
    assert len(counts) == 13 and (counts == counts[0]).all()
    plain = data.load("hwf", **options)
    assert set(raw.indices) == set(plain.indices)
    np.testing.assert_array_equal(raw.images([0, 9]), plain.images([0, 9]))
    train = data.load("symbols_13", crop=True, **options)
    test = data.load("symbols_13", split="test", crop=True, **options)
    assert not set(train.indices) & set(test.indices)
    assert len(np.unique(test.indices)) == len(test.indices)
    ink = test.images(test.indices[:200])[..., 0] < 128
    rows, columns = ink.any(axis=2), ink.any(axis=1)
    longest = np.maximum(rows.sum(axis=1), columns.sum(axis=1))
    assert (longest > 32).mean() > 0.95 and longest.max() <= 41


def test_labelled_images(rng):
    pictures = rng.integers(0, 255, (60, 2, 2, 1), dtype=np.uint8)
    labels = np.concatenate([np.zeros(40, int), np.ones(3, int), np.full(17, 3)])
    dataset = data.Dataset(
        "made", image_shape=(2, 2, 1), images=lambda i: pictures[i],
        factor_names=("a", "b"), factor_sizes=(2, 2),
        factor_table=np.stack(np.divmod(labels, 2), axis=1),
    )  # fmt: skip
    dataset = dataset.narrow(np.repeat(np.arange(60), 2))  # Repeated ones count once.
    some = data.labelled_images(dataset, 4, seed=3)
    assert some["image"].shape == (4, 4, 2, 2, 1)
    assert some["count"].tolist() == [4, 3, 0, 4]  # One has too few, one has none.
    assert (some["image"][2] == 0).all()
    for number in (0, 1, 3):
        own = {image.tobytes() for image in pictures[labels == number]}
        drawn = [
            image.tobytes() for image in some["image"][number, : some["count"][number]]
        ]
        assert len(set(drawn)) == len(drawn) and set(drawn) <= own
    more = data.labelled_images(dataset, 10, seed=3)
    np.testing.assert_array_equal(more["image"][0, :4], some["image"][0])
    other = data.labelled_images(dataset, 4, seed=4)
    assert (other["image"][0] != some["image"][0]).any()
    with pytest.raises(ValueError, match="at least 1, got 0"):
        data.labelled_images(dataset, 0, seed=0)
