"""Your own images: npz, npy, HDF5, folders with a CSV file, and objects in Python."""

import types

import h5py
import jax
import numpy as np
import pytest
from PIL import Image

from disentangle_jax import data

NAMES = ("colour", "size")


@pytest.fixture
def arrays(rng):
    """A complete grid of 3 colours and 4 sizes in random order, values as labels."""
    table = np.stack(np.unravel_index(rng.permutation(12), (3, 4)), axis=1)
    images = rng.integers(256, size=(12, 4, 4, 3), dtype=np.uint8)
    images[:, 0, 0, 0] = 10 * table[:, 0] + table[:, 1]  # legible in the image
    return images, table


def write(kind, folder, **arrays):
    """Writes the arrays; returns the options of ``data.load``."""
    if kind == "npz":
        np.savez(folder / "my.npz", **arrays)
    elif kind == "compressed":
        np.savez_compressed(folder / "my.npz", **arrays)
    elif kind == "npy":
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        return {"name": "npy", "file": str(folder)}
    else:
        with h5py.File(folder / "my.h5", "w") as file:
            for name, array in arrays.items():
                file[name] = array.tolist() if name == "factor_names" else array
        return {"name": "hdf5", "file": str(folder / "my.h5")}
    return {"name": "npz", "file": str(folder / "my.npz")}


@pytest.mark.parametrize("kind", ["npz", "compressed", "npy", "hdf5"])
def test_a_grid_in_any_order(kind, arrays, tmp_path):
    images, table = arrays
    names = np.array(NAMES)
    options = write(
        kind, tmp_path, images=images, factors=table * 5 - 1, factor_names=names
    )
    mine = data.load(split="all", **options)
    assert mine.is_grid and mine.factor_sizes == (3, 4) and mine.factor_names == NAMES
    every = mine.factors(np.arange(12))
    read = mine.images(np.arange(12))
    np.testing.assert_array_equal(read[:, 0, 0, 0], 10 * every[:, 0] + every[:, 1])
    np.testing.assert_array_equal(mine.index_of(every), np.arange(12))
    pairs = mine.sample_pairs(jax.random.key(0), 5, k=1)
    assert (pairs.changed.sum(axis=1) == 1).all()


@pytest.mark.parametrize("kind", ["npz", "npy", "hdf5"])
def test_large_arrays_are_not_read_as_a_whole(kind, arrays, tmp_path, monkeypatch):
    options = write(kind, tmp_path, images=np.repeat(arrays[0], 50, axis=0))
    read = []
    as_bytes = data.own_arrays.as_bytes
    monkeypatch.setattr(
        data.own_arrays,
        "as_bytes",
        lambda source, images: read.append(len(images)) or as_bytes(source, images),
    )
    mine = data.load(split="all", **options)
    mapped = mine.in_memory
    assert kind == "hdf5" or isinstance(np.asarray(mapped).base, np.memmap)
    np.testing.assert_array_equal(mine.images([3, 599, 3])[1], arrays[0][11])
    assert read == [3] and len(mine) == 600 and not mine.factor_sizes


def test_floats_and_grey_images(arrays, tmp_path):
    images, _ = arrays
    options = write("npz", tmp_path, images=images[..., 0] / 255.0)
    mine = data.load(split="all", **options)
    assert mine.image_shape == (4, 4, 1)
    np.testing.assert_array_equal(mine.images([2])[0, ..., 0], images[2, ..., 0])
    options = write("npz", tmp_path, images=images.astype(np.float32))
    with pytest.raises(ValueError, match=r"my.npz: `images` must be uint8 in 0 … 255"):
        data.load(split="all", **options).images([0])


def test_a_table_that_is_no_grid(arrays, tmp_path):
    """Pairs are drawn among the combinations that exist, or refused with the reason."""
    images, table = arrays
    options = write("npz", tmp_path, images=images[1:], factors=table[1:])
    mine = data.load(split="all", **options)
    assert not mine.is_grid
    pairs = mine.sample_pairs(jax.random.key(0), 40, k=1)
    assert ((pairs.factors1 != pairs.factors2) == pairs.changed).all()
    value = 10 * pairs.factors2[:, 0] + pairs.factors2[:, 1]
    np.testing.assert_array_equal(pairs.images2[:, 0, 0, 0], value)
    with pytest.raises(ValueError, match="combinations that npz holds .11 of 12."):
        mine.index_of(table[:1])
    diagonal = table[:, 0] == table[:, 1]
    options = write(
        "npz", tmp_path, images=images[diagonal], factors=table[diagonal],
        factor_sizes=np.array([3, 4]),
    )  # fmt: skip
    with pytest.raises(ValueError, match="npz have no partner: it lacks combinations"):
        data.load(split="all", **options).sample_pairs(jax.random.key(0), 3, k=1)


def test_images_with_the_same_labels_are_all_drawn(arrays):
    images, table = arrays
    mine = data.from_arrays("mine", np.repeat(images, 3, 0), np.repeat(table, 3, 0))
    second, _ = mine.partners(jax.random.key(0), np.zeros(600, int), k=2)
    # Six combinations differ in both factors, three images have each.
    assert len(np.unique(second)) == 18


