"""Sheets of images: labelled rows, marked variables, panels and animations."""

import io
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from disentangle_jax.evaluation.sections import latent_labels as latent_labels

_GAP = 2
_GROUP_GAP = 8
_BAR = 4
_LABEL_WIDTH = 44
_TITLE_HEIGHT = 18
_MILLISECONDS = 120
# Pixels of the smallest image on a page.
_SMALLEST = 96
_FONT_SIZE = 14
# Colours of successive variables.
_GROUP_COLOURS = ("#1f5fa8", "#e08214")
_INACTIVE_COLOUR = "#8a949e"


def magnified(images: np.ndarray) -> np.ndarray:
    """Returns images ``[..., H, W, C]`` with each pixel repeated, at least 96 wide."""
    times = -(-_SMALLEST // images.shape[-2])
    return images.repeat(times, axis=-3).repeat(times, axis=-2)


def sheet(
    images: np.ndarray, row_labels: Sequence[str] = (), groups: Sequence[int] = ()
) -> Image.Image:
    """Returns images laid out in rows on a white sheet.

    Args:
      images: ``[rows, columns, H, W, C]`` uint8, C is 1 or 3.
      row_labels: one short text per row, drawn on the left; none for no labels.
      groups: sizes of the latent variables to which the rows belong; they add up to
        the number of rows. Where a variable has several rows, gaps separate the
        variables and a bar on the left marks the rows of each.
    """
    rows, columns, height, width, _ = images.shape
    tops, bars = row_places(rows, height, groups)
    size = _font_size(height)
    font = ImageFont.load_default(size=size)
    left = 2 * _BAR if bars else 0
    if row_labels:
        widest = max(math.ceil(font.getlength(label)) for label in row_labels)
        left = max(_LABEL_WIDTH, widest + 8 * size // _FONT_SIZE) + left
    area = (left + columns * (width + _GAP), tops[-1] + height + _GAP)
    canvas = Image.new("RGB", area, "white")
    draw = ImageDraw.Draw(canvas)
    for r, top in enumerate(tops):
        for c in range(columns):
            canvas.paste(_rgb(images[r, c]), (left + c * (width + _GAP), top))
    for number, (top, bottom) in enumerate(bars):
        colour = _GROUP_COLOURS[number % len(_GROUP_COLOURS)]
        draw.rectangle((0, top, _BAR - 1, bottom - 1), fill=colour)
    for label, top in zip(row_labels, tops):
        place = (4 + (2 * _BAR if bars else 0), top + height // 2)
        draw.text(place, label, fill="black", font=font, anchor="lm")
    return canvas


def row_places(
    rows: int, height: int, groups: Sequence[int] = ()
) -> tuple[list[int], list[tuple[int, int]]]:
    """Returns the top of each row, and top and bottom of the bar of each variable.

    There are no bars, and no gaps between variables, where each has a single row.
    """
    if groups and sum(groups) != rows:
        raise ValueError(
            f"sheet: `groups` must add up to the {rows} rows, got {tuple(groups)}."
        )
    if max(groups, default=1) == 1:
        return [r * (height + _GAP) for r in range(rows)], []
    tops, bars, top = [], [], 0
    for size in groups:
        tops += [top + r * (height + _GAP) for r in range(size)]
        bars.append((top, tops[-1] + height))
        top = tops[-1] + height + _GAP + _GROUP_GAP
    return tops, bars


def panels(titled: Sequence[tuple[str, Image.Image]], columns: int) -> Image.Image:
    """Returns sheets side by side, each under its title: ``(a) …``, ``(b) …``."""
    columns = min(columns, len(titled))
    font = ImageFont.load_default(size=14)
    widths = [0] * columns
    heights: list[int] = []
    for number, (_, image) in enumerate(titled):
        row, column = divmod(number, columns)
        widths[column] = max(widths[column], image.width)
        heights += [0] * (row + 1 - len(heights))
        heights[row] = max(heights[row], image.height)
    apart = 2 * _GROUP_GAP
    size = (
        sum(widths) + apart * (columns - 1),
        sum(heights) + (_TITLE_HEIGHT + apart) * len(heights) - apart,
    )
    canvas = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(canvas)
    for number, (title, image) in enumerate(titled):
        row, column = divmod(number, columns)
        left = sum(widths[:column]) + apart * column
        top = sum(heights[:row]) + (_TITLE_HEIGHT + apart) * row
        letter = chr(ord("a") + number % 26)
        draw.text((left, top), f"({letter}) {title}", fill="black", font=font)
        canvas.paste(image, (left, top + _TITLE_HEIGHT))
    return canvas


def moving_traversals(
    walk: np.ndarray,
    groups: Sequence[int],
    *,
    inactive: Sequence[int] = (),
    columns: int = 6,
) -> bytes:
    """Returns an animated WebP: a tile per latent, which moves back and forth.

    Args:
      walk: ``[D, steps, H, W, C]`` uint8, a traversal of each latent.
      groups: sizes of the latent variables; their titles alternate in colour.
      inactive: latents whose titles are grey.
      columns: number of tiles in a row.
    """
    count, steps, height, width, _ = walk.shape
    labels = latent_labels(groups)
    variable = np.repeat(np.arange(len(groups)), groups)
    columns = min(columns, count)
    rows = math.ceil(count / columns)
    font = ImageFont.load_default(size=_font_size(height))
    title = _TITLE_HEIGHT - _FONT_SIZE + _font_size(height)
    ground = Image.new(
        "RGB", (columns * (width + _GAP), rows * (height + title)), "white"
    )
    draw = ImageDraw.Draw(ground)
    places = []
    for d, label in enumerate(labels):
        row, column = divmod(d, columns)
        left, top = column * (width + _GAP), row * (height + title)
        colour = _GROUP_COLOURS[variable[d] % len(_GROUP_COLOURS)]
        if d in inactive:
            colour = _INACTIVE_COLOUR
        draw.text((left, top), label, fill=colour, font=font)
        places.append((left, top + title))
    frames = []
    for step in [*range(steps), *range(steps - 2, 0, -1)]:
        frame = ground.copy()
        for d, place in enumerate(places):
            frame.paste(_rgb(walk[d, step]), place)
        frames.append(frame)
    buffer = io.BytesIO()
    frames[0].save(
        buffer, format="WEBP", save_all=True, append_images=frames[1:],
        duration=_MILLISECONDS, loop=0, quality=85, method=3,
    )  # fmt: skip
    return buffer.getvalue()


def png(image: Image.Image) -> bytes:
    """Returns the bytes of a PNG file."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()


def _font_size(height: int) -> int:
    """Returns the size of the text beside images of a height."""
    return max(_FONT_SIZE, height // 4)


def _rgb(image: np.ndarray) -> Image.Image:
    """Returns one ``[H, W, C]`` image; grey ones become RGB."""
    if image.shape[-1] == 1:
        image = np.repeat(image, 3, axis=-1)
    return Image.fromarray(image)
