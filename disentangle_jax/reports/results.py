"""Results as data: a CSV file per experiment, and a page of findings made from them.

``disentangle results RUN --to=DIR`` stores every model of a run or protocol as a row of
``DIR/NAME.csv``, with its config, commit, hardware, training time and scores. The page
``RESULTS.md`` beside DIR is made from these files and from ``findings*.py`` there,
which list :class:`Finding`: no number is written by hand. ``pictures`` beside it holds
a plot of each finding.
"""

import csv
import dataclasses
import io
import json
import math
import pathlib
import re
import runpy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import PIL.Image
import PIL.PngImagePlugin

from disentangle_jax import config as config_lib
from disentangle_jax import evaluation, files, rows
from disentangle_jax.reports import plots

Row = Mapping[str, str]
_BEGIN, _END = "<!-- results -->", "<!-- /results -->"
# Columns that describe a model; all others are its numbers.
_COLUMNS = ("model", "seed", "fields", "commit", "hardware", "time", "seconds", "lanes")


def model_rows(workdir: pathlib.Path) -> list[dict[str, Any]]:
    """Returns a row for each evaluated model below a folder of a run or protocol."""
    further = {}
    if (workdir / "result.json").exists():
        further = json.loads((workdir / "result.json").read_text()).get("models", {})
    found = []
    for path in sorted(workdir.rglob("scores.json")):
        folder = path.parent
        name = folder.relative_to(workdir).as_posix()
        found.append({"model": name, **_model(folder), **further.get(name, {})})
    if not found:
        raise ValueError(f"results: {workdir} holds no evaluated model.")
    return found


def _model(folder: pathlib.Path) -> dict[str, Any]:
    scores = evaluation.read_scores(folder)
    config, device = scores["config"], scores["device"]
    default = rows.flat(config_lib.default())
    changed = {
        name: value
        for name, value in rows.flat(config).items()
        if default.get(name) != value
        and config_lib.affects(name) in ("model", "length")
        and value not in ({}, [], "")
    }
    lanes = 1
    if folder.parent.name == "lanes":
        lanes = len(list(folder.parent.glob("*/scores.json")))
    return {
        "seed": scores["settings"]["seed"],
        "fields": json.dumps(changed, sort_keys=True),
        "commit": scores["commit"],
        "hardware": f"{device['platform']}, {device['cpu_cores']} cores",
        "time": scores["time"],
        "seconds": round(lanes * _training_seconds(folder, config)),
        "lanes": lanes,
        **_numbers(scores),
    }


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    numbers = {r.name: r.value for r in evaluation.score_rows(scores)}
    return {name: value for name, value in numbers.items() if value is not None}


def _training_seconds(folder: pathlib.Path, config: Mapping[str, Any]) -> float:
    """Returns the time of the model's examples, by the rates in ``metrics.jsonl``.

    The rate counts the examples of all lanes, which are trained in the same time.
    """
    seconds, last = 0.0, 0
    path = folder / "metrics.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        logged = json.loads(line)
        examples = (logged["step"] - last) * config["train"]["batch_size"]
        seconds += examples / logged["images_per_second"]
        last = logged["step"]
    return seconds


