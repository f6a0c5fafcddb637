"""Parses what a browser sends to the explorer, and refuses everything else."""

import io
import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NoReturn

import numpy as np
from PIL import Image, ImageOps

_MAX_PIXELS = 16_000_000
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")


class Refusal(Exception):
    """A request that is answered with a 4xx status and one line."""

    def __init__(self, status: HTTPStatus, message: str):
        super().__init__(message)
        self.status = status


def bad(message: str) -> Refusal:
    """Returns the refusal of a request whose content is wrong."""
    return Refusal(HTTPStatus.BAD_REQUEST, message)


def parse_json(body: bytes) -> dict[str, Any]:
    """Returns a JSON object; NaN and infinities are refused."""

    def refuse(word: str) -> NoReturn:
        raise bad(f"body: numbers must be finite, got {word}.")

    try:
        value = json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise bad("body: must be JSON.") from None
    if not isinstance(value, dict):
        raise bad("body: must be a JSON object.")
    return value


def parse_code(value: Any, dims: int) -> np.ndarray:
    """Returns a list of finite numbers as a float32 code ``[dims]``."""
    if not isinstance(value, list):
        raise bad(f"code: must be a list of {dims} numbers.")
    if len(value) != dims:
        raise bad(f"code: must hold {dims} numbers, got {len(value)}.")
    for place, number in enumerate(value, start=1):
        if isinstance(number, bool) or not isinstance(number, int | float):
            kind = "text" if isinstance(number, str) else json.dumps(number)[:20]
            raise bad(f"code: must hold numbers, got {kind} at place {place}.")
        # Finite as a float32 too; JSON's 1e400 is read as infinity.
        if not abs(number) < 1e30:
            raise bad(f"code: numbers must be finite, which place {place} is not.")
    return np.asarray(value, np.float32)


def parse_place(value: Any, name: str, count: int) -> int:
    """Returns a whole number from 0 to ``count - 1``."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise bad(f"{name}: must be a whole number from 0 to {count - 1}.")
    return value


def parse_image(content: bytes, shape: Sequence[int]) -> np.ndarray:
    """Returns an uploaded picture as uint8 ``[H, W, C]``.

    The picture is cropped around its centre to the model's aspect ratio, scaled, and
    converted to grey where the model takes grey images.
    """
    height, width, channels = shape
    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as file:
            if file.width * file.height > _MAX_PIXELS:
                raise Refusal(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    f"image: must have at most {_MAX_PIXELS // 1_000_000} million "
                    f"pixels, got {file.width} x {file.height}.",
                )
            upright = ImageOps.exif_transpose(file)
            picture = upright.convert("RGB" if channels == 3 else "L")
    except Refusal:
        raise
    except Exception:  # Pillow's readers raise many kinds on damaged files.
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"image: must be a whole file of {', '.join(_FORMATS)}.",
        ) from None
    scale = min(picture.width / width, picture.height / height)
    across, down = max(1, round(width * scale)), max(1, round(height * scale))
    left, top = (picture.width - across) // 2, (picture.height - down) // 2
    middle = picture.crop((left, top, left + across, top + down))
    small = middle.resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(small, np.uint8).reshape(shape)
