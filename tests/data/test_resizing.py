"""Images are resized by averaging areas, everywhere in the same way."""

import jax
import numpy as np
import pytest

from disentangle_jax import data
from disentangle_jax.data.resizing import area_average


def by_loops(image, size):
    """The mean over the area of each new pixel, in float64."""
    old, channels = image.shape[0], image.shape[2]
    step = old / size
    out = np.zeros((size, size, channels))
    for i in range(size):
        for j in range(size):
            for h in range(old):
                for w in range(old):
                    rows = min((i + 1) * step, h + 1) - max(i * step, h)
                    columns = min((j + 1) * step, w + 1) - max(j * step, w)
                    out[i, j] += max(rows, 0) * max(columns, 0) * image[h, w]
    return out / step**2


@pytest.mark.parametrize("old, size", [(8, 4), (8, 2), (9, 3), (9, 4), (5, 5)])
def test_pixels_are_means_of_areas(old, size, rng):
    images = rng.integers(0, 256, (2, old, old, 3), dtype=np.uint8)
    expected = np.stack([by_loops(image.astype(float), size) for image in images])
    found = area_average(images, size)
    assert found.dtype == np.uint8
    np.testing.assert_allclose(found, expected, atol=0.5 + 1e-4)
    np.testing.assert_array_equal(area_average(jax.numpy.asarray(images), size), found)


@pytest.mark.parametrize("name", ["rendered_dsprites", "rendered_shapes3d"])
def test_rendered_images_are_averages_of_the_full_size(name):
    index = np.arange(5) * 1000
    full = data.load(name, split="all").images(index)
    small = data.load(name, split="all", size=16)
    assert small.image_shape == (16, 16, full.shape[-1])
    np.testing.assert_array_equal(small.images(index), area_average(full, 16))
    draw, arrays = data.device_sampler(small)
    batch = jax.jit(draw, static_argnums=1)(jax.random.key(0), 4, arrays)
    np.testing.assert_array_equal(batch["image"], small.images(batch["index"]))


def test_squares_and_spacing_are_scaled_together():
    # Squares of 2×2 pixels at 8 places that do not overlap.
    squares = data.load("xysquares", split="all", size=16)
    factors = np.zeros((8, 6), int)
    factors[:, 0] = np.arange(8)
    images = squares.images(squares.index_of(factors))[..., 0]
    assert set(np.unique(images)) == {0, 255}
    assert (images.sum(0) <= 255).all() and (images.sum((1, 2)) == 4 * 255).all()
    np.testing.assert_array_equal(images.argmax(2).max(1), 2 * np.arange(8))


def test_files_and_noise(real_data):
    folder = real_data / "format_fixtures"
    full = data.load("shapes3d", data_dir=folder, split="all")
    small = data.load("shapes3d", data_dir=folder, split="all", size=32)
    index = small.indices[:3]
    np.testing.assert_array_equal(
        small.images(index), area_average(full.images(index), 32)
    )


@pytest.mark.parametrize("size", [0, 65, 2.5, True])
def test_wrong_sizes_are_refused(size):
    with pytest.raises(ValueError, match=r"`size` must be an integer from 1"):
        data.load("xysquares", size=size)