def write_csv(path: pathlib.Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows of models; numbers that a model lacks are empty."""
    numbers = {name: None for row in found for name in row if name not in _COLUMNS}
    text = io.StringIO()
    writer = csv.DictWriter(text, (*_COLUMNS, *numbers), lineterminator="\n")
    writer.writeheader()
    for row in found:
        writer.writerow(
            {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()}
        )
    files.write_text(path, text.getvalue())


@dataclasses.dataclass(frozen=True)
class Group:
    """The models of one line of a table, which differ in their seeds.

    Attributes:
      rows: their rows of the CSV file.
    """

    rows: Sequence[Row]

    def values(self, column: str) -> list[float]:
        """Returns one number of each model that has it."""
        return [float(row[column]) for row in self.rows if row.get(column)]

    def mean(self, column: str) -> float:
        """Returns the mean of a number over the models."""
        return plots.mean_and_deviation(self.values(column))[0]

    def text(self, column: str, form: str = ".3f") -> str:
        """Returns ``mean ± standard deviation``; a dash where no model has it."""
        values = self.values(column)
        if not values:
            return "–"
        mean, deviation = plots.mean_and_deviation(values)
        text = format(mean, form)
        return text if deviation is None else f"{text} ± {format(deviation, form)}"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the numbers say about a finding.

    Attributes:
      holds: ``"yes"``, ``"partly"`` or ``"no"``.
      ours: our numbers, in a few words.
      paper: the paper's numbers, in a few words.
    """

    holds: str
    ours: str
    paper: str


def verdict(yes: bool, partly: bool, ours: str, paper: str) -> Verdict:
    """Returns a verdict that is "yes" or, where only `partly` is true, "partly"."""
    return Verdict("yes" if yes else "partly" if partly else "no", ours, paper)


def field(row: Row, name: str, default: Any = None) -> Any:
    """Returns a field of a model's config; `default` where it is not in the row."""
    return json.loads(row["fields"]).get(name, default)


def stage(row: Row) -> str:
    """Returns the stage of its protocol that a model belongs to."""
    return row["model"].split("/")[0]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A claim of a paper, and how our results bear on it.

    Attributes:
      title: the claim.
      source: paper, table or figure.
      file: name of the CSV file, without its ending.
      command: what made the results.
      lines: ``row -> name`` of the table's line that a model belongs to; None leaves it
        out.
      columns: number of the CSV file and heading of each column; the first is drawn.
      judge: ``groups by line -> Verdict``.
      short: where it falls short of the paper.
      further: names of other CSV files whose rows belong to it.
      headline: whether the README shows it.
    """

    title: str
    source: str
    file: str
    command: str
    lines: Callable[[Row], str | None]
    columns: Mapping[str, str]
    judge: Callable[[Mapping[str, Group]], Verdict]
    short: str
    further: Sequence[str] = ()
    headline: bool = False

    @property
    def picture(self) -> str:
        """Name of the file of its plot."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()) + ".png"


def _groups(finding: Finding, folder: pathlib.Path) -> dict[str, Group]:
    grouped: dict[str, list[Row]] = {}
    for name in (finding.file, *finding.further):
        text = (folder / f"{name}.csv").read_text()
        for row in csv.DictReader(io.StringIO(text)):
            line = finding.lines(row)
            if line is not None:
                grouped.setdefault(line, []).append(row)
    return {line: Group(grouped[line]) for line in sorted(grouped, key=_natural)}


def _natural(line: str) -> list[str | float]:
    """Returns a key that sorts numbers within texts by their size."""
    parts = re.split(r"(\d+(?:\.\d+)?)", line)
    return [float(part) if k % 2 else part for k, part in enumerate(parts)]


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    table = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in table)


def load(folder: pathlib.Path) -> list[tuple[Finding, dict[str, Group]]]:
    """Returns the findings of ``findings*.py`` beside `folder` that have results."""
    paths = sorted(folder.parent.glob("findings*.py"))
    if not paths:
        path = folder.parent / "findings.py"
        raise ValueError(f"results: there is no file {path} that lists the findings.")
    return [
        (finding, _groups(finding, folder))
        for path in paths
        for finding in runpy.run_path(str(path))["FINDINGS"]
        if all(
            _has_results(finding, folder / f"{name}.csv")
            for name in (finding.file, *finding.further)
        )
    ]


def _has_results(finding: Finding, path: pathlib.Path) -> bool:
    """Returns whether a CSV file exists and has the numbers of the finding's table."""
    if not path.exists():
        return False
    header = next(csv.reader(io.StringIO(path.read_text())))
    return set(finding.columns) <= set(header)


def summary(loaded: Sequence[tuple[Finding, Mapping[str, Group]]]) -> str:
    """Returns the table of all findings: ours, the paper's, and whether they agree."""
    lines = []
    for finding, groups in loaded:
        verdict = finding.judge(groups)
        lines.append(
            [f"{finding.title} ({finding.source})", verdict.ours, verdict.paper,
             verdict.holds]
        )  # fmt: skip
    return markdown(("finding", "ours, in miniature", "paper", "appears"), lines)


def headlines(loaded: Sequence[tuple[Finding, Mapping[str, Group]]]) -> str:
    """Returns the table of the README, and how many of the other findings appear."""
    others = [f.judge(groups).holds for f, groups in loaded if not f.headline]
    counts = ", ".join(
        f"{others.count(holds)} {holds}" for holds in ("yes", "partly", "no")
    )
    table = summary([pair for pair in loaded if pair[0].headline])
    return f"{table}\n\nOf {len(others)} further findings: {counts}."


