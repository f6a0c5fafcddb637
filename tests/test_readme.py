"""The README's tables are those of the definitions, and its commands exist."""

import pathlib
import re

import pytest

from disentangle_jax import commands
from disentangle_jax.commands import lists

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("table", ["method_table", "protocol_table", "score_table"])
def test_tables_are_derived_from_the_definitions(table):
    expected = lists.markdown(getattr(lists, table)())
    assert expected in TEXT, f"README.md must hold this table:\n{expected}"


def test_commands_and_configs_exist():
    for name in re.findall(r"^disentangle ([a-z]+)", TEXT, re.MULTILINE):
        commands.get(name)
    for path in re.findall(r"\bconfigs/[\w/]+\.py", TEXT):
        assert (ROOT / path).exists(), path
