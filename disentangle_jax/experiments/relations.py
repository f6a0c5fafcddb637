"""Regions and relations (AbsAE, "Leveraging Relational Information …", Sec. 4).

AbsAE is trained with several numbers of labelled images per combination, as lanes of
one run: accuracy of its regions (Table 4) and of its relations (Table 5). Where the
dataset has several factors, a beta-VAE, a FactorVAE and a beta-VAE with as many labels
are trained with the same networks, learning rate and number of steps, over several
values of a hyperparameter, and so is AbsAE: DCI, MIG and SAP (Table 1) and their
trade-off with the reconstruction error (Fig. 5).
"""

import pathlib
from collections.abc import Mapping
from typing import Any

import ml_collections
import numpy as np

from disentangle_jax import methods, reports, training
from disentangle_jax.experiments import protocol, published

_SCORES = ("mig", "sap", "dci")
# The hyperparameter that a stage varies, and the name of its method in tables.
_VARIED = {
    "absae": ("beta", "AbsAE (factors of its region)"),
    "beta_vae": ("beta", "beta-VAE"),
    "factor_vae": ("gamma", "FactorVAE"),
    "few_labels_vae": ("gamma_sup", "Locatello et al. (2019b), few labels"),
}

# Evaluations of regions by the number tau of labelled images.
ByTau = Mapping[float, list[dict[str, Any]]]


@protocol.define(
    question="Do the regions and relations of AbsAE hold, and does it disentangle?",
    reference="Leveraging Relational Information for Learning Weakly Disentangled "
    "Representations, Tables 1, 4 and 5, Fig. 5",
    options={
        "taus": (10.0, 20.0, 30.0),
        "betas": (0.2,),
        "baselines": True,
        "vae_betas": (1.0, 4.0, 16.0),
        "gammas": (1.0, 10.0, 40.0),
        "supervised_weights": (10.0,),
    },
    reads=("method.tau",),
)
class Relations(protocol.Protocol):
    """AbsAE by tau and by beta, and three other methods."""

    def stages(self, config, workdir):
        options = config.experiment
        if config.method.name != "absae":
            raise ValueError(
                f"relations: `method.name` must be 'absae', got {config.method.name!r}."
            )
        protocol.check_empty(config, "lanes.sweep")
        protocol.check_given(config, "taus")
        stages = [protocol.Stage("absae", {}, _rows("tau", options.taus))]
        sizes = training.load_split(config, "test").factor_sizes
        if not options.baselines or len(sizes) < 2:
            return stages
        protocol.check_given(config, "vae_betas", "gammas", "supervised_weights")
        if len(options.betas) > 1:
            stages.append(
                protocol.Stage("absae-beta", {}, _rows("beta", options.betas))
            )
        return stages + _baselines(config, sizes)

    def result(self, config, workdir, models):
        regions = [model.scores["regions"] for model in models["absae"]]
        by_tau = protocol.grouped(regions, lambda found: found["tau"])
        parts = [_cluster_table(config, by_tau), _relation_table(config, by_tau)]
        values: dict[str, Any] = {
            name: {f"{tau:g}": [r[name] for r in by_tau[tau]] for tau in by_tau}
            for name in ("clusters", "relations", "outliers")
        }
        if len(models) > 1:
            points = _points(config, models)
            values["disentanglement"] = points
            parts += [_score_table(config, points), *_trade_offs(points)]
        parts += _pictures(models["absae"][0].run.workdir)
        return protocol.Result(
            f"Regions and relations on {config.data.name}", values, parts
        )


