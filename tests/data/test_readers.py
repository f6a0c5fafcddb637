"""Streams that TensorFlow reads hold exactly the images that Python reads."""

import gc
import io
import os
import struct
import zlib

import jax
import numpy as np
import pytest
from PIL import Image

from disentangle_jax import data
from disentangle_jax.data import pictures, readers
from disentangle_jax.data.noise import uniform
from disentangle_jax.data.streaming import import_tensorflow


def by_python(dataset):
    """The same dataset, which TensorFlow cannot read."""
    other = dataset.narrow(dataset.indices)
    other.reader = other.in_memory = None
    return other


def smooth(rng, height, width, channels):
    small = rng.integers(0, 256, (height // 4, width // 4, channels), dtype=np.uint8)
    image = Image.fromarray(small.squeeze()).resize((width, height))
    return np.asarray(image).reshape(height, width, channels)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A grid of 4 × 6 PNGs of 16 × 16 pixels, listed in another order."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("pictures")
    lines = ["path,a,b"]
    for row in rng.permutation(24):
        Image.fromarray(smooth(rng, 16, 16, 3)).save(path / f"{row}.png")
        lines.append(f"{row}.png,{row // 6},{row % 6}")
    (path / "labels.csv").write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module", params=["files", "files, halved", "memory", "thirds"])
def dataset(request, folder):
    if request.param == "memory":
        images = np.random.default_rng(1).integers(0, 256, (24, 8, 8, 1), np.uint8)
        factors = np.stack(np.unravel_index(np.arange(24), (4, 6)), axis=1)
        return data.from_arrays("memory", images, factors)
    whole = data.load(
        "image_folder", data_dir=folder, size=16, factors="labels.csv", split="all"
    )
    return whole.resized({"files": 16, "files, halved": 4, "thirds": 5}[request.param])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"start_step": 5},
        {"prefetch": 5, "indices": np.arange(3, 21)},
        {"process_index": 1, "process_count": 4},
        {"pairs": 1, "process_index": 1, "process_count": 2},
        {"pairs": 1, "transform": data.bernoulli_noise, "start_step": 2},
        {"transform": lambda image, rng: image[:2] * rng.random(dtype="float32")},
    ],
)
def test_streams_equal_those_of_python(dataset, settings):
    assert readers.reader(import_tensorflow(), dataset) is not None
    assert readers.reader(import_tensorflow(), by_python(dataset)) is None
    settings = {"batch_size": 8, "seed": 3, "num_steps": 7, **settings}
    ours = data.pipeline(dataset, **settings)
    expected = data.pipeline(by_python(dataset), **settings)
    count = 0
    for one, other in zip(ours, expected, strict=True):
        assert list(one) == list(other)
        for name in one:
            assert one[name].dtype == other[name].dtype
            np.testing.assert_array_equal(one[name], other[name])
        count += 1
    assert count == 7


def test_python_reads_only_the_first_batch(folder, monkeypatch):
    read, paths = pictures.Pictures._read, []

    def counted(self, path):
        paths.append(path)
        return read(self, path)

    monkeypatch.setattr(pictures.Pictures, "_read", counted)
    mine = data.load("image_folder", data_dir=folder, size=16, split="all")
    assert len(list(data.pipeline(mine, batch_size=8, seed=0, num_steps=9))) == 9
    assert len(paths) == 8


def test_real_photographs(real_data):
    faces = data.load("celeba", data_dir=real_data / "celeba_1k", split="all")
    read = readers.reader(import_tensorflow(), faces)
    for index in np.split(np.arange(1000), 10):
        np.testing.assert_array_equal(read(index), faces.images(index))
    grey = data.load(
        "image_folder", data_dir=real_data / "celeba_1k", split="all", channels=1
    )
    read = readers.reader(import_tensorflow(), grey)
    np.testing.assert_array_equal(read(np.arange(64)), grey.images(np.arange(64)))


def chunk(name, content):
    check = zlib.crc32(name + content).to_bytes(4, "big")
    return len(content).to_bytes(4, "big") + name + content + check


