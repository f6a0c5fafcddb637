"""Tables of the papers as data: one CSV file per table, with a column ``source``."""

import csv
from importlib import resources

from disentangle_jax.types import unknown_name


def names() -> tuple[str, ...]:
    """Returns the names of the tables."""
    files = resources.files(__name__).iterdir()
    found = (file.name for file in files if file.name.endswith(".csv"))
    return tuple(sorted(name.removesuffix(".csv") for name in found))


def table(name: str, **columns: str) -> list[dict[str, str]]:
    """Returns the rows of a published table, each a dict of texts by column.

    Args:
      name: one of :func:`names`.
      **columns: keeps only the rows that have these values.
    """
    if name not in names():
        raise unknown_name("published.table", "name", name, names())
    file = resources.files(__name__) / f"{name}.csv"
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    return [row for row in rows if columns.items() <= row.items()]


def original(dataset: str) -> str:
    """Returns the dataset of the papers that `dataset` is compared with.

    For a rendered dataset this is the dataset that it renders.
    """
    return dataset.removeprefix("rendered_")


def note(dataset: str) -> str:
    """Returns a sentence for the page of a rendered dataset; "" for others."""
    if original(dataset) == dataset:
        return ""
    return f" Published values are those of {original(dataset)}, not of {dataset}."
