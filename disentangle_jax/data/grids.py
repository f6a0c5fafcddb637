"""Recognises a complete grid of factors in a table of factor values."""

import pathlib

import numpy as np


def grid_of(
    path: pathlib.Path | str, classes: np.ndarray, published: tuple[int, ...]
) -> tuple[tuple[int, ...], np.ndarray | None, np.ndarray | None]:
    """Returns how a table of factor values fills a grid.

    Args:
      path: the file or argument, for error messages.
      classes: ``[N, K]`` values.
      published: factor sizes of the complete published dataset.

    Returns:
      ``(sizes, table, order)``. For a complete grid of the values that occur: its
      sizes, None, and the order that sorts the images row-major (None if they are
      sorted). Otherwise: the published sizes, the table, and None.
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
