"""Images of any common type as bytes."""

import numpy as np


def as_bytes(source: str, images: np.ndarray) -> np.ndarray:
    """Returns images as uint8 in 0 … 255, or raises where the values are unclear.

    Args:
      source: where they come from, for the error.
      images: uint8, bool, other integers in 0 … 255, or floats in [0, 1].
    """
    if images.dtype == np.uint8:
        return images
    whole = np.issubdtype(images.dtype, np.integer)
    highest = 255 if whole else 1
    if not images.size or (images.min() >= 0 and images.max() <= highest):
        return np.round(images * np.float64(255 // highest)).astype(np.uint8)
    raise ValueError(
        f"{source} must be uint8 in 0 … 255, or floats in [0, 1], got {images.dtype} "
        f"from {images.min():g} to {images.max():g}. Convert them, e.g. by "
        "images.astype(np.uint8) if they lie in 0 … 255."
    )
