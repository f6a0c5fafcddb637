"""Report sections as plain data: what an evaluator shows and ``reports`` draws.

Users may subclass :class:`Section` and register how it is drawn with
``reports.draw.register``.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Section:
    """A titled part of a page.

    Attributes:
      name: name of its file, without the ending.
      title: heading.
      caption: what the section shows, in one or two sentences.
    """

    name: str
    title: str
    caption: str


@dataclasses.dataclass(frozen=True, eq=False)
class Table(Section):
    """A table of texts.

    Attributes:
      head: names of the columns.
      rows: one text per column.
      number: column that is aligned as numbers are; -1 for none.
      printed: number of first rows that the command line prints below the scores.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    number: int = -1
    printed: int = 0

    def text(self, count: int | None = None) -> str:
        """Returns the first `count` rows, or all, with aligned columns."""
        lines = [self.head, *self.rows[:count]]
        widths = [max(len(cell) for cell in column) for column in zip(*lines)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
            for line in lines
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Figure(Section):
    """A finished picture: the bytes of a PNG or WebP file."""

    content: bytes


@dataclasses.dataclass(frozen=True, eq=False)
class Sheet(Section):
    """Rows of images.

    Attributes:
      images: ``[rows, columns, H, W, C]`` uint8, C is 1 or 3.
      labels: one short text per row; () for none.
      groups: sizes of the latent variables to which the rows belong; () for none.
      shared_rows: number of first rows that do not depend on the model, such as test
        images. A comparison of models shows them once.
    """

    images: np.ndarray
    labels: Sequence[str] = ()
    groups: Sequence[int] = ()
    shared_rows: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Animation(Section):
    """Moving images: a tile per latent, which runs through its steps and back.

    Attributes:
      images: ``[D, steps, H, W, C]`` uint8.
      groups: sizes of the latent variables.
      inactive: latents that the model does not use.
    """

    images: np.ndarray
    groups: Sequence[int]
    inactive: Sequence[int] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class HeatMap(Section):
    """A matrix as colours.

    Attributes:
      values: ``[rows, columns]``.
      rows: names of the rows.
      columns: names of the columns.
      signed: True for correlations in [-1, 1], without their diagonal; False for values
        from 0, which are also written into the cells.
      groups: sizes of the groups of rows and columns that lines separate; () for none.
    """

    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    signed: bool = False
    groups: Sequence[int] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Bars(Section):
    """Bars in coloured groups, ``{group: heights}``, with a name per bar or none."""

    bars: Mapping[str, Sequence[float] | np.ndarray]
    x_name: str
    y_name: str
    names: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Lines(Section):
    """Curves, ``{name: (x, y)}``; NaN leaves a gap.

    Where ``y`` is ``[seeds, n]``, the curve is the mean and has a band of one standard
    deviation to either side.
    """

    curves: Mapping[
        str, tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray]
    ]
    x_name: str
    y_name: str


@dataclasses.dataclass(frozen=True, eq=False)
class Text(Section):
    """Preformatted text; where it is `folded`, a click shows it."""

    text: str
    folded: bool = False


def in_rows(images: np.ndarray, columns: int) -> np.ndarray:
    """Returns images ``[n, H, W, C]`` in rows; the last row is filled with white."""
    rows = -(-len(images) // columns)
    filled = np.full((rows * columns, *images.shape[1:]), 255, np.uint8)
    filled[: len(images)] = images
    return filled.reshape(rows, columns, *images.shape[1:])


def latent_labels(groups: Sequence[int]) -> list[str]:
    """Returns a name per latent dimension: ``z3``, or ``z3.2`` inside a variable."""
    labels = []
    for variable, size in enumerate(groups, start=1):
        if size == 1:
            labels.append(f"z{variable}")
        else:
            labels += [f"z{variable}.{part}" for part in range(1, size + 1)]
    return labels
