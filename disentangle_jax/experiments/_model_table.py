"""Scores of many systems beside the published ones ("Structure by Architecture").

Tables 1 to 4 and Figs. 2, 3, 5, 9 and 10: disentanglement scores, distances of
reconstructions and samples to real images, and where in the order of its latents each
system puts each factor.
"""

import json
import math
import pathlib
from collections.abc import Iterator, Mapping

import jax
import ml_collections
import numpy as np
import scipy.stats

from disentangle_jax import data, losses, metrics, reports, sampling, training
from disentangle_jax.experiments import _systems
from disentangle_jax.experiments._protocol import (
    Protocol,
    Result,
    Stage,
    spread,
    without_experiment,
)
from disentangle_jax.methods import as_unit_interval

# Column of the paper's tables: where it stands in scores.json.
_COLUMNS = {
    "DCI-d": ("dci", "disentanglement"),
    "IRS": ("irs", "irs"),
    "MIG": ("mig", "mig"),
    "SAP": ("sap", "sap"),
    "ModExp": ("modularity", "modularity"),
    "DCI-c": ("dci", "completeness"),
}
_SYSTEMS = (
    *("sae-12", "sae-6", "sae-4", "sae-3", "sae-2"),
    *("vlae-12", "vlae-6", "vlae-4", "vlae-3", "vlae-2"),
    *("adaae-12", "ae", "vae", "beta_vae", "wae"),
)
# Tables 1 to 4, in the order of `_COLUMNS` and `_SYSTEMS`.
_SHAPES3D = """
0.999 0.855 0.586 0.172 0.968 0.900
0.815 0.712 0.133 0.029 0.969 0.687
0.693 0.560 0.218 0.118 0.918 0.614
0.765 0.650 0.269 0.056 0.941 0.617
0.577 0.580 0.220 0.078 0.929 0.492
0.829 0.676 0.662 0.183 0.929 0.832
0.785 0.689 0.326 0.081 0.929 0.728
0.690 0.544 0.282 0.115 0.900 0.597
0.673 0.593 0.365 0.052 0.927 0.699
0.522 0.548 0.314 0.038 0.870 0.607
0.272 0.477 0.046 0.024 0.862 0.210
0.326 0.610 0.093 0.060 0.880 0.260
0.441 0.712 0.252 0.099 0.904 0.516
0.196 0.640 0.107 0.047 0.834 0.215
0.205 0.640 0.057 0.036 0.958 0.162
"""
_TOY = """
0.642 0.570 0.487 0.287 0.938 0.566
0.454 0.553 0.094 0.060 0.918 0.404
0.316 0.535 0.119 0.078 0.919 0.283
0.380 0.461 0.113 0.068 0.933 0.359
0.252 0.557 0.030 0.011 0.908 0.252
0.414 0.667 0.323 0.201 0.909 0.518
0.436 0.623 0.277 0.102 0.927 0.541
0.415 0.591 0.182 0.120 0.936 0.546
0.301 0.557 0.151 0.084 0.877 0.380
0.262 0.634 0.130 0.058 0.936 0.311
0.208 0.546 0.080 0.061 0.919 0.191
0.186 0.632 0.043 0.020 0.911 0.170
0.093 0.621 0.078 0.044 0.861 0.108
0.046 0.987 0.004 0.051 0.998 0.051
0.203 0.633 0.028 0.023 0.904 0.171
"""
_SIM = """
0.411 0.508 0.238 0.153 0.930 0.389
0.294 0.479 0.052 0.037 0.928 0.300
0.380 0.519 0.139 0.097 0.927 0.356
0.269 0.482 0.046 0.027 0.902 0.256
0.119 0.536 0.019 0.017 0.930 0.121
0.220 0.634 0.093 0.064 0.863 0.282
0.290 0.575 0.051 0.041 0.797 0.279
0.372 0.669 0.174 0.167 0.945 0.394
0.242 0.554 0.135 0.091 0.892 0.302
0.127 0.662 0.060 0.061 0.868 0.154
0.159 0.481 0.022 0.013 0.893 0.129
0.157 0.526 0.033 0.026 0.855 0.143
0.070 0.850 0.056 0.032 0.828 0.079
0.060 0.850 0.054 0.014 0.926 0.065
0.129 0.548 0.033 0.018 0.881 0.120
"""
_REAL = """
0.314 0.543 0.118 0.079 0.908 0.272
0.295 0.535 0.074 0.053 0.879 0.277
0.270 0.523 0.085 0.034 0.876 0.264
0.306 0.495 0.119 0.072 0.884 0.300
0.130 0.527 0.025 0.020 0.908 0.130
0.291 0.579 0.217 0.129 0.914 0.332
0.410 0.668 0.279 0.183 0.863 0.414
0.235 0.513 0.113 0.046 0.899 0.223
0.249 0.611 0.147 0.074 0.897 0.255
0.126 0.644 0.074 0.037 0.914 0.170
0.164 0.530 0.034 0.017 0.952 0.147
0.143 0.563 0.048 0.030 0.858 0.132
0.080 0.602 0.020 0.004 0.875 0.085
0.090 0.659 0.021 0.014 0.869 0.108
0.159 0.587 0.042 0.038 0.837 0.150
"""
_PUBLISHED = {
    "shapes3d": _SHAPES3D,
    "rendered_shapes3d": _SHAPES3D,
    "mpi3d_toy": _TOY,
    "mpi3d_realistic": _SIM,
    "mpi3d_real": _REAL,
}
_VALIDATION_IMAGES = 2000


