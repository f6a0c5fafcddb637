"""Splits, restrictions, pairs and noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import data


@pytest.fixture(scope="module")
def shapes():
    return data.load("rendered_shapes3d", split="all")


@pytest.mark.parametrize("n", [10, 37, 480_000])
@pytest.mark.parametrize(
    "recipe, shares", [("paper", (0.7, 0.1, 0.2)), ("sae_code", (0.72, 0.08, 0.2))]
)
def test_split_indices(n, recipe, shares):
    parts = data.split_indices(n, recipe=recipe)
    assert list(parts) == ["train", "validation", "test"]
    together = np.concatenate(list(parts.values()))
    np.testing.assert_array_equal(np.sort(together), np.arange(n))
    for part, share in zip(parts.values(), shares):
        assert abs(len(part) - share * n) < 2
        assert (np.diff(part) > 0).all()
    np.testing.assert_array_equal(
        parts["test"], data.split_indices(n, recipe="paper")["test"]
    )


def test_split_sizes_of_shapes3d():
    paper = data.split_indices(480_000)
    assert [len(part) for part in paper.values()] == [336_000, 48_000, 96_000]
    code = data.split_indices(480_000, recipe="sae_code")
    assert [len(part) for part in code.values()] == [345_600, 38_400, 96_000]
    # The SAE code's test part: the last fifth of RandomState(0)'s permutation, sorted.
    order = np.random.RandomState(0).permutation(480_000)
    np.testing.assert_array_equal(code["test"], np.sort(order[-96_000:]))


def test_without_a_split_each_part_is_everything():
    parts = data.split_indices(7, recipe="none")
    assert list(parts) == ["train", "validation", "test"]
    for part in parts.values():
        np.testing.assert_array_equal(part, np.arange(7))


def test_splits_of_load_agree_with_split_indices():
    parts = data.split_indices(480_000)
    for split, indices in parts.items():
        dataset = data.load("rendered_shapes3d", split=split)
        np.testing.assert_array_equal(dataset.indices, indices)
        assert len(dataset) == 480_000
    default = data.load("rendered_shapes3d")
    np.testing.assert_array_equal(default.indices, parts["train"])
    assert len(data.load("rendered_shapes3d", split="all").indices) == 480_000


def test_bad_splits():
    with pytest.raises(ValueError, match="at least 10"):
        data.split_indices(9)
    with pytest.raises(ValueError, match="Did you mean 'paper'"):
        data.split_indices(100, recipe="papr")


def test_index_and_factors_are_inverse(shapes, rng):
    indices = rng.integers(0, len(shapes), 1000)
    np.testing.assert_array_equal(shapes.index_of(shapes.factors(indices)), indices)
    factors = shapes.factors([0, 1, 15, 60, 479_999])
    assert factors.tolist() == [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 1, 0],
        [0, 0, 0, 1, 0, 0],
        [9, 9, 9, 7, 3, 14],
    ]


def test_any_leading_shape(shapes, rng):
    indices = rng.integers(0, len(shapes), (2, 3))
    images, factors = shapes.images(indices), shapes.factors(indices)
    assert images.shape == (2, 3, 64, 64, 3) and factors.shape == (2, 3, 6)
    np.testing.assert_array_equal(images[1, 2], shapes.images(indices[1, 2]))
    np.testing.assert_array_equal(shapes.index_of(factors), indices)
    assert shapes.index_of([0, 0, 0, 0, 0, 7]) == 7


def test_drop_and_keep(shapes):
    no_spheres = shapes.drop(shape=[2])
    assert len(no_spheres.indices) == 360_000
    assert set(shapes.factors(no_spheres.indices)[:, 4]) == {0, 1, 3}
    angles = shapes.drop(orientation=[0, 1, 13, 14])
    assert len(angles.indices) == 480_000 * 11 // 15
    assert set(shapes.factors(angles.indices)[:, 5]) == set(range(2, 13))
    both = shapes.keep(shape=[0, 1], scale=range(3))
    assert len(both.indices) == 480_000 * 2 // 4 * 3 // 8
    # Restriction and split go together: what is held out and in the test part.
    test = data.load("rendered_shapes3d", split="test").keep(shape=[2])
    assert 23_500 < len(test.indices) < 24_500


def test_mnist_without_thick_sevens(real_data):
    digits = data.load("mnist", data_dir=real_data / "mnist", split="test")
    ink = digits.images(np.arange(len(digits))).mean((1, 2, 3))
    thickness = np.digitize(ink, np.quantile(ink, [0.25, 0.5, 0.75]))
    digits = digits.add_factor("thickness", thickness)
    assert digits.factor_names == ("label", "thickness")
    assert digits.factor_sizes == (10, 4)
    pruned = digits.drop_combination(label=[7], thickness=[3])
    kept = digits.factors(pruned.indices)
    assert not ((kept[:, 0] == 7) & (kept[:, 1] == 3)).any()
    assert ((kept[:, 0] == 7) & (kept[:, 1] == 2)).any()
    assert ((kept[:, 0] == 0) & (kept[:, 1] == 3)).any()
    unseen = digits.keep(label=[7], thickness=[3])
    assert len(unseen.indices) + len(pruned.indices) == 10_000
    first = digits.index_of([[7, 3]])
    np.testing.assert_array_equal(digits.factors(first), [[7, 3]])
    with pytest.raises(ValueError, match="must be 10000 integers from 0"):
        digits.add_factor("width", np.zeros(5, int))


def test_absae_selection_of_dsprites():
    # Weak Disentanglement's dSprites: 12,150 images.
    sprites = data.load("rendered_dsprites", split="all")
    ends = [*range(5), *range(13, 18), *range(27, 32)]
    chosen = sprites.keep(
        x=ends, y=ends, scale=[2, 3, 4], orientation=[0, 1, 2, 37, 38, 39]
    )
    assert len(chosen.indices) == 12_150
    assert len(data.with_noisy_copies(chosen)) == 85_050


def test_sample(shapes, getkey):
    key = getkey()
    few = shapes.narrow(np.arange(100, 110))
    sample = few.sample(key, 200)
    assert set(sample.indices) == set(range(100, 110))
    np.testing.assert_array_equal(sample.images, shapes.images(sample.indices))
    np.testing.assert_array_equal(sample.factors, shapes.factors(sample.indices))
    np.testing.assert_array_equal(few.sample(key, 200).indices, sample.indices)


SIZES = (10, 10, 10, 8, 4, 15)
pair_factors = jax.jit(data.pair_factors, static_argnums=2, static_argnames="k")


@pytest.mark.parametrize("k", [1, 3, 6])
def test_pairs_with_fixed_k(k, getkey, rng):
    factors = rng.integers(0, SIZES, (500, 6))
    partner, changed = pair_factors(getkey(), factors, SIZES, k=k)
    differ = np.asarray(partner) != factors
    np.testing.assert_array_equal(differ, changed)
    assert (differ.sum(1) == k).all()
    assert (np.asarray(partner) < SIZES).all() and np.asarray(partner).min() >= 0


def test_pairs_with_uniform_k(getkey):
    factors = np.zeros((12_000, 6), int)
    partner, changed = pair_factors(getkey(), factors, SIZES)
    count = np.asarray(changed).sum(1)
    share = np.bincount(count, minlength=7)[1:] / len(count)
    np.testing.assert_allclose(share, 1 / 6, atol=0.015)
    np.testing.assert_array_equal(np.asarray(partner) != 0, changed)
    # A changed factor takes each other value equally often.
    hue = np.asarray(partner)[np.asarray(changed)[:, 0], 0]
    np.testing.assert_allclose(
        np.bincount(hue, minlength=10)[1:] / len(hue), 1 / 9, atol=0.02
    )


def test_pairs_in_time(getkey):
    """Frequencies of each step are those of the discretised Laplace distribution."""
    sizes, n = (5, 1, 4), 40_000
    start = jnp.tile(jnp.array([[1, 0, 3]]), (n, 1))
    after, changed = pair_factors(getkey(), start, sizes, k="laplace")
    after = np.asarray(after)
    np.testing.assert_array_equal(changed, after != np.asarray(start))
    assert changed.any(axis=1).all() and not changed[:, 1].any()
    free = [_steps(1, 5), _steps(3, 4)]
    stay = free[0][1] * free[1][3]  # Then one of both takes another value.
    for column, one, now in ((0, free[0], 1), (2, free[1], 3)):
        others = one * (np.arange(len(one)) != now)
        own = np.where(np.arange(len(one)) == now, one - stay + stay / 2, one)
        want = own + stay / 2 * others / others.sum()
        seen = np.bincount(after[:, column], minlength=len(one)) / n
        np.testing.assert_allclose(seen, want, atol=0.01)


def _steps(now, size):
    density = np.array([np.exp(-abs(v - now) / np.log(size)) for v in range(size)])
    return density / density.sum()


def test_pairs_by_dlib(getkey):
    factors = np.zeros((20_000, 6), int)
    partner, changed = pair_factors(getkey(), factors, SIZES, k="dlib")
    count = np.asarray(changed).sum(1)
    # 1 with chance 1/2 + 1/2 · 1/5, each of 2 … 5 with 1/2 · 1/5, never all 6.
    share = np.bincount(count, minlength=7)
    expected = np.array([0, 0.6, 0.1, 0.1, 0.1, 0.1, 0])
    np.testing.assert_allclose(share / len(count), expected, atol=0.012)
    # A redrawn factor of size s stays as it was with chance 1/s.
    shape = np.asarray(changed)[:, 4]
    stayed = (np.asarray(partner)[shape, 4] == 0).mean()
    assert stayed == pytest.approx(1 / 4, abs=0.03)


def test_factors_with_one_value_never_change(getkey):
    partner, changed = pair_factors(getkey(), jnp.zeros((200, 3), int), (1, 4, 5))
    assert not np.asarray(changed)[:, 0].any() and not np.asarray(partner)[:, 0].any()
    with pytest.raises(ValueError, match=r"number of factors in \[1, 2\], got 3"):
        data.pair_factors(getkey(), jnp.zeros((2, 3), int), (1, 4, 5), k=3)
    with pytest.raises(ValueError, match="must be 'uniform'"):
        data.pair_factors(getkey(), jnp.zeros((2, 3), int), (1, 4, 5), k="dlb")


def test_sample_pairs(shapes, getkey):
    key = getkey()
    train = shapes.narrow(data.split_indices(len(shapes))["train"])
    pairs = train.sample_pairs(key, 64, k=2)
    assert ((pairs.factors1 != pairs.factors2).sum(1) == 2).all()
    for images, factors in (
        (pairs.images1, pairs.factors1),
        (pairs.images2, pairs.factors2),
    ):
        indices = shapes.index_of(factors)
        assert np.isin(indices, train.indices).all()
        np.testing.assert_array_equal(images, shapes.images(indices))
    again = train.sample_pairs(key, 64, k=2)
    np.testing.assert_array_equal(again.factors2, pairs.factors2)


def test_pairs_of_hidden_copies(getkey):
    # Two factors of 4 and 5 values, three images of each combination.
    dataset = data.Dataset(
        "copies",
        image_shape=(1, 1, 1),
        images=lambda indices: indices.astype(np.uint8).reshape(-1, 1, 1, 1),
        factor_names=("a", "b"),
        factor_sizes=(4, 5),
        copies=3,
    )
    assert len(dataset) == 60
    pairs = dataset.sample_pairs(getkey(), 500, k=1)
    shown1, shown2 = (x.ravel().astype(int) for x in (pairs.images1, pairs.images2))
    np.testing.assert_array_equal(dataset.factors(shown1), pairs.factors1)
    np.testing.assert_array_equal(dataset.factors(shown2), pairs.factors2)
    assert ((pairs.factors1 != pairs.factors2).sum(1) == 1).all()
    assert set(shown1 % 3) == set(shown2 % 3) == {0, 1, 2}


def test_impossible_pairs(shapes, getkey, real_data):
    lonely = shapes.narrow([0])
    with pytest.raises(ValueError, match="no partner"):
        lonely.sample_pairs(getkey(), 2, k=1)
    subset = data.load(
        "dsprites", data_dir=real_data / "dsprites", file="dsprites_subset.npz"
    )
    pairs = subset.sample_pairs(getkey(), 20)  # among the combinations it holds
    assert ((pairs.factors1 != pairs.factors2) == pairs.changed).all()


def test_interventions(shapes, getkey):
    indices = data.intervention_indices(
        getkey(), shapes, factor="shape", value=2, n=300
    )
    factors = shapes.factors(indices)
    assert (factors[:, 4] == 2).all()
    assert all(len(set(factors[:, column])) > 3 for column in (0, 1, 2, 3, 5))
    by_column = data.intervention_indices(getkey(), shapes, factor=0, value=7, n=10)
    assert (shapes.factors(by_column)[:, 0] == 7).all()


def test_labelled_subset(rng, getkey):
    groups = rng.integers(0, 3, (600, 2))
    places = data.labelled_subset(getkey(), groups, per_group=5)
    combinations, counts = np.unique(groups[places], axis=0, return_counts=True)
    assert len(combinations) == 9 and (counts == 5).all()
    assert len(set(places)) == 45
    other = data.labelled_subset(getkey(), groups, per_group=5)
    assert set(other) != set(places)
    with pytest.raises(ValueError, match="the size of the smallest group"):
        data.labelled_subset(getkey(), groups, per_group=600)


def test_class_balanced(getkey):
    labels = np.repeat([0, 1, 2], [5, 300, 3000])
    places = data.class_balanced(getkey(), labels, 6000)
    share = np.bincount(labels[places]) / 6000
    np.testing.assert_allclose(share, 1 / 3, atol=0.02)
    assert len(set(places[labels[places] == 1])) > 290


def test_class_balanced_stream(real_data, getkey):
    symbols = data.load("hwf", data_dir=real_data / "symbols").keep(symbol=[0, 1, 2])
    few_zeros = np.concatenate(
        [symbols.keep(symbol=[0]).indices[:10], symbols.keep(symbol=[1]).indices]
    )
    labels = symbols.factors(few_zeros)[:, 0]
    places = data.class_balanced(getkey(), labels, 4000)
    stream = data.pipeline(
        symbols, indices=few_zeros[places], batch_size=500, seed=0, num_steps=8
    )
    drawn = np.concatenate([symbols.factors(b["index"])[:, 0] for b in stream])
    assert (drawn == 0).mean() == pytest.approx(0.5, abs=0.03)


def test_noises():
    rng = np.random.default_rng(0)
    image = np.zeros((64, 64, 1), np.uint8)
    image[:32] = 128
    gaussian = data.gaussian_noise(image, rng)
    assert (gaussian[32:] == 0).all()
    assert gaussian[:32].astype(float).std() == pytest.approx(0.3 * 255, rel=0.1)
    bernoulli = data.bernoulli_noise(np.full((64, 64, 3), 200, np.uint8), rng)
    assert (bernoulli == 0).mean() == pytest.approx(0.3, abs=0.03)
    assert ((bernoulli == 0).all(-1) | (bernoulli == 200).all(-1)).all()


def test_noisy_copies():
    sprites = data.load("rendered_dsprites", split="all").narrow(np.arange(5, 25))
    copies = data.with_noisy_copies(sprites, copies=2)
    assert len(copies) == 100
    plain, versions = sprites.images([9])[0], copies.images([4, 24, 44, 64, 84])
    np.testing.assert_array_equal(versions[0], plain)
    for gaussian in versions[1:3]:
        assert (gaussian[plain == 0] == 0).all() and (gaussian != plain).any()
    for bernoulli in versions[3:]:
        assert set(bernoulli[plain > 0]) == {0, 255}
    np.testing.assert_array_equal(copies.images([84]), versions[4:])
    np.testing.assert_array_equal(copies.factors([84]), sprites.factors([9]))
