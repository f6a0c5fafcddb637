"""Recognising a complete grid of factors in a table of values."""

import pathlib

import numpy as np


def grid_of(
    path: pathlib.Path, classes: np.ndarray, published: tuple[int, ...]
) -> tuple[tuple[int, ...], np.ndarray | None, np.ndarray | None]:
    """Says how a table of factor values fills a grid.

    Args:
      path: the file, for messages.
      classes: ``[N, K]`` values.
      published: sizes of the complete published set.

    Returns:
      ``(sizes, table, order)``: for a complete grid (of the values that occur) its
      sizes, no table, and the order that sorts the images row-major (None if sorted
      already); else the published sizes and the table.
    """
    if classes.min() < 0 or (classes >= np.asarray(published)).any():
        raise ValueError(
            f"data.load: factor values of {path} must lie below {published}, got "
            f"{classes.min(0).tolist()} to {classes.max(0).tolist()}. It is another "
            "version of the file: fetch the publisher's."
        )
    sizes = tuple(int(size) for size in classes.max(0) + 1)
    if len(classes) == np.prod(sizes):
        places = np.ravel_multi_index(tuple(classes.T), sizes)
        if (places == np.arange(len(places))).all():
            return sizes, None, None
        order = np.argsort(places, kind="stable")
        if (places[order] == np.arange(len(places))).all():
            return sizes, None, order
    return published, classes, None
