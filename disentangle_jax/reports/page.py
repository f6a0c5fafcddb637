"""The page of one run: pictures, scores and loss curve in a single HTML file."""

import html
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from disentangle_jax import training
from disentangle_jax.reports import _html, _plots
from disentangle_jax.reports._grids import (
    latent_labels,
    moving_traversals,
    png,
    sheet,
)
from disentangle_jax.reports._relations import region_figures, region_section
from disentangle_jax.reports._tables import format_value, score_rows
from disentangle_jax.reports._topics import topic_figures, topic_section
from disentangle_jax.reports._variables import variable_figures

_PICTURES = (
    "originals",
    "reconstructions",
    "traversals",
    "hybrids",
    "priors",
    "chunk_hybrids",
    "chunks",
    "latent_groups",
)
_ROW = 10  # Images in a row of samples.


class Figure(NamedTuple):
    """One picture of a page.

    Attributes:
      name: of its file.
      title: heading.
      caption: what it shows, in plain words.
      content: bytes of a PNG or WebP file.
    """

    name: str
    title: str
    caption: str
    content: bytes

    def html(self) -> str:
        return _html.section(
            self.title, self.caption, _html.image(self.title, self.content)
        )

    def save(self, folder: pathlib.Path) -> None:
        kind = "webp" if self.content[8:12] == b"WEBP" else "png"
        (folder / f"{self.name}.{kind}").write_bytes(self.content)


def check_evaluated(workdir: pathlib.Path) -> None:
    """Raises a ValueError where a run has no scores, or not all pictures, to report."""
    files = [workdir / "scores.json"]
    if not shows_topics(workdir):
        files.append(workdir / "pictures.npz")
    if not all(file.exists() for file in files):
        raise ValueError(
            f"workdir: {workdir} was not evaluated yet; run --mode=evaluate first."
        )
    if shows_topics(workdir):
        return
    with np.load(workdir / "pictures.npz") as pictures:
        missing = [name for name in _PICTURES if name not in pictures]
    if missing:
        raise ValueError(
            f"workdir: {workdir} was evaluated by an older version (its pictures.npz "
            f"has no {', '.join(missing)}); run --mode=evaluate again."
        )


def shows_topics(workdir: pathlib.Path) -> bool:
    """Returns whether a run was evaluated on documents, which have no pictures."""
    return (workdir / "scores.json").exists() and "topics" in read_scores(workdir)


def read_scores(workdir: pathlib.Path) -> dict[str, Any]:
    """Returns the ``scores.json`` of an evaluated run."""
    return json.loads((workdir / "scores.json").read_text())


