"""The scores of a run as rows and as a text table."""

import json
import pathlib
from typing import Any, NamedTuple

from disentangle_jax import metrics
from disentangle_jax.reports._topics import topic_lines

# Plain words for the headline scores; the metrics room has the definitions.
_MEANING = {
    "mig": "gap between the two latents that know most about a factor (1 is best)",
    "dci.disentanglement": "each latent speaks of one factor (1 is best)",
    "dci.completeness": "each factor is held by one latent (1 is best)",
    "dci.informativeness": "factors predicted from the codes, accuracy (1 is best)",
    "bce": "reconstruction, nats an image (lower is better)",
    "mse": "reconstruction, mean squared error a pixel (lower is better)",
    "mse_of_mean_image": "the same for answering with the mean image: the bar to beat",
    "fid.reconstruction": "Inception distance of reconstructions to images (0 is best)",
    "fid.prior": "the same of images from prior codes (0 is best)",
    "fid.hybrid": "the same of images from hybrid codes (0 is best)",
    "nll": "words given their codes, nats a document (lower is better)",
    "kl": "what the codes cost, nats a document",
    "perplexity": "of a word, bound, mean over documents (lower is better)",
    "perplexity.by_words": "the same, mean over words",
    "npmi": "coherence: whether the words of a topic come together (1 is best)",
    "npmi.active": "the same of active topics",
    "active_topics": "topics that tell something of a document",
    "active_topics.information": "what all latents tell, one by one, nats",
    "topic_correlation.within": "mean |correlation| of topics of one group",
    "topic_correlation.between": "the same of topics of different groups",
    "planted.matched": "correlation of the true topics with their latents (1 is best)",
    "planted.agreement": "of true with found correlations (1 is best)",
    "planted.partners_planted": "mean correlation of topics planted to correlate",
    "planted.partners_found": "the same as found",
    "planted.partners_apart": "share of them in different groups",
}


class Row(NamedTuple):
    name: str
    value: float | None
    meaning: str


def score_rows(scores: dict[str, Any]) -> list[Row]:
    """Returns one row per number of a ``scores.json``."""
    flat = dict(scores["reconstruction"])
    for name, score in scores["metrics"].items():
        for key, value in score["values"].items():
            flat[name if key == name else f"{name}.{key}"] = value
    return [Row(name, value, _MEANING.get(name, "")) for name, value in flat.items()]


def direction(name: str) -> str:
    """Returns ``↑`` or ``↓``, which way a number of a row is better, or nothing."""
    score = name.partition(".")[0]
    if score in ("bce", "mse", "mse_of_mean_image", "nll", "perplexity"):
        return "↓"
    if score not in metrics.names():
        return ""
    return {True: "↑", False: "↓", None: ""}[metrics.info(score).higher_is_better]


def score_table(workdir: pathlib.Path) -> str:
    """Returns the scores of an evaluated run as text, one line each."""
    scores = json.loads((workdir / "scores.json").read_text())
    rows = score_rows(scores)
    width = max(len(row.name) for row in rows)
    lines = [
        f"{row.name:<{width}}  {format_value(row.value):>9}  {row.meaning}".rstrip()
        for row in rows
    ]
    lines += [f"{name}: not computed: {why}" for name, why in scores["errors"].items()]
    if "topics" in scores:
        lines += topic_lines(scores)
    return "\n".join(lines)


def format_value(value: float | None) -> str:
    """Returns four significant decimals for small numbers, one for large ones."""
    if value is None:
        return "–"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.4f}"
