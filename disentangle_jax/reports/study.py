"""Plots of a study of many models: matrices, distributions, curves and points."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from disentangle_jax.reports.plots import new_figure, png

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def matrices(
    panels: Mapping[str, np.ndarray],
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    signed: bool = True,
) -> bytes:
    """Returns matrices ``[rows, columns]`` below each other, written in hundredths.

    Args:
      panels: matrices by title; NaN cells are blank.
      row_names: names of the rows of all matrices.
      column_names: names of the columns of all matrices.
      signed: values lie in [−1, 1], white at 0; else in [0, 1], white at one half.
    """
    low, high = (-1.0, 1.0) if signed else (0.0, 1.0)
    rows, columns = len(row_names), len(column_names)
    height = 0.34 * rows + 0.35
    figure = new_figure(height * len(panels) + 0.9)
    grid = figure.subplots(len(panels), squeeze=False, sharex=True)[:, 0]
    for axes, (title, values) in zip(grid, panels.items()):
        axes.imshow(values, cmap="RdBu", vmin=low, vmax=high, aspect="auto")
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_yticks(range(rows), row_names, fontsize=8)
        for r in range(rows):
            for c in range(columns):
                if not np.isfinite(values[r, c]):
                    continue
                strong = abs(values[r, c] - (low + high) / 2) > 0.35 * (high - low)
                axes.text(
                    c, r, f"{100 * values[r, c]:.0f}", ha="center", va="center",
                    fontsize=7, color="white" if strong else "black",
                )  # fmt: skip
    grid[-1].set_xticks(
        range(columns), column_names, rotation=40, ha="right", fontsize=8
    )
    return png(figure)


def distributions(
    panels: Mapping[str, Mapping[str, np.ndarray]],
    *,
    label: str = "",
    same_groups: bool = True,
) -> bytes:
    """Returns a column of points and a box per group, panels below each other.

    Args:
      panels: ``{title: {group: values}}``; NaN values are left out. The box spans the
        quartiles, its line is the median.
      label: label of the horizontal axis.
      same_groups: all panels have the same groups, which only the last one names; else
        each panel names its own.
    """
    figure = new_figure((1.75 if same_groups else 2.05) * len(panels) + 0.8)
    grid = figure.subplots(
        len(panels), squeeze=False, sharex=same_groups, sharey=not same_groups
    )[:, 0]
    rng = np.random.default_rng(0)
    for axes, (title, groups) in zip(grid, panels.items()):
        for place, values in enumerate(groups.values()):
            values = np.ravel(values)
            values = values[np.isfinite(values)]
            if not len(values):
                continue
            colour = f"C{place % 10}"
            spread = 0.22 * (rng.random(len(values)) - 0.5)
            axes.plot(place + spread, values, ".", color=colour, ms=4, alpha=0.6, mew=0)
            axes.boxplot(
                [values], positions=[place], widths=0.55, showfliers=False,
                medianprops={"color": colour, "linewidth": 2},
                boxprops={"color": colour}, whiskerprops={"color": colour},
                capprops={"color": colour}, manage_ticks=False,
            )  # fmt: skip
        axes.set_title(title, loc="left", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(axis="y", alpha=0.3)
        if axes is grid[-1] or not same_groups:
            turned = {"rotation": 40, "ha": "right"} if same_groups else {}
            axes.set_xticks(range(len(groups)), list(groups), fontsize=8, **turned)
    grid[-1].set_xlabel(label)
    return png(figure)


def strength_curves(
    panels: Mapping[str, Mapping[str, Sequence[np.ndarray]]], y_name: str
) -> bytes:
    """Returns curves over the hyperparameter values of methods.

    Args:
      panels: ``{title: {method: (x, value, low, high)}}``, each ``[hyperparameter
        values]``; the band spans low to high. The horizontal axis is logarithmic where
        all x are positive.
      y_name: label of the vertical axis, which the panels share.
    """
    from matplotlib.ticker import NullLocator

    figure = new_figure(2.1 * len(panels) + 0.7)
    grid = figure.subplots(len(panels), squeeze=False, sharex=True, sharey=True)[:, 0]
    for axes, methods in zip(grid, panels.values()):
        for number, (method, (x, value, low, high)) in enumerate(methods.items()):
            colour = f"C{number % 10}"
            axes.plot(x, value, "o-", color=colour, label=method, ms=4)
            axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)
    places = {x for methods in panels.values() for v in methods.values() for x in v[0]}
    if min(places) > 0:
        grid[-1].set_xscale("log")
        grid[-1].set_xticks(_apart(places))
        grid[-1].xaxis.set_major_formatter("{x:g}")
        grid[-1].xaxis.set_minor_locator(NullLocator())
    return _labelled(figure, panels, "hyperparameter value", y_name)


def _apart(values: Iterable[float]) -> list[float]:
    """Returns those of positive values whose labels fit on a logarithmic axis."""
    first, *others = sorted(values)
    kept = [first]
    least = (max(others, default=first) / first) ** 0.06
    for value in others:
        if value > kept[-1] * least:
            kept.append(value)
    return kept


def clouds(
    panels: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]],
    x_name: str,
    y_name: str,
) -> bytes:
    """Returns models as points, coloured by method, panels below each other.

    Args:
      panels: ``{title: {method: (x, y)}}``.
      x_name: label of the horizontal axis.
      y_name: label of the vertical axis.
    """
    figure = new_figure(2.4 * len(panels) + 0.6)
    grid = figure.subplots(len(panels), squeeze=False, sharex=True)[:, 0]
    for axes, methods in zip(grid, panels.values()):
        for number, (method, (x, y)) in enumerate(methods.items()):
            axes.plot(
                np.ravel(x), np.ravel(y), ".", color=f"C{number % 10}", label=method,
                ms=6, alpha=0.7,
            )  # fmt: skip
    return _labelled(figure, panels, x_name, y_name)


def _labelled(
    figure: "Figure", titles: Iterable[str], x_name: str, y_name: str
) -> bytes:
    """Names the panels and axes of a figure, adds a legend, and returns its PNG."""
    for axes, title in zip(figure.axes, titles):
        axes.set_title(title, loc="left", fontsize=9)
        axes.set_ylabel(y_name, fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
    figure.axes[-1].set_xlabel(x_name)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside upper center",
        ncols=3, fontsize=7,
    )  # fmt: skip
    return png(figure)


def interval_bars(
    bars: Mapping[str, tuple[float, float, float]],
    marks: Mapping[str, float],
    *,
    mark_name: str,
    line: float,
    x_name: str,
) -> bytes:
    """Returns a bar with its interval per name, and a mark to compare it with.

    Args:
      bars: ``{name: (value, low, high)}``; NaN draws nothing.
      marks: values to compare with, by name.
      mark_name: what the marks are.
      line: position of a line through all bars.
      x_name: label of the horizontal axis.
    """
    figure = new_figure(0.42 * len(bars) + 1.2)
    axes = figure.add_subplot(xlabel=x_name)
    shown = False
    for place, (name, (value, low, high)) in enumerate(bars.items()):
        axes.barh(place, value, color="#1f5fa8", alpha=0.5, height=0.6)
        if np.isfinite([low, high]).all():
            axes.plot([low, high], [place, place], color="black")
        if name in marks:
            axes.plot(
                marks[name], place, "D", color="#c43b2b", ms=6,
                label=None if shown else mark_name,
            )  # fmt: skip
            shown = True
    axes.axvline(line, color="black", lw=1, ls=":")
    axes.set_yticks(range(len(bars)), list(bars), fontsize=8)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    if shown:
        axes.legend(fontsize=8, loc="lower right")
    axes.grid(axis="x", alpha=0.3)
    return png(figure)