def read_pictures(workdir: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the ``pictures.npz`` of an evaluated run."""
    with np.load(workdir / "pictures.npz") as pictures:
        return dict(pictures)


def write(workdir: pathlib.Path) -> pathlib.Path:
    """Draws the pictures of an evaluated run as files and as one page.

    Args:
      workdir: folder with ``scores.json``, ``pictures.npz`` and ``metrics.jsonl``.

    Returns:
      The path of ``report.html``, which needs no other file.
    """
    workdir = pathlib.Path(workdir)
    check_evaluated(workdir)
    scores = read_scores(workdir)
    sections = [_scores_section(scores)]
    if "regions" in scores:
        sections.append(region_section(scores))
    figures = _figures
    if "topics" in scores:
        sections.append(topic_section(scores))
        figures = _document_figures
    for figure in figures(workdir, scores):
        figure.save(workdir)
        sections.append(figure.html())
    sections.append(_recipe_section(scores))
    config = scores["config"]
    title = (
        f"{config['model']['name']} trained as {config['method']['name']} on "
        f"{config['data']['name']}"
    )
    path = workdir / "report.html"
    _html.write(path, _html.page(title, sections))
    return path


def _figures(workdir: pathlib.Path, scores: Mapping[str, Any]) -> Iterator[Figure]:
    pictures = read_pictures(workdir)
    groups = tuple(pictures["latent_groups"])
    pairs = np.stack([pictures["originals"], pictures["reconstructions"]])
    yield Figure(
        "reconstructions",
        "Reconstructions",
        "Test images above, what the model makes of them below.",
        png(sheet(pairs, ["image", "model"])),
    )
    marks = ""
    if max(groups) > 1:
        marks = " A bar on the left joins the latents that make up one variable."
    for number, walk in enumerate(pictures["traversals"], start=1):
        yield Figure(
            f"traversals_{number}",
            f"Latent traversals {number}",
            "One latent a row, in the order of the model, from its smallest to its "
            "largest value on test images; the other latents stay as they are." + marks,
            png(sheet(walk, latent_labels(groups), groups)),
        )
    for parts in variable_figures(pictures):
        yield Figure(*parts)
    yield Figure(
        "traversals_moving",
        "Latent traversals, moving",
        "The rows of the first sheet of traversals as moving pictures: each tile moves "
        "one latent to and fro.",
        moving_traversals(pictures["traversals"][0], groups),
    )
    yield Figure(
        "hybrids",
        "Hybrid samples",
        "New images: each latent variable is taken from another stored code of a "
        "training image.",
        png(sample_sheet(pictures["hybrids"])),
    )
    yield Figure(
        "priors",
        "Prior samples",
        "New images from codes drawn from the prior, a standard normal distribution "
        "unless the method has another. Models without a prior (AE, SAE, AdaAE) never "
        "saw such codes in training: theirs are shown for comparison with the hybrids.",
        png(sample_sheet(pictures["priors"])),
    )
    yield Figure(
        "chunk_hybrids",
        "One part of the code changed at a time",
        "The first column is one test image as the model sees it. In each row only the "
        "named variables are taken from stored codes, the others stay: what changes "
        "along a row is what these variables hold.",
        png(chunk_sheet(pictures)),
    )
    if "regions" in scores:
        for parts in region_figures(scores, pictures):
            yield Figure(*parts)
    yield from _heat_maps(scores)
    yield _loss_figure(workdir)


def _document_figures(
    workdir: pathlib.Path, scores: Mapping[str, Any]
) -> Iterator[Figure]:
    for parts in topic_figures(scores):
        yield Figure(*parts)
    yield from _heat_maps(scores)
    yield _loss_figure(workdir)


def _loss_figure(workdir: pathlib.Path) -> Figure:
    rows = training.read_metrics(workdir)
    losses = [np.nan if row["loss"] is None else row["loss"] for row in rows]
    return Figure(
        "loss",
        "Training loss",
        "Mean loss of the steps since the last row of metrics.jsonl.",
        _plots.loss_curve([row["step"] for row in rows], losses),
    )


def sample_sheet(samples: np.ndarray):
    """Returns samples ``[n, H, W, C]`` in rows of ten, without those that fill none."""
    rows = len(samples) // _ROW
    return sheet(samples[: rows * _ROW].reshape(rows, _ROW, *samples.shape[1:]))


def chunk_sheet(pictures: Mapping[str, np.ndarray]):
    """Returns the sheet of chunk hybrids, each row named by its variables."""
    return sheet(pictures["chunk_hybrids"], chunk_labels(pictures["chunks"]))


def chunk_labels(chunks: np.ndarray) -> list[str]:
    """Returns ``z1-z3`` for a chunk of the first three variables, and so on."""
    ends = np.cumsum(chunks)
    return [
        f"z{end}" if size == 1 else f"z{end - size + 1}-z{end}"
        for size, end in zip(chunks, ends)
    ]


def _heat_maps(scores: Mapping[str, Any]) -> Iterator[Figure]:
    """Yields a heat map for each kind of matrix that a score holds, once."""
    shown = {
        "mi": (
            "mutual_information",
            "What each latent knows of each factor",
            "Mutual information in nats. Disentangled codes have one dark cell in a "
            "column; a row with several mixes factors.",
        ),
        "importance": (
            "importance",
            "Which latents predict each factor",
            "Importance of each latent to the trees that predict a factor from the "
            "code (DCI); a column adds up to 1.",
        ),
    }
    for score in scores["metrics"].values():
        for name in score["matrices"]:
            if name not in shown:
                continue
            file, title, caption = shown.pop(name)
            matrix = np.asarray(score["matrices"][name])
            left_out = score["settings"].get("constant_factors_left_out", ())
            factors = [
                factor
                for place, factor in enumerate(scores["settings"]["factors"])
                if place not in left_out
            ]
            # Scores over single dimensions have a row for each.
            groups = scores["settings"]["latent_groups"]
            rows = [f"z{number}" for number in range(1, len(groups) + 1)]
            if len(matrix) != len(groups):
                rows = latent_labels(groups)
            yield Figure(file, title, caption, _plots.heat_map(matrix, rows, factors))


def _scores_section(scores: Mapping[str, Any]) -> str:
    settings = scores["settings"]
    note = (
        f"Step {settings['step']}, seed {settings['seed']}; {settings['num_train']} + "
        f"{settings['num_test']} {'documents' if 'topics' in scores else 'images'} of "
        f"the {settings['split']} split, "
        f"{settings['codes']} codes."
    )
    rows = [
        (row.name, format_value(row.value), row.meaning) for row in score_rows(scores)
    ]
    body = _html.table(("score", "value", "what it says"), rows, number=1)
    failed = [f"{name}: not computed: {why}" for name, why in scores["errors"].items()]
    body += "".join(f"<p>{html.escape(line)}</p>" for line in failed)
    return _html.section("Scores", note, body)


def _recipe_section(scores: Mapping[str, Any]) -> str:
    names = ("settings", "versions", "device", "commit", "time", "config")
    recipe = json.dumps({name: scores[name] for name in names}, indent=2)
    caption = "Everything that is needed to get these numbers again."
    return _html.section("Recipe", caption, f"<pre>{html.escape(recipe)}</pre>")
