"""HTML pages of one file, with their style and images inside."""

import base64
import html
import re
from collections.abc import Iterable, Sequence

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2733; margin: 0 auto;
       max-width: 52rem; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin: 1rem 0 0; }
img { max-width: 100%; height: auto; display: block; margin: .5rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td, th { text-align: left; padding: .3rem .5rem; border-bottom: 1px solid #d6dde4;
         vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums;
            white-space: nowrap; }
.caption { color: #4a5865; }
.panels { display: grid; gap: 1rem; align-items: start;
          grid-template-columns: repeat(auto-fit, minmax(min(100%, 16rem), 1fr)); }
pre { overflow-x: auto; background: #f3f5f7; padding: .75rem; font-size: .8rem; }
"""

_BREAK = re.compile(r"([._,])(?!\d)")
_CODE = re.compile(r"`([^`]+)`")


def page(title: str, sections: Iterable[str]) -> str:
    """Returns a page that needs no other file and loads nothing.

    Args:
      title: plain text.
      sections: HTML, as the functions below return it.
    """
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><h1>{html.escape(title)}</h1>{''.join(sections)}</body></html>"
    )


def image(name: str, content: bytes) -> str:
    """Returns an image tag that holds `content`, a PNG or WebP file."""
    kind = "webp" if content[8:12] == b"WEBP" else "png"
    encoded = base64.b64encode(content).decode()
    return f'<img alt="{html.escape(name)}" src="data:image/{kind};base64,{encoded}">'


def section(title: str, caption: str, body: str = "") -> str:
    """Returns a heading, a caption in plain words, and HTML below them."""
    caption = _CODE.sub(r"<code>\1</code>", html.escape(caption))
    return (
        f"<section><h2>{html.escape(title)}</h2>"
        f"<p class=caption>{caption}</p>{body}</section>"
    )


def panels(titled: Sequence[tuple[str, bytes]]) -> str:
    """Returns images side by side, below each other where the screen is narrow."""
    shown = "".join(
        f"<div><h3>{html.escape(title)}</h3>{image(title, content)}</div>"
        for title, content in titled
    )
    return f"<div class=panels>{shown}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], number: int) -> str:
    """Returns a table of plain texts; column `number` is aligned as numbers are.

    Names may break after dots, commas and underscores, to fit narrow screens; numbers
    do not.
    """

    def cell(column: int, text: str) -> str:
        text = html.escape(text)
        if column == number:
            return f"<td class=number>{text}</td>"
        text = _BREAK.sub(r"\1<wbr>", text)
        return f"<td>{text}</td>"

    body = "".join(
        f"<tr>{''.join(cell(*place) for place in enumerate(row))}</tr>" for row in rows
    )
    titles = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
