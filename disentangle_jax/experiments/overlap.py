"""Overlap of images in pixel space, and how it affects disentanglement.

To a pixel-wise loss, images along a factor that do not overlap are all equally far from
each other, so that it cannot order them. Table 4 of the supplement lists three
experiments, which are presets of the config: five datasets (Fig. 6), XYSquares of
spacing 8 to 1 (Fig. 9), and a blurred loss that restores the overlap (Fig. 11).
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import ml_collections

from disentangle_jax import reports
from disentangle_jax.experiments import overlooked, protocol
from disentangle_jax.reports import study as plots
from disentangle_jax.types import unknown_name

_METHODS = ("beta_vae", "ada_gvae")
_SPACED = "xysquares"


class _Cell(NamedTuple):
    """One stage: all values of beta and all seeds share its program."""

    dataset: str
    spacing: int | None
    method: str
    latents: int
    loss: str

    @property
    def name(self) -> str:
        dataset = self.dataset + ("" if self.spacing is None else f"-{self.spacing}")
        return f"{dataset}/{self.method}-{self.latents}-{self.loss}"

    def fields(self) -> dict[str, Any]:
        fields = {
            "data.name": self.dataset,
            "model.latent_dim": self.latents,
            "method": {"name": self.method, "reconstruction": self.loss},
        }
        for option, value in overlooked.options(self.dataset).items():
            fields[f"data.options.{option}"] = value
        if self.spacing is not None:
            fields["data.options.spacing"] = self.spacing
        return fields

    def beta(self, published: float) -> float:
        """Returns our beta: the paper's weighs the mean over latents, ours the sum."""
        return float(published) / self.latents


def _cells(options: ml_collections.ConfigDict) -> list[_Cell]:
    return [
        _Cell(dataset, *rest)
        for dataset in options.datasets
        for rest in itertools.product(
            options.spacings if dataset == _SPACED else (None,),
            options.frameworks,
            options.latents,
            options.losses,
        )
    ]


@protocol.define(
    question="Does a pixel-wise loss fail where images do not overlap?",
    reference="Michlo et al., Overlooked Implications of the Reconstruction Loss for "
    "VAE Disentanglement, Figs. 6, 9 and 11",
    options={
        "datasets": (_SPACED,),
        "spacings": (8,),
        "frameworks": _METHODS,
        "latents": (25,),
        "losses": ("mse", "box_blur_mse"),
        "betas": (0.0001, 0.0316),
    },
)
class Overlap(protocol.Protocol):
    """Scores by dataset, spacing, method, number of latents, loss and beta."""

    def stages(self, config, workdir):
        options = config.experiment
        protocol.check_given(
            *(config, "datasets", "frameworks", "latents"),
            *("losses", "betas", "spacings"),
        )
        for name in options.frameworks:
            if name not in _METHODS:
                raise unknown_name("overlap", "experiment.frameworks", name, _METHODS)
        instead = "; set `experiment.betas` and `lanes.seeds`"
        protocol.check_empty(config, "lanes.sweep", instead=instead)
        return [
            protocol.Stage(
                cell.name,
                cell.fields(),
                [{"method.beta": cell.beta(beta)} for beta in options.betas],
            )
            for cell in _cells(options)
        ]

    def result(self, config, workdir, models):
        options = config.experiment
        rows, values = [], {}
        for cell in _cells(options):
            by_beta = protocol.grouped(
                models[cell.name], lambda model: model.hyper["beta"]
            )
            for beta in options.betas:
                chosen = by_beta[cell.beta(beta)]
                numbers = _numbers(chosen)
                values[f"{cell.name}/beta={beta:g}"] = numbers
                weak = any(protocol.untrained(model.scores) for model in chosen)
                rows.append((cell, beta, numbers, weak))
        parts = [
            _table(rows),
            *_curves(options, values),
            *_by_dataset(options, rows),
            *_by_loss(options, rows),
            _deviations(config),
        ]
        return protocol.Result("Overlap and disentanglement", {"scores": values}, parts)


def _deviations(config: ml_collections.ConfigDict) -> reports.Text:
    lines = overlooked.notes(config.experiment.datasets)
    lines.append(
        "Scores are those of images drawn without replacement; the paper draws them "
        "with replacement."
    )
    if config.data.changed_factors == "uniform":
        lines.append(
            "Pairs of Ada-GVAE differ in k ~ U[1, F] factors, as the supplement says; "
            "its published code draws 1 or k."
        )
    if config.data.split_recipe != "none":
        lines.append("Models are scored on a test split; the paper has none.")
    if config.model.name != "conv64":
        lines.append(f"The networks are {config.model.name}, not the paper's conv64.")
    return protocol.deviations(*lines)


