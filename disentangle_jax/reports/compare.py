"""Compares runs on one page: scores over seeds, and the pictures that all runs have."""

import io
import json
import pathlib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from disentangle_jax import evaluation, files, rows
from disentangle_jax.evaluation import Figure, Number, Section, Sheet, Table
from disentangle_jax.reports import drawing, grids, markup, plots
from disentangle_jax.reports.curves import compared_curves
from disentangle_jax.reports.scores import format_value, run_sections

_COLUMNS = 3  # Panels in a row of the saved sheets.
# Fields that name a model first, where several differ.
_NAMING = ("model.name", "method.name", "data.name", "method.", "model.", "data.")
# Fields that decide which images a model is evaluated on.
_DATASET = ("data.name", "data.options", "data.split_recipe")


class Group(NamedTuple):
    """The runs of one model: equal except for their seeds.

    Attributes:
      label: shortest text that distinguishes the model from the others of the page.
      folders: folders of its runs.
      scores: their ``scores.json``.
    """

    label: str
    folders: list[pathlib.Path]
    scores: list[dict[str, Any]]

    def values(self, name: str) -> list[float]:
        """Returns a score of each run that has it."""
        return [
            row.value
            for scores in self.scores
            for row in evaluation.score_rows(scores)
            if row.name == name and row.value is not None
        ]


def find_runs(folders: Sequence[pathlib.Path]) -> list[pathlib.Path]:
    """Returns the evaluated runs in some folders: lanes of runs, models of sweeps.

    Raises:
      ValueError: there is none, or one of them was not evaluated.
    """
    if not folders:
        raise ValueError("compare: name the folders of at least one evaluated run.")
    found: list[pathlib.Path] = []
    for folder in map(pathlib.Path, folders):
        if not folder.is_dir():
            raise ValueError(f"compare: there is no folder {folder}.")
        lanes = sorted((folder / "lanes").glob("*/scores.json"))
        if (folder / "manifest.jsonl").exists():  # a sweep
            lanes = sorted((folder / "packs").glob("*/**/scores.json"))
            if not lanes:
                raise ValueError(f"compare: the sweep {folder} has no results yet.")
        for run in [path.parent for path in lanes] or [folder]:
            evaluation.read_scores(run)
            if run.resolve() not in [known.resolve() for known in found]:
                found.append(run)
    return found


def write_comparison(
    folders: Sequence[pathlib.Path],
    workdir: pathlib.Path,
    *,
    published: Sequence[Mapping[str, str]] = (),
) -> pathlib.Path:
    """Draws several evaluated runs on one page, with its pictures as files beside it.

    Runs that are equal except for their seeds are one model: its bars show mean and
    standard deviation over the seeds, its pictures are those of its first run.

    Args:
      folders: folders of evaluated runs, or of runs whose lanes were evaluated.
      workdir: folder to write to; created where it does not exist.
      published: published scores to show beside these: rows with ``model``,
        ``setting``, ``source`` and a text for each score.

    Returns:
      The path of ``compare.html``, which needs no other file.
    """
    groups = group_runs(find_runs(folders))
    workdir = pathlib.Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    warning = different_datasets(groups)
    if warning:
        warnings.warn(f"compare: {warning}", stacklevel=2)
    body = [
        f"<p class=warning>{markup.inline(warning)}</p>" if warning else "",
        drawing.write_section(_runs_table(groups), workdir),
        *_published_sections(groups, published, workdir),
        *_score_sections(groups, workdir),
        *_pair_sections(groups, workdir),
        *_curve_sections(groups, workdir),
        *_picture_sections(groups, workdir),
    ]
    count = sum(len(group.folders) for group in groups)
    path = workdir / "compare.html"
    title = f"{len(groups)} models, {count} runs compared"
    files.write_text(path, markup.page(title, body))
    return path


def group_runs(folders: Sequence[pathlib.Path]) -> list[Group]:
    """Returns runs by model, in the order in which models first occur."""
    members: dict[str, list[pathlib.Path]] = {}
    configs: dict[str, dict[str, Any]] = {}
    for folder in folders:
        config = rows.flat(evaluation.read_scores(folder)["config"])
        config = rows.identity(config, rows.MODEL)
        same = json.dumps(config, sort_keys=True)
        members.setdefault(same, []).append(folder)
        configs[same] = config
    labels = model_labels(list(configs.values()))
    return [
        Group(label, runs, [evaluation.read_scores(run) for run in runs])
        for label, runs in zip(labels, members.values())
    ]


def different_datasets(groups: Sequence[Group]) -> str:
    """Returns a warning where models were evaluated on different data; else ""."""
    found = []
    for group in groups:
        config = rows.flat(group.scores[0]["config"])
        found.append({k: v for k, v in config.items() if k.startswith(_DATASET)})
    names = sorted({name for data in found for name in data})
    differing = {
        name: list(dict.fromkeys(str(data.get(name, "default")) for data in found))
        for name in names
    }
    parts = [f"`{k}` ({', '.join(v)})" for k, v in differing.items() if len(v) > 1]
    if not parts:
        return ""
    return (
        f"The models have different datasets, which differ in {'; '.join(parts)}: "
        "their scores cannot be compared."
    )


