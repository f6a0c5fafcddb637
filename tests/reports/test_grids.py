"""Sheets place every image where its row and column are, and mark the variables."""

import io

import numpy as np
import pytest
from PIL import Image

from disentangle_jax.reports import plots
from disentangle_jax.reports.grids import (
    magnified,
    moving_traversals,
    panels,
    row_places,
    sheet,
)


def test_sheet_places_images_and_repeats_grey():
    images = np.zeros((2, 3, 4, 5, 1), np.uint8)
    images[1, 2] = 200
    drawn = np.asarray(sheet(images))
    assert drawn.shape == (2 * 6, 3 * 7, 3)
    assert (drawn[6:10, 14:19] == 200).all()
    assert (drawn[:4, :5] == 0).all()
    assert (drawn[4:6] == 255).all()


def test_labels_move_images_to_the_right():
    images = np.zeros((2, 3, 20, 5, 3), np.uint8)
    assert sheet(images, ["z1", "z2"]).size == (44 + 3 * 7, 2 * 22)
    wide = sheet(images, ["z1", "a name that is longer than others"])
    assert wide.width > 200
    drawn = np.asarray(wide)
    assert (drawn[:20, -21:-16] == 0).all() and (
        drawn[:20, : wide.width - 25] > 0
    ).any()


def test_rows_of_a_variable_are_joined_and_variables_parted():
    # Rows of 4 pixels, a gap of 2, and 8 more between variables.
    assert row_places(4, 4, (1, 3)) == ([0, 14, 20, 26], [(0, 4), (14, 30)])
    assert row_places(3, 4, (1, 1, 1)) == ([0, 6, 12], [])
    assert row_places(2, 4) == ([0, 6], [])
    with pytest.raises(ValueError, match="`groups` must add up to the 3 rows"):
        row_places(3, 4, (1, 1))


def test_group_bars_are_drawn_beside_their_rows():
    images = np.zeros((3, 2, 4, 5, 3), np.uint8)
    drawn = np.asarray(sheet(images, groups=(2, 1)))
    assert drawn.shape == (4 + 2 + 4 + 10 + 4 + 2, 8 + 2 * 7, 3)
    first, second = drawn[0, 0], drawn[-3, 0]
    assert not (first == second).all()
    assert (drawn[:10, :4] == first).all()  # Over both rows and the gap between.
    assert (drawn[10:20, :8] == 255).all()
    assert (drawn[20:24, :4] == second).all()


def test_panels_stand_in_columns_under_their_titles():
    sizes = [(30, 10), (20, 40), (50, 20)]
    titled = [(f"m{i}", Image.new("RGB", s, "black")) for i, s in enumerate(sizes)]
    drawn = np.asarray(panels(titled, columns=2))
    # Columns as wide as their widest, rows as high as their highest, 16 apart.
    assert drawn.shape == (18 + 40 + 16 + 18 + 20, 50 + 16 + 20, 3)
    assert (drawn[18:28, :30] == 0).all()
    assert (drawn[18:58, 66:86] == 0).all()
    assert (drawn[92:112, :50] == 0).all()
    assert panels(titled[:1], columns=3).size == (30, 28)


def test_moving_traversals_go_to_and_fro():
    shades = np.array([0, 120, 240], np.uint8)
    walk = np.broadcast_to(shades[None, :, None, None, None], (3, 3, 16, 16, 3))
    content = moving_traversals(walk, (1, 2), columns=2)
    with Image.open(io.BytesIO(content)) as moving:
        assert moving.format == "WEBP" and moving.n_frames == 4
        assert moving.size == (2 * 18, 2 * 34)
        seen = []
        for frame in range(4):
            moving.seek(frame)
            seen.append(np.asarray(moving.convert("RGB"))[26, 8].astype(int))
    np.testing.assert_allclose(seen, [[v] * 3 for v in (0, 120, 240, 120)], atol=12)


def test_titles_of_inactive_latents_are_grey():
    walk = np.zeros((2, 2, 96, 96, 1), np.uint8)
    content = moving_traversals(walk, (1, 1), inactive=[1])
    with Image.open(io.BytesIO(content)) as moving:
        assert moving.size == (2 * 98, 96 + 28)  # Text grows with the images.
        titles = np.asarray(moving.convert("RGB"))[:26].astype(int)
    spread = titles.max(axis=-1) - titles.min(axis=-1)
    assert spread[:, :98].max() > 60 and spread[:, 98:].max() < 40
    assert titles[:, 98:].min() < 200


def test_small_images_are_magnified_by_whole_pixels(rng):
    for size, times in ((16, 6), (28, 4), (64, 2), (96, 1), (128, 1)):
        images = rng.integers(256, size=(2, size, size, 1)).astype(np.uint8)
        large = magnified(images)
        assert large.shape == (2, times * size, times * size, 1)
        for offset in (0, times - 1):
            np.testing.assert_array_equal(large[:, offset::times, ::times], images)


def test_mean_and_deviation_over_seeds():
    mean, deviation = plots.mean_and_deviation([1.0, 3.0, 5.0])
    assert mean == 3.0
    np.testing.assert_allclose(deviation, np.sqrt((4 + 0 + 4) / 2), rtol=1e-12)
    assert plots.mean_and_deviation([2.0]) == (2.0, None)
