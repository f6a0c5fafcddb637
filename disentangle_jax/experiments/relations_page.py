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
    parts.append(_deviations(config, settings))
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
            scores, own = model.scores, _factor_scores(model)
            points.setdefault(name, []).append(
                {
                    "hyperparameter": model.hyper[SYSTEMS[name].varied],
                    "seed": model.run.config.train.seed,
                    "mse": scores["reconstruction"]["mse"],
                    "validation_dci": _mean_dci(scores["validation"]),
                    **own,
                }
            )
    return points


def _factor_scores(model: protocol.Model) -> dict[str, float]:
    """Returns the scores of Table 1; empty where the data have one factor."""
    scores = model.scores
    if "regions" in scores:
        # Scores of the factors of its region, in place of those of its code.
        own = scores["regions"].get("factor_codes", {})
    else:
        own = {n: scores["metrics"][n]["values"] for n in ("dci", "mig", "sap")}
    if not own:
        return {}
    values = {name: float(own[name][name]) for name in ("mig", "sap")}
    return {"dci": _mean_dci(own), **values}


def numbers(model: protocol.Model) -> dict[str, float]:
    """Returns the scores of Table 1, and the accuracies without a threshold."""
    found = {f"table_1.{n}": value for n, value in _factor_scores(model).items()}
    regions = model.scores.get("regions", {"clusters": (), "relations": ()})

    def accepted(rows):
        return (r for r in rows if r["threshold"] == "density" and r["alpha"] == 0)

    for row in accepted(regions["clusters"]):
        found["regions.accuracy"] = row["accuracy"]
    for row in accepted(regions["relations"]):
        found[f"relations.{row['source']}.{row['depth']}"] = row["accuracy"]
    return found


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
        row["model"]: [row["DCI (mean of three)"], row["mig"], row["sap"]]
        for row in published.table("weak_disentanglement_scores", dataset=relations)
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


_DEVIATIONS = (
    "The paper makes noisy copies before the split, so that versions of one image are "
    "in both parts; here they are made of training images alone, and validation and "
    "test images have no noise.",
    "The paper does not say of what τ counts the labelled images; here of each "
    "combination of factors.",
    "The paper's code always draws from the first component of the mixture; here every "
    "component is drawn equally often.",
    "The paper's 64-pixel decoder begins with 6×6, which would give 96 pixels; ours "
    "with 4×4.",
    "The paper does not say which images of 3D Shapes it keeps; ours are 160 of each "
    "combination.",
    "The paper's code draws symbols by inverse frequency and scores the ten digits "
    "alone; here rarer symbols are repeated, and all 13 are scored.",
    "Gabbay et al. (2021) is not run: it trains a free code for each training image, a "
    "classifier for each factor and then, in a second training, encoders; the paper "
    "does not state the labels and settings it was given.",
    "Li et al. (2020) is not run: it learns a classifier of symbols from the results "
    "of whole formulas, which the images of symbols do not form, and it has neither "
    "regions nor a decoder.",
)


def _deviations(
    config: ml_collections.ConfigDict, settings: Mapping[str, Any]
) -> reports.Text:
    """Returns what differs from the paper; a line begins with what is set here."""
    train, size = config.train, config.data.options.get("size")
    size = f" at {size} pixels" if size else ""
    loss = {"nll": "the density of Eq. 8", "mse": "the mean squared error of its code"}
    return protocol.deviations(
        f"{train.num_steps:,} steps of batches of {train.batch_size} on images of "
        f"{config.data.name}{size}; the paper has 6,000 epochs (15,000 on 3D Shapes) "
        "of batches of 1024: about 360,000 steps on dSprites, 203,000 on our 3D Shapes "
        "and 214,000 on HWF.",
        f"{settings['depth']} hidden layers of {settings['width']} in discriminator "
        "and ReL; the paper has 3 of 1024, its code 4.",
        f"ReL is trained by {loss[settings['relation_loss']]}; the paper has the "
        "density, its code the squared error.",
        f"Covariances are shrunk as by {settings['shrinkage']:g} more samples, since "
        "those of few labelled images are singular; the paper does not say how it fits "
        "them.",
        *_DEVIATIONS,
    )
