"""Tables and figures of the protocol that compares the models of one paper."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections
import numpy as np
import scipy.stats

from disentangle_jax import evaluation, metrics, reports
from disentangle_jax.evaluation import GROUPED
from disentangle_jax.evaluation.generation import chunk_labels
from disentangle_jax.experiments import protocol, published, systems

# Column of the paper's tables: score and key of scores.json.
_COLUMNS = {
    "DCI-d": ("dci", "disentanglement"),
    "IRS": ("irs", "irs"),
    "MIG": ("mig", "mig"),
    "SAP": ("sap", "sap"),
    "ModExp": ("modularity", "modularity"),
    "DCI-c": ("dci", "completeness"),
}
_BY_VARIABLE = " by variable"
_SAMPLES = 10

# The numbers of each seed of each model, by the names of columns.
Numbers = Mapping[str, list[dict[str, float]]]


class Shown(NamedTuple):
    """What the page shows.

    Attributes:
      config: config of the protocol.
      models: the models of each system, one per seed.
      values: their numbers.
      weak: systems with a model that learned too little to be ranked.
      betas: chosen beta of each beta-VAE.
    """

    config: ml_collections.ConfigDict
    models: Mapping[str, list[protocol.Model]]
    values: Numbers
    weak: Sequence[str]
    betas: Mapping[str, float]

    def label(self, name: str) -> str:
        beta = f" (beta {self.betas[name]:g})" if name in self.betas else ""
        return protocol.marked(name + beta, name in self.weak)


def published_scores(dataset: str) -> dict[str, dict[str, float]]:
    """Returns the paper's scores ``{model: {column: value}}``; empty if it has none.

    A rendered dataset has those of the dataset that it renders.
    """
    rows = published.table(
        "structure_by_architecture_scores", dataset=published.original(dataset)
    )
    return {
        row["model"]: {
            column: float(row[score if score == key else f"{score}.{key}"])
            for column, (score, key) in _COLUMNS.items()
        }
        for row in rows
    }


def numbers(
    model: protocol.Model, distances: Mapping[str, float]
) -> dict[str, float | None]:
    """Returns the columns of one model, by the paper's names, and its errors.

    Args:
      model: the model.
      distances: FID by kind of images.
    """
    found, values = model.scores["metrics"], {}
    for column, (score, key) in _COLUMNS.items():
        for ending, suffix in (("", ""), (GROUPED, _BY_VARIABLE)):
            name = _listed(found, score, ending)
            if name:
                values[column + suffix] = protocol.value(model.scores, name, key)
    values |= {f"FID {name}": distance for name, distance in distances.items()}
    return values | model.scores["reconstruction"]


def _listed(found: Mapping[str, Any], score: str, ending: str) -> str:
    """Returns the name of a score in scores.json, with options or without, or ""."""
    for name in found:
        plain = name.removesuffix(ending) if ending else name
        same_ending = bool(ending) == name.endswith(GROUPED)
        if same_ending and plain.partition("(")[0] == score:
            return name
    return ""


def parts(shown: Shown) -> Iterator[evaluation.Section]:
    """Yields the tables and figures in the order of the page."""
    yield _score_table(shown)
    yield from _grouped_table(shown)
    yield _error_table(shown)
    yield from _slips(shown)
    yield from _score_bars(shown)
    yield from _distance_bars(shown)
    yield from _loss_and_distance(shown)
    yield from _orderings(shown)
    yield from _pictures(shown)


def _columns(values: Numbers, suffix: str = "") -> list[str]:
    return [
        column + suffix
        for column in _COLUMNS
        if values and all(column + suffix in group[0] for group in values.values())
    ]


def _spread(models: Sequence[Mapping[str, float]], column: str, form: str) -> str:
    """Returns mean ± standard deviation, or – where a seed has no value."""
    found = [model.get(column) for model in models]
    return "–" if None in found else protocol.spread(found, form)


def _score_table(shown: Shown) -> reports.Table:
    dataset = shown.config.data.name
    paper, columns = published_scores(dataset), _columns(shown.values)
    rows = []
    for name, models in shown.values.items():
        row = [shown.label(name)]
        for column in columns:
            theirs = paper.get(systems.base(name), {}).get(column)
            bracket = "" if theirs is None else f" [{theirs:.3f}]"
            row.append(_spread(models, column, ".3f") + bracket)
        rows.append(row)
    return reports.Table(
        "scores",
        "Disentanglement scores",
        "Scores of the single dimensions of the code, as in the paper: mean ± standard "
        "deviation over seeds; in brackets the paper's values, after 100,000 steps "
        "with 64 channels."
        + (published.note(dataset) if paper else "")
        + " `ModExp` is the modularity score, as in the paper's code. `untrained`: the "
        "error of a model is above half that of the mean image; not to be ranked.",
        ("model", *columns),
        rows,
    )


def _grouped_table(shown: Shown) -> Iterator[reports.Table]:
    values = {
        name: group
        for name, group in shown.values.items()
        if any(column.endswith(_BY_VARIABLE) for column in group[0])
    }
    columns = _columns(values, _BY_VARIABLE)
    if columns:
        yield reports.Table(
            "scores_by_variable",
            "Scores of whole latent variables",
            "Ours; the paper has no such values. The dimensions that enter the decoder "
            "together count as one variable. Fewer variables make some scores larger, "
            "so compare only models with the same number of variables.",
            ("model", *(column.removesuffix(_BY_VARIABLE) for column in columns)),
            [
                [shown.label(name), *(_spread(group, c, ".3f") for c in columns)]
                for name, group in values.items()
            ],
        )


def _error_table(shown: Shown) -> reports.Table:
    columns = [
        name
        for name in next(iter(shown.values.values()))[0]
        if name.startswith("FID") or name in ("bce", "mse", "mse_of_mean_image")
    ]
    return reports.Table(
        "errors",
        "Reconstruction and samples",
        "Cross-entropy (nats) and mean squared error per pixel on test images, beside "
        "that of the mean image; Inception distances where weights were given.",
        ("model", *columns),
        [
            [shown.label(name), *(_spread(models, c, ".4f") for c in columns)]
            for name, models in shown.values.items()
        ],
    )


def _slips(shown: Shown) -> Iterator[reports.Table]:
    """Yields the effect of the options of systems with an ending."""
    pairs = [
        (name, systems.base(name))
        for name in shown.values
        if systems.base(name) != name and systems.base(name) in shown.values
    ]
    if not pairs:
        return
    fid = [c for c in next(iter(shown.values.values()))[0] if c.startswith("FID")]
    columns = [*_columns(shown.values), *fid, "mse"]
    rows = []
    for name, base in pairs:
        row = [name, base]
        for column in columns:
            means = [
                np.mean([model[column] for model in shown.values[system]])
                for system in (name, base)
            ]
            row.append(f"{means[0] - means[1]:+.4f}")
        rows.append(row)
    yield reports.Table(
        "slips",
        "Effect of changed options",
        "Mean over seeds of the first system minus that of the second. Where an "
        "ending names the authors' code, this is the effect of a step that the code "
        "has and the paper does not state.",
        ("system", "compared with", *columns),
        rows,
    )


def _score_bars(shown: Shown) -> Iterator[reports.Figure]:
    drawn = {}
    for column in _columns(shown.values):
        bars = {name: [m[column] for m in v] for name, v in shown.values.items()}
        if all(None not in values for values in bars.values()):
            drawn[column] = bars
    if drawn:
        yield reports.Figure(
            "bars",
            "Scores over seeds",
            "Each cross is a seed, the bar their mean, the line one standard "
            "deviation. Higher is better (Figs. 5 and 10).",
            reports.plots.score_bars(drawn, list(drawn)),
        )


def _distance_bars(shown: Shown) -> Iterator[reports.Figure]:
    def bars(kinds: Sequence[str]) -> list[reports.plots.Bar]:
        return [
            reports.plots.Bar(
                f"{name} {kind}" if len(kinds) > 1 else name,
                systems.architecture(name),
                [model[f"FID {kind}"] for model in models],
                kind == "prior",
            )
            for name, models in shown.values.items()
            for kind in kinds
            if f"FID {kind}" in models[0]
            and (kind != "prior" or systems.has_prior(name))
        ]

    for name, title, kinds in (
        ("fid_reconstructions", "Reconstruction FID (Fig. 2)", ("reconstruction",)),
        ("fid_samples", "FID of samples (Figs. 3 and 9)", ("hybrid", "prior")),
    ):
        drawn = bars(kinds)
        if drawn:
            hatched = " Samples from the prior are hatched." if len(kinds) > 1 else ""
            yield reports.Figure(
                name,
                title,
                "Smaller is better; the best model is on top. Colours are "
                f"architectures, crosses are seeds.{hatched}",
                reports.plots.sorted_bars(drawn, "FID"),
            )


def _loss_and_distance(shown: Shown) -> Iterator[reports.Figure]:
    points = {
        name: [(model["bce"], model["FID reconstruction"]) for model in models]
        for name, models in shown.values.items()
        if {"bce", "FID reconstruction"} <= models[0].keys()
    }
    if points:
        yield reports.Figure(
            "loss_and_fid",
            "Reconstruction: loss and FID (Fig. 8)",
            "Each cross is a seed, each circle the mean of a model; lower is better on "
            "both axes.",
            reports.plots.scatter(
                points, "reconstruction loss (nats)", "reconstruction FID"
            ),
        )


def _orderings(shown: Shown) -> Iterator[reports.Table]:
    """Yields the positions of the factors in the order of the latents."""
    rows, names = [], []
    for name, models in shown.models.items():
        positions = [found for found in map(positions_of, models) if found]
        if positions:
            names = list(positions[0])
            values = [list(found.values()) for found in positions]
            rows.append([name, *map(interval, np.asarray(values).T)])
    if rows:
        yield reports.Table(
            "ordering",
            "Position of each factor in the order of the latents",
            "Position weighted by mutual information: 0 is the first variable, 1 the "
            "last; a model without order has 0.5 on average. `spread` is the largest "
            "difference between two factors. Means with 95 % intervals over seeds "
            "(Student's t).",
            ("model", *names),
            rows,
        )


def positions_of(model: protocol.Model) -> dict[str, float]:
    """Returns the spread and position of each factor; empty without a score `mig`."""
    found = model.scores["metrics"]
    score = next((s for s in (f"mig{GROUPED}", "mig") if s in found), "")
    if not score or "mi" not in found[score]["matrices"]:
        return {}
    names = ("spread", *evaluation.scored_factors(model.scores, score))
    matrix = found[score]["matrices"]["mi"]
    return dict(zip(names, metrics.ordering(matrix).values()))


def _pictures(shown: Shown) -> Iterator[reports.Figure]:
    """Yields traversals, chunks, samples and reconstructions of the first seeds."""
    arrays = {
        name: evaluation.read_arrays(models[0].run.workdir)
        for name, models in shown.models.items()
    }
    if any("traversals" not in found for found in arrays.values()):
        return
    sheets = []
    for name, found in arrays.items():
        groups = shown.models[name][0].scores["settings"]["latent_groups"]
        labels = reports.grids.latent_labels(groups)
        sheet = reports.grids.sheet(found["traversals"][0], labels, groups)
        sheets.append((name, sheet))
    yield _panels(
        "traversals",
        "Latent traversals (Figs. 4, 11, 13-15 and 18)",
        "Each row varies one latent from its minimum to its maximum over test images. "
        "Bars mark the latents that enter the decoder together.",
        sheets,
    )
    yield _panels(
        "chunks",
        "One part of the code replaced at a time (Fig. 6a)",
        "First column: a reconstruction. Each row replaces only the named variables by "
        "values of stored codes.",
        [
            (
                name,
                reports.grids.sheet(
                    found["chunk_hybrids"], chunk_labels(found["chunks"])
                ),
            )
            for name, found in arrays.items()
        ],
    )
    samples, originals = {}, next(iter(arrays.values()))["originals"]
    reconstructions = {"image": originals}
    for name, found in arrays.items():
        samples[f"{name} hybrid"] = found["hybrids"][:_SAMPLES]
        if systems.has_prior(name):
            samples[f"{name} prior"] = found["priors"][:_SAMPLES]
        reconstructions[name] = found["reconstructions"]
    yield _rows(
        "samples",
        "Samples (Figs. 6b and 17)",
        "Images of hybrid codes and, for models trained towards a prior, of its codes.",
        samples,
    )
    yield _rows(
        "reconstructions",
        "Reconstructions (Fig. 16)",
        "Test images above, their reconstructions by each model below.",
        reconstructions,
    )


def _panels(name: str, title: str, caption: str, sheets: Sequence) -> reports.Figure:
    content = reports.grids.png(reports.grids.panels(sheets, 3))
    return reports.Figure(name, title, f"{caption} First seed.", content)


def _rows(
    name: str, title: str, caption: str, rows: Mapping[str, np.ndarray]
) -> reports.Figure:
    sheet = reports.grids.sheet(np.stack(list(rows.values())), list(rows))
    content = reports.grids.png(sheet)
    return reports.Figure(name, title, f"{caption} First seed.", content)


def interval(values: np.ndarray) -> str:
    """Returns ``mean [low, high]``, the 95 % interval of a mean over seeds."""
    values = np.asarray(values, float)
    mean = values.mean()
    if len(values) < 2:
        return f"{mean:.2f}"
    half = scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1)
    half /= math.sqrt(len(values))
    return f"{mean:.2f} [{mean - half:.2f}, {mean + half:.2f}]"
