"""The README's tables are those of the definitions, and its commands exist."""

import pathlib
import re

import pytest

from disentangle_jax import commands
from disentangle_jax.commands import lists

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()


TABLES = {
    "method_table": "configs/README.md",
    "protocol_table": "configs/README.md",
    "score_table": "disentangle_jax/metrics/README.md",
    "convention_table": "disentangle_jax/metrics/README.md",
}


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_derived_from_the_definitions(table):
    expected, page = lists.markdown(getattr(lists, table)()), TABLES[table]
    assert expected in (ROOT / page).read_text(), f"{page} must hold:\n{expected}"


def test_links_and_length():
    assert len(TEXT.splitlines()) <= 200
    pages = [ROOT / "README.md", *(ROOT / page for page in set(TABLES.values()))]
    for page in pages:
        for link in re.findall(r"\]\(([^):]+)\)", page.read_text()):
            path, _, anchor = link.partition("#")
            linked = page.parent / path if path else page
            assert linked.exists(), (page, link)
            assert not anchor or anchor in headings(linked), (page, link)


def headings(page):
    """Returns the anchors of a page: its headings in lower case, with hyphens."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in found]


def test_commands_and_configs_exist():
    for name in re.findall(r"^disentangle ([a-z]+)", TEXT, re.MULTILINE):
        commands.get(name)
    for path in re.findall(r"\bconfigs/[\w/]+\.py", TEXT):
        assert (ROOT / path).exists(), path
