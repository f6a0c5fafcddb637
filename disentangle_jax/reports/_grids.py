"""Sheets of images with labelled rows."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

_GAP = 2
_LABEL_WIDTH = 44


def sheet(images: np.ndarray, row_labels: Sequence[str] = ()) -> Image.Image:
    """Returns images laid out in rows on a white sheet.

    Args:
      images: ``[rows, columns, H, W, C]`` uint8, C is 1 or 3.
      row_labels: one short text per row, drawn on the left; none for no labels.
    """
    rows, columns, height, width, channels = images.shape
    if channels == 1:
        images = np.repeat(images, 3, axis=-1)
    left = _LABEL_WIDTH if row_labels else 0
    size = (left + columns * (width + _GAP), rows * (height + _GAP))
    canvas = Image.new("RGB", size, "white")
    for r in range(rows):
        for c in range(columns):
            place = (left + c * (width + _GAP), r * (height + _GAP))
            canvas.paste(Image.fromarray(images[r, c]), place)
    if row_labels:
        draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(size=14)
        for r, label in enumerate(row_labels):
            middle = r * (height + _GAP) + height // 2
            draw.text((4, middle), label, fill="black", font=font, anchor="lm")
    return canvas


def latent_labels(groups: Sequence[int]) -> list[str]:
    """Returns a name per latent dimension: ``z3``, or ``z3.2`` inside a variable."""
    labels = []
    for variable, size in enumerate(groups, start=1):
        if size == 1:
            labels.append(f"z{variable}")
        else:
            labels += [f"z{variable}.{part}" for part in range(1, size + 1)]
    return labels
