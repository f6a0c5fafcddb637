"""The page of a study: every analysis as a plot or a table, with intervals."""

import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from disentangle_jax import reports, training
from disentangle_jax.experiments import protocol, published, study, study_setting
from disentangle_jax.experiments.study import Estimate, Grid
from disentangle_jax.reports import study as plots

# The study's scores in the paper's order, then further ones that a sweep may compute.
_SCORES = {
    "beta_vae_score": "BetaVAE",
    "factor_vae_score": "FactorVAE",
    "mig": "MIG",
    "dci.disentanglement": "DCI-D",
    "modularity": "Modularity",
    "sap": "SAP",
    "irs": "IRS",
    "explicitness": "Explicitness",
    "info_mec.modularity": "InfoM",
    "mcc": "MCC",
}
# Criteria that need no labels; larger is better. A minus stands for the negative.
_UNSUPERVISED = {
    "-bce": "reconstruction (−BCE)",
    "-kl": "−KL",
    "elbo": "ELBO",
    "-tc_sampled": "−TC, sampled codes",
    "-tc_mean": "−TC, mean codes",
    "udr": "UDR",
}
_DOWNSTREAM = {"downstream_logistic": "LR", "downstream": "GBT"}
_RESAMPLES = 200

_Parts = Iterator[reports.Figure | reports.Table]