def published(dataset: str) -> dict[str, dict[str, float]]:
    """Returns the paper's scores ``{system: {column: value}}``; empty if it has none.

    Those of 3D Shapes for our rendering of it too.
    """
    rows = _PUBLISHED.get(dataset, "").split("\n")[1:-1]
    return {
        system: dict(zip(_COLUMNS, map(float, row.split()), strict=True))
        for system, row in zip(_SYSTEMS, rows)
    }


def _stages(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> list[Stage]:
    del workdir
    options = config.experiment
    if not options.models:
        raise ValueError("model_table: `experiment.models` must not be empty.")
    if config.lanes.sweep:
        raise ValueError(
            "model_table: `lanes.sweep` must be empty; sweep `lanes.seeds`, and "
            "`experiment.betas` for the beta-VAE."
        )
    if "beta_vae" in options.models and not options.betas:
        raise ValueError("model_table: `experiment.betas` must not be empty.")
    stages = []
    for name in options.models:
        run = without_experiment(config)
        _systems.set_system(run, name, 1.0)
        if name == "beta_vae":
            run.lanes.sweep = {"method.beta": tuple(map(float, options.betas))}
        stages.append(Stage(name, run))
    return stages


def _result(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    runs: Mapping[str, training.Run],
) -> Result:
    found: dict[str, list[dict]] = {}
    chosen = None
    for name, run in runs.items():
        folders = training.evaluated_folders(run)
        scores = [
            json.loads((folder / "scores.json").read_text()) for folder in folders
        ]
        if name == "beta_vae":
            chosen = choose_beta(run)
            kept = [lane.hyper["beta"] == chosen for lane in run.lanes]
            scores = [score for score, keep in zip(scores, kept) if keep]
        found[name] = scores
    values = {
        name: [_numbers(score) for score in scores] for name, scores in found.items()
    }
    weak = [
        name
        for name, scores in found.items()
        if any(_systems.untrained(score) for score in scores)
    ]
    parts = [
        _score_table(config, values, weak, chosen),
        _error_table(values, weak),
        *_bars(values),
        *_orderings(found),
    ]
    written = {"scores": values, "untrained": weak, "beta": chosen}
    return Result(f"Systems on {config.data.name}", written, parts)


def choose_beta(run: training.Run) -> float:
    """Returns the beta whose models have the smallest mean validation loss (A.2.2).

    The loss is the beta-VAE's own, so a larger beta weighs the KL term more.
    """
    validation = training.load_split(run.config, "validation")
    rng = np.random.default_rng(run.config.eval.seed)
    indices = rng.permutation(validation.indices)[:_VALIDATION_IMAGES]
    totals: dict[float, list[float]] = {}
    for lane, model in zip(run.lanes, training.load_trained(run)):
        beta = lane.hyper["beta"]
        loss = _validation_loss(model, validation, indices, beta)
        totals.setdefault(beta, []).append(loss)
    return min(totals, key=lambda beta: np.mean(totals[beta]))


def _validation_loss(
    model: training.Trained, dataset: data.Dataset, indices: np.ndarray, beta: float
) -> float:
    method = model.run.method

    @jax.jit
    def loss(key, images):
        x = as_unit_interval(images)
        mean, log_var, _ = method.encode(model.state, x)
        z = sampling.reparameterize(key, mean, log_var)
        logits = method.decode(model.state, z)
        return losses.beta_vae(x, logits, z, mean, log_var, beta=beta)[0]

    size = model.run.config.eval.batch_size
    parts = [
        loss(jax.random.fold_in(jax.random.key(0), start), dataset.images(part))
        for start in range(0, len(indices) - size + 1, size)
        for part in [indices[start : start + size]]
    ]
    return float(np.mean(parts))


def _numbers(scores: dict) -> dict[str, float]:
    """Returns the columns of one model, by the paper's names, and its errors."""
    numbers = {}
    for column, (score, key) in _COLUMNS.items():
        if score in scores["metrics"]:
            numbers[column] = scores["metrics"][score]["values"][key]
    for name, value in scores["metrics"].get("fid", {"values": {}})["values"].items():
        numbers[f"FID {name}"] = value
    return numbers | scores["reconstruction"]


def _score_table(
    config: ml_collections.ConfigDict,
    values: Mapping[str, list[dict[str, float]]],
    weak: list[str],
    beta: float | None,
) -> reports.Table:
    paper = published(config.data.name)
    columns = [c for c in _COLUMNS if all(c in v[0] for v in values.values())]
    rows = []
    for name, models in values.items():
        label = name + (f" (beta {beta:g})" if name == "beta_vae" else "")
        row = [label + (" (untrained)" if name in weak else "")]
        for column in columns:
            ours = spread([model[column] for model in models])
            theirs = paper.get(name, {}).get(column)
            row.append(ours if theirs is None else f"{ours} [{theirs:.3f}]")
        rows.append(row)
    return reports.Table(
        "scores",
        "Disentanglement scores",
        "Mean ± standard deviation over seeds; in brackets the paper's, of 100,000 "
        "steps with 64 channels. `ModExp` is the modularity score, as in the paper's "
        "code. `untrained`: a model does not reach half the error of the mean image; "
        "not to be ranked.",
        ("model", *columns),
        rows,
    )


def _error_table(
    values: Mapping[str, list[dict[str, float]]], weak: list[str]
) -> reports.Table:
    columns = [
        name
        for name in next(iter(values.values()))[0]
        if name.startswith("FID") or name in ("mse", "mse_of_mean_image")
    ]
    return reports.Table(
        "errors",
        "Reconstruction and samples",
        "Mean squared error a pixel on test images, beside that of the mean image; "
        "Inception distances where weights were given.",
        ("model", *columns),
        [
            [
                name + (" (untrained)" if name in weak else ""),
                *(spread([m[c] for m in models], ".4f") for c in columns),
            ]
            for name, models in values.items()
        ],
    )


def _bars(values: Mapping[str, list[dict[str, float]]]) -> Iterator[reports.Figure]:
    columns = [c for c in _COLUMNS if all(c in v[0] for v in values.values())]
    if columns:
        drawn = {
            column: {name: [m[column] for m in v] for name, v in values.items()}
            for column in columns
        }
        yield reports.Figure(
            "bars",
            "Scores over seeds",
            "Each cross is a seed, the bar their mean, the line one standard "
            "deviation. Higher is better.",
            reports.plots.score_bars(drawn, columns),
        )


def _orderings(found: Mapping[str, list[dict]]) -> Iterator[reports.Table]:
    """Where each factor is in the latent order, with an interval over seeds."""
    rows, factors = [], ()
    for name, scores in found.items():
        positions = []
        for score in scores:
            matrix = score["metrics"].get("mig", {"matrices": {}})["matrices"].get("mi")
            if matrix is None:
                continue
            factors = score["settings"]["factors"]
            positions.append(list(metrics.ordering(matrix).values()))
        if not positions:
            continue
        columns = np.asarray(positions).T
        rows.append([name, *(interval(column) for column in columns)])
    if rows:
        yield reports.Table(
            "ordering",
            "Where in the latent order each factor is",
            "Position weighted by mutual information: 0 is the first variable, 1 the "
            "last, 0.5 what a system without order gives on average. `spread` is the "
            "largest difference between two factors. Means with 95 % intervals over "
            "seeds (Student's t).",
            ("model", "spread", *factors),
            rows,
        )


def interval(values: np.ndarray) -> str:
    """Returns ``mean [low, high]``, the 95 % interval of a mean over seeds."""
    values = np.asarray(values, float)
    mean = values.mean()
    if len(values) < 2:
        return f"{mean:.2f}"
    half = scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1)
    half /= math.sqrt(len(values))
    return f"{mean:.2f} [{mean - half:.2f}, {mean + half:.2f}]"


PROTOCOL = Protocol(
    options={"models": _SYSTEMS, "betas": (2.0, 4.0, 6.0, 8.0, 16.0)},
    stages=_stages,
    result=_result,
)
