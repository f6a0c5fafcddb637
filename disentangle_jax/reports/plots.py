"""Curves, heat maps, bars over seeds and scatter plots, as PNG files.

Sized for a phone: narrow, with text that can be read when the width is 360 pixels.
"""

import io
from collections.abc import Collection, Mapping, Sequence

import numpy as np

_DPI = 160
_WIDTH = 5.0
_BLUE = "#1f5fa8"


def loss_curve(steps: Sequence[int], losses: Sequence[float]) -> bytes:
    """Returns the loss over steps; NaN leaves a gap."""
    figure = _figure(2.6)
    axes = figure.add_subplot(xlabel="step", ylabel="loss")
    axes.plot(steps, losses, color=_BLUE)
    axes.grid(alpha=0.3)
    return _png(figure)


def heat_map(
    values: np.ndarray, row_names: Sequence[str], column_names: Sequence[str]
) -> bytes:
    """Returns a matrix ``[rows, columns]`` of values from 0 up, written in cells."""
    rows, columns = values.shape
    figure = _figure(0.28 * rows + 1.3)
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
    return _png(figure)


def score_bars(
    scores: Mapping[str, Mapping[str, Sequence[float]]], at_most_one: Collection[str]
) -> bytes:
    """Returns a bar per model for each score: mean, standard deviation, each seed.

    Args:
      scores: ``{score: {model: values over seeds}}``. The standard deviation divides
        by n − 1, and is left out where there is one seed. Scores with the same name
        before a dot share their scale.
      at_most_one: names of those that are drawn on a scale up to 1, their best.
    """
    names = dict.fromkeys(model for models in scores.values() for model in models)
    colours = {model: f"C{place % 10}" for place, model in enumerate(names)}
    heights = [0.3 * len(models) + 0.65 for models in scores.values()]
    figure = _figure(sum(heights))
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
            # Below each other, so that close seeds can be told apart.
            spread = 0.25 if len(values) > 1 else 0.0
            rows = place + np.linspace(-spread, spread, len(values))
            axes.plot(values, rows, "x", color=colour, ms=6, mew=1.5)
        axes.set_yticks(range(len(models)), list(models))
        axes.set_ylim(len(models) - 0.5, -0.5)
        axes.set_title(score, loc="left", fontsize=10)
        axes.set_xlim(right=1.05 * ends[score.partition(".")[0]] or 1.0)
        axes.grid(axis="x", alpha=0.3)
    return _png(figure)


def scatter(
    points: Mapping[str, Sequence[tuple[float, float]]], x_name: str, y_name: str
) -> bytes:
    """Returns each seed of each model as a cross and their mean as a circle."""
    figure = _figure(3.8)
    axes = figure.add_subplot(xlabel=x_name, ylabel=y_name)
    for place, (model, pairs) in enumerate(points.items()):
        x, y = np.asarray(pairs, float).T
        colour = f"C{place % 10}"
        axes.plot(x, y, "x", color=colour, ms=6, mew=1.5)
        axes.plot(x.mean(), y.mean(), "o", color=colour, ms=8, alpha=0.6, label=model)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return _png(figure)


def bar_rows(
    rows: Mapping[str, tuple[Sequence[str], Sequence[float]]], y_name: str
) -> bytes:
    """Returns a row of bars for each model: ``{model: (names, heights)}``."""
    figure = _figure(1.5 * len(rows) + 0.3)
    grid = figure.subplots(len(rows), squeeze=False, sharey=True)
    for place, (axes, (model, (names, heights))) in enumerate(
        zip(grid[:, 0], rows.items())
    ):
        axes.bar(range(len(heights)), heights, color=f"C{place % 10}", width=0.7)
        axes.set_xticks(range(len(heights)), names)
        axes.set_ylabel(y_name)
        axes.set_title(model, loc="left", fontsize=10)
        axes.grid(axis="y", alpha=0.3)
    return _png(figure)


def lines(
    curves: Mapping[str, Mapping[float, Sequence[float]]], x_name: str, y_name: str
) -> bytes:
    """Returns a line per curve, ``{x: values over seeds}``, through the means."""
    figure = _figure(3.6)
    axes = figure.add_subplot(xlabel=x_name, ylabel=y_name)
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
    axes.legend(fontsize=7)
    return _png(figure)


def cumulative(groups: Mapping[str, np.ndarray], x_name: str) -> bytes:
    """Returns the share of each group's values that lie below a value."""
    figure = _figure(3.2)
    axes = figure.add_subplot(xlabel=x_name, ylabel="share of pairs")
    for place, (name, values) in enumerate(groups.items()):
        shares = np.linspace(0.0, 1.0, 201)
        style = "--" if name == "random" else "-"
        colour = f"C{place % 10}"
        axes.plot(np.quantile(values, shares), shares, style, color=colour, label=name)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return _png(figure)


def histograms(groups: Mapping[str, np.ndarray], x_name: str) -> bytes:
    """Returns how the values of each group are spread, each as a share of its own."""
    figure = _figure(3.0)
    axes = figure.add_subplot(xlabel=x_name, ylabel="density")
    every = np.concatenate(list(groups.values()))
    bins = np.linspace(every.min(), every.max(), 41)
    for name, values in groups.items():
        if len(values):
            axes.hist(values, bins, density=True, alpha=0.5, label=name)
    axes.legend(fontsize=8)
    return _png(figure)


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Returns mean and standard deviation (n − 1); None for the latter of one value."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return float(values.mean()), None
    return float(values.mean()), float(values.std(ddof=1))


def _figure(height: float):
    # Figure, not pyplot: no window system, no global state.
    from matplotlib.figure import Figure

    return Figure(figsize=(_WIDTH, height), dpi=_DPI, layout="constrained")


def _png(figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