def write_study(
    rows: Sequence[Mapping[str, Any]],
    codes: Mapping[str, Mapping[str, np.ndarray]],
    workdir: pathlib.Path,
    *,
    planned: int | None = None,
    hyperparameters: Mapping[str, str] | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> pathlib.Path:
    """Analyses collected rows and writes the study's page; returns its path.

    Args:
      rows: one flat dict per model: labels and scores.
      codes: stored codes of models by id, for UDR; may be empty.
      workdir: folder to write to; created if it does not exist.
      planned: number of models of the sweep, where some are still missing.
      hyperparameters: names of those that the models of each method vary.
      recipe: further entries for the end of the page; its ``config`` is compared with
        the setting of the published study.
    """
    agreement = study.udr_scores(rows, codes)
    rows = [{**row, "udr": agreement.get(row["id"])} for row in rows]
    names = hyperparameters or {}
    data = _with_negatives(study.grid(rows))
    workdir = pathlib.Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    parts = [_overview(data, rows, planned)]
    for analysis in (
        _by_method,
        functools.partial(_by_value, names=names),
        _variance,
        _better_methods,
        _agreement,
        functools.partial(_total_correlation, names=names),
        _unsupervised,
        _selection,
        _transfer,
        _settings,
        _downstream,
        _efficiency,
    ):
        parts += analysis(data)
    if recipe and "config" in recipe:
        parts.append(protocol.deviations(*study_setting.deviations(recipe["config"])))
    title = f"A study of {len(rows)} models"
    return reports.write_parts(
        workdir, title, parts, {**(recipe or {}), **training.recipe()}
    )


def _with_negatives(data: Grid) -> Grid:
    """Adds the negatives of criteria that are better when smaller."""
    smaller = data.take(("bce", "kl", "tc_sampled", "tc_mean"))
    return data._replace(
        names=data.names + tuple(f"-{name}" for name in smaller.names),
        values=np.concatenate([data.values, -smaller.values]),
    )


def _scores(data: Grid) -> dict[str, str]:
    """Returns the disentanglement scores that were computed, with their titles."""
    return {
        name: title
        for name, title in _SCORES.items()
        if name in data.names and np.isfinite(data.score(name)).any()
    }


def _main_score(data: Grid) -> str:
    names = _scores(data)
    return "factor_vae_score" if "factor_vae_score" in names else next(iter(names))


def _interval(estimate: Estimate, place: tuple) -> str:
    """Returns a value in hundredths, with its interval."""
    value, low, high = (100.0 * float(part[place]) for part in estimate)
    if not np.isfinite(value):
        return "–"
    if not np.isfinite([low, high]).all():
        return f"{value:.0f}"
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"


def _intervals(estimate: Estimate, place: tuple, count: int) -> list[str]:
    return [_interval(estimate, (*place, number)) for number in range(count)]


def _estimate(
    data: Grid,
    function: Callable[[Grid], np.ndarray],
    within: tuple[float, float] = (0.0, 1.0),
) -> Estimate:
    return study.bootstrap(data, function, within=within, resamples=_RESAMPLES)


def _overview(
    data: Grid, rows: Sequence[Mapping[str, Any]], planned: int | None
) -> reports.Table:
    lost = sum(not row.get("finite", True) for row in rows)
    missing = 0 if planned is None else planned - len(rows)
    more = f" of {planned}, {missing} missing" if missing else ""
    facts = [
        ("models", f"{len(rows)}{more}"),
        ("left out, as their loss became non-finite", str(lost)),
        ("datasets", ", ".join(data.datasets)),
        ("methods", ", ".join(data.methods)),
        ("settings (method and hyperparameter value)", str(len(data.settings))),
        ("seeds", str(len(data.seeds))),
        ("scores", ", ".join(_scores(data).values())),
    ]
    return reports.Table(
        "models",
        "Trained models",
        "Intervals on this page are 95 % bootstrap intervals over seeds"
        + (" and rough, as there are few." if len(data.seeds) < 10 else ".")
        + " Figures and tables in parentheses are those of Locatello et al., "
        '"Challenging Common Assumptions in the Unsupervised Learning of Disentangled '
        'Representations" (2019). DCI-D is the disentanglement of DCI, InfoM the '
        "modularity of InfoMEC.",
        ("", ""),
        facts,
    )


def _by_method(data: Grid) -> _Parts:
    for d, dataset in enumerate(data.datasets):
        panels = {
            title: {
                method: data.score(name)[d, data.of_method(method)]
                for method in data.methods
            }
            for name, title in _scores(data).items()
        }
        yield reports.Figure(
            f"methods_{dataset}",
            f"Scores of each method on {dataset}",
            "Each point is a model; hyperparameter values and seeds differ within a "
            "method. Where boxes overlap, the method matters less than these (Fig. 3, "
            "left).",
            plots.distributions(panels),
        )


def _with_name(method: str, names: Mapping[str, str]) -> str:
    """Returns a method, and the hyperparameter that varies where it is known."""
    return f"{method}, by {names[method]}" if names.get(method) else method


def _by_value(data: Grid, names: Mapping[str, str]) -> _Parts:
    name = _main_score(data)
    values = {method: data.values_of(method) for method in data.methods}
    for d, dataset in enumerate(data.datasets):
        panels = {
            _with_name(method, names): {
                text: data.score(name)[d, place] for place, text in zip(places, texts)
            }
            for method, (_, places, texts) in values.items()
        }
        yield reports.Figure(
            f"strengths_{dataset}",
            f"{_SCORES[name]} score by hyperparameter value on {dataset}",
            "Only the seed differs within a column: a good run with a bad value can "
            "beat a bad run with a good one (Fig. 3, right).",
            plots.distributions(panels, same_groups=False),
        )


def _variance(data: Grid) -> _Parts:
    names = _scores(data)
    explained = _estimate(data.take(names), study.variances_explained)
    causes = (
        ("variance_method", "the method", "a", "hyperparameter value and seed"),
        ("variance_setting", "method and hyperparameter value", "b", "the seed"),
    )
    for which, (name, cause, letter, rest) in enumerate(causes):
        yield reports.Table(
            name,
            f"Variance of the scores explained by {cause}, %",
            f"Share of the variance between models, with interval (the paper's table "
            f"{letter}). The rest is due to {rest}.",
            ("dataset", *names.values()),
            [
                (dataset, *_intervals(explained, (which, d), len(names)))
                for d, dataset in enumerate(data.datasets)
            ],
        )


def _better_methods(data: Grid) -> _Parts:
    for name, title in _scores(data).items():
        better = _estimate(data, lambda g, name=name: study.methods_better(g, name))
        file = f"better_{name.replace('.', '_')}"
        panels = dict(zip(data.datasets, better.value))
        yield reports.Figure(
            file,
            f"Does one method beat another? {title}",
            "Probability in % that a random model of the row's method has a higher "
            "score than one of the column's; 50 is a draw.",
            plots.matrices(panels, data.methods, data.methods, signed=False),
        )
        yield reports.Table(
            f"{file}_intervals",
            f"The same with intervals: {title}",
            "Probability in % with its interval; only pairs whose interval excludes "
            "50.",
            ("dataset", "method", "beats", "probability"),
            [
                (dataset, a, b, _interval(better, (d, i, j)))
                for d, dataset in enumerate(data.datasets)
                for i, a in enumerate(data.methods)
                for j, b in enumerate(data.methods)
                if i != j and better.low[d, i, j] > 0.5
            ],
        )


def _correlations(
    data: Grid, file: str, title: str, caption: str, rows: Mapping, columns: Mapping
) -> _Parts:
    """Yields rank correlations of scores as a figure, and as a table with intervals."""
    rows = {k: v for k, v in rows.items() if k in data.names}
    columns = {k: v for k, v in columns.items() if k in data.names}
    if not rows or not columns:
        return
    found = _estimate(
        data, lambda g: study.rank_correlations(g, [*rows], [*columns]), (-1.0, 1.0)
    )
    panels = dict(zip(data.datasets, found.value))
    yield reports.Figure(
        file,
        title,
        caption,
        plots.matrices(panels, [*rows.values()], [*columns.values()]),
    )
    yield reports.Table(
        f"{file}_intervals",
        f"{title} Intervals",
        "Rank correlation in hundredths, with its interval.",
        ("dataset", "", *columns.values()),
        [
            (dataset, name, *_intervals(found, (d, r), len(columns)))
            for d, dataset in enumerate(data.datasets)
            for r, name in enumerate(rows.values())
        ],
    )


def _agreement(data: Grid) -> _Parts:
    yield from _correlations(
        data,
        "score_agreement",
        "Do the scores agree?",
        "Rank correlation of scores over all models of a dataset, in hundredths "
        "(Fig. 2). At 100 two scores rank the models in the same order.",
        _scores(data),
        _scores(data),
    )


def _total_correlation(data: Grid, names: Mapping[str, str]) -> _Parts:
    titles = {"tc_sampled": "sampled codes", "tc_mean": "mean codes"}
    kinds = [name for name in titles if name in data.names]
    if not kinds:
        return
    found = _estimate(data, lambda g: study.means_by_setting(g, kinds), (0.0, np.inf))
    settings = {method: data.values_of(method) for method in data.methods}
    for d, dataset in enumerate(data.datasets):
        panels = {
            titles[name]: {
                _with_name(method, names): [
                    values,
                    *(part[n, d, places] for part in found),
                ]
                for method, (values, places, _) in settings.items()
            }
            for n, name in enumerate(kinds)
        }
        yield reports.Figure(
            f"total_correlation_{dataset}",
            f"Dependence of the latents against the hyperparameter value on {dataset}",
            "Total correlation of a Gaussian fitted to the codes, in nats; mean over "
            "seeds with its interval (Fig. 1). In the paper the total correlation of "
            "sampled codes falls with the value; that of mean codes, which are the "
            "representation, does not.",
            plots.strength_curves(panels, "TC, nats"),
        )


def _unsupervised(data: Grid) -> _Parts:
    yield from _correlations(
        data,
        "unsupervised_scores",
        "Can a good model be identified without labels?",
        "Rank correlation, in hundredths, of criteria that need no labels with the "
        "scores; each criterion is signed such that more should be better.",
        _UNSUPERVISED,
        _scores(data),
    )


def _selection(data: Grid) -> _Parts:
    names = _scores(data)
    rows = []
    for criterion, title in _UNSUPERVISED.items():
        if criterion not in data.names:
            continue
        found = _estimate(
            data, lambda g, by=criterion: study.selected_percentile(g, by, [*names])
        )
        rows += [
            (title, dataset, *_intervals(found, (d,), len(names)))
            for d, dataset in enumerate(data.datasets)
            if np.isfinite(found.value[d]).any()
        ]
    yield reports.Table(
        "selection",
        "The model that a criterion without labels selects",
        "Share in % of the dataset's models that the selected model beats, by each "
        "score, with interval; 50 on average for a random choice. UDR selects the "
        "model that agrees most with models of other seeds.",
        ("criterion", "dataset", *names.values()),
        rows,
    )


def _transfer(data: Grid) -> _Parts:
    found = _estimate(data.take(_scores(data)), study.transfer)
    bars = {
        name: tuple(float(part[n]) for part in found)
        for n, name in enumerate(study.TRANSFERS)
    }
    paper = {
        row["comparison"]: float(row["share_won"])
        for row in published.table("challenging_assumptions_transfer")
    }
    theirs = {name: f"{100 * share:.1f}" for name, share in paper.items()}
    yield reports.Figure(
        "transfer",
        "Do good settings transfer?",
        "A setting is chosen on one dataset by one score with one seed. How often is "
        "it at least as good as a random setting with another seed? The line is "
        "chance.",
        plots.interval_bars(
            bars, paper, mark_name="the paper", line=0.5, x_name="share of trials won"
        ),
    )
    yield reports.Table(
        "transfer_numbers",
        "Do good settings transfer? The values",
        "In %, with intervals; the paper has 7 datasets, 6 scores and 50 seeds.",
        ("evaluated on", "here", "paper"),
        [
            (name, _interval(found, (n,)), theirs.get(name, "–"))
            for n, name in enumerate(study.TRANSFERS)
        ],
    )


def _settings(data: Grid) -> _Parts:
    if len(data.datasets) < 2:
        return
    panels = {
        title: study.setting_correlations(data, name)
        for name, title in _scores(data).items()
    }
    yield reports.Figure(
        "setting_agreement",
        "Is a setting that is good on one dataset good on another?",
        "Rank correlation between datasets of the mean scores of all settings, in "
        "hundredths.",
        plots.matrices(panels, data.datasets, data.datasets),
    )


def _downstream(data: Grid) -> _Parts:
    columns = {}
    for score, title in _DOWNSTREAM.items():
        sizes = sorted(
            int(name.rpartition("_")[2])
            for name in data.names
            if name.startswith(f"{score}.accuracy_")
        )
        columns |= {f"{score}.accuracy_{n}": f"{title} {n}" for n in sizes}
    for score, title in _DOWNSTREAM.items():
        columns[f"{score}.efficiency"] = f"efficiency {title}"
    yield from _correlations(
        data,
        "downstream",
        "Do disentangled codes help to predict factors?",
        "Rank correlation, in hundredths, of scores with the accuracy of predicting "
        "the factors from 10, 100, … labels by logistic regression (LR) or boosted "
        "trees (GBT), and with the efficiency: accuracy at 100 labels divided by that "
        "at the largest number (Fig. 5).",
        _scores(data),
        columns,
    )


def _efficiency(data: Grid) -> _Parts:
    score, name = _main_score(data), "downstream.efficiency"
    if name not in data.names:
        return
    panels = {
        dataset: {
            method: (
                data.score(score)[d, data.of_method(method)],
                data.score(name)[d, data.of_method(method)],
            )
            for method in data.methods
        }
        for d, dataset in enumerate(data.datasets)
    }
    yield reports.Figure(
        "efficiency",
        "Do disentangled codes need fewer labels?",
        "Each point is a model: its score, and the accuracy of boosted trees at 100 "
        "labels divided by that at the largest number (Fig. 6). If so, the cloud "
        "rises.",
        plots.clouds(panels, f"{_SCORES[score]} score", "sample efficiency"),
    )