def _settings(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns the section ``method`` of a config, with the method's defaults."""
    name = config.method.name
    return methods.options(name) | methods.hyperparameters(name) | dict(config.method)


def _rows(name: str, values: tuple[float, ...]) -> list[dict[str, float]]:
    return [{f"method.{name}": float(value)} for value in values]


def _baselines(
    config: ml_collections.ConfigDict, sizes: tuple[int, ...]
) -> list[protocol.Stage]:
    """Returns the stages of the methods that AbsAE is compared with."""
    options, settings = config.experiment, _settings(config)
    rate = config.optimizer.learning_rate
    # The others do not have AbsAE's hyperparameters.
    schedules = {
        name: schedule
        for name, schedule in config.train.schedules.items()
        if name == "learning_rate"
    }
    shared = {
        "data.num_labels": int(settings["tau"] * np.prod(sizes)),
        "eval.scores": _SCORES,
        "train.schedules": schedules,
    }
    if config.model.name == "absae":
        shared["model.stochastic"] = True
    stages = []
    for name, method, values in (
        ("beta_vae", {}, options.vae_betas),
        (
            "factor_vae",
            {"critic_width": settings["width"], "critic_learning_rate": rate},
            options.gammas,
        ),
        (
            "few_labels_vae",
            {"beta": options.vae_betas[0]},
            options.supervised_weights,
        ),
    ):
        fields = {**shared, "method": {"name": name, **method}}
        if name == "few_labels_vae":
            fields["train.input"] = "stream"  # Its labels come with the stream.
        if name == "factor_vae" and schedules:
            schedule = schedules["learning_rate"]
            fields["train.schedules"] = {**schedules, "critic_learning_rate": schedule}
        stages.append(protocol.Stage(name, fields, _rows(_VARIED[name][0], values)))
    return stages


def _mean(rows: list[Mapping[str, Any]], name: str) -> str:
    """Returns the mean over seeds of the known values, a dash if there are none."""
    known = [row[name] for row in rows if row[name] is not None]
    return protocol.spread(known) if known else "–"


def _symbols(config: ml_collections.ConfigDict) -> list[dict[str, str]]:
    """Returns the published accuracies on handwritten symbols, for those relations."""
    if not _settings(config)["relations"].startswith("symbols"):
        return []
    return published.table("weak_disentanglement_symbols")


def _cluster_table(config: ml_collections.ConfigDict, by_tau: ByTau) -> reports.Table:
    lines = [
        [f"{row['method']}, published", "–", row["symbol_accuracy"], "1"]
        for row in _symbols(config)
    ]
    alphas = [row["alpha"] for row in next(iter(by_tau.values()))[0]["clusters"]]
    for alpha in sorted(set(alphas)):
        for tau, found in by_tau.items():
            rows = [
                row
                for regions in found
                for row in regions["clusters"]
                if (row["threshold"], row["alpha"]) == ("density", alpha)
            ]
            cells = _mean(rows, "accuracy"), _mean(rows, "accepted")
            lines.append([f"AbsAE, α = {alpha:g}", f"{tau:g}", *cells])
    return reports.Table(
        "table_4",
        "Regions of test images (Table 4)",
        "ACC: accuracy of the region that a test image falls into, over the images "
        "whose density there is at least α. AR: the share of those images. τ: number "
        "of labelled images of each combination. For any model, ACC × AR is at most "
        "the ACC at α = 0; the published table contradicts this.",
        ("", "τ", "ACC", "AR"),
        lines,
    )


def _relation_table(config: ml_collections.ConfigDict, by_tau: ByTau) -> reports.Table:
    wanted = _settings(config)["tau"]
    tau = min(by_tau, key=lambda tau: abs(tau - wanted))
    lines = [
        [f"{row['method']}, published", "1", row["relation_accuracy"], "1", "–", "–"]
        for row in _symbols(config)
    ]
    every = [row for regions in by_tau[tau] for row in regions["relations"]]
    cells = protocol.grouped(
        (row for row in every if row["threshold"] == "density"),
        lambda row: (row["alpha"], row["depth"], row["source"]),
    )
    for alpha in sorted({row["alpha"] for row in every}):
        for depth in sorted({row["depth"] for row in every}):
            line = [f"ReL, α = {alpha:g}", str(depth)]
            for source in ("prior", "images"):
                rows = cells.get((alpha, depth, source), [])
                line += [_mean(rows, "accuracy"), _mean(rows, "accepted")]
            lines.append(line)
    return reports.Table(
        "table_5",
        "Chains of relations (Table 5)",
        f"Accuracy of the region in which a chain of relations ends, at τ = {tau:g}, "
        "from codes drawn from the prior as in the paper, and from codes of test "
        "images.",
        ("", "depth", "ACC", "AR", "ACC, test images", "AR, test images"),
        lines,
    )


def _points(
    config: ml_collections.ConfigDict, models: protocol.Models
) -> dict[str, list[dict[str, float]]]:
    """Returns the varied hyperparameter, error and scores of each model, by method."""
    points: dict[str, list[dict[str, float]]] = {}
    wanted = _settings(config)["tau"]
    for stage, group in models.items():
        name = stage.removesuffix("-beta")
        for model in group:
            if stage == "absae" and model.hyper["tau"] != wanted:
                continue
            scores = model.scores
            if "regions" in scores:
                # Scores of the factors of its region, in place of those of its code.
                codes = scores["regions"]["factor_codes"]
                scores = scores | {
                    "metrics": {n: {"values": codes[n]} for n in _SCORES}
                }
            parts = ("disentanglement", "completeness", "informativeness")
            dci = [protocol.value(scores, "dci", part) for part in parts]
            points.setdefault(name, []).append(
                {
                    "hyperparameter": model.hyper[_VARIED[name][0]],
                    "mse": scores["reconstruction"]["mse"],
                    "dci": float(np.mean(dci)),
                    "mig": float(protocol.value(scores, "mig")),
                    "sap": float(protocol.value(scores, "sap")),
                }
            )
    return points


def _score_table(
    config: ml_collections.ConfigDict, points: Mapping[str, list]
) -> reports.Table:
    lines = []
    for name, found in points.items():
        best = max(found, key=lambda point: point["dci"])
        hyperparameter, label = _VARIED[name]
        lines.append(
            [
                label,
                f"{hyperparameter} {best['hyperparameter']:g}",
                *(f"{best[score]:.3f}" for score in ("dci", "mig", "sap")),
                f"{best['mse']:.4f}",
            ]
        )
    for row in published.table(
        "weak_disentanglement_scores", relations=_settings(config)["relations"]
    ):
        cells = row["DCI"], row["MIG"], row["SAP"]
        lines.append([f"{row['method']}, published", "–", *cells, "–"])
    return reports.Table(
        "table_1",
        "Disentanglement (Table 1)",
        "All methods have AbsAE's networks, learning rate and number of steps. Of each "
        "method, the value of the hyperparameter with the best DCI (mean of "
        "disentanglement, completeness and informativeness). AbsAE's code is replaced "
        "by the factors of its region before it is scored. Published rows are the "
        "paper's, from other data, numbers of steps and score settings.",
        ("", "hyperparameter", "DCI", "MIG", "SAP", "MSE"),
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
                f"{score.upper()} against reconstruction error (Fig. 5)",
                "A cross for each value of the hyperparameter, a circle at their mean. "
                "Better models are in the upper left.",
                reports.plots.scatter(pairs, "mean squared error", score.upper()),
            )
        )
    return figures


def _pictures(folder: pathlib.Path) -> list[reports.Figure]:
    """Returns pictures from the page of one model."""
    shown = {
        "region_means": "Means of the regions (Figs. 6-8)",
        "relations": "Relations on test images (Figs. 9-12)",
        "relation_chains": "Three relations, one after the other",
    }
    return [
        reports.Figure(
            name,
            title,
            f"First model ({folder.name}); see also its own page.",
            (folder / f"{name}.png").read_bytes(),
        )
        for name, title in shown.items()
    ]
