"""Datasets without a sample file: small files in the publishers' exact layouts."""

import io
import tarfile

import numpy as np
import pytest
import scipy.io
from PIL import Image

from disentangle_jax import data
from disentangle_jax.data.sets import mpi3d, nvidia_scenes
from tests.data.grids import resize_grid


@pytest.fixture
def sprites_npz(tmp_path):
    """A complete 3×2×4×2×2 grid in dSprites' published layout (colour column too)."""
    sizes = (1, 3, 2, 4, 2, 2)
    classes = np.stack(np.unravel_index(np.arange(96), sizes), axis=-1)
    images = np.zeros((96, 64, 64), np.uint8)
    for row, image in enumerate(images):
        image[8:20, 8 : 10 + row % 40] = 1
    np.savez_compressed(
        tmp_path / "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
        imgs=images,
        latents_classes=classes,
        latents_values=classes.astype(float),
    )
    return tmp_path, images


def test_cars3d(tmp_path, rng):
    folder = tmp_path / "data" / "cars"
    folder.mkdir(parents=True)
    cars = rng.integers(0, 256, (3, 128, 128, 3, 24, 4), dtype=np.uint8)
    for name, pictures in zip(("car_b", "car_a", "car_c"), cars):
        scipy.io.savemat(folder / f"{name}_mesh.mat", {"im": pictures})
    ours = data.load("cars3d", data_dir=tmp_path, split="all", resize="bilinear")
    assert ours.factor_sizes == (4, 24, 3)
    assert ours.factor_names == ("elevation", "azimuth", "object")
    # Numbered by name, whatever the order of the file system: car_b is object 1.
    picture = cars[0, :, :, :, 17, 2].astype(float)
    halved = picture.reshape(64, 2, 64, 2, 3).mean((1, 3))
    image = ours.images(ours.index_of([[2, 17, 1]]))[0]
    np.testing.assert_allclose(image, halved, atol=0.5001)


def _finger(folder, part, rng, count=12):
    labels = rng.integers(0, (1, 8, 1, 30, 30, 30, 30, 30, 10), (count, 9))
    folder = folder / "robot_finger_datasets" / part
    folder.mkdir(parents=True)
    np.savez(folder / f"{part}_labels.npz", labels=labels)
    sizes = np.array([1, 8, 1, 30, 30, 30, 30, 30, 10])
    np.savez(folder / f"{part}_info.npz", num_factor_values=sizes)
    images = rng.integers(0, 256, (count, 128, 128, 3), dtype=np.uint8)
    return folder, labels, images


@pytest.mark.parametrize("part", ["finger", "finger_heldout_colors"])
def test_rfd_simulated(tmp_path, rng, part):
    folder, labels, images = _finger(tmp_path, part, rng)
    with tarfile.open(folder / f"{part}_images.tar", "w") as archive:
        for index in reversed(range(len(images))):
            stream = io.BytesIO()
            Image.fromarray(images[index]).save(stream, "png")
            # The publisher's tree has one folder per leading digit.
            digits = "".join(f"{digit}/" for digit in str(index)[:-1])
            member = tarfile.TarInfo(f"images/{digits}{index}.png")
            member.size = stream.tell()
            stream.seek(0)
            archive.addfile(member, stream)
    ours = data.load("rfd", data_dir=tmp_path, split="all", part=part)
    assert len(ours) == 12 and ours.image_shape == (128, 128, 3)
    order = rng.permutation(12)
    np.testing.assert_array_equal(ours.images(order), images[order])
    np.testing.assert_array_equal(ours.factors(order), labels[order])
    assert ours.reader is not None
    for batch in data.pipeline(ours, batch_size=6, seed=0, num_steps=2):
        np.testing.assert_array_equal(batch["image"], images[batch["index"]])


def test_rfd_real(tmp_path, rng):
    folder, labels, images = _finger(tmp_path, "finger_real", rng)
    np.savez(folder / "finger_real_images.npz", images=images)
    inner = tmp_path / "robot_finger_datasets"
    ours = data.load("rfd", data_dir=inner, split="all", part="finger_real")
    np.testing.assert_array_equal(ours.images([3]), images[[3]])
    np.testing.assert_array_equal(ours.factors([3]), labels[[3]])


