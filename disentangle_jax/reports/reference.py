"""The reference of the library as static HTML, from its docstrings.

A page per package: its docstring, the tables of its definitions, and every public
function and class. Links lead to other names of the library. Equations stay as LaTeX.
"""

import html
import importlib
import inspect
import itertools
import pathlib
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from disentangle_jax import files
from disentangle_jax.reports import markup

_ROOT = "disentangle_jax."
_MARKS = re.compile(r"``(.+?)``|:(\w+):`(.+?)`|`(.+?)`", re.DOTALL)
_EMPHASIS = re.compile(r"(?<![\w*])\*(\w[^*]*?)\*(?![\w*])")
_FIELD = re.compile(r"([*\w][\w*, .]*): ?(.*)", re.DOTALL)
# Modules of a class, which a reader of a signature does not need; arrays are
# `jax.Array`, wherever jax defines them.
_PREFIXES = re.compile(
    r"\b(?:disentangle_jax|collections|typing|ml_collections|pathlib)\.(?:\w+\.)*"
    r"|(?<=\bjax\.)(?:\w+\.)+(?=Array\b)"
)


class Listing(NamedTuple):
    """The table of the definitions of one kind, which their package's page shows.

    Attributes:
      title: heading of the table.
      rows: its head, then a row per definition, whose name comes first.
      about: name to the text of one definition; None where the row says everything.
    """

    title: str
    rows: Iterable[Sequence[str]]
    about: Callable[[str], str] | None = None


def write(
    folder: pathlib.Path, packages: Sequence[str], listings: Mapping[str, Listing]
) -> pathlib.Path:
    """Writes the reference; returns the path of ``index.html``.

    Args:
      folder: folder to write to; created where it does not exist.
      packages: names of the subpackages to document.
      listings: tables by the name of their page: a package, or a page of its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    modules = {name: importlib.import_module(_ROOT + name) for name in packages}
    addresses = {name: f"{name}.html" for name in modules}
    for name, module in modules.items():
        addresses |= {f"{name}.{n}": f"{name}.html#{n}" for n in public(module)}
    pages = [*modules, *(name for name in listings if name not in modules)]
    links = " · ".join(f'<a href="{name}.html">{name}</a>' for name in pages)
    top = f'<p><a href="index.html">Reference</a>: {links}</p>'
    for name in pages:
        body = [top, *_page(name, modules.get(name), listings.get(name), addresses)]
        files.write_text(folder / f"{name}.html", markup.page(name, body))
    summaries = "".join(
        f'<li><a href="{name}.html">{name}</a>: '
        f"{markup.inline((inspect.getdoc(module) or '').partition(chr(10))[0])}</li>"
        for name, module in modules.items()
    )
    tables = "".join(
        f'<li><a href="{name}.html#table-{name}">{html.escape(one.title)}</a></li>'
        for name, one in listings.items()
    )
    index = [
        markup.section("packages", "Packages", "", f"<ul>{summaries}</ul>"),
        markup.section("tables", "Tables", "", f"<ul>{tables}</ul>"),
    ]
    path = folder / "index.html"
    files.write_text(path, markup.page("Reference of disentangle_jax", index))
    return path


def public(module: ModuleType) -> dict[str, Any]:
    """Returns the public functions and classes of a module by name.

    A package offers what it imports from its modules, a module what it defines.
    """
    place = module.__name__ if hasattr(module, "__path__") else f"{module.__name__} "
    return {
        name: value
        for name, value in sorted(vars(module).items())
        if not name.startswith("_")
        and (inspect.isroutine(value) or inspect.isclass(value))
        and f"{getattr(value, '__module__', '')} ".startswith(place)
    }


def _page(
    name: str,
    module: ModuleType | None,
    listing: Listing | None,
    addresses: Mapping[str, str],
) -> Iterator[str]:
    def shown(value: Any) -> str:
        return to_html(inspect.getdoc(value) or "", name, addresses)

    if module is not None:
        yield markup.section("about-", "About", "", shown(module))
    if listing is not None:
        head, *rows = listing.rows
        about = listing.about
        named = [row[0] for row in rows] if about is not None else []
        links = {one: f"#about-{one}" for one in named}
        table = markup.table(head, rows, number=-1, links=links)
        if about is not None:
            for one in named:
                text = html.escape(about(one))
                table += f'<h3 id="about-{one}">{one}</h3><pre>{text}</pre>'
        yield markup.section(f"table-{name}", listing.title, "", table)
    for public_name, value in public(module).items() if module is not None else ():
        body = f"<pre>{html.escape(signature(value, public_name))}</pre>{shown(value)}"
        for member, function in _members(value):
            body += f"<pre>{html.escape(member)}</pre>{shown(function)}"
        yield markup.section(public_name, public_name, "", body)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the signatures of the public methods that a class defines."""
    for name, member in vars(value).items() if inspect.isclass(value) else ():
        if name.startswith("_") or not (inspect.getdoc(member) or "").strip():
            continue
        if isinstance(member, property):
            yield name, member
        elif inspect.isfunction(member) and member.__module__.startswith(_ROOT):
            yield signature(member, name), member


