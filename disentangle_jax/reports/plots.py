"""Curves, heat maps, bars and scatter plots as PNG files.

Plots are narrow, so that their text can be read on a phone, 360 pixels wide.
"""

import io
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DPI = 160
_WIDTH = 5.0


def curves(
    curves: Mapping[
        str, tuple[Sequence[float] | np.ndarray, Sequence[float] | np.ndarray]
    ],
    x_name: str,
    y_name: str,
) -> bytes:
    """Returns curves, ``{name: (x, y)}``; NaN leaves a gap.

    Where ``y`` is ``[seeds, n]``, a curve is the mean, with a band of one standard
    deviation (n − 1) to either side.
    """
    figure = new_figure(2.6)
    axes = figure.add_subplot(xlabel=x_name, ylabel=y_name)
    for place, (name, (x, y)) in enumerate(curves.items()):
        colour, seeds = f"C{place % 10}", np.atleast_2d(np.asarray(y, float))
        mean = seeds.mean(axis=0)
        # There are ten colours.
        style = ("-", "--", ":")[place // 10 % 3]
        # A line of one point is invisible.
        marker = "o" if np.isfinite(mean).sum() == 1 else None
        axes.plot(x, mean, style, color=colour, label=name, marker=marker)
        if len(seeds) > 1:
            spread = seeds.std(axis=0, ddof=1)
            axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.2)
    axes.grid(alpha=0.3)
    if len(curves) > 1:
        axes.legend(fontsize=8, ncols=1 + (len(curves) > 5))
    return png(figure)


def heat_map(
    values: np.ndarray, row_names: Sequence[str], column_names: Sequence[str]
) -> bytes:
    """Returns a matrix ``[rows, columns]`` of values from 0, written in its cells."""
    rows, columns = values.shape
    figure = new_figure(0.28 * rows + 1.3)
    axes = figure.add_subplot()
    top = max(float(values.max()), 1e-12)
    axes.imshow(values, cmap="Blues", vmin=0.0, vmax=top, aspect="auto")
    axes.set_yticks(range(rows), row_names)
    axes.set_xticks(range(columns), column_names, rotation=35, ha="right")
    for r in range(rows):
        for c in range(columns):
            colour = "white" if values[r, c] > 0.6 * top else "black"
            axes.text(
                c, r, f"{values[r, c]:.2f}", color=colour, ha="center", va="center",
                fontsize=8,
            )  # fmt: skip
    return png(figure)