def test_hwf_folder(tmp_path, rng):
    symbols = (*"0123456789", "+", "-", "times")
    pixels = rng.integers(0, 256, (13, 45, 45), dtype=np.uint8)
    for symbol, image in zip(symbols, pixels):
        (tmp_path / symbol).mkdir()
        Image.fromarray(image).save(tmp_path / symbol / "one.png")
    ours = data.load("hwf", data_dir=tmp_path, split="all")
    np.testing.assert_array_equal(ours.images(np.arange(13))[..., 0], pixels)
    np.testing.assert_array_equal(ours.factors(np.arange(13))[:, 0], np.arange(13))
    (tmp_path / "+" / "one.png").unlink()
    with pytest.raises(FileNotFoundError, match="needs images of every symbol"):
        data.load("hwf", data_dir=tmp_path)


def test_image_folder(tmp_path):
    for kind, value in (("cats", 40), ("dogs", 200)):
        (tmp_path / kind).mkdir()
        for row in range(6):
            pixels = np.full((30, 50, 3), value, np.uint8)
            Image.fromarray(pixels).save(tmp_path / kind / f"{row}.png")
    ours = data.load("image_folder", data_dir=tmp_path, split="all", size=16)
    assert ours.image_shape == (16, 16, 3) and ours.factor_sizes == (2,)
    images = ours.images(np.arange(12))
    assert (images[:6] == 40).all() and (images[6:] == 200).all()
    flat = data.load("image_folder", data_dir=tmp_path / "cats", split="all")
    assert flat.factor_names == () and flat.factors([0]).shape == (1, 0)


def test_color_dsprites(sprites_npz):
    folder, images = sprites_npz
    ours = data.load("color_dsprites", data_dir=folder, split="all")
    drawn = ours.images([70])[0].astype(float)
    white = images[70] > 0
    assert (drawn[~white] == 0).all()
    colour = drawn[white]
    assert (colour == colour[0]).all()
    assert (colour[0] >= 127).all() and len(set(colour[0])) == 3
    np.testing.assert_array_equal(ours.images([70]), ours.images([70]))


def test_noise_is_fresh_in_the_stream(sprites_npz):
    folder, _ = sprites_npz
    ours = data.load("noisy_dsprites", data_dir=folder, split="all")
    seen = [
        {int(i): x for i, x in zip(batch["index"], batch["image"])}
        for batch in data.pipeline(ours, batch_size=96, seed=0, num_steps=2)
    ]
    assert (seen[0][5] != seen[1][5]).mean() > 0.5


@pytest.mark.parametrize("name", ["color_dsprites", "noisy_dsprites"])
def test_noise_is_drawn_on_the_device(sprites_npz, name, getkey):
    folder, images = sprites_npz
    ours = data.load(name, data_dir=folder, split="all")
    draw, arrays = data.device_sampler(ours)
    batches = [draw(getkey(), 200, arrays) for _ in range(2)]
    for batch in batches:
        white = images[np.asarray(batch["index"])] > 0
        seen = np.asarray(batch["image"])
        if name == "noisy_dsprites":
            assert (seen[white] == 255).all()
            assert seen[~white].mean() == pytest.approx(127.5, abs=1)
        else:
            assert (seen[~white] == 0).all() and (seen[white] >= 127).all()
            colours = [image[mask][0] for image, mask in zip(seen, white)]
            assert len(np.unique(colours, axis=0)) > 190
    first, second = [
        {int(i): x for i, x in zip(b["index"], b["image"])} for b in batches
    ]
    both = first.keys() & second.keys()
    assert both and all((first[i] != second[i]).any() for i in both)


def test_noisy_dsprites(sprites_npz):
    folder, images = sprites_npz
    ours = data.load("noisy_dsprites", data_dir=folder, split="all")
    drawn = ours.images([70])[0]
    white = images[70] > 0
    assert (drawn[white] == 255).all()
    assert drawn[~white].mean() == pytest.approx(127.5, abs=3)
    assert drawn[~white].std() == pytest.approx(255 / np.sqrt(12), abs=3)


