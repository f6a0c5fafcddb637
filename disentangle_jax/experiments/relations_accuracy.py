"""Accuracies of regions and relations (Tables 4 and 5, Figs. 2 and 3 of AbsAE)."""

from collections.abc import Iterable, Mapping
from typing import Any

from disentangle_jax import reports
from disentangle_jax.experiments import protocol, published

# A table of accuracies: (accuracy or None, accepted share) of each model by alpha and
# by tau (Table 4) or depth (Table 5).
Cells = Mapping[tuple[float, float], list[tuple[float | None, float]]]
_REGIONS, _RELATIONS = (
    f"weak_disentanglement_{name}" for name in ("regions", "relations")
)


def parts(
    forms: Mapping[str, list[protocol.Model]], relations: str, tau: float, note: str
) -> list[reports.Table | reports.Figure]:
    """Returns the tables and the curves over alpha.

    Args:
      forms: models by their label; the published values stand beside the first.
      relations: name of the relations, by which the published tables are known.
      tau: number of labelled images for the relations; the nearest trained one.
      note: a sentence about the published values.
    """
    regions = {label: cluster_cells(models) for label, models in forms.items()}
    shown = published_cells(_REGIONS, relations, "tau")
    chains = _chains(forms, tau)
    depths = published_cells(_RELATIONS, relations, "depth")
    return [
        _cluster_table(relations, regions, shown, note),
        _curves("figure_2", "Regions over α (Fig. 2)", "τ", regions, shown),
        _relation_table(relations, chains, depths, tau, note),
        _curves("figure_3", "Relations over α (Fig. 3)", "depth", chains, depths),
    ]


def _cells(rows: Iterable[Mapping[str, Any]], second: str) -> Cells:
    by_density = (row for row in rows if row["threshold"] == "density")
    groups = protocol.grouped(by_density, lambda row: (row["alpha"], row[second]))
    return {
        key: [(row["accuracy"], row["accepted"]) for row in rows]
        for key, rows in groups.items()
    }


def cluster_cells(models: Iterable[protocol.Model]) -> Cells:
    """Returns the accuracies of regions of models, by alpha and tau."""
    every = [model.scores["regions"] for model in models]
    return _cells(
        ({**row, "tau": found["tau"]} for found in every for row in found["clusters"]),
        "tau",
    )


def _chains(forms: Mapping[str, list[protocol.Model]], tau: float) -> dict[str, Cells]:
    """Returns the accuracies of relations by alpha and depth, at one tau.

    It is the trained tau that is nearest to the config's.
    """
    found = {}
    for label, models in forms.items():
        near = min(abs(model.hyper["tau"] - tau) for model in models)
        rows = [
            row
            for model in models
            if abs(model.hyper["tau"] - tau) == near
            for row in model.scores["regions"]["relations"]
        ]
        for source, name in (("prior", label), ("images", f"{label}, test images")):
            own = (row for row in rows if row["source"] == source)
            found[name] = _cells(own, "depth")
    return found


def published_cells(table: str, relations: str, second: str) -> Cells:
    """Returns a published table of accuracies; empty for other relations."""
    return {
        (float(row["alpha"]), float(row[second])): [
            (float(row["accuracy"]), float(row["accepted"]))
        ]
        for row in published.table(table, relations=relations)
        if row["alpha"]
    }


def possible(cells: Cells, key: tuple[float, float], rounding: float = 1e-9) -> str:
    """Returns whether a cell can be that of a model: "yes", "no: …" or "–".

    Rejection only leaves rows out, so accuracy × accepted share, the share of all rows
    that are accepted and right, is at most the accuracy at alpha = 0.

    Args:
      cells: the table.
      key: alpha, and tau or depth.
      rounding: half of the last digit of the values.
    """
    pairs = [
        (right, accepted, most)
        for (right, accepted), (most, _) in zip(
            cells.get(key, []), cells.get((0.0, key[1]), [])
        )
        if right is not None
    ]
    for right, accepted, most in pairs:
        if (right - rounding) * (accepted - rounding) > most + rounding:
            return f"no: {right * accepted:.3f} > {most:.3f}"
    return "yes" if pairs else "–"


