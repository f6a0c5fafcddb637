"""Regions and relations (AbsAE, "Leveraging Relational Information …", Sec. 4).

AbsAE is trained with several numbers of labelled images per combination, as lanes of
one run: accuracy of its regions (Table 4) and of its relations (Table 5). Where the set
has several factors, beta-VAE, FactorVAE and a beta-VAE with as many labels are trained
on the same networks, rate and number of steps, over several strengths, and so is AbsAE:
DCI, MIG and SAP (Table 1) and their trade-off with the reconstruction (Fig. 5).
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import ml_collections
import numpy as np

from disentangle_jax import methods, reports, training
from disentangle_jax.experiments._protocol import (
    Protocol,
    Result,
    Stage,
    spread,
    without_experiment,
)

_SCORES = ("mig", "sap", "dci")
# Table 1 of the paper: DCI (mean of three), MIG, SAP, by its sets of relations.
_PUBLISHED = {
    "dsprites": {
        "beta-VAE": (0.4566, 0.602, 0.67),
        "FactorVAE": (0.8942, 0.98, 0.61),
        "Locatello et al. (2019b)": (0.533, 0.01, 0.01),
        "Gabbay et al. (2021)": (0.8366, 0.14, 0.57),
        "AbsAE": (0.9543, 0.994, 0.7728),
    },
    "shapes3d": {
        "beta-VAE": (0.153, 0.270, 0.131),
        "FactorVAE": (0.371, 0.370, 0.402),
        "Locatello et al. (2019b)": (0.48, 0.05, 0.08),
        "Gabbay et al. (2021)": (1.0, 0.3, 1.0),
        "AbsAE": (0.6921, 0.6897, 0.5007),
    },
}
# Li et al. (2020) on HWF, as the paper quotes it: symbols, relations.
_PUBLISHED_SYMBOLS = (0.997, 0.985)


def _settings(method: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the section ``method`` of a config, with the method's defaults."""
    name = method["name"]
    return methods.options(name) | methods.hyperparameters(name) | dict(method)


