"""Draws report sections as files and as HTML."""

import csv
import functools
import html
import io
import json
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from disentangle_jax import evaluation, files
from disentangle_jax.evaluation import sections
from disentangle_jax.evaluation.sections import Section
from disentangle_jax.reports import grids, markup, plots

# A list of numbers or texts in indented JSON, whose texts hold no line breaks.
_LISTS = re.compile(r"\[\n([^\[\]{}]*)\n *\]")


class Drawn(NamedTuple):
    """A drawn section.

    Attributes:
      html: what stands below its caption.
      kind: ending of its file; "" for sections without one.
      content: bytes of the file.
    """

    html: str
    kind: str = ""
    content: bytes = b""


@functools.singledispatch
def draw(section: Section) -> Drawn:
    """Draws a section. Other packages register functions for types of their own."""
    raise TypeError(
        f"draw: `section` must be a type that draw.register knows, got "
        f"{type(section).__name__}."
    )


def _picture(section: Section, content: bytes) -> Drawn:
    kind = "webp" if content[8:12] == b"WEBP" else "png"
    return Drawn(markup.image(section.title, content), kind, content)


@draw.register
def _(section: sections.Figure) -> Drawn:
    return _picture(section, section.content)


@draw.register
def _(section: sections.Sheet) -> Drawn:
    sheet = grids.sheet(grids.magnified(section.images), section.labels, section.groups)
    return _picture(section, grids.png(sheet))


@draw.register
def _(section: sections.Animation) -> Drawn:
    images, groups = grids.magnified(section.images), section.groups
    moving = grids.moving_traversals(images, groups, inactive=section.inactive)
    return _picture(section, moving)


@draw.register
def _(section: sections.HeatMap) -> Drawn:
    if section.signed:
        content = plots.correlation_map(section.values, section.rows, section.groups)
    else:
        content = plots.heat_map(section.values, section.rows, section.columns)
    return _picture(section, content)


@draw.register
def _(section: sections.Bars) -> Drawn:
    content = plots.bar_groups(
        section.bars, section.x_name, section.y_name, section.names
    )
    return _picture(section, content)


@draw.register
def _(section: sections.Lines) -> Drawn:
    content = plots.curves(section.curves, section.x_name, section.y_name)
    return _picture(section, content)


@draw.register
def _(section: sections.Table) -> Drawn:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([section.head, *section.rows])
    shown = markup.table(section.head, section.rows, section.number)
    return Drawn(shown, "csv", text.getvalue().encode())


@draw.register
def _(section: sections.Text) -> Drawn:
    shown = f"<pre>{html.escape(section.text)}</pre>"
    if section.folded:
        shown = f"<details><summary>Show</summary>{shown}</details>"
    return Drawn(shown)


def _in_one_line(found: re.Match) -> str:
    return f"[{' '.join(line.strip() for line in found[1].splitlines())}]"


def write_section(section: Section, folder: pathlib.Path, more: str = "") -> str:
    """Draws a section, writes its file to `folder`, and returns its HTML.

    `more` is HTML that follows the drawing.
    """
    drawn = draw(section)
    if drawn.kind:
        files.write_bytes(folder / f"{section.name}.{drawn.kind}", drawn.content)
    return markup.section(
        section.name, section.title, section.caption, drawn.html + more
    )


def write_parts(
    workdir: pathlib.Path,
    title: str,
    parts: Iterable[Section],
    recipe: Mapping[str, Any],
) -> pathlib.Path:
    """Writes each section as a file, and ``report.html`` of all; returns its path.

    Args:
      workdir: folder of the files.
      title: title of the page.
      parts: the sections in their order.
      recipe: everything that reproduces the numbers; shown at the end of the page.
    """
    shown = {name: value for name, value in recipe.items() if name != "values"}
    last = sections.Text(
        "recipe",
        "Recipe",
        "Everything that is needed to reproduce these numbers.",
        _LISTS.sub(_in_one_line, json.dumps(shown, indent=2)),
        folded=True,
    )
    body = [write_section(part, workdir) for part in (*parts, last)]
    path = workdir / evaluation.REPORT
    files.write_text(path, markup.page(title, body))
    return path