def _line(
    cells: Cells, key: tuple[float, float], digits: int | None = None
) -> list[str]:
    """Returns accuracy, accepted share and :func:`possible` of a cell.

    Args:
      cells: the table.
      key: alpha, and tau or depth.
      digits: decimals to which the values were rounded; None if they were not.
    """
    rounding = 1e-9 if digits is None else 0.5 * 10.0**-digits
    found = cells.get(key, [])
    columns = []
    for values in zip(*found) if found else ((), ()):
        known = [value for value in values if value is not None]
        columns.append(protocol.spread(known, f".{digits or 3}f") if known else "–")
    return [*columns, possible(cells, key, rounding)]


def _lines(systems: Mapping[str, Cells], shown: Cells, digits: int) -> list[list]:
    """Returns a row per cell and system, the first with the published values."""
    keys = sorted({key for cells in (*systems.values(), shown) for key in cells})
    lines = []
    for alpha, second in keys:
        for number, (label, cells) in enumerate(systems.items()):
            if (alpha, second) not in cells and number:
                continue
            beside = _line(shown if not number else {}, (alpha, second), digits)
            lines.append(
                [label, f"{alpha:g}", f"{second:g}"]
                + _line(cells, (alpha, second))
                + beside
            )
    return lines


_COLUMNS = ("ACC", "AR", "ACC × AR ≤ ACC at α = 0")
_CHECKED = (
    " ACC × AR is the share of all images that are accepted and right, so for any "
    "model it is at most the ACC at α = 0; published values are checked within their "
    "rounding."
)


def _head(second: str) -> tuple[str, ...]:
    return ("", "α", second, *_COLUMNS, *(f"{name}, published" for name in _COLUMNS))


def _others(table: str, relations: str, second: str) -> list[list[str]]:
    """Returns rows of published methods that are not run, with dashes for ours."""
    return [
        [f"{row['method']}, not run", "–", row[second] or "–", "–", "–", "–"]
        + [row["accuracy"], row["accepted"], "–"]
        for row in published.table(table, relations=relations)
        if not row["alpha"]
    ]


def _cluster_table(
    relations: str, systems: Mapping[str, Cells], shown: Cells, note: str
) -> reports.Table:
    return reports.Table(
        "table_4",
        "Regions of test images (Table 4)",
        "ACC: accuracy of the region that a test image falls into, over the images "
        "whose density there is at least α. AR: the share of those images. τ: number "
        "of labelled images of each combination." + _CHECKED + note,
        _head("τ"),
        _others(_REGIONS, relations, "tau") + _lines(systems, shown, 3),
    )


def _relation_table(
    relations: str, systems: Mapping[str, Cells], shown: Cells, tau: float, note: str
) -> reports.Table:
    return reports.Table(
        "table_5",
        "Chains of relations (Table 5)",
        "Accuracy of the region in which a chain of relations ends, at the τ nearest "
        f"to {tau:g}, from codes drawn from the prior as in the paper, and from codes "
        "of test images. ACC is a mean over relations, which may exceed the bound a "
        "little where they are not accepted equally often." + _CHECKED + note,
        _head("depth"),
        _others(_RELATIONS, relations, "depth") + _lines(systems, shown, 4),
    )


def _curves(
    name: str, title: str, second: str, systems: Mapping[str, Cells], shown: Cells
) -> reports.Figure:
    rows = {**systems, "published": shown} if shown else systems
    return reports.Figure(
        name,
        title,
        f"A curve for each {second}, over the threshold α; bars: standard deviation "
        "over seeds.",
        reports.plots.line_grid(
            {
                label: {
                    "accuracy": _over_alpha(cells, second, 0),
                    "accepted ratio": _over_alpha(cells, second, 1),
                }
                for label, cells in rows.items()
            },
            "α",
        ),
    )


def _over_alpha(
    cells: Cells, second: str, column: int
) -> dict[str, dict[float, list[float]]]:
    curves: dict[str, dict[float, list[float]]] = {}
    for alpha, value in sorted(cells):
        known = [row[column] for row in cells[alpha, value] if row[column] is not None]
        if known:
            curves.setdefault(f"{second} = {value:g}", {})[alpha] = known
    return curves
