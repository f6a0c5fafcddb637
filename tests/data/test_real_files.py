"""Every real file beside the project is read through ``data.load``."""

import numpy as np
import pytest

from disentangle_jax import data
from disentangle_jax.data.sets import mpi3d
from tests.data.grids import resize_grid


@pytest.fixture(scope="module")
def dsprites_grid(real_data):
    return data.load("dsprites", data_dir=real_data / "dsprites", split="all")


def test_dsprites_grid_by_factor_index(real_data, dsprites_grid, rng):
    path = real_data / "dsprites" / "dsprites_downsampled.npz"
    with np.load(path) as archive:
        images, classes = archive["imgs"], archive["latents_classes"]
    assert len(dsprites_grid) == 46_080 and dsprites_grid.is_grid
    assert dsprites_grid.factor_sizes == (3, 6, 10, 16, 16)
    assert dsprites_grid.factor_names == ("shape", "scale", "orientation", "x", "y")
    rows = rng.integers(0, len(images), 500)
    indices = dsprites_grid.index_of(classes[rows])
    ours = dsprites_grid.images(indices)
    assert ours.shape == (500, 64, 64, 1) and ours.dtype == np.uint8
    np.testing.assert_array_equal(ours[..., 0], images[rows] * 255)
    np.testing.assert_array_equal(dsprites_grid.factors(indices), classes[rows])


def test_dsprites_subset_is_no_grid(real_data, rng):
    subset = data.load(
        "dsprites",
        data_dir=real_data / "dsprites",
        split="all",
        file="dsprites_subset.npz",
    )
    with np.load(real_data / "dsprites" / "dsprites_subset.npz") as archive:
        images, classes = archive["imgs"], archive["latents_classes"]
    assert len(subset) == 20_000 and not subset.is_grid
    assert subset.factor_sizes == (3, 6, 40, 32, 32)
    rows = rng.integers(0, len(images), 200)
    np.testing.assert_array_equal(subset.images(rows)[..., 0], images[rows] * 255)
    np.testing.assert_array_equal(subset.index_of(classes[rows]), rows)
    missing = next(
        f for f in np.ndindex(3, 6, 40, 1, 1) if not (classes == f).all(1).any()
    )
    with pytest.raises(ValueError, match="must be combinations that dsprites holds"):
        subset.index_of([missing])


def test_dsprites_hdf5_layout(real_data):
    import h5py

    name = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.hdf5"
    path = real_data / "format_fixtures" / name
    five = data.load("dsprites", data_dir=path, split="all")
    with h5py.File(path) as file:
        classes, images = file["latents/classes"][:], file["imgs"][:]
    np.testing.assert_array_equal(five.factors(np.arange(5)), classes[:, 1:])
    np.testing.assert_array_equal(
        five.images(np.arange(5))[..., 0] > 0, images.astype(bool)
    )


def test_shapes3d_layout(real_data):
    import h5py

    path = real_data / "format_fixtures" / "3dshapes.h5"
    five = data.load("shapes3d", data_dir=path.parent, split="all")
    with h5py.File(path) as file:
        images, labels = file["images"][:], file["labels"][:]
    np.testing.assert_array_equal(five.images(np.arange(5)), images)
    factors = five.factors(np.arange(5))
    np.testing.assert_allclose(factors[:, :3] / 10, labels[:, :3])
    np.testing.assert_allclose(0.75 + factors[:, 3] / 14, labels[:, 3])
    np.testing.assert_array_equal(factors[:, 4], labels[:, 4])
    np.testing.assert_allclose(-30 + factors[:, 5] * 60 / 14, labels[:, 5], atol=1e-6)


