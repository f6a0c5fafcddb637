"""The page of regions and relations, with published values beside ours."""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import ml_collections
import numpy as np

from disentangle_jax import reports
from disentangle_jax.experiments import protocol, published, relations_accuracy

_DCI = ("disentanglement", "completeness", "informativeness")


class System(NamedTuple):
    """A method that Table 1 compares.

    Attributes:
      varied: the hyperparameter that takes several values.
      label: its name in tables.
      published: its name in the paper's Table 1; "" if it is not there.
    """

    varied: str
    label: str
    published: str


SYSTEMS = {
    "absae": System("beta", "AbsAE", "AbsAE"),
    "absae_labelled": System("beta", "AbsAE with labelled batches (ours)", ""),
    "beta_vae": System("beta", "beta-VAE", "beta-VAE"),
    "factor_vae": System("gamma", "FactorVAE", "FactorVAE"),
    "few_labels_vae": System(
        "gamma_sup", "Locatello et al. (2019b), few labels", "Locatello et al. (2019b)"
    ),
}


def result(
    config: ml_collections.ConfigDict,
    settings: Mapping[str, Any],
    models: protocol.Models,
) -> protocol.Result:
    """Returns the page.

    Args:
      config: config of the protocol.
      settings: options and hyperparameters of AbsAE; the name of its ``relations`` is
        that of the published tables.
      models: the trained models by stage.
    """
    relations = settings["relations"]
    forms = {
        name: models[name] for name in models if name in ("absae", "absae_labelled")
    }
    values: dict[str, Any] = {name: _by_tau(found) for name, found in forms.items()}
    labelled = {SYSTEMS[name].label: form for name, form in forms.items()}
    note = published.note(config.data.name)
    parts = relations_accuracy.parts(labelled, relations, settings["tau"], note)
    if "beta_vae" in models:
        points = _points(settings["tau"], models)
        values["disentanglement"] = points
        parts += [_score_table(relations, points, note), *_trade_offs(points)]
    parts += _pictures(models["absae"][0].run.workdir)
    parts.append(_differences(config, settings))
    return protocol.Result(
        f"Regions and relations on {config.data.name}", values, parts
    )


def _by_tau(models: list[protocol.Model]) -> dict[str, dict[str, list]]:
    regions = [model.scores["regions"] for model in models]
    by_tau = protocol.grouped(regions, lambda found: found["tau"])
    return {
        name: {f"{tau:g}": [r[name] for r in found] for tau, found in by_tau.items()}
        for name in ("clusters", "relations", "outliers")
    }


# --- Table 1 and Fig. 5 ---------------------------------------------------------------


def _points(tau: float, models: protocol.Models) -> dict[str, list[dict[str, Any]]]:
    """Returns hyperparameter, errors and scores of each model, by its method."""
    points: dict[str, list[dict[str, Any]]] = {}
    for stage, group in models.items():
        name = stage.removesuffix("-beta")
        for model in group:
            if "tau" in model.hyper and model.hyper["tau"] != tau:
                continue
            scores = model.scores
            if "regions" in scores:
                # Scores of the factors of its region, in place of those of its code.
                own = scores["regions"]["factor_codes"]
            else:
                own = {n: scores["metrics"][n]["values"] for n in ("dci", "mig", "sap")}
            points.setdefault(name, []).append(
                {
                    "hyperparameter": model.hyper[SYSTEMS[name].varied],
                    "seed": model.run.config.train.seed,
                    "mse": scores["reconstruction"]["mse"],
                    "validation_dci": _mean_dci(scores["validation"]),
                    "dci": _mean_dci(own),
                    "mig": float(own["mig"]["mig"]),
                    "sap": float(own["sap"]["sap"]),
                }
            )
    return points


def _mean_dci(scores: Mapping[str, Mapping[str, float]]) -> float:
    return float(np.mean([scores["dci"][part] for part in _DCI]))