def correlation_map(
    values: np.ndarray, names: Sequence[str], groups: Sequence[int]
) -> bytes:
    """Returns correlations ``[D, D]`` as colours, with lines between groups."""
    figure = new_figure(4.4)
    axes = figure.add_subplot()
    shown = np.array(values, float)
    np.fill_diagonal(shown, np.nan)  # The diagonal is always 1.
    drawn = axes.imshow(shown, cmap="RdBu", vmin=-1.0, vmax=1.0)
    places = range(0, len(names), max(1, len(names) // 10))
    axes.set_xticks(places, [names[place] for place in places], rotation=90)
    axes.set_yticks(places, [names[place] for place in places])
    for end in np.cumsum(groups)[:-1]:
        axes.axhline(end - 0.5, color="black", lw=0.8)
        axes.axvline(end - 0.5, color="black", lw=0.8)
    figure.colorbar(drawn, ax=axes, shrink=0.8)
    return png(figure)


def bar_groups(
    groups: Mapping[str, Sequence[float] | np.ndarray],
    x_name: str,
    y_name: str,
    names: Sequence[str] = (),
) -> bytes:
    """Returns groups of bars side by side, ``{group: heights}``, perhaps with names."""
    figure = new_figure(2.6)
    axes = figure.add_subplot(xlabel=x_name, ylabel=y_name)
    start = 0
    for name, heights in groups.items():
        axes.bar(range(start, start + len(heights)), heights, label=name)
        start += len(heights)
    axes.set_xticks(range(len(names)), names, rotation=90 if names else 0, fontsize=8)
    if len(groups) > 1:
        axes.margins(y=0.25)  # Leaves space for the legend.
        axes.legend(fontsize=8, loc="upper right", ncols=len(groups))
    return png(figure)


def score_bars(
    scores: Mapping[str, Mapping[str, Sequence[float]]], at_most_one: Collection[str]
) -> bytes:
    """Returns a bar per model for each score: mean, standard deviation, each seed.

    Args:
      scores: ``{score: {model: values over seeds}}``. The standard deviation divides
        by n − 1, and is not drawn for a single seed. Scores with the same name before
        the dot share their scale.
      at_most_one: names of the scores whose scale ends at 1, their best value.
    """
    names = dict.fromkeys(model for models in scores.values() for model in models)
    colours = {model: f"C{place % 10}" for place, model in enumerate(names)}
    heights = [0.3 * len(models) + 0.65 for models in scores.values()]
    figure = new_figure(sum(heights))
    grid = figure.subplots(
        len(scores), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    ends: dict[str, float] = {}
    for score, models in scores.items():
        kind = score.partition(".")[0]
        ends[kind] = max(ends.get(kind, 0.0), float(score in at_most_one))
        for values in models.values():
            mean, deviation = mean_and_deviation(values)
            furthest = max(*values, mean + (deviation or 0.0))
            ends[kind] = max(ends[kind], furthest)
    for axes, (score, models) in zip(grid[:, 0], scores.items()):
        for place, (model, values) in enumerate(models.items()):
            mean, deviation = mean_and_deviation(values)
            colour = colours[model]
            axes.barh(place, mean, color=colour, alpha=0.45, height=0.7)
            if deviation is not None:
                axes.errorbar(mean, place, xerr=deviation, color="black", capsize=3)
            # Below each other, so that close seeds do not overlap.
            spread = 0.25 if len(values) > 1 else 0.0
            rows = place + np.linspace(-spread, spread, len(values))
            axes.plot(values, rows, "x", color=colour, ms=6, mew=1.5)
        axes.set_yticks(range(len(models)), list(models))
        axes.set_ylim(len(models) - 0.5, -0.5)
        axes.set_title(score, loc="left", fontsize=10)
        axes.set_xlim(right=1.05 * ends[score.partition(".")[0]] or 1.0)
        axes.grid(axis="x", alpha=0.3)
    return png(figure)


class Bar(NamedTuple):
    """One bar of :func:`sorted_bars`.

    Attributes:
      label: its name.
      kind: bars of one kind share a colour.
      values: its values over seeds.
      hatched: whether it is hatched.
    """

    label: str
    kind: str
    values: Sequence[float]
    hatched: bool = False


def sorted_bars(bars: Sequence[Bar], x_name: str) -> bytes:
    """Returns bars in the order of their means, the smallest first, coloured by kind.

    Crosses are seeds.
    """
    from matplotlib.patches import Patch

    kinds = list(dict.fromkeys(bar.kind for bar in bars))
    ordered = sorted(bars, key=lambda bar: np.mean(bar.values))
    figure = new_figure(0.24 * len(bars) + 1.1)
    axes = figure.add_subplot(xlabel=x_name)
    for place, bar in enumerate(ordered):
        colour = f"C{kinds.index(bar.kind) % 10}"
        hatch = "//" if bar.hatched else None
        mean = np.mean(bar.values)
        axes.barh(place, mean, color=colour, alpha=0.5, hatch=hatch, height=0.7)
        if len(bar.values) > 1:
            axes.plot(bar.values, [place] * len(bar.values), "x", color=colour, ms=5)
    axes.set_yticks(range(len(ordered)), [bar.label for bar in ordered], fontsize=8)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    shown = [Patch(color=f"C{i % 10}", alpha=0.5, label=k) for i, k in enumerate(kinds)]
    axes.legend(
        handles=shown, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1)
    )
    return png(figure)


def scatter(
    points: Mapping[str, Sequence[tuple[float, float]]], x_name: str, y_name: str
) -> bytes:
    """Returns each seed of each model as a cross and their mean as a circle."""
    figure = new_figure(3.8)
    axes = figure.add_subplot(xlabel=x_name, ylabel=y_name)
    for place, (model, pairs) in enumerate(points.items()):
        x, y = np.asarray(pairs, float).T
        colour = f"C{place % 10}"
        axes.plot(x, y, "x", color=colour, ms=6, mew=1.5)
        mark = "os^D"[place // 10 % 4]  # There are ten colours.
        axes.plot(x.mean(), y.mean(), mark, color=colour, ms=8, alpha=0.6, label=model)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return png(figure)


def bar_rows(
    rows: Mapping[str, tuple[Sequence[str], Sequence[float]]], y_name: str
) -> bytes:
    """Returns a row of bars for each model: ``{model: (names, heights)}``."""
    figure = new_figure(1.5 * len(rows) + 0.3)
    grid = figure.subplots(len(rows), squeeze=False, sharey=True)
    for place, (axes, (model, (names, heights))) in enumerate(
        zip(grid[:, 0], rows.items())
    ):
        axes.bar(range(len(heights)), heights, color=f"C{place % 10}", width=0.7)
        axes.set_xticks(range(len(heights)), names)
        axes.set_ylabel(y_name)
        axes.set_title(model, loc="left", fontsize=10)
        axes.grid(axis="y", alpha=0.3)
    return png(figure)


def lines(
    curves: Mapping[str, Mapping[float, Sequence[float]]],
    x_name: str,
    y_name: str,
    *,
    logarithmic: bool = False,
) -> bytes:
    """Returns a line per curve, ``{x: values over seeds}``, through the means.

    `logarithmic` is about the horizontal axis.
    """
    figure = new_figure(3.6)
    axes = figure.add_subplot(xlabel=x_name, ylabel=y_name)
    if logarithmic:
        axes.set_xscale("log", base=2)
    _draw_lines(axes, curves)
    axes.legend(fontsize=7)
    return png(figure)


def line_grid(
    rows: Mapping[str, Mapping[str, Mapping[str, Mapping[float, Sequence[float]]]]],
    x_name: str,
) -> bytes:
    """Returns plots like :func:`lines` in a grid: ``{row: {column: curves}}``."""
    figure = new_figure(2.0 * len(rows) + 0.4)
    columns = max(len(row) for row in rows.values())
    grid = figure.subplots(len(rows), columns, squeeze=False, sharex=True)
    for line, (row, plots) in zip(grid, rows.items()):
        for axes, (column, curves) in zip(line, plots.items()):
            _draw_lines(axes, curves)
            axes.set_ylabel(column)
        line[0].set_title(row, loc="left", fontsize=9)
        line[0].legend(fontsize=7)
    for axes in grid[-1]:
        axes.set_xlabel(x_name)
    return png(figure)


def _draw_lines(
    axes: "Axes", curves: Mapping[str, Mapping[float, Sequence[float]]]
) -> None:
    for place, (name, points) in enumerate(curves.items()):
        spread = [mean_and_deviation(values) for values in points.values()]
        axes.errorbar(
            list(points),
            [mean for mean, _ in spread],
            yerr=[deviation or 0.0 for _, deviation in spread],
            color=f"C{place % 10}",
            marker="o",
            ms=4,
            capsize=2,
            label=name,
        )
    axes.grid(alpha=0.3)


def cumulative(groups: Mapping[str, np.ndarray], x_name: str) -> bytes:
    """Returns the cumulative distribution of the values of each group."""
    figure = new_figure(3.2)
    axes = figure.add_subplot(xlabel=x_name, ylabel="share of pairs")
    for place, (name, values) in enumerate(groups.items()):
        shares = np.linspace(0.0, 1.0, 201)
        style = "--" if name == "random" else "-"
        colour = f"C{place % 10}"
        axes.plot(np.quantile(values, shares), shares, style, color=colour, label=name)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return png(figure)


def histograms(groups: Mapping[str, np.ndarray], x_name: str) -> bytes:
    """Returns a histogram of the values of each group, as densities."""
    figure = new_figure(3.0)
    axes = figure.add_subplot(xlabel=x_name, ylabel="density")
    every = np.concatenate(list(groups.values()))
    bins = np.linspace(every.min(), every.max(), 41).tolist()
    for name, values in groups.items():
        if len(values):
            axes.hist(values, bins, density=True, alpha=0.5, label=name)
    axes.legend(fontsize=8)
    return png(figure)


def clouds(panels: Mapping[str, Sequence[np.ndarray]], radius: float) -> bytes:
    """Returns point clouds ``[n, 2]`` of each panel, and a circle around the origin."""
    figure = new_figure(2.6 * -(-len(panels) // 3))
    grid = figure.subplots(-(-len(panels) // 3), 3, squeeze=False)
    angle = np.linspace(0, 2 * np.pi, 100)
    for axes in grid.ravel()[len(panels) :]:
        axes.set_axis_off()
    for axes, (title, groups) in zip(grid.ravel(), panels.items()):
        axes.plot(radius * np.cos(angle), radius * np.sin(angle), "k--", lw=0.8)
        for place, points in enumerate(groups):
            axes.plot(*points.T, ".", color=f"C{place % 10}", ms=3, alpha=0.5)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_aspect("equal", "datalim")
        axes.grid(alpha=0.3)
    return png(figure)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns mean and standard deviation (n − 1); None for the latter of one value."""
    array = np.asarray(values, float)
    if len(array) < 2:
        return float(array.mean()), None
    return float(array.mean()), float(array.std(ddof=1))


def new_figure(height: float) -> "Figure":
    """Returns an empty matplotlib figure of the common width."""
    # Figure, not pyplot: no window system, no global state.
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")


def png(figure: "Figure") -> bytes:
    """Returns a matplotlib figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
