"""Pages made of tables and figures, for what is more than one run."""

import csv
import html
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from disentangle_jax.reports import _html
from disentangle_jax.reports._page import Figure


class Table(NamedTuple):
    """One table of a page.

    Attributes:
      name: of its file.
      title: heading.
      caption: what it shows, in plain words.
      head: names of the columns.
      rows: texts, one for each column.
    """

    name: str
    title: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> str:
        return _html.section(
            self.title, self.caption, _html.table(self.head, self.rows, number=-1)
        )

    def text(self) -> str:
        """Returns the table with aligned columns, for a terminal."""
        lines = [self.head, *self.rows]
        widths = [max(len(cell) for cell in column) for column in zip(*lines)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
            for line in lines
        )

    def save(self, folder: pathlib.Path) -> None:
        with (folder / f"{self.name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([self.head, *self.rows])


def write_parts(
    workdir: pathlib.Path,
    title: str,
    parts: Sequence[Table | Figure],
    recipe: Mapping[str, Any],
) -> pathlib.Path:
    """Writes each part as a file, and ``report.html`` of all; returns its path.

    Args:
      workdir: folder of the files.
      title: of the page.
      parts: in their order.
      recipe: what is needed to get the numbers again; stands at the end of the page.
    """
    sections = []
    for part in parts:
        part.save(workdir)
        sections.append(part.html())
    shown = {name: value for name, value in recipe.items() if name != "values"}
    text = html.escape(json.dumps(shown, indent=2))
    caption = "Everything that is needed to get these numbers again."
    sections.append(_html.section("Recipe", caption, f"<pre>{text}</pre>"))
    path = workdir / "report.html"
    _html.write(path, _html.page(title, sections))
    return path