def _stages(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> list[Stage]:
    del workdir
    options = config.experiment
    if config.method.name != "absae":
        raise ValueError(
            f"relations: `method.name` must be 'absae', got {config.method.name!r}."
        )
    if config.lanes.sweep:
        raise ValueError("relations: `lanes.sweep` must be empty: the protocol sweeps.")
    if not options.taus:
        raise ValueError("relations: `experiment.taus` must not be empty.")
    regions = without_experiment(config)
    regions.lanes.sweep = {"method.tau": tuple(options.taus)}
    stages = [Stage("absae", regions)]
    sizes = training.load_split(config, "test").factor_sizes
    if not options.baselines or len(sizes) < 2:
        return stages
    if len(options.betas) > 1:
        swept = without_experiment(config)
        swept.lanes.sweep = {"method.beta": tuple(options.betas)}
        stages.append(Stage("absae-beta", swept))
    settings = _settings(config.method)
    labels = int(settings["tau"] * np.prod(sizes))
    for name, method, strength, values in (
        ("beta_vae", {}, "beta", options.vae_betas),
        ("factor_vae", {"critic_width": settings["width"]}, "gamma", options.gammas),
        (
            "few_labels_vae",
            {"beta": options.vae_betas[0]},
            "gamma_sup",
            options.supervised_weights,
        ),
    ):
        # The few labels come with the stream.
        source = "stream" if name == "few_labels_vae" else config.train.input
        stage = without_experiment(
            config, data__num_labels=labels, train__input=source, eval__scores=_SCORES
        )
        if config.model.name == "absae":
            stage.model.stochastic = True
        stage.method = {"name": name, strength: values[0], **method}
        # Those of AbsAE's own hyperparameters mean nothing to the others.
        kept = {"learning_rate"} & set(config.train.schedules)
        stage.train.schedules = {name: config.train.schedules[name] for name in kept}
        if len(values) > 1:
            stage.lanes.sweep = {f"method.{strength}": tuple(values)}
        stages.append(Stage(name, stage))
    return stages


def _result(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    runs: Mapping[str, training.Run],
) -> Result:
    del workdir
    read = {
        name: [
            json.loads((folder / "scores.json").read_text())
            for folder in training.evaluated_folders(run)
        ]
        for name, run in runs.items()
    }
    by_tau: dict[float, list] = {}
    for scores in read["absae"]:
        by_tau.setdefault(scores["regions"]["tau"], []).append(scores["regions"])
    parts = [_cluster_table(config, by_tau), _relation_table(config, by_tau)]
    values: dict[str, Any] = {
        "clusters": {
            f"{tau:g}": [r["clusters"] for r in by_tau[tau]] for tau in by_tau
        },
        "relations": {
            f"{tau:g}": [r["relations"] for r in by_tau[tau]] for tau in by_tau
        },
        "outliers": {
            f"{tau:g}": [r["outliers"] for r in by_tau[tau]] for tau in by_tau
        },
    }
    if len(read) > 1:
        points = _points(config, read)
        values["disentanglement"] = points
        parts += [_score_table(config, points), *_trade_offs(points)]
    folder = training.evaluated_folders(runs["absae"])[0]
    parts += _pictures(folder)
    return Result(f"Regions and relations on {config.data.name}", values, parts)


def _mean(rows: list[Mapping[str, Any]], name: str) -> str:
    """Returns the mean over seeds of what is known, a dash where nothing is."""
    known = [row[name] for row in rows if row[name] is not None]
    return spread(known) if known else "–"


def _cluster_table(
    config: ml_collections.ConfigDict, by_tau: Mapping[float, list]
) -> reports.Table:
    lines = []
    if _settings(config.method)["relations"].startswith("symbols"):
        lines.append(
            ["Li et al. (2020), published", "–", str(_PUBLISHED_SYMBOLS[0]), "1"]
        )
    alphas = [row["alpha"] for row in next(iter(by_tau.values()))[0]["clusters"]]
    for alpha in sorted(set(alphas)):
        for tau, found in by_tau.items():
            rows = [
                row
                for regions in found
                for row in regions["clusters"]
                if (row["threshold"], row["alpha"]) == ("density", alpha)
            ]
            lines.append(
                [
                    f"AbsAE, α = {alpha:g}",
                    f"{tau:g}",
                    _mean(rows, "accuracy"),
                    _mean(rows, "accepted"),
                ]
            )
    return reports.Table(
        "table_4",
        "Regions of test images (Table 4)",
        "Accuracy of the region that a test image falls into, over the images whose "
        "density there is at least α, and the share of those. τ labelled images of "
        "each combination. Of one model, accuracy × accepted never exceeds the "
        "accuracy at α = 0, which the published table contradicts.",
        ("", "τ", "ACC", "AR"),
        lines,
    )


def _relation_table(
    config: ml_collections.ConfigDict, by_tau: Mapping[float, list]
) -> reports.Table:
    wanted = _settings(config.method)["tau"]
    tau = min(by_tau, key=lambda tau: abs(tau - wanted))
    lines = []
    if _settings(config.method)["relations"].startswith("symbols"):
        published = str(_PUBLISHED_SYMBOLS[1])
        lines.append(["Li et al. (2020), published", "1", published, "1", "–", "–"])
    every = [row for regions in by_tau[tau] for row in regions["relations"]]
    for alpha in sorted({row["alpha"] for row in every}):
        for depth in sorted({row["depth"] for row in every}):
            line = [f"ReL, α = {alpha:g}", str(depth)]
            for source in ("prior", "images"):
                key = ("density", alpha, depth, source)
                rows = [
                    row
                    for row in every
                    if (row["threshold"], row["alpha"], row["depth"], row["source"])
                    == key
                ]
                line += [_mean(rows, "accuracy"), _mean(rows, "accepted")]
            lines.append(line)
    return reports.Table(
        "table_5",
        "Chains of relations (Table 5)",
        f"Accuracy of the region that a chain of relations ends in, at τ = {tau:g}, "
        "from codes drawn from the prior as in the paper, and from those of test "
        "images.",
        ("", "depth", "ACC", "AR", "ACC, test images", "AR, test images"),
        lines,
    )


def _points(
    config: ml_collections.ConfigDict, read: Mapping[str, list]
) -> dict[str, list[dict[str, float]]]:
    """Returns strength, error and scores of each model, by method."""
    points: dict[str, list[dict[str, float]]] = {}
    wanted = _settings(config.method)["tau"]
    strengths = {
        "beta_vae": "beta",
        "factor_vae": "gamma",
        "few_labels_vae": "gamma_sup",
    }
    for name, found in read.items():
        for scores in found:
            method = _settings(scores["config"]["method"])
            if "regions" in scores:
                if name == "absae" and method["tau"] != wanted:
                    continue
                values = scores["regions"]["factor_codes"]
            else:
                values = {n: s["values"] for n, s in scores["metrics"].items()}
            dci = values["dci"]
            names = ("disentanglement", "completeness", "informativeness")
            points.setdefault(name.removesuffix("-beta"), []).append(
                {
                    "strength": float(method[strengths.get(name, "beta")]),
                    "mse": scores["reconstruction"]["mse"],
                    "dci": float(np.mean([dci[n] for n in names])),
                    "mig": float(next(iter(values["mig"].values()))),
                    "sap": float(next(iter(values["sap"].values()))),
                }
            )
    return points


def _score_table(
    config: ml_collections.ConfigDict, points: Mapping[str, list]
) -> reports.Table:
    labels = {
        "absae": "AbsAE (factors read off)",
        "beta_vae": "beta-VAE",
        "factor_vae": "FactorVAE",
        "few_labels_vae": "Locatello et al. (2019b), few labels",
    }
    lines = []
    for name, found in points.items():
        best = max(found, key=lambda point: point["dci"])
        lines.append(
            [
                labels[name],
                f"{best['strength']:g}",
                *(f"{best[score]:.3f}" for score in ("dci", "mig", "sap")),
                f"{best['mse']:.4f}",
            ]
        )
    for name, found in _PUBLISHED.get(
        _settings(config.method)["relations"], {}
    ).items():
        lines.append([f"{name}, published", "–", *map(str, found), "–"])
    return reports.Table(
        "table_1",
        "Disentanglement (Table 1)",
        "All on AbsAE's networks, rate and number of steps; of each method the "
        "strength with the best DCI (mean of disentanglement, completeness and "
        "informativeness). AbsAE's code is replaced by the factors of its region "
        "before it is scored. "
        "Published rows are the paper's, of other data, budgets and score settings.",
        ("", "strength", "DCI", "MIG", "SAP", "MSE"),
        lines,
    )


def _trade_offs(points: Mapping[str, list]) -> list[reports.Figure]:
    figures = []
    for score in ("dci", "mig", "sap"):
        pairs = {
            name: [(point["mse"], point[score]) for point in found]
            for name, found in points.items()
        }
        figures.append(
            reports.Figure(
                f"trade_off_{score}",
                f"{score.upper()} against reconstruction (Fig. 5)",
                "A cross for each strength, a circle at their mean. Better models are "
                "in the upper left.",
                reports.plots.scatter(pairs, "mean squared error", score.upper()),
            )
        )
    return figures


def _pictures(folder: pathlib.Path) -> list[reports.Figure]:
    """Returns the pictures of one model's page."""
    shown = {
        "region_means": "Means of the regions (Figs. 6-8)",
        "relations": "Relations on test images (Figs. 9-12)",
        "relation_chains": "Three relations, one after the other",
    }
    return [
        reports.Figure(
            name,
            title,
            f"Of the first model ({folder.name}); its own page says more.",
            (folder / f"{name}.png").read_bytes(),
        )
        for name, title in shown.items()
    ]


PROTOCOL = Protocol(
    options={
        "taus": (10.0, 20.0, 30.0),
        "betas": (0.2,),
        "baselines": True,
        "vae_betas": (1.0, 4.0, 16.0),
        "gammas": (1.0, 10.0, 40.0),
        "supervised_weights": (10.0,),
    },
    stages=_stages,
    result=_result,
)