def signature(value: Any, name: str) -> str:
    """Returns how a function or class is called, one argument per line if long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    parameters = [_shown(p) for p in found.parameters.values() if p.name != "self"]
    found = found.replace(parameters=parameters)
    if inspect.isclass(value):
        found = found.replace(return_annotation=found.empty)
    text = _PREFIXES.sub("", f"{name}{found}")
    if len(text) <= 88:
        return text
    end = "" if found.return_annotation is found.empty else text[text.rindex(" -> ") :]
    lines, keywords = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not keywords:
            keywords = True
            lines.append("*")
        lines.append(_PREFIXES.sub("", str(p)))
    return f"{name}(\n" + "".join(f"    {line},\n" for line in lines) + f"){end}"


def _shown(parameter: inspect.Parameter) -> inspect.Parameter:
    """Returns a parameter whose default has a name, or "…" where it has none."""
    if typing.get_origin(parameter.annotation) is typing.Unpack:
        (fields,) = typing.get_args(parameter.annotation)
        parameter = parameter.replace(annotation=fields)
    default = parameter.default
    if default is not parameter.empty and callable(default):
        return parameter.replace(default=_Name(default.__name__))
    if " at 0x" in repr(default):  # An address, which differs from run to run.
        return parameter.replace(default=_Name("…"))
    return parameter


class _Name(str):
    """A text whose representation has no quotes: the name of a default value."""

    __repr__ = str.__str__


def to_html(text: str, package: str, addresses: Mapping[str, str]) -> str:
    """Returns a docstring as HTML.

    Args:
      text: the docstring, without its indentation.
      package: package whose names it may use without a prefix.
      addresses: addresses of the names that become links.
    """

    def inline(text: str) -> str:
        def mark(found: re.Match) -> str:
            code, role, name, plain = found.groups()
            shown = code or name or plain
            target = html.unescape(shown).removeprefix(_ROOT).removesuffix("()")
            address = addresses.get(f"{package}.{target}") or addresses.get(target)
            if code or role == "math" or address is None:
                return f"<code>{shown}</code>"
            return f'<a href="{address}"><code>{shown}</code></a>'

        parts = []  # Emphasis is looked for between codes only.
        last = 0
        text = html.escape(text, quote=False)
        for found in _MARKS.finditer(text):
            parts += [_EMPHASIS.sub(r"<em>\1</em>", text[last : found.start()])]
            parts += [mark(found)]
            last = found.end()
        return "".join([*parts, _EMPHASIS.sub(r"<em>\1</em>", text[last:])])

    def literal(block: str) -> str:
        return f"<pre>{html.escape(block)}</pre>" if block else ""

    def fields(block: str) -> str:
        entries = [(head, more) for head, more in _blocks(block, lines=True)]
        found = [_FIELD.fullmatch(f"{head} {' '.join(more.split())}".strip())
                 for head, more in entries]  # fmt: skip
        matches = [match for match in found if match is not None]
        if len(matches) < len(found):
            return to_html(block, package, addresses)
        return "".join(
            f"<dt><code>{html.escape(match[1])}</code></dt><dd>{inline(match[2])}</dd>"
            for match in matches
        ).join(("<dl>", "</dl>"))

    parts = []
    for head, block in _blocks(text):
        if head.startswith(".. math::"):
            first = head.removeprefix(".. math::").strip()
            parts.append(literal("\n".join(filter(None, (first, block)))))
        elif head.startswith("* "):
            parts.append(f"<ul><li>{inline(f'{head[2:]} {block}')}</li></ul>")
        elif head.endswith("::"):
            parts.append(f"<p>{inline(head[:-1])}</p>{literal(block)}")
        elif head.endswith(":") and block:
            parts.append(f"<p><strong>{inline(head)}</strong></p>{fields(block)}")
        else:
            parts.append((f"<p>{inline(head)}</p>" if head else "") + literal(block))
    return "".join(parts).replace("</ul><ul>", "")


def _blocks(text: str, *, lines: bool = False) -> Iterator[tuple[str, str]]:
    """Yields each paragraph of unindented lines, and the indented block below it.

    With `lines`, or for list items, each unindented line begins a paragraph. A table,
    from a line of ``=`` to an empty one, is a block without a paragraph.
    """
    head: list[str] = []
    block: list[str] = []
    table = False
    for line in itertools.chain(text.splitlines(), (None,)):
        if line is not None and (table or line.startswith("==")):
            if not table and (head or block):
                yield " ".join(head), textwrap.dedent("\n".join(block)).strip("\n")
                head, block = [], []
            table = line != ""
            block.append(line)
            continue
        first = "" if line is None else line[:2]
        begins = first[:1] not in ("", " ")
        single = lines or first == "* "
        if line is None or (begins and (block or (head and single))):
            yield " ".join(head), textwrap.dedent("\n".join(block)).strip("\n")
            head, block = [], []
        if line is not None and begins:
            head.append(line)
        elif line is not None and (line or head):
            block.append(line)
