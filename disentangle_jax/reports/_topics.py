"""The topics of a run: their words as a table, how they correlate as heat maps."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from disentangle_jax.reports import _html, _plots

_SHOWN = 10  # Topics in the text that a run prints.


def topic_section(scores: Mapping[str, Any]) -> str:
    """Returns the table of all topics, those that tell most of a document first."""
    rows = [
        (
            f"z{number}",
            str(topic["group"]),
            f"{topic['information']:.2f}",
            f"{topic['npmi']:.2f}",
            " ".join(topic["words"]),
        )
        for number, topic in _by_information(scores)
    ]
    return _html.section(
        "Topics",
        "The words whose odds rise most with each latent. Information: how much the "
        "latent tells of a document, in nats. NPMI: whether its words come together in "
        "training documents (1 only together, 0 by chance, -1 never).",
        _html.table(("latent", "group", "information", "NPMI", "words"), rows, -1),
    )


def topic_lines(scores: Mapping[str, Any]) -> list[str]:
    """Returns the ten topics that tell most of a document, a line of text each."""
    return [
        f"z{number:<3} group {topic['group']}  {topic['information']:.2f} nats  "
        f"NPMI {topic['npmi']:5.2f}  {' '.join(topic['words'])}"
        for number, topic in _by_information(scores)[:_SHOWN]
    ]


def _by_information(scores: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    topics = enumerate(scores["topics"], start=1)
    return sorted(topics, key=lambda numbered: -numbered[1]["information"])


def topic_figures(
    scores: Mapping[str, Any],
) -> Iterator[tuple[str, str, str, bytes]]:
    """Yields file name, title, caption and content of the pictures of topics."""
    groups = scores["settings"]["latent_groups"]
    names = [f"z{number}" for number in range(1, sum(groups) + 1)]
    yield (
        "information",
        "What each latent tells of a document",
        "Mutual information of a document and each latent, in nats, largest first in "
        "each group. Latents at zero are pruned: they hold no topic.",
        _information_bars(scores["topics"], len(groups)),
    )
    matrix = np.asarray(
        scores["metrics"]["topic_correlation"]["matrices"]["correlation"]
    )
    yield (
        "topic_correlation",
        "Which topics go together",
        "Correlation of the latents over test documents, blue where topics come "
        "together and red where they exclude each other. Lines part the groups.",
        correlation_map(matrix, names, groups),
    )
    if "planted" in scores["metrics"]:
        for kind, words in (
            ("planted", "The correlations that made the documents"),
            ("found", "The correlations that the model found"),
        ):
            values = np.asarray(scores["metrics"]["planted"]["matrices"][kind])
            topics = [f"topic {number}" for number in range(1, len(values) + 1)]
            yield (
                f"correlation_{kind}",
                words,
                "Between the true topics of this corpus, in their order"
                + ("." if kind == "planted" else ", each by the latent that found it."),
                correlation_map(values, topics, ()),
            )


def correlation_map(
    values: np.ndarray, names: Sequence[str], groups: Sequence[int]
) -> bytes:
    """Returns correlations ``[D, D]`` as a picture, with lines between groups."""
    figure = _plots._figure(4.4)
    axes = figure.add_subplot()
    shown = np.array(values, float)
    np.fill_diagonal(shown, np.nan)  # Always 1: says nothing.
    drawn = axes.imshow(shown, cmap="RdBu", vmin=-1.0, vmax=1.0)
    every = max(1, len(names) // 10)
    places = range(0, len(names), every)
    axes.set_xticks(places, [names[place] for place in places], rotation=90)
    axes.set_yticks(places, [names[place] for place in places])
    for end in np.cumsum(groups)[:-1]:
        axes.axhline(end - 0.5, color="black", lw=0.8)
        axes.axvline(end - 0.5, color="black", lw=0.8)
    figure.colorbar(drawn, ax=axes, shrink=0.8)
    return _plots._png(figure)


def _information_bars(topics: Sequence[Mapping[str, Any]], groups: int) -> bytes:
    figure = _plots._figure(2.6)
    axes = figure.add_subplot(xlabel="latent", ylabel="nats")
    start = 0
    for group in range(1, groups + 1):
        values = [t["information"] for t in topics if t["group"] == group]
        places = np.arange(start, start + len(values))
        axes.bar(places, sorted(values, reverse=True), label=f"group {group}")
        start += len(values)
    axes.set_xticks([])
    axes.margins(y=0.25)  # Room for the legend.
    axes.legend(fontsize=8, loc="upper right", ncols=groups)
    return _plots._png(figure)
