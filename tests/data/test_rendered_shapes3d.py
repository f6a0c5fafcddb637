"""The rendered 3D Shapes: image statistics of the original, by index and in jit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import data

# Overlooked Implications of the Reconstruction Loss, Tables 1 and 2.
MEANS = (0.503, 0.579, 0.603)
STDS = (0.294, 0.344, 0.366)
DISTANCES = {
    "wall_hue": 0.112,
    "floor_hue": 0.109,
    "object_hue": 0.042,
    "shape": 0.021,
    "scale": 0.018,
    "orientation": 0.012,
}
RANDOM_DISTANCE = 0.243


@pytest.fixture(scope="module")
def shapes():
    return data.load("rendered_shapes3d", split="all")


def images_of(shapes, factors):
    return shapes.images(shapes.index_of(factors)).astype(np.float32) / 255


def test_contract(shapes):
    assert len(shapes) == 480_000
    assert shapes.factor_sizes == (10, 10, 10, 8, 4, 15)
    assert shapes.factor_names == (
        "floor_hue",
        "wall_hue",
        "object_hue",
        "scale",
        "shape",
        "orientation",
    )
    assert shapes.image_shape == (64, 64, 3)
    images = shapes.images(np.array([0, 479_999]))
    assert images.shape == (2, 64, 64, 3) and images.dtype == np.uint8
    assert shapes.images(np.array([], int)).shape == (0, 64, 64, 3)


def test_channel_statistics(shapes, rng):
    factors = rng.integers(0, shapes.factor_sizes, (2000, 6))
    pixels = images_of(shapes, factors).reshape(len(factors), -1, 3)
    np.testing.assert_allclose(pixels.mean((0, 1)), MEANS, atol=0.05)
    np.testing.assert_allclose(pixels.std(1, ddof=1).mean(0), STDS, atol=0.05)


def test_distances_along_factors(shapes, rng):
    first = rng.integers(0, shapes.factor_sizes, (2000, 6))
    images = images_of(shapes, first)
    measured = {}
    for name in DISTANCES:
        column = shapes.factor_names.index(name)
        size = shapes.factor_sizes[column]
        second = first.copy()
        second[:, column] += rng.integers(1, size, len(first))
        second[:, column] %= size
        measured[name] = np.mean((images - images_of(shapes, second)) ** 2)
    other = images_of(shapes, rng.integers(0, shapes.factor_sizes, first.shape))
    random_distance = np.mean((images - other) ** 2)
    for name, expected in DISTANCES.items():
        assert measured[name] == pytest.approx(expected, rel=0.25), name
    assert random_distance == pytest.approx(RANDOM_DISTANCE, rel=0.25)
    assert sorted(measured, key=measured.get, reverse=True) == list(DISTANCES)


def test_each_hue_colours_its_own_part(shapes):
    # Mid orientation, cube: sky on top, wall in the middle, floor below, object centre.
    red_green_blue = images_of(shapes, np.array([[3, 6, 0, 4, 0, 7]]))[0]
    np.testing.assert_allclose(red_green_blue[2, 2], (0.6, 0.886, 0.976), atol=0.01)
    assert red_green_blue[28, 5].argmax() == 2  # blue wall
    assert red_green_blue[60, 5].argmax() == 1  # green floor
    assert red_green_blue[48, 32].argmax() == 0  # red object


def test_shadow_and_scale(shapes):
    factors = np.array([[0, 5, 3, scale, 3, 7] for scale in range(8)])
    images = images_of(shapes, factors)
    green = (images[..., 1] > 0.5) & (images[..., 2] < 0.4)
    areas = green.sum((1, 2))
    assert (np.diff(areas) > 0).all()
    shadow = (images[..., 0] < 0.45) & (images[..., 1] < 0.1) & (images[..., 2] < 0.1)
    assert shadow[-1, 50:].sum() > 50


def test_render_inside_jit_equals_images(shapes, rng):
    indices = rng.integers(0, len(shapes), 9)
    expected = shapes.images(indices)
    factors = jnp.asarray(shapes.factors(indices))
    np.testing.assert_array_equal(jax.jit(shapes.render)(factors), expected)
    lanes = jax.vmap(shapes.render)(factors.reshape(3, 3, 6))
    np.testing.assert_array_equal(lanes.reshape(expected.shape), expected)


def test_first_render_may_happen_inside_a_trace(shapes):
    from disentangle_jax.data.sets import rendered_shapes3d

    rendered_shapes3d._layer_table.cache_clear()
    image = jax.jit(lambda f: shapes.render(f) / 255)(jnp.zeros((1, 6), int))
    expected = shapes.images(np.array([0])) / np.float32(255)
    np.testing.assert_allclose(image, expected, atol=1e-6)
