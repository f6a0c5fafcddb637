"""Preparing files, and datasets written by TensorFlow Datasets."""

import functools
import hashlib
import pathlib
import shutil
import warnings

import numpy as np
import pytest
import scipy.io

from disentangle_jax import data
from disentangle_jax.data import prepare, publisher_files
from disentangle_jax.data.sets import mpi3d
from tests.data.grids import resize_grid

# TFDS warns about its own use of deprecated functions.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def cars(tmp_path, rng):
    (tmp_path / "cars").mkdir()
    for name in "ab":
        pictures = rng.integers(0, 256, (128, 128, 3, 24, 4), dtype=np.uint8)
        scipy.io.savemat(tmp_path / "cars" / f"{name}.mat", {"im": pictures})
    return tmp_path


def files_in(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def test_explains_what_to_fetch(tmp_path, capsys):
    assert prepare.main(["cars3d", f"--data_dir={tmp_path}"]) == 2
    message = capsys.readouterr().err
    assert "nips2015-analogy-data.tar.gz" in message and str(tmp_path) in message
    assert not files_in(tmp_path)


def test_unknown_name(capsys):
    assert prepare.main(["shapes3"]) == 2
    assert "Did you mean 'shapes3d'" in capsys.readouterr().err


def test_rendered_datasets_need_no_files(capsys):
    assert prepare.main(["xysquares"]) == 0
    assert "262144 of 262144" in capsys.readouterr().out


def test_table(capsys):
    assert prepare.main(["--table"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(data.names())
    assert any("`celeba`" in line and "research only" in line for line in lines)


def test_readme_has_the_table():
    root = pathlib.Path(__file__).parents[2]
    readme = root / "disentangle_jax" / "data" / "README.md"
    assert prepare.table() in readme.read_text()


def test_wrong_checksum(real_data, tmp_path, capsys):
    # The layout is right, the bytes are not the publisher's.
    shutil.copy(real_data / "format_fixtures" / "3dshapes.h5", tmp_path)
    digest = hashlib.md5((tmp_path / "3dshapes.h5").read_bytes()).hexdigest()
    before = files_in(tmp_path)
    assert prepare.main(["shapes3d", f"--data_dir={tmp_path}"]) == 2
    message = capsys.readouterr().err
    assert "099a2078d58cec4daad0702c55d06868" in message and digest in message
    assert "delete the file and fetch it again" in message
    assert files_in(tmp_path) == before


def test_unpacked_shapes3d(real_data, tmp_path, monkeypatch):
    shutil.copy(real_data / "format_fixtures" / "3dshapes.h5", tmp_path)
    monkeypatch.setattr(publisher_files, "check_md5", lambda path, md5: None)
    plain = data.load("shapes3d", data_dir=tmp_path, split="all").images(np.arange(5))
    assert prepare.main(["shapes3d", f"--data_dir={tmp_path}"]) == 0
    unpacked = np.load(tmp_path / "3dshapes.images.npy", mmap_mode="r")
    np.testing.assert_array_equal(unpacked, plain)
    again = data.load("shapes3d", data_dir=tmp_path, split="all")
    np.testing.assert_array_equal(again.images(np.arange(5)), plain)


def test_interrupted_unpacking_leaves_nothing(tmp_path, monkeypatch, capsys):
    resize_grid(monkeypatch, mpi3d.mpi3d_real, (2, 2, 2, 1, 1, 2, 2))
    monkeypatch.setattr(publisher_files, "check_md5", lambda path, md5: None)
    images = np.random.default_rng(0).integers(0, 256, (32, 64, 64, 3), dtype=np.uint8)
    path = tmp_path / "mpi3d_real.npz"
    np.savez_compressed(path, images=images)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    assert prepare.main(["mpi3d_real", f"--data_dir={tmp_path}"]) == 2
    output = capsys.readouterr()
    assert "fetch it again" in output.err and "to mpi3d_real.images.npy" in output.out
    assert files_in(tmp_path) == {path.relative_to(tmp_path)}


@pytest.mark.parametrize("name", ["real.npz", "mpi3d_real.npz"])
def test_the_corrupt_file_of_mpi3d_is_recognised(name, tmp_path, monkeypatch):
    resize_grid(monkeypatch, mpi3d.mpi3d_real, (2, 2, 2, 1, 1, 2, 2))
    path = tmp_path / name
    np.savez(path, images=np.zeros((32, 64, 64, 3), np.uint8))
    load = functools.partial(data.load, "mpi3d_real", data_dir=tmp_path)
    message = f"{name} is an old file of mpi3d_real, .*huggingface.co/datasets/waleed"
    if name == "real.npz":  # By its name.
        with pytest.warns(UserWarning, match=message):
            load()
        np.savez(tmp_path / "mpi3d_real.npz", images=np.zeros((32, 64, 64, 3), "uint8"))
        with warnings.catch_warnings(action="error"):
            load()  # The new file is preferred.
        return
    with warnings.catch_warnings(action="error"):
        prepare.prepare("mpi3d_real", data_dir=tmp_path)
    old = mpi3d.mpi3d_real.description.replaced["real.npz"]
    monkeypatch.setattr(publisher_files, "md5_sum", lambda path: old)
    with pytest.warns(UserWarning, match=message):  # By its MD5 sum.
        prepare.prepare("mpi3d_real", data_dir=tmp_path)


def test_unwritable_data_dir(cars, tmp_path, capsys):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ValueError, match="must be a folder that can be written"):
        publisher_files.check_writable(tmp_path / "file" / "sub")
    publisher_files.check_writable(tmp_path / "new")
    assert not files_in(tmp_path / "new")


def test_our_builder_and_back(cars):
    assert prepare.main(["cars3d", f"--data_dir={cars}", "--tfds"]) == 0
    expected = data.load("cars3d", data_dir=cars, split="all")
    images = expected.images(np.arange(192))
    shutil.rmtree(cars / "cars")
    for folder in cars.glob("cars3d"):
        assert (folder / "1.0.0" / "dataset_info.json").exists()
    ours = data.load("cars3d", data_dir=cars, split="all")
    assert ours.factor_sizes == (4, 24, 2) and ours.is_grid
    np.testing.assert_array_equal(ours.images(np.arange(192)), images)
    _check_stream(ours, 64)


def test_our_builders_of_other_datasets(tmp_path, rng, monkeypatch):
    resize_grid(monkeypatch, mpi3d.mpi3d_toy, (2, 2, 1, 1, 1, 2, 1))
    tiles = rng.integers(0, 256, (8, 64, 64, 3), dtype=np.uint8)
    np.savez(tmp_path / "mpi3d_toy.npz", images=tiles)
    symbols = rng.integers(0, 256, (26, 45, 45), dtype=np.uint8)
    np.savez(tmp_path / "symbols.npz", images=symbols, labels=np.arange(26) // 2)
    monkeypatch.setattr(publisher_files, "check_md5", lambda path, md5: None)
    for name, images in (("mpi3d_toy", tiles), ("hwf", symbols[..., None])):
        assert prepare.main([name, f"--data_dir={tmp_path}", "--tfds"]) == 0
        for path in tmp_path.glob("*.npz"):
            path.rename(path.with_suffix(".away"))
        ours = data.load(name, data_dir=tmp_path, split="all")
        np.testing.assert_array_equal(ours.images(np.arange(len(images))), images)
        for path in tmp_path.glob("*.away"):
            path.rename(path.with_suffix(".npz"))
    assert ours.factors([25]).tolist() == [[12]]


def test_builders_are_registered():
    import tensorflow_datasets as tfds

    from disentangle_jax.data import tfds_builders

    expected = {"cars3d", "mpi3d_toy", "mpi3d_realistic", "mpi3d_real"}
    expected |= {"mpi3d_real_complex", "rfd", "hwf", "xysquares"}
    assert set(tfds_builders.BUILDERS) == expected
    assert expected <= set(tfds.list_builders(with_community_datasets=False))


def _offline(monkeypatch, paths):
    """Makes TFDS's own builders read local files instead of downloading them."""
    import tensorflow_datasets as tfds

    manager = tfds.download.DownloadManager
    for method in ("download", "download_and_extract"):
        monkeypatch.setattr(manager, method, lambda self, urls: paths(urls))


def test_tfds_own_shapes3d(real_data, tmp_path, monkeypatch):
    fixtures = real_data / "format_fixtures"
    _offline(monkeypatch, lambda urls: fixtures / "3dshapes.h5")
    assert prepare.main(["shapes3d", f"--data_dir={tmp_path}"]) == 0
    ours = data.load("shapes3d", data_dir=tmp_path, split="all")
    expected = data.load("shapes3d", data_dir=fixtures, split="all")
    # TFDS shuffles, and numbers the values that occur in the file (here not all of
    # them), so the images tell which is which.
    ours, factors = ours.images(np.arange(5)), ours.factors(np.arange(5))
    same = (expected.images(np.arange(5))[:, None] == ours[None]).all((2, 3, 4))
    np.testing.assert_array_equal(same.sum(0), 1)
    np.testing.assert_array_equal(same.sum(1), 1)
    values = expected.factors(np.arange(5))
    ranks = [np.unique(column, return_inverse=True)[1] for column in values.T]
    expected_ranks = np.stack(ranks, axis=-1)
    np.testing.assert_array_equal(factors[same.argmax(1)], expected_ranks)


def test_tfds_own_dsprites(real_data, tmp_path, monkeypatch):
    fixtures = real_data / "format_fixtures"
    name = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5"
    _offline(monkeypatch, lambda urls: fixtures / name)
    assert prepare.main(["dsprites", f"--data_dir={tmp_path}"]) == 0
    ours = data.load("dsprites", data_dir=tmp_path, split="all")
    expected = data.load("dsprites", data_dir=fixtures, split="all")
    indices = ours.index_of(expected.factors(np.arange(5)))
    np.testing.assert_array_equal(ours.images(indices), expected.images(np.arange(5)))


def test_tfds_own_smallnorb(real_data, tmp_path, monkeypatch):
    fixtures = real_data / "format_fixtures"

    def paths(urls):
        return {key: fixtures / url.split("/")[-1][:-3] for key, url in urls.items()}

    _offline(monkeypatch, paths)
    assert prepare.main(["smallnorb", f"--data_dir={tmp_path}"]) == 0
    ours = data.load("smallnorb", data_dir=tmp_path, split="all")
    expected = data.load("smallnorb", data_dir=fixtures, split="all")
    np.testing.assert_array_equal(
        ours.images(np.arange(10)), expected.images(np.arange(10))
    )


def _check_stream(dataset, batch_size):
    """Checks that TensorFlow decodes the images that TFDS gives to Python."""
    assert dataset.reader is not None
    batch = next(data.pipeline(dataset, batch_size=batch_size, seed=0))
    np.testing.assert_array_equal(batch["image"], dataset.images(batch["index"]))


def _write_tfds(folder, name, parts, shape, more_features):
    """Writes datasets as TFDS would, without its downloads."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    image = tfds.features.Image(shape=shape, encoding_format="png")
    features = {"image": image, **more_features}
    builder = tfds.dataset_builders.TfDataBuilder(
        name=name,
        version="1.0.0",
        features=tfds.features.FeaturesDict(features),
        split_datasets={
            part: tf.data.Dataset.from_tensor_slices(examples)
            for part, examples in parts.items()
        },
        data_dir=folder,
        file_format="array_record",
        disable_shuffling=True,
    )
    builder.download_and_prepare()


def test_tfds_mnist(tmp_path, rng):
    parts = {
        part: {
            "image": rng.integers(0, 256, (n, 28, 28, 1), dtype=np.uint8),
            "label": rng.integers(0, 10, n),
        }
        for part, n in (("train", 30), ("test", 10))
    }
    _write_tfds(tmp_path, "mnist", parts, (28, 28, 1), {"label": np.int64})
    train = data.load("mnist", data_dir=tmp_path)
    assert len(train) == 30 and len(train.indices) == 27
    np.testing.assert_array_equal(train.images([7]), parts["train"]["image"][[7]])
    everything = data.load("mnist", data_dir=tmp_path, split="all")
    np.testing.assert_array_equal(
        everything.images([3, 35]),
        [parts["train"]["image"][3], parts["test"]["image"][5]],
    )
    labels = np.concatenate([part["label"] for part in parts.values()])
    np.testing.assert_array_equal(everything.factors(np.arange(40))[:, 0], labels)
    _check_stream(everything, 40)


def test_tfds_celeba(tmp_path, rng):
    shape = (218, 178, 3)
    parts = {
        part: {
            "image": rng.integers(0, 256, (n, *shape), dtype=np.uint8),
            "attributes": {
                name: rng.integers(0, 2, n).astype(bool) for name in ("Bald", "Young")
            },
        }
        for part, n in (("train", 4), ("validation", 2), ("test", 3))
    }
    features = {"attributes": {"Bald": np.bool_, "Young": np.bool_}}
    _write_tfds(tmp_path, "celeb_a", parts, shape, features)
    test = data.load("celeba", data_dir=tmp_path, split="test")
    assert len(test) == 3 and test.image_shape == (128, 128, 3)
    expected = parts["test"]["image"][:, 45:173, 25:153]
    np.testing.assert_array_equal(test.images([2, 0]), expected[[2, 0]])
    assert test.factor_names == ("Bald", "Young") and test.factor_sizes == (2, 2)
    np.testing.assert_array_equal(
        test.factors(np.arange(3)).T, list(parts["test"]["attributes"].values())
    )
    everything = data.load("celeba", data_dir=tmp_path, split="all")
    assert len(everything) == 9
    _check_stream(everything, 9)


def test_tfds_must_be_readable_by_index(tmp_path):
    import tensorflow as tf
    import tensorflow_datasets as tfds

    tfds.dataset_builders.TfDataBuilder(
        name="mnist",
        version="1.0.0",
        features=tfds.features.FeaturesDict({"label": np.int64}),
        split_datasets={"train": tf.data.Dataset.from_tensor_slices({"label": [1]})},
        data_dir=tmp_path,
        file_format="tfrecord",
    ).download_and_prepare()
    with pytest.raises(ValueError, match="must be prepared as array_record"):
        data.load("mnist", data_dir=tmp_path)


def test_failed_download_explains(tmp_path, monkeypatch, capsys):
    def fail(urls):
        raise ConnectionError("no network")

    _offline(monkeypatch, fail)
    assert prepare.main(["shapes3d", f"--data_dir={tmp_path}"]) == 2
    message = capsys.readouterr().err
    assert "3dshapes.h5" in message
    assert not files_in(tmp_path)
