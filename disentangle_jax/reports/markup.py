"""HTML pages of one file, with their style, script and images inside."""

import base64
import html
import importlib.resources
import re
from collections.abc import Iterable, Mapping, Sequence

_BREAK = re.compile(r"([._,+=|])(?!\d)")
_CODE = re.compile(r"(?::[a-z]+:)?`([^`]+)`")
_HEADING = re.compile(r'<section id="([^"]+)"><h2>(.*?)</h2>')


def page(title: str, sections: Iterable[str]) -> str:
    """Returns a page that needs no other file and loads nothing.

    A list of its sections comes first, or beside them on wide screens. Images are
    enlarged by a click; tables can be sorted and saved as CSV.

    Args:
      title: plain text.
      sections: HTML, as the functions below return it.
    """
    body = "".join(sections)
    links = "".join(
        f'<li><a href="#{name}">{heading}</a></li>'
        for name, heading in _HEADING.findall(body)
    )
    folder = importlib.resources.files(__package__)
    style = folder.joinpath("page.css").read_text(encoding="utf-8")
    script = folder.joinpath("page.js").read_text(encoding="utf-8")
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head><body>"
        f"<nav><details open><summary>Contents</summary><ul>{links}</ul></details>"
        f"</nav><main><h1>{html.escape(title)}</h1>{body}</main>"
        f"<script>{script}</script></body></html>"
    )


def image(name: str, content: bytes) -> str:
    """Returns an image tag that holds `content`, a PNG or WebP file."""
    kind = "webp" if content[8:12] == b"WEBP" else "png"
    encoded = base64.b64encode(content).decode()
    return f'<img alt="{html.escape(name)}" src="data:image/{kind};base64,{encoded}">'


def section(name: str, title: str, caption: str, body: str = "") -> str:
    """Returns a heading, a caption in plain words, and HTML below them.

    Links lead to the section by ``#name``.
    """
    if caption:
        body = f"<p class=caption>{inline(caption)}</p>{body}"
    heading = f"<h2>{html.escape(title)}</h2>"
    return f'<section id="{html.escape(name)}">{heading}{body}</section>'


def inline(text: str) -> str:
    """Returns plain text as HTML; words in backticks, also of roles, are code."""
    return _CODE.sub(r"<code>\1</code>", html.escape(text))


def panels(titled: Sequence[tuple[str, bytes]]) -> str:
    """Returns images side by side, below each other where the screen is narrow."""
    shown = "".join(
        f"<div><h3>{html.escape(title)}</h3>{image(title, content)}</div>"
        for title, content in titled
    )
    return f"<div class=panels>{shown}</div>"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    number: int,
    links: Mapping[str, str] | None = None,
) -> str:
    """Returns a table of plain texts; column `number` is aligned as numbers are.

    Names may break after dots, commas, underscores and signs, to fit narrow screens;
    numbers do not. Texts of the first column lead to their addresses in `links`.
    """

    def cell(column: int, text: str) -> str:
        if column == number:
            return f"<td class=number>{html.escape(text)}</td>"
        shown = _BREAK.sub(r"\1<wbr>", inline(text))
        if column == 0 and links and text in links:
            shown = f'<a href="{html.escape(links[text])}">{shown}</a>'
        return f"<td>{shown}</td>"

    rows = list(rows)
    if not rows:
        return "<p class=caption>None.</p>"
    body = "".join(
        f"<tr>{''.join(cell(*place) for place in enumerate(row))}</tr>" for row in rows
    )
    titles = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    return (
        f"<div class=scroll><table><thead><tr>{titles}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
