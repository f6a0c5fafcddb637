"""Many runs on one page: scores over seeds, and the sheets of all models together."""

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flax.traverse_util import flatten_dict
from PIL import Image

from disentangle_jax import metrics
from disentangle_jax.reports import _html, _plots
from disentangle_jax.reports._grids import latent_labels, panels, png, sheet
from disentangle_jax.reports._page import (
    Figure,
    check_evaluated,
    chunk_sheet,
    read_pictures,
    read_scores,
    sample_sheet,
    shows_topics,
)
from disentangle_jax.reports._tables import direction, format_value, score_rows

_COLUMNS = 3  # Panels in a row of the saved sheets.
_SHOWN = 10  # Images in a row.
# What may differ between the seeds of one model: seeds, places, and how it is judged.
_NOT_THE_MODEL = ("train.seed", "data.seed", "data.data_dir", "lanes.", "eval.")
# What names a model first, where several differ.
_NAMING = ("model.name", "method.name", "data.name", "method.", "model.", "data.")


class Group(NamedTuple):
    """The runs of one model: equal but for their seeds.

    Attributes:
      label: shortest text that tells it from the others of the page.
      folders: of its runs.
      scores: their ``scores.json``.
    """

    label: str
    folders: list[pathlib.Path]
    scores: list[dict[str, Any]]

    def values(self, name: str) -> list[float]:
        """Returns a score of each run that has it."""
        found = [
            {row.name: row.value for row in score_rows(scores)}.get(name)
            for scores in self.scores
        ]
        return [value for value in found if value is not None]


def find_runs(folders: Sequence[pathlib.Path]) -> list[pathlib.Path]:
    """Returns the evaluated runs of some folders: their lanes where they have lanes.

    Raises:
      ValueError: there is none, or one of them was not evaluated.
    """
    if not folders:
        raise ValueError("compare: name the folders of at least one evaluated run.")
    found = []
    for folder in map(pathlib.Path, folders):
        if not folder.is_dir():
            raise ValueError(f"compare: there is no folder {folder}.")
        lanes = sorted((folder / "lanes").glob("*/scores.json"))
        runs = [path.parent for path in lanes] or [folder]
        for run in runs:
            check_evaluated(run)
            if run.resolve() not in [known.resolve() for known in found]:
                found.append(run)
    return found


def write_comparison(
    folders: Sequence[pathlib.Path], workdir: pathlib.Path
) -> pathlib.Path:
    """Draws several evaluated runs on one page, with its pictures as files beside it.

    Runs that are equal but for their seeds are one model: its bars show mean and
    standard deviation over the seeds, its pictures are those of its first run.

    Args:
      folders: of runs with ``scores.json`` and ``pictures.npz``, or with lanes that
        have them.
      workdir: folder to write to; made where it is not there.

    Returns:
      The path of ``compare.html``, which needs no other file.
    """
    groups = group_runs(find_runs(folders))
    workdir = pathlib.Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    sections = [_runs_section(groups)]
    kinds = (_score_sections, _scatter_section, _picture_sections)
    documents = [shows_topics(folder) for group in groups for folder in group.folders]
    if any(documents):
        if not all(documents):
            raise ValueError("compare: runs on documents and on images do not compare.")
        kinds = (_score_sections,)
    for parts in kinds:
        for figure, body in parts(groups):
            if figure is not None:
                figure.save(workdir)
            sections.append(body)
    count = sum(len(group.folders) for group in groups)
    path = workdir / "compare.html"
    title = f"{len(groups)} models, {count} runs compared"
    _html.write(path, _html.page(title, sections))
    return path


def group_runs(folders: Sequence[pathlib.Path]) -> list[Group]:
    """Returns runs by model, in the order in which models first come."""
    members: dict[str, list[pathlib.Path]] = {}
    configs: dict[str, dict[str, Any]] = {}
    for folder in folders:
        config = flatten_dict(read_scores(folder)["config"], sep=".")
        config = {
            field: value
            for field, value in config.items()
            if not field.startswith(_NOT_THE_MODEL)
        }
        same = json.dumps(config, sort_keys=True)
        members.setdefault(same, []).append(folder)
        configs[same] = config
    labels = model_labels(list(configs.values()))
    return [
        Group(label, runs, [read_scores(run) for run in runs])
        for label, runs in zip(labels, members.values())
    ]


