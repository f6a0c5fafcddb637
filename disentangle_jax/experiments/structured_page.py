"""Tables and figures of :mod:`disentangle_jax.experiments.structured`."""

from collections.abc import Mapping, Sequence
from typing import Any

import ml_collections
import numpy as np

from disentangle_jax import models, reports
from disentangle_jax.experiments import protocol, published

# Stages that train HFVAE with other weights: title and caption of their tables.
SWEEPS = {
    "terms": (
        "Each weight set to 0 in turn",
        "A weight of 0 removes a term: alpha the term I(x; z), beta and gamma the "
        "total correlation between and within groups. The protocol `elbo_terms` "
        "removes the terms of Fig. 2.",
    ),
    "equal": (
        "beta = gamma",
        "As in other objectives: one weight for both levels (Fig. 6, left).",
    ),
    "between": (
        "beta at one gamma",
        "The gap between the discrete and the best continuous variable (Fig. 6, "
        "right).",
    ),
}
_COLUMNS = {
    "accuracy": "accuracy",
    "discrete_information": "I(x; c)",
    "label_in_discrete": "I(y; c)",
    "label_in_continuous": "max I(y; z_d)",
    "gap": "gap",
    "pruned": "pruned",
}
_TABLE_3 = {
    "kim": "Kim",
    "eastwood_disentanglement": "Eastwood: disentanglement",
    "eastwood_completeness": "completeness",
    "eastwood_informativeness": "informativeness",
}

# Analyses of models, by stage.
Values = Mapping[str, list[dict[str, Any]]]


def _cells(found: list[dict[str, Any]], columns: Sequence[str] = ()) -> list[str]:
    """Returns mean ± standard deviation of each column over models."""
    return [
        protocol.spread([one[name] for one in found]) if name in found[0] else "–"
        for name in columns or _COLUMNS
    ]


def _all_weights(one: dict[str, Any]) -> str:
    return "  ".join(f"{w} {one['hyper'][w]:g}" for w in ("alpha", "beta", "gamma"))


def _beta_and_gamma(one: dict[str, Any]) -> str:
    return ", ".join(f"{w} {one['hyper'][w]:g}" for w in ("beta", "gamma"))


def _error(found: list[dict[str, Any]]) -> str:
    return protocol.spread([100 * one["reconstruction"]["mse"] for one in found])


def _model_cells(found: list[dict[str, Any]]) -> list[str]:
    """Returns :func:`_cells`, how often varied images kept their class, the error."""
    kept = []
    for judge in ("kept_by_judge", "kept_by_own_classes"):
        shares = [one["moved"][judge]["all"] for one in found if judge in one["moved"]]
        kept.append(protocol.spread(shares) if shares else "–")
    return [*_cells(found), *kept, _error(found)]


def models_table(values: Values, label: str) -> reports.Table:
    """Returns the table of all models that are compared."""
    rows = []
    for name, found in values.items():
        rows.append([name, *_model_cells(found)])
        if len(found) > 1 and "accuracy" in found[0]:
            best = max(found, key=lambda one: one["accuracy"])
            rows.append([f"{name}, best (seed {best['seed']})", *_model_cells([best])])
    return reports.Table(
        "models",
        "Classes, information on the label, pruned dimensions",
        "Accuracy: classes of the discrete variable, matched to the labels of "
        f"`{label}` in the best way. Information is in nats, on test images. I(x; c) "
        "is computed from the probabilities of the classes; near 0 the variable has "
        "collapsed, and its classes are the largest of almost equal probabilities. "
        "I(y; ·) is a plug-in estimate; gap: discrete minus best continuous. Pruned: "
        "number of continuous dimensions with I(x; z_d) below 0.05 nats. Kept: how "
        "often the class stays when the latent that follows the amount of ink varies "
        "from -3 to 3, by nearest neighbours in pixels and by the model's own classes. "
        "Mean ± standard deviation over seeds.",
        ("model", *_COLUMNS.values(), "kept", "kept, own", "100 MSE"),
        rows,
    )


def sweep_tables(values: Values) -> list[reports.Table]:
    """Returns a table for each stage with other weights."""
    tables = []
    for name, (title, caption) in SWEEPS.items():
        by_weights = protocol.grouped(values.get(name, ()), _all_weights)
        rows = [
            [
                weights,
                *_cells(found),
                *_cells(found, ("mutual_information", "total_correlation")),
                _error(found),
            ]
            for weights, found in by_weights.items()
        ]
        head = ("weights", *_COLUMNS.values(), "I(x; z, c)", "TC(z, c)", "100 MSE")
        if rows:
            tables.append(reports.Table(name, title, caption, head, rows))
    return tables


def table_3(values: Values, dataset: str) -> reports.Table:
    """Returns the scores of the paper's Table 3, beside the published ones."""
    rows = []
    for name, found in values.items():
        row = _cells(found, [*_TABLE_3])
        paper = published.table(
            "structured_representations_scores",
            dataset=published.original(dataset),
            model=name,
        )
        for one in paper:
            for place, score in enumerate(("factor_vae_score", "dci.disentanglement")):
                row[place] += f" [{one[score]} ± {one[f'{score}_deviation']}]"
        rows.append([name, *row])
    return reports.Table(
        "table_3",
        "Scores of Table 3",
        "Kim: the score of FactorVAE's paper. Eastwood: by random forests that regress "
        "from codes to factors; the paper's one number is put beside disentanglement. "
        "Mean ± standard deviation over seeds; in brackets the paper's."
        + published.note(dataset),
        ("model", *_TABLE_3.values()),
        rows,
    )