def test_continuous_factors_keep_their_values(arrays, rng):
    images = np.repeat(arrays[0], 10, axis=0)
    angle = rng.uniform(size=120)
    shape = np.array(["cat", "dog"])[rng.integers(2, size=120)]
    mixed = np.stack([angle, shape == "dog"], axis=1)
    mine = data.from_arrays("mine", images, mixed, factor_names=("angle", "shape"))
    assert mine.continuous and mine.factor_sizes == (120, 2)
    np.testing.assert_array_equal(mine.factors([5, 7])[:, 0], angle[[5, 7]])
    for call in (
        lambda: mine.sample_pairs(jax.random.key(0), 2, k=1),
        lambda: mine.index_of([[0, 1]]),
    ):
        with pytest.raises(ValueError, match="which are continuous; pairs and"):
            call()
    settings = {"name": "mine", "num_labels": 10, "changed_factors": "1"}
    for inputs in (data.ImagePairs(), data.LabelledImages()):
        with pytest.raises(ValueError, match="needs factors with labels, and mine has"):
            inputs.check(mine, settings)
    texts = data.from_arrays("mine", images, shape)
    assert texts.factor_sizes == (2,) and not texts.continuous


def test_what_is_wrong_is_said(arrays, tmp_path):
    images, table = arrays
    with pytest.raises(ValueError, match=r"must hold `images` \[N, H, W, C\].*holds a"):
        data.load(**write("npz", tmp_path, a=images))
    with pytest.raises(ValueError, match=r"`factors` must have shape \[12, K\]"):
        data.load(**write("npz", tmp_path, images=images, factors=table[:3]))
    with pytest.raises(ValueError, match=r"`images` must have shape \[N, H, W, C\]"):
        data.load(**write("npz", tmp_path, images=images[0, 0]))
    sizes = np.array([2, 4])
    with pytest.raises(ValueError, match="below `factor_sizes`"):
        data.from_arrays("mine", images, table, factor_sizes=sizes)
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="bad.npz cannot be read"):
        data.load("npz", file=str(tmp_path / "bad.npz"))
    np.savez(tmp_path / "code.npz", images=np.array([{}], object))
    with pytest.raises(ValueError, match="code.npz cannot be read"):
        data.load("npz", file=str(tmp_path / "code.npz"))


@pytest.fixture
def folder(tmp_path, arrays):
    images, table = arrays
    lines = ["file,colour,size,angle"]
    for number, (image, (colour, size)) in enumerate(zip(images, table)):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,{'rgb'[colour]},{size},{number / 7}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    return tmp_path


def test_folder_with_a_csv_of_factors(folder, arrays):
    options = {"data_dir": folder, "size": 4, "split": "all"}
    mine = data.load("image_folder", factors="labels.csv", **options)
    assert mine.factor_names == ("colour", "size", "angle")
    assert mine.factor_sizes == (3, 4, 12) and not mine.is_grid
    np.testing.assert_array_equal(mine.images([7])[0], arrays[0][7])
    alphabet = {0: 2, 1: 1, 2: 0}  # r, g, b in the order of the alphabet
    colour = [alphabet[value] for value in arrays[1][:, 0]]
    np.testing.assert_array_equal(mine.factors(np.arange(12))[:, 0], colour)
    with (folder / "labels.csv").open("a") as file:
        file.write("\nmissing.png,r,0,0.5")
    with pytest.raises(FileNotFoundError, match="labels.csv lists .*missing.png"):
        data.load("image_folder", factors="labels.csv", **options)
    with pytest.raises(FileNotFoundError, match="found no .*other.csv"):
        data.load("image_folder", factors="other.csv", **options)


@pytest.mark.parametrize("damage", ["truncated", "text"])
def test_a_bad_image_names_its_file(folder, damage):
    path = folder / "5.png"
    content = path.read_bytes()[:60] if damage == "truncated" else b"no image"
    path.write_bytes(content)
    mine = data.load("image_folder", data_dir=folder, size=4, split="all")
    with pytest.raises(data.UnreadableImage, match="the image .*5.png cannot be read"):
        mine.images(np.arange(12))
    # Also from within a stream, whatever TensorFlow makes of it.
    with pytest.raises(data.UnreadableImage, match="5.png cannot be read"):
        for _ in data.pipeline(mine, batch_size=2, seed=0, num_steps=6):
            pass


def test_any_object_with_the_methods_of_a_dataset(arrays):
    images, table = arrays

    class Mine:
        image_shape = (4, 4, 3)
        factor_names, factor_sizes = NAMES, (3, 4)

        def __len__(self):
            return len(images)

        def images(self, indices):
            return images[indices] / 255.0

        def factors(self, indices):
            return table[indices]

    mine = data.as_dataset(Mine())
    assert mine.name == "Mine" and mine.factor_names == NAMES
    np.testing.assert_array_equal(mine.images([3, 4]), images[3:5])
    np.testing.assert_array_equal(mine.factors([3, 4]), table[3:5])
    assert data.as_dataset(mine) is mine
    with pytest.raises(TypeError, match="`dataset` must be a data.Dataset, or have"):
        data.as_dataset(types.SimpleNamespace(images=None))
