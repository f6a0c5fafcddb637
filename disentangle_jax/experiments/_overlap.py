"""Overlap of images in pixel space and what it does to learning.

Michlo et al., "Overlooked Implications of the Reconstruction Loss for VAE
Disentanglement": images along a factor that do not overlap are all equally far from
each other to a pixel-wise loss, so that it cannot order them. Table 4 of the supplement
lists three experiments, which are presets of the config: five sets (Fig. 6), XYSquares
of spacing 8 to 1 (Fig. 9), and a blurred loss that restores the overlap (Fig. 11).
"""

import itertools
import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import ml_collections

from disentangle_jax import reports, training
from disentangle_jax.experiments import _systems
from disentangle_jax.experiments._protocol import (
    Protocol,
    Result,
    Stage,
    spread,
    without_experiment,
)
from disentangle_jax.types import unknown_name

_FRAMEWORKS = ("beta_vae", "ada_gvae")
_SPACED = "xysquares"


class _Cell(NamedTuple):
    """One program of the grid; strengths and seeds are its lanes."""

    dataset: str
    spacing: int | None
    framework: str
    latents: int
    loss: str

    @property
    def name(self) -> str:
        place = self.dataset + ("" if self.spacing is None else f"-{self.spacing}")
        return f"{place}/{self.framework}-{self.latents}-{self.loss}"


def _cells(options: ml_collections.ConfigDict) -> list[_Cell]:
    cells = []
    for dataset in options.datasets:
        spacings = options.spacings if dataset == _SPACED else (None,)
        cells += [
            _Cell(dataset, *rest)
            for rest in itertools.product(
                spacings, options.frameworks, options.latents, options.losses
            )
        ]
    return cells


def _stages(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> list[Stage]:
    del workdir
    options = config.experiment
    for field in ("datasets", "frameworks", "latents", "losses", "betas", "spacings"):
        if not options[field]:
            raise ValueError(f"overlap: `experiment.{field}` must not be empty.")
    for name in options.frameworks:
        if name not in _FRAMEWORKS:
            raise unknown_name("overlap", "experiment.frameworks", name, _FRAMEWORKS)
    if config.lanes.sweep:
        raise ValueError(
            "overlap: `lanes.sweep` must be empty; set `experiment.betas` and "
            "`lanes.seeds`."
        )
    stages = []
    for cell in _cells(options):
        run = without_experiment(config, data__name=cell.dataset)
        if cell.spacing is not None:
            run.data.options.spacing = cell.spacing
        run.model.latent_dim = cell.latents
        run.method = {"name": cell.framework, "reconstruction": cell.loss}
        # The paper's beta weighs the mean over latents, ours the sum.
        run.lanes.sweep = {
            "method.beta": tuple(float(beta) / cell.latents for beta in options.betas)
        }
        stages.append(Stage(cell.name, run))
    return stages


def _result(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    runs: Mapping[str, training.Run],
) -> Result:
    options = config.experiment
    rows, values = [], {}
    for cell in _cells(options):
        run = runs[cell.name]
        folders = training.evaluated_folders(run)
        scores = [json.loads((f / "scores.json").read_text()) for f in folders]
        for beta in options.betas:
            ours = float(beta) / cell.latents
            chosen = [
                score
                for lane, score in zip(run.lanes, scores)
                if lane.hyper["beta"] == ours
            ]
            numbers = _numbers(chosen)
            values[f"{cell.name}/beta={beta:g}"] = numbers
            rows.append((cell, beta, numbers, any(map(_systems.untrained, chosen))))
    parts = [_table(rows), *_curves(options, values)]
    return Result("Overlap and disentanglement", {"scores": values}, parts)


def _numbers(scores: list[dict]) -> dict[str, list[float]]:
    """Returns the headline of each score, and the error, over the seeds."""
    found = {
        name: [next(iter(s["metrics"][name]["values"].values())) for s in scores]
        for name in scores[0]["metrics"]
    }
    found["mse"] = [score["reconstruction"]["mse"] for score in scores]
    return found


def _table(rows: list[tuple]) -> reports.Table:
    names = list(rows[0][2])
    return reports.Table(
        "scores",
        "Scores by loss, overlap and strength",
        "Mean ± standard deviation over seeds; `beta` as in the paper, where it weighs "
        "the mean over latents of the KL divergence against the mean squared error of "
        "standardised pixels. `dci` is its disentanglement, `mse` that of images in "
        "[0, 1]. `untrained`: above half the error of the mean image.",
        ("set", "spacing", "method", "latents", "loss", "beta", *names),
        [
            [
                cell.dataset,
                "-" if cell.spacing is None else str(cell.spacing),
                cell.framework + (" (untrained)" if weak else ""),
                str(cell.latents),
                cell.loss,
                f"{beta:g}",
                *(spread(numbers[name], ".4f") for name in names),
            ]
            for cell, beta, numbers, weak in rows
        ],
    )


def _curves(
    options: ml_collections.ConfigDict, values: Mapping[str, dict[str, list[float]]]
) -> Iterator[reports.Figure]:
    """Scores against the spacing, where there are several."""
    if _SPACED not in options.datasets or len(options.spacings) < 2:
        return
    names = [name for name in next(iter(values.values())) if name != "mse"]
    for score in names:
        lines = {}
        for framework, latents, loss, beta in itertools.product(
            options.frameworks, options.latents, options.losses, options.betas
        ):
            label = f"{framework}, {latents} latents, {loss}, beta {beta:g}"
            lines[label] = {
                spacing: values[
                    f"{_Cell(_SPACED, spacing, framework, latents, loss).name}"
                    f"/beta={beta:g}"
                ][score]
                for spacing in options.spacings
            }
        yield reports.Figure(
            f"spacing_{score}",
            f"{score} against the spacing of XYSquares",
            "Spacing 8: squares at two places never overlap; 1: neighbours nearly do. "
            "Mean and standard deviation over seeds.",
            reports.plots.lines(lines, "spacing", score),
        )


PROTOCOL = Protocol(
    options={
        "datasets": (_SPACED,),
        "spacings": (8,),
        "frameworks": _FRAMEWORKS,
        "latents": (25,),
        "losses": ("mse", "box_blur_mse"),
        "betas": (0.0001, 0.0316),
    },
    stages=_stages,
    result=_result,
)