def _numbers(models: list[protocol.Model]) -> dict[str, list[float]]:
    """Returns the headline of each score, and the error, over the seeds."""
    found = {
        name: [protocol.value(model.scores, name) for model in models]
        for name in models[0].scores["metrics"]
    }
    found["mse"] = [model.scores["reconstruction"]["mse"] for model in models]
    return found


def _table(rows: list[tuple]) -> reports.Table:
    names = list(rows[0][2])
    return reports.Table(
        "scores",
        "Scores by loss, overlap and beta",
        "Mean ± standard deviation over seeds. `beta` is the paper's: it weighs the "
        "mean over latents of the KL divergence against the mean squared error of "
        "standardised pixels. `dci` is DCI disentanglement; `mse` is the error of "
        "images in [0, 1]. `untrained`: above half the error of the mean image.",
        ("dataset", "spacing", "method", "latents", "loss", "beta", *names),
        [
            [
                cell.dataset,
                "-" if cell.spacing is None else str(cell.spacing),
                protocol.marked(cell.method, weak),
                str(cell.latents),
                cell.loss,
                f"{beta:g}",
                *(protocol.spread(numbers[name], ".4f") for name in names),
            ]
            for cell, beta, numbers, weak in rows
        ],
    )


def _curves(
    options: ml_collections.ConfigDict, values: Mapping[str, dict[str, list[float]]]
) -> Iterator[reports.Figure]:
    """Yields a figure per score against the spacing, if there are several spacings."""
    if _SPACED not in options.datasets or len(options.spacings) < 2:
        return
    for score in next(iter(values.values())):
        if score == "mse":
            continue
        lines = {}
        for method, latents, loss, beta in itertools.product(
            options.frameworks, options.latents, options.losses, options.betas
        ):
            cells = {
                s: _Cell(_SPACED, s, method, latents, loss) for s in options.spacings
            }
            lines[f"{method}, {latents} latents, {loss}, beta {beta:g}"] = {
                spacing: values[f"{cell.name}/beta={beta:g}"][score]
                for spacing, cell in cells.items()
            }
        yield reports.Figure(
            f"spacing_{score}",
            f"{score} against the spacing of XYSquares",
            "At spacing 8 squares at two places never overlap; at 1 neighbours nearly "
            "coincide. Mean and standard deviation over seeds.",
            reports.plots.lines(lines, "spacing", score),
        )


def _by_dataset(
    options: ml_collections.ConfigDict, rows: list[tuple]
) -> Iterator[reports.Figure]:
    """Yields a figure per score over datasets, if there are several (Fig. 6)."""
    if len(options.datasets) < 2:
        return
    for score in _scores(rows):
        panels: dict[str, dict[str, list[float]]] = {}
        for cell, _, numbers, _ in rows:
            panel = panels.setdefault(f"{cell.method}, {cell.latents} latents", {})
            panel.setdefault(cell.dataset, []).extend(numbers[score])
        yield reports.Figure(
            f"datasets_{score}",
            f"{score} on each dataset (Fig. 6)",
            "Each point is a model; values of beta and seeds differ within a column.",
            plots.distributions(panels, label=score),
        )


def _by_loss(
    options: ml_collections.ConfigDict, rows: list[tuple]
) -> Iterator[reports.Figure]:
    """Yields a figure of the scores of each loss, if there are several (Fig. 11)."""
    if len(options.losses) < 2:
        return
    parts = protocol.grouped(rows, lambda row: row[0].name.partition("/")[0])
    for dataset, own in parts.items():
        bars = {
            score: {
                f"{cell.name.partition('/')[2]}, beta {beta:g}": numbers[score]
                for cell, beta, numbers, _ in own
            }
            for score in _scores(rows)
        }
        yield reports.Figure(
            f"losses_{dataset}",
            f"Scores of each loss on {dataset} (Fig. 11)",
            "Mean and standard deviation over seeds; crosses are seeds.",
            reports.plots.score_bars(bars, _scores(rows)),
        )


def _scores(rows: list[tuple]) -> list[str]:
    """Returns the names of the scores, without the error."""
    return [name for name in rows[0][2] if name != "mse"]