def latent_figure(values: Values) -> reports.Figure:
    """Returns the information of each variable on the images."""
    rows = {}
    for name, found in values.items():
        latents = np.array([one["latent_information"] for one in found])
        classes = np.array([one.get("category_information", []) for one in found])
        rows[name] = latents, classes
    return reports.Figure(
        "latent_information",
        "Information of each variable on the images",
        "I(x; z_d) in nats, continuous dimensions from the least to the most, the "
        "discrete variable last (Fig. 4, right); mean over seeds. Dimensions at zero "
        "are pruned.",
        _bars(rows),
    )


def label_figure(values: Values) -> reports.Figure:
    """Returns the information of each variable on the label."""
    rows = {}
    for name, found in values.items():
        dims = len(found[0]["latent_information"])
        every = np.array([one["label_information"] for one in found])
        rows[name] = every[:, :dims], every[:, dims:]
    return reports.Figure(
        "label_information",
        "Information of each variable on the label",
        "I(y; z_d) in nats, continuous dimensions from the least to the most, the "
        "discrete variable last (Fig. 5, right); mean over seeds.",
        _bars(rows),
    )


def _bars(rows: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> bytes:
    """Draws means over models of values of continuous and discrete variables."""
    bars = {}
    for name, (continuous, discrete) in rows.items():
        heights = [*np.sort(continuous, axis=1).mean(0), *discrete.mean(0)]
        labels = [str(place) for place in range(1, continuous.shape[1] + 1)]
        bars[name] = labels + ["c"] * discrete.shape[1], heights
    return reports.plots.bar_rows(bars, "nats")


def varied_figure(pictures: Mapping[str, np.ndarray]) -> reports.Figure:
    """Returns the images of a varied latent."""
    sheets = [(name, reports.grids.sheet(rows)) for name, rows in pictures.items()]
    return reports.Figure(
        "moved",
        "Does the class stay when one feature varies?",
        "Each row is a test image of one label; the latent that follows the amount of "
        "ink varies from -3 to 3, more ink to the right (Fig. 5, left; first seed).",
        reports.grids.png(reports.grids.panels(sheets, 2)),
    )


def weights_figure(values: Values) -> reports.Figure:
    """Returns total correlation against mutual information, by weights."""
    models = [
        one for name in ("hfvae", "equal", "between") for one in values.get(name, ())
    ]
    points = {
        label: [(one["mutual_information"], one["total_correlation"]) for one in found]
        for label, found in protocol.grouped(models, _beta_and_gamma).items()
    }
    return reports.Figure(
        "tc_mi",
        "Total correlation against mutual information",
        "Of all variables together, as the objective estimates them from its batches "
        "at the end of training; a cross for each seed (Fig. 6, left). Lower right is "
        "best.",
        reports.plots.scatter(points, "I(x; z, c) in nats", "TC(z, c) in nats"),
    )


def gap_figures(values: Values) -> list[reports.Figure]:
    """Returns the gap against beta at one gamma, if several betas were trained."""
    found = protocol.grouped(
        values.get("between", ()), lambda one: float(one["hyper"]["beta"])
    )
    if not found:
        return []
    gaps = {beta: [one["gap"] for one in found[beta]] for beta in sorted(found)}
    return [
        reports.Figure(
            "gap",
            "Gap between the discrete and the best continuous variable",
            "I(y; c) - max I(y; z_d) in nats against beta, at the config's gamma; mean "
            "and standard deviation over seeds (Fig. 6, right).",
            reports.plots.lines({"gap": gaps}, "beta", "nats"),
        )
    ]


_DENSITIES = {
    "pmf": "The density of the discrete variable is that of the authors' code, the "
    "probability of the largest element; the paper does not say so.",
    "exact_stopped": "The gradient is our own estimator's: the term between groups has "
    "none at q(c|x). The paper's is that of the authors' code, `pmf`.",
}


def deviations(config: ml_collections.ConfigDict) -> reports.Text:
    """Returns where this run differs from the paper."""
    options, lines = config.experiment, []
    density = config.method.get("concrete_density", "pmf")
    lines.append(
        _DENSITIES.get(
            density,
            f"The density of the discrete variable is {density!r}; that of the "
            "authors' code is `pmf`.",
        )
    )
    lines.append(
        "The paper's networks (App. C), batch size and length are not public. Network, "
        "learning rate, temperature and 200 epochs for 28 px are those of the authors' "
        "example, batch 512 is the smallest that the paper names; networks for 64 px "
        "follow beta-VAE's."
    )
    overrides = models.describe(config.model.name).overrides
    smaller = [n for n in ("widths", "head_width") if config.model.get(n)]
    if smaller:
        given = ", ".join(f"{name} {config.model[name]}" for name in smaller)
        usual = ", ".join(f"{name} {overrides[name]}" for name in smaller)
        lines.append(f"The networks have other sizes ({given}) than ours ({usual}).")
    if not config.train.num_epochs:
        lines.append(f"Training takes {config.train.num_steps} steps, not 200 epochs.")
    if published.original(config.data.name) != config.data.name:
        lines.append(f"{config.data.name} is a rendering, not the publisher's file.")
    if options.equal or options.between:
        lines.append(
            "Fig. 6 has 50 restarts and seven values of beta = gamma, of which the "
            f"paper names 2, 3, 4 and 6; here {config.lanes.seeds} seeds, beta = gamma "
            f"in {tuple(options.equal)} and beta in {tuple(options.between)}."
        )
    if set(options.baselines) - {"vae", "beta_vae", "beta_tc_vae"}:
        lines.append("The paper states no hyperparameters for most rows of Table 1.")
    lines.append(
        "Fig. 5 varies the dimension of thickness, chosen by eye; here the one that "
        "follows the amount of ink."
    )
    return protocol.deviations(*lines)
