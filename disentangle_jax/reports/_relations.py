"""What the page of a run shows of labelled regions and relations between them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from disentangle_jax.reports import _html
from disentangle_jax.reports._grids import png, sheet

_ROW = 13  # Regions in a row of decoded means, at most.


def format_share(value: float | None) -> str:
    """Returns a share with three digits; a dash where nothing was accepted."""
    return "–" if value is None else f"{value:.3f}"


def cluster_table(rows: Iterable[Mapping[str, Any]]) -> tuple[Sequence, Sequence]:
    """Returns head and rows of a table like the paper's Table 4."""
    rows = list(rows)
    by_alpha = {(row["threshold"], row["alpha"]): row for row in rows}
    lines = []
    for alpha in sorted({row["alpha"] for row in rows}):
        line = [f"{alpha:g}"]
        for threshold in ("density", "posterior"):
            row = by_alpha[threshold, alpha]
            line += [format_share(row["accuracy"]), format_share(row["accepted"])]
        lines.append(line)
    head = ("α", "accuracy", "accepted", "accuracy (posterior)", "accepted (posterior)")
    return head, lines


def relation_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[Sequence, Sequence]:
    """Returns head and rows of a table like the paper's Table 5."""
    chosen = [row for row in rows if row["threshold"] == "density"]
    lines = []
    for alpha in sorted({row["alpha"] for row in chosen}):
        for depth in sorted({row["depth"] for row in chosen}):
            line = [f"{alpha:g}", str(depth)]
            for source in ("prior", "images"):
                (row,) = (
                    r
                    for r in chosen
                    if (r["alpha"], r["depth"], r["source"]) == (alpha, depth, source)
                )
                line += [format_share(row["accuracy"]), format_share(row["accepted"])]
            lines.append(line)
    head = ("α", "depth", "accuracy", "accepted", "on test images", "accepted")
    return head, lines


def region_section(scores: Mapping[str, Any]) -> str:
    """Returns the tables of a run with regions, as HTML."""
    found = scores["regions"]
    sections = [
        _html.section(
            "Which region does a test image fall into?",
            f"{found['fitted']} of {found['regions']} regions were fitted to "
            f"{found['tau']:g} labelled images each. Accuracy is over the images that "
            "are accepted: whose density in the best region is at least α (a density, "
            "which depends on the scale of the code), or whose posterior is. Accuracy "
            "× accepted never exceeds the accuracy at α = 0.",
            _html.table(*cluster_table(found["clusters"]), number=1),
        ),
        _html.section(
            "Do relations lead to the right region?",
            "Chains of random relations, each applied to the result of the last. From "
            "codes drawn from the prior, and from codes of test images, whose own "
            "region may be read wrongly before any relation.",
            _html.table(*relation_rows(found["relations"]), number=2),
        ),
        _html.section(
            "Are outliers rejected?",
            "Outliers are test images with their pixels shuffled.",
            _html.table(
                ("α", "outliers rejected", "test images rejected"),
                [
                    (
                        f"{row['alpha']:g}",
                        format_share(row["rejected_outliers"]),
                        format_share(row["rejected"]),
                    )
                    for row in found["outliers"]
                    if row["threshold"] == "density"
                ],
                number=1,
            ),
        ),
    ]
    if found["factor_codes"]:
        rows = [
            (f"{name}.{key}", f"{value:.3f}")
            for name, score in found["factor_codes"].items()
            for key, value in score.items()
            if value is not None
        ]
        sections.append(
            _html.section(
                "Scores of the factors that are read off",
                "The code is replaced by the factors of its region before it is scored "
                "(paper, Sec. 4.5); the scores at the top are of the code itself.",
                _html.table(("score", "value"), rows, number=1),
            )
        )
    return "".join(sections)


def region_figures(
    scores: Mapping[str, Any], pictures: Mapping[str, np.ndarray]
) -> list[tuple[str, str, str, bytes]]:
    """Returns name, title, caption and PNG of each picture."""
    means, names = pictures["region_means"], scores["regions"]["relation_names"]
    # As many of the last factors as fit into a row; others go down.
    row = 1
    for size in reversed(scores["regions"]["factor_sizes"]):
        if row * size > _ROW:
            break
        row *= size
    row = row if row > 1 else _ROW
    filled = np.full((-len(means) % row, *means.shape[1:]), 255, np.uint8)
    rows = np.concatenate([means, filled]).reshape(-1, row, *means.shape[1:])
    strips = pictures["relation_strips"]
    shown = len(strips) // len(names)
    # The strips of one relation side by side.
    each = strips.reshape(len(names), shown, *strips.shape[1:])
    width = 3 if strips.shape[1] <= 3 else 1
    parted = np.concatenate([each[:, n] for n in range(width)], axis=1)
    chains = [", ".join(names[r] for r in chain) for chain in pictures["chains"]]
    return [
        (
            "region_means",
            "Means of the regions",
            "Each region decoded at its mean, in row-major order of the factors: one "
            "combination of factors, and what varies besides at its average.",
            png(sheet(rows)),
        ),
        (
            "relations",
            "Relations on test images",
            "A test image, its reconstruction, operator and second operand where there "
            "are such, and what the relational learner makes of them, decoded.",
            png(sheet(parted, list(names))),
        ),
        (
            "relation_chains",
            "Three relations, one after the other",
            "A test image, its reconstruction, then each relation applied to the code "
            "that the last one gave, decoded.",
            png(sheet(pictures["chain_strips"], chains)),
        ),
    ]