def chosen(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the models of the value with the best mean DCI on validation images."""
    by_value = protocol.grouped(points, lambda point: point["hyperparameter"])
    return max(
        by_value.values(),
        key=lambda group: np.mean([point["validation_dci"] for point in group]),
    )


def _score_table(
    relations: str, points: Mapping[str, list], note: str
) -> reports.Table:
    known = {
        row["method"]: [row["DCI"], row["MIG"], row["SAP"]]
        for row in published.table("weak_disentanglement_scores", relations=relations)
    }
    lines = []
    for name, found in points.items():
        best, system = chosen(found), SYSTEMS[name]
        every = sorted({point["hyperparameter"] for point in found})
        lines.append(
            [
                system.label,
                f"{system.varied} {best[0]['hyperparameter']:g} of "
                + ", ".join(f"{value:g}" for value in every),
                str(len(best)),
                *(
                    protocol.spread([point[score] for point in best])
                    for score in ("dci", "mig", "sap")
                ),
                protocol.spread([point["mse"] for point in best], ".4f"),
                *known.pop(system.published, ["–"] * 3),
            ]
        )
    lines += [
        [f"{method}, not run", *["–"] * 6, *cells] for method, cells in known.items()
    ]
    return reports.Table(
        "table_1",
        "Disentanglement (Table 1)",
        "All methods have AbsAE's networks, learning rate and number of steps, and are "
        "scored on the same test images. Of each method, the value of the "
        "hyperparameter with the best DCI (mean of disentanglement, completeness and "
        "informativeness) on validation images; mean ± standard deviation over seeds. "
        "AbsAE's code is replaced by the factors of its region before it is scored."
        + note,
        ("", "hyperparameter", "models", "DCI", "MIG", "SAP", "MSE")
        + ("DCI, published", "MIG, published", "SAP, published"),
        lines,
    )


def _trade_offs(points: Mapping[str, list]) -> list[reports.Figure]:
    figures = []
    for score in ("dci", "mig", "sap"):
        pairs = {
            SYSTEMS[name].label: [(point["mse"], point[score]) for point in found]
            for name, found in points.items()
        }
        figures.append(
            reports.Figure(
                f"trade_off_{score}",
                f"{score.upper()} against reconstruction error (Fig. 5)",
                "A cross for each value of the hyperparameter and seed, a circle at "
                "their mean. Better models are in the upper left.",
                reports.plots.scatter(pairs, "mean squared error", score.upper()),
            )
        )
    return figures


# --- pictures, and what differs -------------------------------------------------------


def _pictures(folder: pathlib.Path) -> list[reports.Figure]:
    """Returns pictures from the page of one model."""
    shown = {
        "region_means": "Means of the regions (Figs. 6-8)",
        "relations": "Relations on test images (Figs. 4, 9-12)",
        "relation_chains": "Three relations, one after the other",
    }
    return [
        reports.Figure(
            name,
            title,
            f"First model of AbsAE ({folder.name}); see also its own page.",
            (folder / f"{name}.png").read_bytes(),
        )
        for name, title in shown.items()
    ]


_DIFFERENCES = (
    (
        "noisy copies",
        "made before the split, so that versions of one image are in both parts",
        "made of training images alone; validation and test images have no noise",
    ),
    ("τ", "labelled images, of what is not said", "labelled images per combination"),
    (
        "draws of the mixture",
        "the code always draws the first component",
        "every component equally often",
    ),
    ("input of the 64-pixel decoder", "6×6 (which gives 96 pixels)", "4×4"),
    (
        "images of 3D Shapes",
        "which hues, angles and scales are kept is not said",
        "our choice, 160 of each combination",
    ),
    (
        "symbols",
        "drawn by inverse frequency; the code scores the ten digits alone",
        "rarer ones repeated; all 13 are scored",
    ),
    (
        "Gabbay et al. (2021)",
        "in Table 1, with networks, labels and settings that are not said",
        "not run: it has networks of its own, and a free code for each training image "
        "in place of an encoder",
    ),
    (
        "Li et al. (2020)",
        "in Tables 4 and 5",
        "not run: it learns a classifier from the results of whole formulas, which the "
        "images of symbols do not form, and has neither regions nor a decoder",
    ),
)


def _differences(
    config: ml_collections.ConfigDict, settings: Mapping[str, Any]
) -> reports.Table:
    train = config.train
    size = config.data.options.get("size", "published")
    here = [
        (
            "training",
            "6,000 epochs (15,000 on 3D Shapes) of batches of 1024; about 360,000 "
            "steps on dSprites, 203,000 on 3D Shapes, 214,000 on HWF",
            f"{train.num_steps:,} steps of batches of {train.batch_size}; images of "
            f"{config.data.name}, size {size}",
        ),
        (
            "discriminator and ReL",
            "3 hidden layers of 1024 (its code: 4)",
            f"{settings['depth']} of {settings['width']}",
        ),
        (
            "loss of ReL",
            "density (Eq. 8); mean squared error in its code",
            {"nll": "density", "mse": "mean squared error"}[settings["relation_loss"]],
        ),
        (
            "covariances",
            "of the labelled codes",
            f"shrunk by {settings['shrinkage']:g} samples, so that few can be used",
        ),
    ]
    return reports.Table(
        "differences",
        "What differs from the paper",
        "",
        ("", "paper and its code", "here"),
        [*here, *_DIFFERENCES],
    )
