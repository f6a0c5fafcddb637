"""Published tables as data: one CSV file per table, with a column ``source``.

None of these values was measured here. A table of the scores of models has the columns
``dataset``, ``model``, ``setting`` and ``source``; its other columns are named after
our scores, and ``…_deviation`` is a standard deviation.
"""

import csv
from importlib import resources

from disentangle_jax.types import unknown_name

_ABOUT = {"dataset", "model", "setting", "source"}
_DEVIATION = "_deviation"


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


def datasets() -> tuple[str, ...]:
    """Returns the names of the datasets on which a table has the scores of models."""
    return tuple(sorted({row["dataset"] for row in _score_rows()}))


def scores(dataset: str) -> list[dict[str, str]]:
    """Returns the published scores of models on a dataset, one row per model and table.

    Args:
      dataset: one of :func:`datasets`, or a rendering of one.

    Returns:
      Rows with ``model``, ``setting`` and ``source``. Every other key is the name of a
      score, and its value a text such as ``0.611 ± 0.082``; scores that the table
      leaves open are left out.
    """
    if original(dataset) not in datasets():
        raise unknown_name("published.scores", "dataset", dataset, datasets())
    found = []
    for row in _score_rows():
        if row["dataset"] != original(dataset):
            continue
        shown = {"model": row["model"]}
        for column, text in row.items():
            if column in _ABOUT or column.endswith(_DEVIATION) or not text:
                continue
            deviation = row.get(column + _DEVIATION)
            shown[column] = f"{text} ± {deviation}" if deviation else text
        found.append(shown | {"setting": row["setting"], "source": row["source"]})
    return found


def _score_rows() -> list[dict[str, str]]:
    """Returns the rows of the tables with scores of models, which have a setting."""
    return [row for name in names() for row in table(name) if row.keys() >= _ABOUT]
