"""The scores of a run as text."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from disentangle_jax import evaluation
from disentangle_jax.evaluation.sections import Section, Table


def run_sections(folder: pathlib.Path, scores: Mapping[str, Any]) -> Iterator[Section]:
    """Yields the sections of all evaluators that evaluated a run."""
    arrays = evaluation.read_arrays(folder)
    for name in scores["evaluators"]:
        yield from evaluation.get(name).sections(scores, arrays)


def failures(scores: Mapping[str, Any]) -> list[str]:
    """Returns a line for each score that was not computed, or on fewer examples."""
    lines = [f"{name}: not computed: {why}" for name, why in scores["errors"].items()]
    used, asked = scores["settings"], scores["config"].get("eval", {})
    for field in ("num_train", "num_test"):
        if used.get(field, 0) < asked.get(field, 0):
            lines.append(
                f"eval.{field}: {used[field]} examples instead of {asked[field]}: the "
                "test split has no more."
            )
    return lines


def score_table(workdir: pathlib.Path) -> str:
    """Returns the scores of an evaluated run as text, one line each.

    Tables whose evaluators ask for it are printed below the scores.
    """
    scores = evaluation.read_scores(workdir)
    rows = evaluation.score_rows(scores)
    width = max((len(row.name) for row in rows), default=0)
    lines = []
    for row in rows:
        value, meaning = format_value(row.value), row.number.meaning
        lines.append(f"{row.name:<{width}}  {value:>9}  {meaning}".rstrip())
    lines += failures(scores)
    for section in run_sections(workdir, scores):
        if isinstance(section, Table) and section.printed:
            lines.append(section.text(section.printed))
    return "\n".join(lines)


def format_value(value: float | None) -> str:
    """Returns four decimals for small numbers, one for large ones."""
    if value is None:
        return "–"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.4f}"