def test_scream_dsprites(sprites_npz):
    folder, images = sprites_npz
    with pytest.raises(FileNotFoundError, match="The_Scream.jpg"):
        data.load("scream_dsprites", data_dir=folder)
    Image.new("RGB", (700, 600), (255, 0, 0)).save(folder / "The_Scream.jpg")
    ours = data.load("scream_dsprites", data_dir=folder, split="all")
    drawn = ours.images([70])[0] / 255
    white = images[70] > 0
    background, inverted = drawn[~white], drawn[white]
    assert background[:, 0].min() >= 0.49 and background[:, 1].max() <= 0.51
    np.testing.assert_allclose(inverted[0] + background[0], 1, atol=0.01)


def test_abstract_dsprites(sprites_npz):
    folder, images = sprites_npz
    ours = data.load("abstract_dsprites", data_dir=folder, split="all")
    assert ours.factor_sizes == (5, 6, 3, 2, 2, 2) and ours.copies == 4
    assert len(ours) == 5 * 6 * 3 * 2 * 2 * 2 * 4
    index = ours.index_of([[2, 0, 1, 1, 0, 1]])[0] + 3
    image = ours.images([index])[0]
    # Sprite of shape 1, scale 1, orientation 3, x 0, y 1.
    white = images[np.ravel_multi_index((1, 1, 3, 0, 1), (3, 2, 4, 2, 2))] > 0
    assert (image[~white] == 128).all()
    np.testing.assert_array_equal(image[white][0], [247, 113, 137])
    np.testing.assert_array_equal(ours.factors([index]), [[2, 0, 1, 1, 0, 1]])


def test_husl_colours_are_evenly_spaced():
    from disentangle_jax.data.sets.dsprites_variants import COLOURS

    linear = np.where(
        COLOURS <= 0.04045, COLOURS / 12.92, ((COLOURS + 0.055) / 1.055) ** 2.4
    )
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    x, y, z = to_xyz @ linear.T
    lightness = 116 * np.cbrt(y) - 16
    np.testing.assert_allclose(lightness, 0.65 * 99, atol=0.02)
    total = x + 15 * y + 3 * z
    u = 13 * lightness * (4 * x / total - 0.197830)
    v = 13 * lightness * (9 * y / total - 0.468320)
    hue = np.degrees(np.arctan2(v, u)) % 360
    np.testing.assert_allclose(np.diff(hue), 359 / 6, atol=0.2)


def test_synthetic_topics():
    corpus = data.load("synthetic_topics", split="all", documents=4000, topics=6)
    counts = corpus.images(np.arange(len(corpus)))
    assert counts.shape == (4000, 200)
    assert counts.sum(1).mean() == pytest.approx(80, rel=0.02)
    np.testing.assert_allclose(corpus.topics.sum(1), 1)
    np.testing.assert_allclose(corpus.proportions.sum(1), 1)
    # Words come from the mixture of topics.
    expected = corpus.proportions.mean(0) @ corpus.topics
    np.testing.assert_allclose(counts.sum(0) / counts.sum(), expected, atol=4e-3)
    # Differences of partners vary less than differences of strangers.
    logs = np.log(corpus.proportions)
    partner = (logs[:, 0] - logs[:, 3]).std()
    stranger = (logs[:, 0] - logs[:, 4]).std()
    assert partner == pytest.approx(2 * np.sqrt(2 * 0.2), rel=0.05)
    assert stranger == pytest.approx(2 * np.sqrt(2), rel=0.05)


def test_bilinear_and_antialias():
    checker = (np.indices((96, 96)).sum(0) % 2 * 255).astype(np.uint8)[None, ..., None]
    antialiased = data.resize(checker, 64, method="antialias")
    bilinear = data.resize(checker, 64, method="bilinear")
    assert antialiased.std() < bilinear.std()
    ramp = np.tile(np.arange(96, dtype=np.uint8)[None, :, None], (96, 1, 1))[None]
    ours = data.resize(ramp, 64, method="bilinear")[0, 0, :, 0]
    np.testing.assert_allclose(ours, (np.arange(64) + 0.5) * 1.5 - 0.5, atol=0.5001)


