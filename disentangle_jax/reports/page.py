"""The page of one run: scores, pictures and loss curve in a single HTML file."""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from disentangle_jax import evaluation
from disentangle_jax.evaluation.sections import Section, Table, Text
from disentangle_jax.reports.curves import run_curves
from disentangle_jax.reports.drawing import write_parts
from disentangle_jax.reports.scores import failures, format_value, run_sections

_RECIPE = ("settings", "versions", "device", "commit", "time", "config")


def check_evaluated(workdir: pathlib.Path) -> None:
    """Raises a ValueError where a run has no scores to report."""
    evaluation.read_scores(workdir)


def is_drawn(workdir: pathlib.Path) -> bool:
    """Returns whether the report of an evaluated run is there, of its newest scores."""
    return (workdir / evaluation.REPORT).exists()


def write(workdir: pathlib.Path) -> pathlib.Path:
    """Draws an evaluated run: each section as a file, and all on one page.

    Args:
      workdir: folder with the files of an evaluation and ``metrics.jsonl``.

    Returns:
      The path of ``report.html``, which needs no other file.
    """
    workdir = pathlib.Path(workdir)
    scores = evaluation.read_scores(workdir)
    config = scores["config"]
    title = (
        f"{config['model']['name']} trained as {config['method']['name']} on "
        f"{config['data']['name']}"
    )
    parts = (
        *_score_sections(scores),
        *run_sections(workdir, scores),
        *run_curves(workdir),
    )
    return write_parts(workdir, title, parts, {name: scores[name] for name in _RECIPE})


def _score_sections(scores: Mapping[str, Any]) -> Iterator[Section]:
    settings = scores["settings"]
    yield Table(
        "scores",
        "Scores",
        f"Step {settings['step']}, seed {settings['seed']}; {settings['num_train']} + "
        f"{settings['num_test']} examples of the {settings['split']} split, "
        f"{settings['codes']} codes.",
        ("score", "value", "meaning"),
        [
            (row.name, format_value(row.value), row.number.meaning)
            for row in evaluation.score_rows(scores)
        ],
        number=1,
    )
    lines = failures(scores)
    if lines:
        caption = "Scores that are not defined for these codes and factors, and sizes."
        title = "Scores that were not computed as configured"
        yield Text("errors", title, caption, "\n".join(lines))