def model_labels(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns a name per config: the fewest fields that tell all of them apart.

    Args:
      configs: values by dotted field, all different. The model's name always stands
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


def _runs_section(groups: Sequence[Group]) -> str:
    rows = []
    for group in groups:
        config, settings = group.scores[0]["config"], group.scores[0]["settings"]
        steps = sorted({scores["settings"]["step"] for scores in group.scores})
        seeds = ", ".join(str(s["settings"]["seed"]) for s in group.scores)
        what = (
            f"{config['model']['name']} trained as {config['method']['name']} on "
            f"{config['data']['name']}, {' or '.join(map(str, steps))} steps, judged "
            f"by {settings['num_train']} + {settings['num_test']} images"
        )
        # FID grows as images get fewer: numbers of different counts do not compare.
        counts = {
            scores["metrics"]["fid"]["settings"]["samples_a"]
            for scores in group.scores
            if "fid" in scores["metrics"]
        }
        if counts:
            what += f", FID by {' or '.join(map(str, sorted(counts)))}"
        rows.append((group.label, seeds, what))
    return _html.section(
        "Models",
        "Runs that differ only in their seeds are one model. Pictures show the first "
        "seed.",
        _html.table(("model", "seeds", "what it is"), rows, number=-1),
    )


# The saved figure of a section, if there is one, and the section's HTML.
_Part = tuple[Figure | None, str]


def _score_sections(groups: Sequence[Group]) -> Iterator[_Part]:
    names = list(
        dict.fromkeys(
            row.name
            for group in groups
            for scores in group.scores
            for row in score_rows(scores)
            if row.value is not None and not row.name.endswith("_train")
        )
    )
    errors = [name for name in names if direction(name) == "↓"]
    errors = [name for name in errors if name != "mse_of_mean_image"]
    kinds = (
        ("scores", "Scores", [name for name in names if direction(name) != "↓"]),
        ("errors", "Errors and distances", errors),
    )
    for file, title, shown in kinds:
        titles = {name: f"{name} {direction(name)}".rstrip() for name in shown}
        bars = {
            titles[name]: {
                group.label: group.values(name)
                for group in groups
                if group.values(name)
            }
            for name in shown
        }
        if not bars:
            continue
        figure = Figure(
            file,
            title,
            "A bar is the mean over seeds, the black line one standard deviation to "
            "either side, each cross one seed. Higher is better at ↑, lower at ↓.",
            _plots.score_bars(
                bars, [titles[name] for name in shown if _up_to_one(name)]
            ),
        )
        body = _html.image(title, figure.content) + _numbers(bars)
        yield figure, _html.section(title, figure.caption, body)


def _up_to_one(name: str) -> bool:
    score = name.partition(".")[0]
    return score in metrics.names() and metrics.info(score).range[1] == 1.0


def _scatter_section(groups: Sequence[Group]) -> Iterator[_Part]:
    """Yields reconstruction loss against reconstruction FID ("Structure …", Fig. 8)."""
    title = "Reconstruction: loss and FID"
    points = {}
    for group in groups:
        for scores in group.scores:
            values = {row.name: row.value for row in score_rows(scores)}
            pair = values.get("bce"), values.get("fid.reconstruction")
            if None not in pair:
                points.setdefault(group.label, []).append(pair)
    if not points:
        why = (
            "Not drawn: no run here holds both a Bernoulli reconstruction loss and an "
            "FID. For FID evaluate with --config.eval.fid_weights=FILE."
        )
        yield None, _html.section(title, why)
        return
    figure = Figure(
        "loss_and_fid",
        title,
        "Each cross is a seed, each circle the mean of a model; lower is better in "
        "both. Where pixels say the same of two models, FID may still tell them apart.",
        _plots.scatter(points, "reconstruction loss (nats)", "reconstruction FID"),
    )
    yield figure, figure.html()


def _numbers(bars: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    rows = []
    for score, models in bars.items():
        for model, values in models.items():
            mean, deviation = _plots.mean_and_deviation(values)
            text = format_value(mean)
            if deviation is not None:
                text += f" ± {format_value(deviation)}"
            rows.append((score, model, text, str(len(values))))
    head = ("score", "model", "mean ± sd", "seeds")
    return (
        "<details><summary>The numbers</summary>"
        f"{_html.table(head, rows, number=2)}</details>"
    )


def _picture_sections(groups: Sequence[Group]) -> Iterator[_Part]:
    first = {group.label: read_pictures(group.folders[0]) for group in groups}
    traversals = [
        (
            label,
            sheet(
                pictures["traversals"][0],
                latent_labels(pictures["latent_groups"]),
                tuple(pictures["latent_groups"]),
            ),
        )
        for label, pictures in first.items()
    ]
    yield _panels(
        "traversals",
        "Latent traversals",
        "One latent a row, in the order of the model, from its smallest to its largest "
        "value on test images; the other latents stay. A bar joins the latents of one "
        "variable.",
        traversals,
    )
    yield _rows(
        "reconstructions",
        "Reconstructions",
        "Test images, and below them what each model makes of them.",
        _reconstruction_rows(first),
    )
    samples = []
    for label, pictures in first.items():
        samples.append((f"{label} hybrid", pictures["hybrids"]))
        samples.append((f"{label} prior", pictures["priors"]))
    yield _rows(
        "samples",
        "Samples",
        "New images. Hybrid: each latent variable is taken from another stored code of "
        "a training image. Prior: codes drawn from a standard normal distribution, "
        "which models without a prior (AE, SAE, AdaAE) never saw in training.",
        samples,
    )
    yield _panels(
        "hybrids",
        "Hybrid samples",
        "More hybrid samples of each model.",
        [(label, sample_sheet(p["hybrids"])) for label, p in first.items()],
    )
    yield _panels(
        "chunk_hybrids",
        "One part of the code changed at a time",
        "The first column is one test image as the model sees it. In each row only the "
        "named variables are taken from stored codes, the others stay.",
        [(label, chunk_sheet(p)) for label, p in first.items()],
    )


def _reconstruction_rows(
    first: Mapping[str, Mapping[str, np.ndarray]],
) -> list[tuple[str, np.ndarray]]:
    """Returns each model's reconstructions below the images they are of.

    Models that were shown the same images share one row of them.
    """
    rows, above = [], None
    for label, pictures in first.items():
        originals = pictures["originals"]
        if above is None or not np.array_equal(originals, above):
            rows.append(("images", originals))
            above = originals
        rows.append((label, pictures["reconstructions"]))
    return rows


def _panels(
    name: str, title: str, caption: str, titled: Sequence[tuple[str, Image.Image]]
) -> _Part:
    """Returns sheets side by side: one file of all, and a grid that fits a phone."""
    figure = Figure(name, title, caption, png(panels(titled, _COLUMNS)))
    body = _html.panels([(label, png(image)) for label, image in titled])
    return figure, _html.section(title, caption, body)


def _rows(
    name: str, title: str, caption: str, rows: Sequence[tuple[str, np.ndarray]]
) -> _Part:
    """Returns one sheet with a labelled row of images per entry.

    Images of another size than the first row's are scaled to it.
    """
    height, width = rows[0][1].shape[1:3]
    images = np.stack([_resized(part[:_SHOWN], height, width) for _, part in rows])
    drawn = sheet(images, [label for label, _ in rows])
    figure = Figure(name, title, caption, png(drawn))
    return figure, figure.html()


def _resized(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """Returns uint8 RGB images ``[n, height, width, 3]``."""
    if images.shape[-1] == 1:
        images = np.repeat(images, 3, axis=-1)
    if images.shape[1:3] == (height, width):
        return images
    return np.stack(
        [np.asarray(Image.fromarray(i).resize((width, height))) for i in images]
    )
