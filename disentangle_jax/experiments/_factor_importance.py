"""How far apart images along each factor are, to a reconstruction loss.

Michlo et al., "Overlooked Implications of the Reconstruction Loss", App. A: factors
with larger distances are learned first. Trains nothing.
"""

import pathlib
from collections.abc import Mapping

import ml_collections

from disentangle_jax import data, losses, metrics, reports, training
from disentangle_jax.experiments._protocol import Protocol, Result, Stage
from disentangle_jax.types import unknown_name

_DISTANCES = {
    "mse": losses.mse,
    "l1": losses.l1_reconstruction,
    "box_blur_mse": losses.box_blur_mse,
}
_SHAPES3D = {
    "random": (0.2432, 0.0918),
    "wall_hue": (0.1122, 0.0661),
    "floor_hue": (0.1086, 0.0623),
    "object_hue": (0.0416, 0.0292),
    "shape": (0.0207, 0.0161),
    "scale": (0.0182, 0.0153),
    "orientation": (0.0116, 0.0079),
}
_DSPRITES = {
    "random": (0.0754, 0.0289),
    "y": (0.0584, 0.0378),
    "x": (0.0559, 0.0363),
    "scale": (0.0250, 0.0148),
    "shape": (0.0214, 0.0095),
    "orientation": (0.0172, 0.0106),
}
# Table 1 of the supplement: mean and standard deviation of the squared error.
_PUBLISHED = {
    "shapes3d": _SHAPES3D,
    "rendered_shapes3d": _SHAPES3D,
    "dsprites": _DSPRITES,
    "rendered_dsprites": _DSPRITES,
    "xysquares": {
        "random": (0.0308, 0.0022),
        **{
            f"{axis}_{colour}": (0.0104, 0.0)
            for axis in "xy"
            for colour in ("red", "green", "blue")
        },
    },
    "cars3d": {
        "random": (0.0519, 0.0188),
        "azimuth": (0.0355, 0.0185),
        "object": (0.0349, 0.0176),
        "elevation": (0.0174, 0.0100),
    },
    "smallnorb": {
        "random": (0.0535, 0.0529),
        "lighting": (0.0531, 0.0563),
        "category": (0.0113, 0.0066),
        "azimuth": (0.0090, 0.0071),
        "instance": (0.0068, 0.0048),
        "elevation": (0.0034, 0.0030),
    },
}


def _stages(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> list[Stage]:
    options = config.experiment
    for name in options.distances:
        if name not in _DISTANCES:
            known = list(_DISTANCES)
            raise unknown_name("factor_importance", "experiment.distances", name, known)
    if not options.datasets or not options.distances or options.pairs < 1:
        raise ValueError(
            "factor_importance: `experiment.datasets`, `distances` and `pairs` must "
            "not be empty."
        )
    for name in options.datasets:
        if not _load(config, name).factor_sizes:
            raise ValueError(
                f"factor_importance: `experiment.datasets`: {name} has no factors."
            )
    return []


def _load(config: ml_collections.ConfigDict, name: str) -> data.Dataset:
    options = config.data.options if name == config.data.name else {}
    return data.load(
        name, data_dir=config.data.data_dir or None, split="all", **options
    )


def _result(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    runs: Mapping[str, training.Run],
) -> Result:
    del workdir, runs
    options = config.experiment
    values, parts = {}, []
    for number, name in enumerate(options.datasets, start=1):
        dataset = _load(config, name)
        for kind in options.distances:
            print(f"set {number} of {len(options.datasets)}: {name}, {kind}")
            score = metrics.factor_importance(
                dataset,
                pairs=options.pairs,
                distance=_DISTANCES[kind],
                seed=config.eval.seed,
            )
            values.setdefault(name, {})[kind] = dict(score)
            parts += _parts(name, kind, score)
    return Result("Perceived distance along each factor", values, parts)


def _parts(name: str, kind: str, score: metrics.Score) -> list:
    paper = _PUBLISHED.get(name, {}) if kind == "mse" else {}
    rows = []
    for factor, mean, std in zip(score, score.values(), score.matrices["std"]):
        theirs = "{:.4f} ± {:.4f}".format(*paper[factor]) if factor in paper else "-"
        rows.append([factor, f"{mean:.4f} ± {std:.4f}", theirs])
    curves = dict(zip(score, score.matrices["distances"]))
    return [
        reports.Table(
            f"{name}_{kind}",
            f"{name}: mean distance ({kind}) along each factor",
            "Mean ± standard deviation over pairs that differ in one factor, the most "
            "important factor first, and over pairs of any two images; the paper's "
            "Table 1 (of the real set) beside it.",
            ("factor", "distance", "paper"),
            rows,
        ),
        reports.Figure(
            f"{name}_{kind}_distribution",
            f"{name}: share of pairs below a distance ({kind})",
            "Factors whose curve lies further to the right are learned earlier.",
            reports.plots.cumulative(curves, f"distance ({kind})"),
        ),
    ]


PROTOCOL = Protocol(
    options={
        "datasets": ("xysquares", "rendered_dsprites", "rendered_shapes3d"),
        "distances": ("mse",),
        "pairs": 50_000,
    },
    stages=_stages,
    result=_result,
)