def page(loaded: Sequence[tuple[Finding, Mapping[str, Group]]]) -> str:
    """Returns the text of ``RESULTS.md``."""
    parts = [
        "# Results",
        "Made by `disentangle results` from `results/*.csv` (one row per model: "
        "config, seed, commit, hardware, training time, scores) and `findings.py`. All "
        "are miniatures: the paper's experiment with smaller images and narrower "
        "networks. Numbers are mean ± standard deviation over seeds.",
        summary(loaded),
    ]
    for finding, groups in loaded:
        parts += _section(finding, groups)
    return "\n\n".join(parts) + "\n"


def _section(finding: Finding, groups: Mapping[str, Group]) -> list[str]:
    verdict = finding.judge(groups)
    members = [row for group in groups.values() for row in group.rows]
    packs = {(pathlib.PurePosixPath(r["model"]).parent, r["seconds"]) for r in members}
    minutes = sum(float(seconds) for _, seconds in packs) / 60
    commits = ", ".join(sorted({row["commit"] for row in members}))
    machine = ", ".join(sorted({row["hardware"] for row in members}))
    table = [
        [line, str(len(group.rows)), *(group.text(c) for c in finding.columns)]
        for line, group in groups.items()
    ]
    return [
        f"## {finding.title}",
        f"{finding.source}. Appears: **{verdict.holds}**. Ours: {verdict.ours}. Paper: "
        f"{verdict.paper}.",
        markdown(("", "models", *finding.columns.values()), table),
        f"![{next(iter(finding.columns.values()))}](pictures/{finding.picture})",
        f"`{finding.command}`: {len(members)} models, {minutes:.0f} minutes of "
        f"training ({machine}), commit {commits}. {finding.short}",
    ]


def write_page(folder: pathlib.Path) -> pathlib.Path:
    """Writes ``RESULTS.md`` and its pictures beside `folder`; returns its path.

    The headlines also replace what stands between the marks ``<!-- results -->`` and
    ``<!-- /results -->`` of a ``README.md`` two folders above, if there is one.
    """
    loaded, path = load(folder), folder.parent / "RESULTS.md"
    pictures = folder.parent / "pictures"
    pictures.mkdir(exist_ok=True)
    for finding, groups in loaded:
        _write_picture(pictures / finding.picture, drawn_numbers(finding, groups))
    files.write_text(path, page(loaded))
    readme = folder.absolute().parents[2] / "README.md"
    text = readme.read_text() if readme.exists() else ""
    if _BEGIN in text and _END in text:
        before, after = text.partition(_BEGIN)[0], text.partition(_END)[2]
        files.write_text(
            readme, f"{before}{_BEGIN}\n{headlines(loaded)}\n{_END}{after}"
        )
    return path


def drawn_numbers(
    finding: Finding, groups: Mapping[str, Group]
) -> dict[str, dict[str, list[float]]]:
    """Returns what the plot of a finding shows: ``{heading: {line: values}}``."""
    column, heading = next(iter(finding.columns.items()))
    values = {line: group.values(column) for line, group in groups.items()}
    finite = {k: [v for v in found if math.isfinite(v)] for k, found in values.items()}
    return {heading: {line: found for line, found in finite.items() if found}}


def numbers_of_picture(path: pathlib.Path) -> Any:
    """Returns the numbers that a plot was drawn from, which its file stores."""
    with PIL.Image.open(path) as image:
        return json.loads(image.info["numbers"])


def _write_picture(
    path: pathlib.Path, numbers: Mapping[str, Mapping[str, Sequence[float]]]
) -> None:
    """Draws numbers; a plot that shows them already stays as it is."""
    if path.exists() and numbers_of_picture(path) == numbers:
        return
    image = PIL.Image.open(io.BytesIO(plots.score_bars(numbers, ())))
    stored, content = PIL.PngImagePlugin.PngInfo(), io.BytesIO()
    stored.add_text("numbers", json.dumps(numbers))
    # 64 colours, a quarter of the bytes.
    image.convert("RGB").quantize(64).save(
        content, "png", optimize=True, pnginfo=stored
    )
    files.write_bytes(path, content.getvalue())
