"""Infinite dSprites: geometry, antialiasing, moments, independence of the factors."""

import jax
import numpy as np
import pytest

from disentangle_jax import data
from disentangle_jax.data.sets import infinite_dsprites as source

KNOTS = {5, 6, 7, 8}


def curve(radii, knots, angles):
    """r(θ) by a loop over the spline's pieces, in float64 (Catmull-Rom)."""
    found = []
    for angle in angles:
        place = angle / (2 * np.pi) * knots
        first, t = int(place) % knots, place % 1
        p = [float(radii[(first + k) % knots]) for k in (-1, 0, 1, 2)]
        found.append(
            p[1]
            + 0.5 * t * (p[2] - p[0])
            + t**2 * (p[0] - 2.5 * p[1] + 2 * p[2] - 0.5 * p[3])
            + t**3 * (1.5 * (p[1] - p[2]) + 0.5 * (p[3] - p[0]))
        )
    return np.array(found)


def shape_of(index, seed=0):
    radii, knots, centroid = source._shape(
        jax.random.fold_in(jax.random.key(seed), index)
    )
    return np.asarray(radii, np.float64), int(knots), np.asarray(centroid, np.float64)


def picture(factors, sizes, side, fine=16):
    """An image by counting the fine points of each pixel inside the curve, float64."""
    radii, knots, centroid = shape_of(factors[0])
    scale = np.linspace(0.5, 1, sizes[1])[factors[1]]
    angle = 2 * np.pi * factors[2] / sizes[2]
    x0, y0 = np.linspace(0.25, 0.75, sizes[3])[list(factors[3:])] * side
    points = (np.arange(side * fine) + 0.5) / fine
    x, y = np.meshgrid(points - x0, y0 - points)
    unit = scale * source.RADIUS * side
    across = (np.cos(angle) * x + np.sin(angle) * y) / unit + centroid[0]
    along = (np.cos(angle) * y - np.sin(angle) * x) / unit + centroid[1]
    theta = np.arctan2(along, across) % (2 * np.pi)
    table = curve(radii, knots, np.arange(4096) * 2 * np.pi / 4096)
    r = table[(theta / (2 * np.pi) * 4096).astype(int) % 4096]
    inside = np.hypot(across, along) < r
    return inside.reshape(side, fine, side, fine).mean((1, 3))


@pytest.mark.parametrize("side", [16, 32, 64])
def test_images_are_the_covered_shares_of_pixels(side):
    sprites = data.load("infinite_dsprites", split="all", size=side)
    assert sprites.image_shape == (side, side, 1)
    for factors in ([0, 5, 7, 16, 3], [3, 0, 31, 0, 31], [9, 3, 0, 20, 10]):
        image = sprites.images(sprites.index_of([factors]))[0, ..., 0] / 255
        want = picture(factors, sprites.factor_sizes, side)
        assert np.abs(image - want).max() < 0.15
        assert image.sum() == pytest.approx(want.sum(), rel=0.05 * 16 / side)
        assert ((image > 0) & (image < 1)).any()


def test_splines_and_their_slopes():
    turn = np.linspace(0, 1, 97)
    kinds = set()
    for index in range(12):
        radii, knots, _ = shape_of(index)
        kinds.add(knots)
        spline = jax.jit(source._spline)
        r, slope = spline(radii.astype(np.float32), knots, turn.astype(np.float32))
        want = curve(radii, knots, turn[:-1] * 2 * np.pi)
        np.testing.assert_allclose(r[:-1], want, atol=2e-5)
        assert float(r[0]) == pytest.approx(float(r[-1]), abs=1e-5)  # It is closed.
        step = 1e-5
        angles = turn[1:-1] * 2 * np.pi
        change = curve(radii, knots, angles + step) - curve(radii, knots, angles - step)
        np.testing.assert_allclose(slope[1:-1], change / (2 * step), atol=2e-3)
    assert kinds == KNOTS


def test_moments_do_not_depend_on_shape_place_and_angle(rng):
    sprites = data.load("infinite_dsprites", split="all", shapes=200, positions=8)
    factors = rng.integers(0, sprites.factor_sizes, (300, 5))
    images = sprites.images(sprites.index_of(factors))[..., 0] / 255
    assert not images[:, [0, -1]].any() and not images[..., [0, -1]].any()
    scale = np.linspace(0.5, 1, 6)[factors[:, 1]]
    areas = images.sum((1, 2))
    want = np.pi * (scale * source.RADIUS * 64) ** 2
    np.testing.assert_allclose(areas, want, rtol=0.03)
    pixels = np.arange(64) + 0.5
    x = (images.sum(1) @ pixels) / areas
    y = (images.sum(2) @ pixels) / areas
    places = np.linspace(0.25, 0.75, 8) * 64
    np.testing.assert_allclose(x, places[factors[:, 3]], atol=0.15)
    np.testing.assert_allclose(y, places[factors[:, 4]], atol=0.15)
    mean, deviation = data.channel_moments(sprites, indices=sprites.index_of(factors))
    assert mean[0] == pytest.approx(want.mean() / 64**2, rel=0.02)
    # That of black and white images, less what the grey edges take away.
    sharp = np.sqrt(mean[0] * (1 - mean[0]))
    assert 0.9 * sharp < deviation[0] < sharp


def test_factors_are_drawn_independently(getkey):
    sprites = data.load("infinite_dsprites", split="all", positions=8)
    draw, arrays = data.device_sampler(sprites)
    drawn = np.asarray(jax.jit(draw, static_argnums=1)(getkey(), 4096, arrays)["index"])
    factors = sprites.factors(drawn)
    assert (factors.max(0) + 1 == sprites.factor_sizes).all()
    correlation = np.corrcoef(factors.T) - np.eye(5)
    assert np.abs(correlation).max() < 5 / np.sqrt(4096)


def test_shapes_are_those_of_their_seed():
    few = data.load("infinite_dsprites", split="all", shapes=3)
    many = data.load("infinite_dsprites", split="all", shapes=50)
    other = data.load("infinite_dsprites", split="all", shapes=3, seed=1)
    place = [[2, 5, 11, 16, 16]]
    image = few.images(few.index_of(place))
    np.testing.assert_array_equal(image, many.images(many.index_of(place)))
    assert (image != other.images(other.index_of(place))).mean() > 0.005
    turned = few.images(few.index_of([[2, 5, turn, 16, 16] for turn in range(40)]))
    assert len(np.unique(turned, axis=0)) == 40
    thousands = data.load(
        "infinite_dsprites", split="all", shapes=20_000, scales=1, orientations=1,
        positions=2,
    )  # fmt: skip
    images = thousands.images(np.arange(0, len(thousands), 400))
    assert len(np.unique(images, axis=0)) == len(images)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"shapes": 0}, "`shapes` must be an integer of at least 1"),
        ({"size": 4}, "`size` must be an integer of at least 8"),
        ({"seed": 1.5}, "`seed` must be an integer"),
        ({"shapes": 10_000}, "below 2³¹, got 10000 with"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        data.load("infinite_dsprites", **options)
