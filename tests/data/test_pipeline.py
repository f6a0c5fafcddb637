"""Batch t is a function of seed and step, whatever the processes and prefetch."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from disentangle_jax import data


@pytest.fixture(scope="module")
def squares():
    return data.load("xysquares")


def batches(dataset, **settings):
    settings = {"batch_size": 16, "seed": 3, "num_steps": 6, **settings}
    return list(data.pipeline(dataset, **settings))


def test_contents(squares):
    for batch in batches(squares):
        assert batch["image"].shape == (16, 64, 64, 3)
        assert batch["image"].dtype == np.uint8
        np.testing.assert_array_equal(batch["image"], squares.images(batch["index"]))
        assert np.isin(batch["index"], squares.indices).all()


def test_order_by_a_plain_loop(squares):
    few = squares.narrow(squares.indices[:50])
    expected = []
    for epoch in range(3):
        bits = np.random.Philox(np.random.SeedSequence((3, epoch)))
        order = np.random.Generator(bits).permutation(few.indices)
        expected += [order[start : start + 16] for start in (0, 16, 32)]
    ours = [batch["index"] for batch in batches(few, num_steps=9)]
    np.testing.assert_array_equal(ours, expected)


def test_each_epoch_shows_each_image_once(squares):
    few = squares.narrow(squares.indices[:48])
    ours = np.array([batch["index"] for batch in batches(few, num_steps=6)])
    for epoch in ours.reshape(2, 48):
        np.testing.assert_array_equal(np.sort(epoch), np.sort(few.indices))
    assert (ours[:3] != ours[3:]).any()


@pytest.mark.parametrize("start", [1, 3, 5])
def test_resume_is_exact(squares, start):
    few = squares.narrow(squares.indices[:40])
    whole = batches(few)
    rest = batches(few, start_step=start, num_steps=6 - start)
    for expected, ours in zip(whole[start:], rest, strict=True):
        np.testing.assert_array_equal(ours["index"], expected["index"])
        np.testing.assert_array_equal(ours["image"], expected["image"])


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("prefetch", [1, 5])
def test_shards_concatenate_to_the_batch(squares, processes, prefetch):
    shards = [
        batches(
            squares, process_index=index, process_count=processes, prefetch=prefetch
        )
        for index in range(processes)
    ]
    for step, expected in enumerate(batches(squares)):
        for name, whole in expected.items():
            ours = np.concatenate([shard[step][name] for shard in shards])
            np.testing.assert_array_equal(ours, whole)


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_augmentation_is_the_same_in_shards(squares, processes):
    whole = batches(squares, transform=data.bernoulli_noise)
    assert (whole[0]["image"] != batches(squares)[0]["image"]).any()
    shards = [
        batches(
            squares,
            transform=data.bernoulli_noise,
            process_index=index,
            process_count=processes,
        )
        for index in range(processes)
    ]
    for step, expected in enumerate(whole):
        ours = np.concatenate([shard[step]["image"] for shard in shards])
        np.testing.assert_array_equal(ours, expected["image"])


@pytest.mark.parametrize("processes", [1, 2])
def test_pairs(squares, processes):
    whole = batches(squares, pairs=2)
    for batch in whole:
        one, two = (squares.factors(batch[name]) for name in ("index", "index2"))
        assert ((one != two).sum(1) == 2).all()
        assert np.isin(batch["index2"], squares.indices).all()
        np.testing.assert_array_equal(batch["image2"], squares.images(batch["index2"]))
    rest = [
        batches(
            squares,
            pairs=2,
            start_step=3,
            num_steps=3,
            process_index=index,
            process_count=processes,
        )
        for index in range(processes)
    ]
    for step, expected in enumerate(whole[3:]):
        for name, values in expected.items():
            ours = np.concatenate([shard[step][name] for shard in rest])
            np.testing.assert_array_equal(ours, values)


def test_seeds_differ(squares):
    one, other = batches(squares), batches(squares, seed=4)
    assert (one[0]["index"] != other[0]["index"]).any()


def test_chosen_indices(squares):
    chosen = np.arange(1000, 1032)
    for batch in batches(squares, indices=chosen, pairs=1):
        assert np.isin(batch["index"], chosen).all()
        assert np.isin(batch["index2"], chosen).all()


def test_endless(squares):
    stream = data.pipeline(squares, batch_size=4, seed=0, num_steps=None)
    assert len([next(stream) for _ in range(3)]) == 3


def test_light_import_and_same_batches_after_a_restart(squares):
    code = (
        "import hashlib, itertools, sys\n"
        "from disentangle_jax import data\n"
        "data.names()\n"
        "print(sorted({'tensorflow', 'sklearn', 'h5py', 'PIL'} & set(sys.modules)))\n"
        "squares = data.load('xysquares')\n"
        "digest = hashlib.md5()\n"
        # Its threads must not outlive Python, which would abort or never end.
        "endless = data.pipeline(squares, batch_size=16, seed=3)\n"
        "for batch in itertools.islice(endless, 2):\n"
        "    digest.update(batch['image'].tobytes())\n"
        "print(digest.hexdigest())\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    import hashlib

    digest = hashlib.md5()
    for batch in batches(squares, num_steps=2):
        digest.update(batch["image"].tobytes())
    assert out.stdout.split() == ["[]", digest.hexdigest()]


def test_text_streams_too():
    corpus = data.load("synthetic_topics", documents=100)
    batch = next(data.pipeline(corpus, batch_size=8, seed=0))
    assert batch["image"].shape == (8, 200) and batch["image"].dtype == np.uint16


@pytest.mark.parametrize(
    "name, split", [("rendered_dsprites", "train"), ("xysquares", "all")]
)
def test_device_sampler_of_rendered_datasets(name, split, getkey):
    dataset = data.load(name, split=split)
    draw, arrays = data.device_sampler(dataset)
    batch = jax.jit(draw, static_argnums=1)(getkey(), 32, arrays)
    index = np.asarray(batch["index"])
    assert np.isin(index, dataset.indices).all()
    np.testing.assert_array_equal(batch["image"], dataset.images(index))


def test_device_sampler_of_packed_bits(real_data, getkey):
    dataset = data.load("dsprites", data_dir=real_data / "dsprites")
    draw, arrays = data.device_sampler(dataset)
    assert arrays["packed"].nbytes == 46_080 * 512
    assert data.device_bytes(dataset) == 46_080 * 512 + 4 * len(dataset.indices)
    batch = jax.jit(draw, static_argnums=1)(getkey(), 64, arrays)
    index = np.asarray(batch["index"])
    assert np.isin(index, dataset.indices).all()
    np.testing.assert_array_equal(batch["image"], dataset.images(index))


def test_device_sampler_of_bytes(real_data, getkey):
    dataset = data.load("hwf", data_dir=real_data / "symbols", split="all")
    draw, arrays = data.device_sampler(dataset)
    batch = jax.jit(draw, static_argnums=1)(getkey(), 8, arrays)
    np.testing.assert_array_equal(batch["image"], dataset.images(batch["index"]))
    drawn = jax.vmap(lambda key: draw(key, 4, arrays))(jax.random.split(getkey(), 3))
    assert drawn["image"].shape == (3, 4, 45, 45, 1)


def test_device_sampler_on_eight_devices(getkey):
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    dataset = data.load("rendered_shapes3d")
    draw, arrays = data.device_sampler(dataset)
    key = getkey()
    alone = jax.jit(draw, static_argnums=1)(key, 16, arrays)
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    arrays = jax.device_put(arrays, NamedSharding(mesh, PartitionSpec()))
    over_batch = NamedSharding(mesh, PartitionSpec("data"))
    spread = jax.jit(draw, static_argnums=1, out_shardings=over_batch)(key, 16, arrays)
    assert len(spread["image"].sharding.device_set) == 8
    for name in alone:
        np.testing.assert_array_equal(spread[name], alone[name])


@pytest.mark.parametrize("k", ["uniform", "dlib", "laplace", 1, 3])
@pytest.mark.parametrize("split", ["train", "all"])
def test_device_sampler_draws_the_pairs_of_the_host(k, split, getkey):
    dataset = data.load("xysquares", split=split)
    draw, arrays = data.device_sampler(dataset, pairs=k)
    key = getkey()
    batch = jax.jit(draw, static_argnums=1)(key, 32, arrays)
    expected = dataset.sample_pairs(key, 32, k)
    np.testing.assert_array_equal(batch["image"], expected.images1)
    np.testing.assert_array_equal(batch["image2"], expected.images2)
    assert np.isin(batch["index2"], dataset.indices).all()


def test_device_sampler_draws_other_copies_of_a_combination(getkey):
    images = np.arange(24, dtype=np.uint8).reshape(24, 1, 1, 1)
    dataset = data.Dataset(
        "copies", image_shape=(1, 1, 1), images=lambda i: images[i], copies=4,
        factor_names=("a", "b"), factor_sizes=(2, 3), in_memory=images,
    )  # fmt: skip
    draw, arrays = data.device_sampler(dataset, pairs=1)
    batch = draw(getkey(), 200, arrays)
    pair = dataset.factors(np.stack([batch["index"], batch["index2"]]))
    assert ((pair[0] != pair[1]).sum(axis=1) == 1).all()
    assert len(np.unique(batch["index2"])) == 24


def test_device_sampler_refuses_images_without_a_partner():
    images = np.zeros((12, 1, 1, 1), np.uint8)
    dataset = data.Dataset(
        "small", image_shape=(1, 1, 1), images=lambda i: images[i],
        factor_names=("a", "b", "c"), factor_sizes=(2, 3, 2), in_memory=images,
    )  # fmt: skip
    factors = dataset.factors(np.arange(12))
    for seed in range(30):
        rng = np.random.default_rng(seed)
        chosen = rng.choice(12, rng.integers(1, 5), replace=False)
        differ = (factors[chosen][:, None] != factors[chosen]).sum(-1)
        for k in (1, 2, 3, "uniform"):
            there = differ > 0 if k == "uniform" else differ == k
            narrowed = dataset.narrow(chosen)
            if there.any(axis=1).all():
                data.device_sampler(narrowed, pairs=k)
            else:
                with pytest.raises(ValueError, match="must allow a partner for each"):
                    data.device_sampler(narrowed, pairs=k)
    labels = data.Dataset(
        "labels", image_shape=(1, 1, 1), images=lambda i: images[i],
        factor_names=("a",), factor_sizes=(2,), in_memory=images,
        factor_table=np.zeros((12, 1), int),
    )  # fmt: skip
    with pytest.raises(ValueError, match="need a complete grid"):
        data.device_sampler(labels, pairs="uniform")


def test_device_sampler_needs_memory(real_data):
    faces = data.load("celeba", data_dir=real_data / "celeba_1k")
    with pytest.raises(ValueError, match="Stream it with data.pipeline"):
        data.device_sampler(faces)
    assert data.device_bytes(faces) is None


def test_tensorflow_leaves_accelerators_alone(squares):
    batches(squares, num_steps=1)
    import tensorflow as tf

    assert tf.config.get_visible_devices("GPU") == []