def model_labels(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a name per config: the fewest fields that distinguish all of them.

    Args:
      configs: values by dotted field, all different. The model's name always comes
        first; fields that are equal in all configs, or are not needed, do not appear.
    """

    def rank(field: str) -> int:
        return next((i for i, n in enumerate(_NAMING) if field.startswith(n)), 99)

    fields = {field for config in configs for field in config}
    differing = [
        field
        for field in sorted(fields, key=lambda field: (rank(field), field))
        if len({json.dumps(config.get(field)) for config in configs}) > 1
    ]
    labels = [str(config["model.name"]) for config in configs]
    for field in differing:
        if len(set(labels)) == len(labels):
            break
        if field == "model.name":
            continue
        more = [
            f"{label}, {_field_text(field, config)}" if field in config else label
            for label, config in zip(labels, configs)
        ]
        if len(set(more)) > len(set(labels)):
            labels = more
    return labels


def _field_text(field: str, config: Mapping[str, Any]) -> str:
    value = config[field]
    if field.endswith(".name"):
        return str(value)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{field.split('.')[-1]}={text}"


def _runs_table(groups: Sequence[Group]) -> Table:
    lines = []
    for group in groups:
        config, settings = group.scores[0]["config"], group.scores[0]["settings"]
        steps = sorted({scores["settings"]["step"] for scores in group.scores})
        seeds = ", ".join(str(s["settings"]["seed"]) for s in group.scores)
        text = (
            f"{config['model']['name']} trained as {config['method']['name']} on "
            f"{config['data']['name']}, {' or '.join(map(str, steps))} steps, "
            f"evaluated on {settings['num_train']} + {settings['num_test']} examples"
        )
        # Distances grow as images get fewer: only equal numbers of images compare.
        counts = {
            f"{name} on {score['settings']['samples_a']}"
            for scores in group.scores
            for name, score in scores["metrics"].items()
            if "samples_a" in score["settings"]
        }
        lines.append((group.label, seeds, ", ".join([text, *sorted(counts)])))
    return Table(
        "models",
        "Models",
        "Runs that differ only in their seeds are one model. Pictures show the first "
        "seed.",
        ("model", "seeds", "description"),
        lines,
    )


def _published_sections(
    groups: Sequence[Group],
    published: Sequence[Mapping[str, str]],
    workdir: pathlib.Path,
) -> Iterator[str]:
    """Yields the table of published scores below those of the compared models."""
    if not published:
        return
    about = ("model", "setting", "source")
    scores = dict.fromkeys(k for row in published for k in row if k not in about)
    lines = [_own_scores(group, list(scores)) for group in groups]
    lines += [
        (
            row["model"],
            "published",
            *(row.get(score, "–") for score in scores),
            row["setting"],
            row["source"],
        )
        for row in published
    ]
    table = Table(
        "published",
        "Published scores",
        "Rows marked as published were not measured here. Datasets, networks, training "
        "lengths and the definitions of scores differ; see setting and source.",
        ("model", "from", *scores, "setting", "source"),
        lines,
    )
    yield drawing.write_section(table, workdir)


def _own_scores(group: Group, scores: Sequence[str]) -> tuple[str, ...]:
    """Returns the row of a compared model in the table of published scores."""
    names = [row.name for row in evaluation.score_rows(group.scores[0])]
    plain = {re.sub(r"\(.*?\)", "", name): name for name in reversed(names)}
    cells = []
    for score in scores:
        values = group.values(plain[score]) if score in plain else []
        cells.append(_mean_text(values) if values else "–")
    dataset, seeds = group.scores[0]["config"]["data"]["name"], len(group.scores)
    setting = f"{dataset}, {seeds} seed{'s' if seeds > 1 else ''}"
    return group.label, "ours", *cells, setting, "this comparison"


def _mean_text(values: Sequence[float]) -> str:
    mean, deviation = plots.mean_and_deviation(values)
    text = format_value(mean)
    return text if deviation is None else f"{text} ± {format_value(deviation)}"


def _score_sections(groups: Sequence[Group], workdir: pathlib.Path) -> Iterator[str]:
    numbers = {
        row.name: row.number
        for group in groups
        for scores in group.scores
        for row in evaluation.score_rows(scores)
        if row.number.compared
        and row.value is not None
        and not row.name.endswith("_train")
    }
    for file, title, lower in (
        ("scores", "Scores", False),
        ("errors", "Errors and distances", True),
    ):
        shown = {n: v for n, v in numbers.items() if (v.better == "lower") == lower}
        if shown:
            yield _bars(groups, shown, Section(file, title, ""), workdir)


def _bars(
    groups: Sequence[Group],
    shown: Mapping[str, Number],
    section: Section,
    workdir: pathlib.Path,
) -> str:
    titles = {name: f"{name} {number.arrow}".rstrip() for name, number in shown.items()}
    bars = {
        titles[name]: {
            group.label: group.values(name) for group in groups if group.values(name)
        }
        for name in shown
    }
    up_to_one = [titles[name] for name, number in shown.items() if number.highest == 1]
    figure = Figure(
        section.name,
        section.title,
        "A bar is the mean over seeds, the black line one standard deviation to either "
        "side, each cross one seed. Higher is better at ↑, lower at ↓.",
        plots.score_bars(bars, up_to_one),
    )
    return drawing.write_section(figure, workdir, _numbers(bars))


def _numbers(bars: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    lines = []
    for score, models in bars.items():
        for model, values in models.items():
            lines.append((score, model, _mean_text(values), str(len(values))))
    head = ("score", "model", "mean ± sd", "seeds")
    table = markup.table(head, lines, number=2)
    return f"<details><summary>The numbers</summary>{table}</details>"


def _shared_evaluators(groups: Sequence[Group]) -> list[str]:
    """Returns the evaluators that all runs have."""
    every = [scores["evaluators"] for group in groups for scores in group.scores]
    return [name for name in every[0] if all(name in names for names in every)]


def _pair_sections(groups: Sequence[Group], workdir: pathlib.Path) -> Iterator[str]:
    """Yields the scatter plots that evaluators describe ("Structure …", Fig. 8)."""
    for name in _shared_evaluators(groups):
        for pair in evaluation.describe(name).pairs:
            points: dict[str, list[tuple[float, float]]] = {}
            for group in groups:
                for scores in group.scores:
                    numbers = evaluation.score_rows(scores)
                    values = {row.name: row.value for row in numbers}
                    x, y = values.get(pair.x), values.get(pair.y)
                    if x is not None and y is not None:
                        points.setdefault(group.label, []).append((x, y))
            if not points:
                yield markup.section(
                    pair.name, pair.title, f"Not drawn: {pair.missing}"
                )
                continue
            content = plots.scatter(points, pair.x_name, pair.y_name)
            figure = Figure(pair.name, pair.title, pair.caption, content)
            yield drawing.write_section(figure, workdir)


def _curve_sections(groups: Sequence[Group], workdir: pathlib.Path) -> Iterator[str]:
    found = compared_curves({group.label: group.folders for group in groups})
    return (drawing.write_section(section, workdir) for section in found)


def _picture_sections(groups: Sequence[Group], workdir: pathlib.Path) -> Iterator[str]:
    """Yields the pictures that all models have, each beside those of the others."""
    found = {
        group.label: {
            section.name: section
            for section in run_sections(group.folders[0], group.scores[0])
        }
        for group in groups
    }
    first, *others = found.values()
    for name in first:
        if not all(name in sections for sections in others):
            continue
        shown = {label: sections[name] for label, sections in found.items()}
        sheets = {k: one for k, one in shown.items() if isinstance(one, Sheet)}
        if len(sheets) == len(shown) and next(iter(sheets.values())).shared_rows:
            yield drawing.write_section(stacked(sheets), workdir)
            continue
        drawn = {label: drawing.draw(section) for label, section in shown.items()}
        if all(one.kind == "png" for one in drawn.values()):
            contents = {label: one.content for label, one in drawn.items()}
            yield _panels(first[name], contents, workdir)


def stacked(sheets: Mapping[str, Sheet]) -> Sheet:
    """Returns the rows of several models' sheets below each other.

    Rows that do not depend on the model are shown once, above the models that share
    them. Images whose size differs from the first row's are scaled to it.

    Args:
      sheets: sheets with ``shared_rows``, by the label of their model.
    """
    labelled: list[tuple[str, np.ndarray]] = []
    above = None
    for label, sheet in sheets.items():
        shared, own = np.split(sheet.images, [sheet.shared_rows])
        if above is None or not np.array_equal(shared, above):
            labelled += zip(sheet.labels, shared)
            above = shared
        labelled += [(label, images) for images in own]
    height, width = labelled[0][1].shape[1:3]
    columns = min(len(images) for _, images in labelled)
    first = next(iter(sheets.values()))
    return Sheet(
        first.name,
        first.title,
        first.caption,
        np.stack([_resized(i[:columns], height, width) for _, i in labelled]),
        [label for label, _ in labelled],
    )


def _resized(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """Returns uint8 RGB images ``[n, height, width, 3]``."""
    if images.shape[-1] == 1:
        images = np.repeat(images, 3, axis=-1)
    if images.shape[1:3] == (height, width):
        return images
    return np.stack(
        [np.asarray(Image.fromarray(i).resize((width, height))) for i in images]
    )


def _panels(
    section: Section, contents: Mapping[str, bytes], workdir: pathlib.Path
) -> str:
    """Writes pictures side by side as one file; returns them as a grid of HTML."""
    titled = [(label, Image.open(io.BytesIO(c))) for label, c in contents.items()]
    together = grids.png(grids.panels(titled, _COLUMNS))
    files.write_bytes(workdir / f"{section.name}.png", together)
    body = markup.panels(list(contents.items()))
    return markup.section(section.name, section.title, section.caption, body)