@pytest.mark.parametrize(
    "instances, count, names",
    [
        ("hidden", 10, ("category", "elevation", "azimuth", "lighting")),
        ("train", 5, ("category", "instance", "elevation", "azimuth", "lighting")),
    ],
)
def test_smallnorb_layout(real_data, instances, count, names):
    folder = real_data / "format_fixtures"
    norb = data.load("smallnorb", data_dir=folder, split="all", instances=instances)
    assert len(norb) == count and norb.factor_names == names
    assert norb.images(np.arange(count)).shape == (count, 64, 64, 1)
    # Offsets of the publisher's header: 24 bytes before images, 20 before the others.
    name = "smallnorb-5x46789x9x18x6x2x96x96-training-{}.mat"
    dat = np.fromfile(folder / name.format("dat"), np.uint8, offset=24)
    cat = np.fromfile(folder / name.format("cat"), "<i4", offset=20)
    info = np.fromfile(folder / name.format("info"), "<i4", offset=20).reshape(5, 4)
    first_camera = dat.reshape(5, 2, 96, 96)[:, 0]
    expected = data.resize(first_camera[..., None], 64, method="antialias")
    ours = norb.images(np.arange(count))
    factors = norb.factors(np.arange(count))
    for image, category, (_, elevation, azimuth, light) in zip(expected, cat, info):
        row = np.flatnonzero((ours == image).all((1, 2, 3)))
        assert len(row) == 1
        values = dict(zip(names, factors[row[0]]))
        assert (values["category"], values["elevation"]) == (category, elevation)
        assert (values["azimuth"], values["lighting"]) == (azimuth // 2, light)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_mnist(real_data, name):
    import gzip

    folder = real_data / name
    train = data.load(name, data_dir=folder)
    validation = data.load(name, data_dir=folder, split="validation")
    test = data.load(name, data_dir=folder, split="test")
    assert (len(train), len(test)) == (60_000, 10_000)
    assert (len(train.indices), len(validation.indices)) == (54_000, 6_000)
    assert not set(train.indices) & set(validation.indices)
    assert len(data.load(name, data_dir=folder, split="all")) == 70_000
    raw = gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((folder / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
    first = np.frombuffer(raw[: 28 * 28], np.uint8).reshape(1, 28, 28, 1)
    np.testing.assert_array_equal(test.images([0]), first)
    np.testing.assert_array_equal(
        test.factors(np.arange(10_000))[:, 0], np.frombuffer(labels, np.uint8)
    )
    ones_and_sevens = train.keep(label=[1, 7])
    assert set(train.factors(ones_and_sevens.indices)[:, 0]) == {1, 7}


def test_celeba(real_data):
    from PIL import Image

    faces = data.load("celeba", data_dir=real_data / "celeba_1k", split="all")
    assert len(faces) == 1000 and faces.image_shape == (64, 64, 3)
    assert len(faces.factor_names) == 40
    row = dict(zip(faces.factor_names, faces.factors([0])[0]))
    # First row of the publisher's list: "-1 1 1 -1 …".
    assert (row["5_o_Clock_Shadow"], row["Arched_Eyebrows"]) == (0, 1)
    with Image.open(real_data / "celeba_1k" / "000003.jpg") as image:
        expected = np.asarray(image.convert("RGB"))[22:86, 12:76]
    np.testing.assert_array_equal(faces.images([2])[0], expected)
    with pytest.raises(ValueError, match="celeba: `crop` must lie in"):
        data.load("celeba", data_dir=real_data / "celeba_1k", crop=128)


def test_celeba_published_crop(tmp_path):
    from PIL import Image

    pixels = np.zeros((218, 178, 3), np.uint8)
    pixels[45:173, 25:153] = 200  # rows 45–172, columns 25–152
    for place in range(12):
        Image.fromarray(pixels).save(tmp_path / f"{place + 1:06d}.jpg", quality=100)
    parts = "\n".join(f"{p + 1:06d}.jpg {[0, 1, 2][p % 3]}" for p in range(12))
    (tmp_path / "list_eval_partition.txt").write_text(parts + "\n")
    faces = data.load("celeba", data_dir=tmp_path, split="test")
    assert faces.image_shape == (128, 128, 3)
    np.testing.assert_array_equal(faces.indices, [2, 5, 8, 11])
    for split, indices in data.split_indices(12).items():
        ours = data.load("celeba", data_dir=tmp_path, split=split, official_parts=False)
        np.testing.assert_array_equal(ours.indices, indices)
    assert faces.images([0])[0, 4:-4, 4:-4].min() > 190


def test_symbols(real_data):
    symbols = data.load("hwf", data_dir=real_data / "symbols", split="all")
    with np.load(real_data / "symbols" / "handwritten_symbols_45.npz") as archive:
        images, labels = archive["images"], archive["labels"]
    assert len(symbols) == 7132 and symbols.image_shape == (45, 45, 1)
    np.testing.assert_array_equal(
        symbols.images([17, 7000])[..., 0], images[[17, 7000]]
    )
    np.testing.assert_array_equal(symbols.factors(np.arange(7132))[:, 0], labels)


@pytest.mark.parametrize("split, documents", [("train", 11_314), ("test", 7_532)])
def test_newsgroups_parts(real_data, split, documents):
    # Whole posts: removing headers and quotes is slow.
    corpus = data.load(
        "newsgroups", data_dir=real_data / "newsgroups", split=split, remove=()
    )
    assert len(corpus) == documents and corpus.image_shape == (2000,)
    assert corpus.factor_sizes == (20,) and len(corpus.vocabulary) == 2000
    assert all(word.isascii() and word.isalpha() for word in corpus.vocabulary)
    assert "the" not in corpus.vocabulary and "god" in corpus.vocabulary
    assert len(corpus.indices) == {"train": 10_183, "test": 7_532}[split]
    counts = corpus.images(np.arange(200))
    assert counts.dtype == np.uint16 and counts.sum() > 200


def test_newsgroups_counts_by_hand(real_data):
    import re

    from sklearn.datasets import fetch_20newsgroups

    folder = real_data / "newsgroups"
    corpus = data.load("newsgroups", data_dir=folder, split="all", vocabulary_size=300)
    posts = fetch_20newsgroups(
        data_home=folder,
        subset="test",
        remove=("headers", "footers", "quotes"),
        download_if_missing=False,
    )
    for row in (0, 5, 4000):
        words = re.findall(r"\b[a-z][a-z]+\b", posts.data[row].lower())
        expected = [words.count(word) for word in corpus.vocabulary]
        np.testing.assert_array_equal(corpus.images([11_314 + row])[0], expected)
        assert corpus.factors([11_314 + row])[0, 0] == posts.target[row]


def test_newsgroups_etm_layout(real_data):
    import scipy.io

    folder = real_data / "newsgroups" / "bow"
    sizes = [
        len(data.load("newsgroups", data_dir=folder, split=split))
        for split in ("train", "validation", "test", "all")
    ]
    assert sizes == [11_214, 100, 7_531, 18_845]
    corpus = data.load("newsgroups", data_dir=folder, split="test")
    assert corpus.image_shape == (3072,)
    tokens = scipy.io.loadmat(folder / "bow_ts_tokens.mat")["tokens"][0, 7].ravel()
    counts = scipy.io.loadmat(folder / "bow_ts_counts.mat")["counts"][0, 7].ravel()
    expected = np.zeros(3072, int)
    expected[tokens] = counts
    np.testing.assert_array_equal(corpus.images([7])[0], expected)


def test_mpi3d_tiles_survive_the_layout(real_data, tmp_path, monkeypatch):
    # Real tiles in the publisher's layout, on a grid small enough for a test.
    with np.load(real_data / "mpi3d_samples" / "mpi3d_gif_tiles.npz") as archive:
        tiles = archive["real1"].reshape(-1, 64, 64, 3)[:96]
    resize_grid(monkeypatch, mpi3d.mpi3d_real, (2, 2, 2, 3, 1, 2, 2))
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "mpi3d_real.npz", images=tiles)
        robot = data.load("mpi3d_real", data_dir=tmp_path, split="all")
        np.testing.assert_array_equal(robot.images(np.arange(96)), tiles)
        assert robot.factors([95]).tolist() == [[1, 1, 1, 2, 0, 1, 1]]