def test_mpi3d_real_complex(tmp_path, rng, monkeypatch):
    described = data.describe("mpi3d_real_complex")
    assert described.factor_sizes == (4, 4, 2, 3, 3, 40, 40)
    assert np.prod(described.factor_sizes) == 460_800
    with pytest.raises(FileNotFoundError, match="real3d_complicated_.*drive.google"):
        data.load("mpi3d_real_complex", data_dir=tmp_path)
    resize_grid(monkeypatch, mpi3d.mpi3d_real_complex, (4, 2, 2, 1, 1, 2, 2))
    images = rng.integers(0, 256, (64, 64, 64, 3), dtype=np.uint8)
    np.savez(tmp_path / "real3d_complicated_shapes_ordered.npz", images=images)
    ours = data.load("mpi3d_real_complex", data_dir=tmp_path, split="all")
    np.testing.assert_array_equal(ours.images([37]), images[[37]])
    assert ours.factors([37]).tolist() == [[2, 0, 1, 0, 0, 0, 1]]


SCENES = {
    "isaac3d": ("Isaac3D_down128", "labels.npy", (2, 1, 2, 1, 2, 1, 1, 2, 1)),
    "falcor3d": ("Falcor3D_down128", "train-rec.labels", (2, 2, 1, 3, 1, 1, 2)),
}


def _scene(folder, name, rng, order):
    """Writes a small grid of a scene, its files in some order; returns the images."""
    inner, labels, sizes = SCENES[name]
    classes = np.stack(np.unravel_index(order, sizes), axis=-1)
    images = rng.integers(0, 256, (len(order), 128, 128, 3), dtype=np.uint8)
    (folder / inner / "images").mkdir(parents=True)
    for row, image in enumerate(images):
        Image.fromarray(image).save(folder / inner / "images" / f"{row:06}.png")
    # Factors are scaled to [0, 1]; a factor with one value stays at 0.
    scaled = classes / np.maximum(np.array(sizes) - 1, 1)
    with (folder / inner / labels).open("wb") as file:
        np.save(file, scaled)
    return images


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("sorted_files", [True, False])
def test_scenes(tmp_path, rng, monkeypatch, name, sorted_files):
    inner, labels, sizes = SCENES[name]
    assert np.prod(data.describe(name).factor_sizes) in (737_280, 233_280)
    resize_grid(monkeypatch, getattr(nvidia_scenes, name), sizes)
    count = int(np.prod(sizes))
    order = np.arange(count) if sorted_files else rng.permutation(count)
    images = _scene(tmp_path, name, rng, order)
    ours = data.load(name, data_dir=tmp_path, split="all")
    assert ours.image_shape == (64, 64, 3) and len(ours) == count
    row = 5
    halved = images[row].reshape(64, 2, 64, 2, 3).mean((1, 3))
    np.testing.assert_allclose(ours.images([order[row]])[0], halved, atol=0.5001)
    batch = next(data.pipeline(ours, batch_size=count, seed=0))
    assert ours.reader is not None
    np.testing.assert_array_equal(batch["image"], ours.images(batch["index"]))
    factors = np.unravel_index(order[row], sizes)
    assert ours.factors([order[row]]).tolist() == [list(map(int, factors))]
    whole = data.load(name, data_dir=tmp_path / inner, split="test", size=128)
    assert len(whole.indices) < count
    np.testing.assert_array_equal(whole.images(order[:3]), images[:3])
    (tmp_path / inner / "images" / f"{count - 1:06}.png").unlink()
    with pytest.raises(FileNotFoundError, match=f"no {count - 1:06}.png. Fetch https"):
        data.load(name, data_dir=tmp_path)


def test_scenes_of_another_version(tmp_path, rng, monkeypatch):
    with pytest.raises(FileNotFoundError, match="Isaac3D_down128/labels.npy.*Fetch"):
        data.load("isaac3d", data_dir=tmp_path)
    sizes = SCENES["falcor3d"][2]
    resize_grid(monkeypatch, nvidia_scenes.falcor3d, sizes)
    _scene(tmp_path, "falcor3d", rng, np.arange(24))
    path = tmp_path / "Falcor3D_down128" / "train-rec.labels"
    labels = np.load(path)
    for change, message in (
        (lambda x: x[:, ::-1], "must have .* different values"),
        (lambda x: np.concatenate([x[:23], x[:1]]), "one of them twice"),
        (lambda x: x[:20], "must have shape"),
    ):
        with path.open("wb") as file:
            np.save(file, change(labels))
        with pytest.raises(ValueError, match=message):
            data.load("falcor3d", data_dir=tmp_path)
