"""The page of a study: every analysis as a plot or a table, with intervals."""

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from disentangle_jax import reports, training
from disentangle_jax.experiments import _study
from disentangle_jax.reports import study as plots

# The study's scores, in the paper's order, and what else a sweep may have computed.
_SCORES = {
    "beta_vae_score": "BetaVAE",
    "factor_vae_score": "FactorVAE",
    "mig": "MIG",
    "dci.disentanglement": "DCI",
    "modularity": "Modularity",
    "sap": "SAP",
    "irs": "IRS",
    "explicitness": "Explicitness",
    "info_mec.modularity": "InfoM",
    "mcc": "MCC",
}
# What can be known of a model without labels; larger is better as it is named.
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


def write_study(
    rows: Sequence[Mapping[str, Any]],
    codes: Mapping[str, Mapping[str, np.ndarray]],
    workdir: pathlib.Path,
    *,
    planned: int | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> pathlib.Path:
    """Analyses collected rows and writes the study's page; returns its path.

    Args:
      rows: one flat dict per model: labels and scores.
      codes: kept codes of models by id, for UDR; may be empty.
      workdir: folder to write to; made where it is not there.
      planned: models of the sweep, where more were planned than there are rows.
      recipe: what stands at the end of the page.
    """
    agreement = _study.udr_scores(rows, codes)
    rows = [{**row, "udr": agreement.get(row["id"])} for row in rows]
    data = _with_negatives(_study.grid(rows))
    workdir = pathlib.Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    parts = [_overview(data, rows, planned)]
    for make in (
        _methods_part,
        _strengths_part,
        _variance_part,
        _better_part,
        _agreement_part,
        _total_correlation_part,
        _unsupervised_part,
        _selection_part,
        _transfer_part,
        _settings_part,
        _downstream_part,
        _efficiency_part,
    ):
        parts += make(data)
    title = f"A study of {len(rows)} models"
    return reports.write_parts(
        workdir, title, parts, {**(recipe or {}), **training.recipe()}
    )


def _with_negatives(data: _study.Grid) -> _study.Grid:
    """Adds the negatives of what is better when smaller, named with a minus."""
    names = [name for name in ("bce", "kl", "tc_sampled", "tc_mean")]
    smaller = data.take(names)
    return data._replace(
        names=data.names + tuple(f"-{name}" for name in smaller.names),
        values=np.concatenate([data.values, -smaller.values]),
    )


def _scores(data: _study.Grid) -> list[str]:
    """Returns the disentanglement scores that vary."""
    return [
        name
        for name in _SCORES
        if name in data.names and np.isfinite(data.score(name)).any()
    ]


def _titles(names: Sequence[str]) -> list[str]:
    return [_SCORES.get(name, name) for name in names]


def _interval(estimate: _study.Estimate, place: tuple, scale: float = 100.0) -> str:
    value, low, high = (scale * float(part[place]) for part in estimate)
    if not np.isfinite(value):
        return "–"
    if not np.isfinite([low, high]).all():
        return f"{value:.0f}"
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"


def _estimate(
    data: _study.Grid,
    function: Callable[[_study.Grid], np.ndarray],
    within: tuple[float, float] = (0.0, 1.0),
) -> _study.Estimate:
    return _study.bootstrap(data, function, within=within, resamples=_RESAMPLES)


_Parts = Iterator[reports.Figure | reports.Table]


def _overview(data, rows, planned) -> reports.Table:
    lost = sum(not row.get("finite", True) for row in rows)
    missing = 0 if planned is None else planned - len(rows)
    facts = [
        (
            "models",
            f"{len(rows)}" + (f" of {planned}, {missing} missing" if missing else ""),
        ),
        ("left out, as their loss became non-finite", str(lost)),
        ("datasets", ", ".join(data.datasets)),
        ("methods", ", ".join(data.methods)),
        ("settings (method and strength)", str(len(data.settings))),
        ("seeds", str(len(data.seeds))),
        ("scores", ", ".join(_titles(_scores(data)))),
    ]
    return reports.Table(
        "models",
        "What was trained",
        "Intervals on this page are 95 % bootstrap intervals over seeds"
        + (" and rough, as there are few." if len(data.seeds) < 10 else "."),
        ("", ""),
        facts,
    )


def _methods_part(data) -> _Parts:
    for d, dataset in enumerate(data.datasets):
        panels = {
            _SCORES[name]: {
                method: data.score(name)[d, data.of_method(method)]
                for method in data.methods
            }
            for name in _scores(data)
        }
        yield reports.Figure(
            f"methods_{dataset}",
            f"Scores of each method on {dataset}",
            "Each point is a model; strengths and seeds differ within a method. Boxes "
            "that overlap: the method matters less than strength and seed (Fig. 3, "
            "left).",
            plots.distributions(panels),
        )


def _strengths_part(data) -> _Parts:
    names = _scores(data)
    name = "factor_vae_score" if "factor_vae_score" in names else names[0]
    for dataset_number, dataset in enumerate(data.datasets):
        panels = {}
        for method in data.methods:
            places = data.of_method(method)
            panels[method] = {
                f"strength {order + 1}": data.score(name)[dataset_number, place]
                for order, place in enumerate(places)
            }
        yield reports.Figure(
            f"strengths_{dataset}",
            f"{_SCORES[name]} score by strength on {dataset}",
            "Within a column only the seed differs: a good run with a bad strength can "
            "beat a bad run with a good one (Fig. 3, right).",
            plots.distributions(panels),
        )


def _variance_part(data) -> _Parts:
    names = _scores(data)
    explained = _estimate(data.take(names), _study.variances_explained)
    for which, (name, what, letter) in enumerate(
        (
            ("variance_method", "the method", "a"),
            ("variance_setting", "method and strength", "b"),
        )
    ):
        yield reports.Table(
            name,
            f"Variance of the scores explained by {what}, %",
            f"Share of the variance between models, with interval (the paper's table "
            f"{letter}). The rest is due to "
            + ("strength and seed." if which == 0 else "the seed."),
            ("dataset", *_titles(names)),
            [
                (
                    dataset,
                    *(_interval(explained, (which, d, k)) for k in range(len(names))),
                )
                for d, dataset in enumerate(data.datasets)
            ],
        )


def _better_part(data) -> _Parts:
    names = _scores(data)
    for name in names:
        better = _estimate(data, lambda g, name=name: _study.methods_better(g, name))
        yield reports.Figure(
            f"better_{name.replace('.', '_')}",
            f"Does one method beat another? {_SCORES[name]}",
            "Chance in % that a random model of the row's method has a higher score "
            "than one of the column's; 50 is a draw.",
            plots.matrices(
                dict(zip(data.datasets, better.value)),
                data.methods,
                data.methods,
                signed=False,
            ),
        )
        yield reports.Table(
            f"better_{name.replace('.', '_')}_intervals",
            f"The same with intervals: {_SCORES[name]}",
            "Chance in % and its interval; pairs whose interval leaves out 50.",
            ("dataset", "method", "beats", "chance"),
            [
                (dataset, a, b, _interval(better, (d, i, j)))
                for d, dataset in enumerate(data.datasets)
                for i, a in enumerate(data.methods)
                for j, b in enumerate(data.methods)
                if i != j and better.low[d, i, j] > 0.5
            ],
        )


def _matrix_parts(
    data, file: str, title: str, caption: str, rows: Mapping, columns: Mapping
) -> _Parts:
    """Yields rank correlations of scores as a figure, and as a table with intervals."""
    rows = {k: v for k, v in rows.items() if k in data.names}
    columns = {k: v for k, v in columns.items() if k in data.names}
    if not rows or not columns:
        return
    found = _estimate(
        data, lambda g: _study.rank_correlations(g, [*rows], [*columns]), (-1.0, 1.0)
    )
    yield reports.Figure(
        file,
        title,
        caption,
        plots.matrices(
            dict(zip(data.datasets, found.value)), [*rows.values()], [*columns.values()]
        ),
    )
    yield reports.Table(
        f"{file}_intervals",
        f"{title}: intervals",
        "Rank correlation in hundredths and its interval.",
        ("dataset", "", *columns.values()),
        [
            (dataset, name, *(_interval(found, (d, r, c)) for c in range(len(columns))))
            for d, dataset in enumerate(data.datasets)
            for r, name in enumerate(rows.values())
        ],
    )


def _agreement_part(data) -> _Parts:
    names = {name: _SCORES[name] for name in _scores(data)}
    yield from _matrix_parts(
        data,
        "score_agreement",
        "Do the scores agree?",
        "Rank correlation of scores over all models of a dataset, in hundredths "
        "(Fig. 2). 100: they order the models alike.",
        names,
        names,
    )


def _total_correlation_part(data) -> _Parts:
    names = [name for name in ("tc_sampled", "tc_mean") if name in data.names]
    if not names:
        return
    found = _estimate(data, lambda g: _study.means_by_setting(g, names), (0.0, np.inf))
    words = {"tc_sampled": "sampled codes", "tc_mean": "mean codes"}
    for d, dataset in enumerate(data.datasets):
        panels = {
            words[name]: {
                method: [part[n, d, data.of_method(method)] for part in found]
                for method in data.methods
            }
            for n, name in enumerate(names)
        }
        yield reports.Figure(
            f"total_correlation_{dataset}",
            f"Dependence of the latents against strength on {dataset}",
            "Total correlation of a Gaussian fitted to the codes, nats; mean over "
            "seeds with its interval (Fig. 1). In the paper that of sampled codes "
            "falls with strength and that of mean codes, which are the "
            "representation, does not.",
            plots.strength_curves(panels, "TC, nats"),
        )


def _unsupervised_part(data) -> _Parts:
    yield from _matrix_parts(
        data,
        "unsupervised_scores",
        "Can a good model be told without labels?",
        "Rank correlation, in hundredths, of what is known without labels with the "
        "scores; all signed so that more is meant to be better.",
        _UNSUPERVISED,
        {name: _SCORES[name] for name in _scores(data)},
    )


def _selection_part(data) -> _Parts:
    names = _scores(data)
    criteria = {k: v for k, v in _UNSUPERVISED.items() if k in data.names}
    rows = []
    for criterion, title in criteria.items():
        found = _estimate(
            data,
            lambda g, criterion=criterion: _study.selected_percentile(
                g, criterion, names
            ),
        )
        rows += [
            (title, dataset, *(_interval(found, (d, n)) for n in range(len(names))))
            for d, dataset in enumerate(data.datasets)
            if np.isfinite(found.value[d]).any()
        ]
    yield reports.Table(
        "selection",
        "The model that a criterion without labels selects",
        "Share in % of the dataset's models that the selected one is better than, by "
        "each score, with interval; random choice gives 50. UDR selects the model that "
        "agrees most with its other seeds.",
        ("criterion", "dataset", *_titles(names)),
        rows,
    )


def _transfer_part(data) -> _Parts:
    names = _scores(data)
    found = _estimate(data.take(names), _study.transfer)
    bars = {
        name: tuple(float(part[n]) for part in found)
        for n, name in enumerate(_study.TRANSFERS)
    }
    paper = {name: t[2] for name, t in _study.TRANSFERS.items() if t[2] is not None}
    caption = (
        "A method and strength chosen on one dataset, score and seed: how often is it "
        "at least as good as a random one with another seed? The line is chance."
    )
    yield reports.Figure(
        "transfer",
        "Do good settings transfer?",
        caption,
        plots.interval_bars(
            bars, paper, mark_name="the paper", line=0.5, x_name="share of trials won"
        ),
    )
    yield reports.Table(
        "transfer_numbers",
        "Do good settings transfer? The numbers",
        "In %, with intervals; the paper's are of 7 datasets, 6 scores and 50 seeds.",
        ("judged on", "here", "paper"),
        [
            (
                name,
                _interval(found, (n,)),
                f"{100 * paper[name]:.1f}" if name in paper else "–",
            )
            for n, name in enumerate(_study.TRANSFERS)
        ],
    )


def _settings_part(data) -> _Parts:
    if len(data.datasets) < 2:
        return
    names = _scores(data)
    yield reports.Figure(
        "setting_agreement",
        "Is a setting that is good on one dataset good on another?",
        "Rank correlation between datasets of the mean scores of all settings, in "
        "hundredths.",
        plots.matrices(
            {_SCORES[n]: _study.setting_correlations(data, n) for n in names},
            data.datasets,
            data.datasets,
        ),
    )


def _downstream_part(data) -> _Parts:
    columns = {}
    for score, title in _DOWNSTREAM.items():
        sizes = sorted(
            int(name.rpartition("_")[2])
            for name in data.names
            if name.startswith(f"{score}.accuracy_")
        )
        columns |= {f"{score}.accuracy_{n}": f"{title} {n}" for n in sizes}
    columns |= {
        f"{score}.efficiency": f"efficiency {title}"
        for score, title in _DOWNSTREAM.items()
    }
    yield from _matrix_parts(
        data,
        "downstream",
        "Do disentangled codes help to predict factors?",
        "Rank correlation, in hundredths, of scores with the accuracy of predicting "
        "the factors from 10, 100, … labels by logistic regression (LR) or boosted "
        "trees (GBT), and with the efficiency, accuracy at 100 labels over that at "
        "most (Fig. 5).",
        {name: _SCORES[name] for name in _scores(data)},
        columns,
    )


def _efficiency_part(data) -> _Parts:
    names = _scores(data)
    score = "factor_vae_score" if "factor_vae_score" in names else names[0]
    name = "downstream.efficiency"
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
        "Each point is a model: its score, and accuracy of boosted trees at 100 labels "
        "over that at most labels (Fig. 6). A rising cloud would say yes.",
        plots.clouds(panels, f"{_SCORES[score]} score", "sample efficiency"),
    )