def png(depth, colours, rows):
    """A PNG of 20 × 24 pixels by hand, in depths that Pillow does not write."""
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 24, 20, depth, colours, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def formats(rng):
    """Yields files of many kinds, each the content of a picture of 20 × 24 pixels."""

    def saved(image, kind, **options):
        stream = io.BytesIO()
        image.save(stream, kind, **options)
        return stream.getvalue()

    colour = Image.fromarray(smooth(rng, 20, 24, 3))
    for quality in (30, 75, 95):
        for chroma in ("4:4:4", "4:2:2", "4:2:0"):
            yield saved(colour, "JPEG", quality=quality, subsampling=chroma)
    yield saved(colour, "JPEG", progressive=True)
    yield saved(colour, "JPEG", keep_rgb=True)
    for mode in ("L", "CMYK"):
        yield saved(colour.convert(mode), "JPEG")
    for mode in ("RGB", "L", "1", "LA", "RGBA", "P"):
        yield saved(colour.convert(mode), "PNG")
    yield saved(colour.quantize(9), "PNG", bits=4, transparency=3)
    yield saved(colour.convert("L"), "PNG", transparency=5)
    for depth in (2, 4):
        yield png(depth, 0, rng.integers(0, 256, (20, 3 * depth), dtype=np.uint8))
    for colours, count in ((0, 1), (2, 3), (4, 2), (6, 4)):  # with two bytes each
        yield png(16, colours, rng.integers(0, 256, (20, 48 * count), dtype=np.uint8))
    yield saved(colour, "WEBP", lossless=True)
    yield saved(colour, "BMP")


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [20, 7])
def test_every_format_equals_pillow(tmp_path, rng, channels, size):
    contents = list(formats(rng))
    for row, content in enumerate(contents):
        (tmp_path / f"{row:02}.png").write_bytes(content)
    mine = data.load(
        "image_folder", data_dir=tmp_path, size=size, channels=channels, split="all"
    )
    stream = data.pipeline(mine, batch_size=1, seed=0, num_steps=len(contents))
    for batch in stream:
        np.testing.assert_array_equal(batch["image"], mine.images(batch["index"]))
    # TensorFlow alone fails, and so leaves it to Pillow, where it would differ.
    tf = import_tensorflow()
    read = readers.reader(tf, mine)
    refused = []
    for index in range(len(contents)):
        try:
            ours = read(tf.constant([index]))
        except tf.errors.OpError:
            refused.append(index)
        else:
            np.testing.assert_array_equal(ours, mine.images([index]))
    deep_grey, webp = len(contents) - 6, len(contents) - 2
    assert deep_grey in refused and set(refused) <= {deep_grey, webp, webp + 1}


@pytest.mark.parametrize("kind", ["pipe", "cut", "text", "missing", "small"])
def test_errors_name_the_file(tmp_path, rng, kind):
    faces = tmp_path / "faces"
    faces.mkdir()
    for row in range(6):
        Image.fromarray(smooth(rng, 20, 16, 3)).save(faces / f"{row}.jpg")
    mine = data.load("celeba", data_dir=faces, split="all")
    stream = data.pipeline(mine, batch_size=1, seed=0, num_steps=6)
    path = faces / f"{next(stream)['index'][0]}.jpg"
    content = path.read_bytes()
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "small":
        Image.fromarray(smooth(rng, 12, 8, 3)).save(path)
    elif kind != "missing":
        path.write_bytes(content[:-100] if kind == "cut" else b"text")
    # The second epoch meets the damaged file.
    with pytest.raises(ValueError, match=rf"the image (of )?{path}"):
        for _ in data.pipeline(mine, batch_size=1, seed=0, start_step=1, num_steps=12):
            pass


def test_a_stream_continues_after_a_format_that_only_pillow_reads(tmp_path, rng):
    for row in range(6):
        stream = io.BytesIO()
        kind = "BMP" if row % 2 else "PNG"
        Image.fromarray(smooth(rng, 8, 8, 3)).save(stream, "TIFF" if row == 1 else kind)
        (tmp_path / f"{row}.png").write_bytes(stream.getvalue())
    mine = data.load("image_folder", data_dir=tmp_path, size=8, split="all")
    for batch in data.pipeline(mine, batch_size=2, seed=0, num_steps=9):
        np.testing.assert_array_equal(batch["image"], mine.images(batch["index"]))


def test_what_python_reads(tmp_path, rng):
    tf = import_tensorflow()
    images = rng.integers(0, 256, (12, 4, 4, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", images=images)
    mapped = data.load("npz", file=str(tmp_path / "images.npz"))
    assert readers.reader(tf, mapped) is None
    np.savez_compressed(tmp_path / "small.npz", images=images)
    small = data.load("npz", file=str(tmp_path / "small.npz"))
    assert readers.reader(tf, small) is not None
    assert readers.reader(tf, data.load("xysquares")) is None
    for dataset in (mapped, small):
        batch = next(data.pipeline(dataset, batch_size=4, seed=0))
        np.testing.assert_array_equal(batch["image"], images[batch["index"]])


def test_streams_share_a_copy_of_the_images(rng, monkeypatch):
    images = rng.integers(0, 256, (12, 4, 4, 3), dtype=np.uint8)
    mine = data.from_arrays("mine", images)
    before = len(readers._HELD)
    streams = [data.pipeline(mine, batch_size=4, seed=seed) for seed in range(3)]
    for stream in streams:
        next(stream)
    assert len(readers._HELD) == before + 1
    del stream, streams
    gc.collect()
    assert len(readers._HELD) == before
    monkeypatch.setattr(readers, "_MOST_COPIED", 100)
    assert readers.reader(import_tensorflow(), mine) is None


@pytest.mark.parametrize("shape", [(64, 64, 3), (7,), ()])
def test_noise_is_that_of_jax(shape, getkey):
    key = getkey()
    expected = jax.random.uniform(key, shape)
    np.testing.assert_array_equal(uniform(key, shape), expected)
    compiled = jax.jit(uniform, static_argnums=1)(key, shape)
    np.testing.assert_array_equal(compiled, expected)
    keys = jax.random.split(key, 3)
    np.testing.assert_array_equal(
        jax.vmap(lambda one: uniform(one, shape))(keys),
        np.stack([jax.random.uniform(one, shape) for one in keys]),
    )
    other = jax.random.key(3, impl="rbg")
    np.testing.assert_array_equal(
        uniform(other, shape), jax.random.uniform(other, shape)
    )
