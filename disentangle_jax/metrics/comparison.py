"""Compares the codes of several models on the same observations."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from disentangle_jax.metrics.evaluation import evaluate
from disentangle_jax.metrics.inputs import ArrayLike


class Comparison(dict):
    """``{model: Evaluation}`` of several models; prints as a table."""

    def to_rows(self) -> list[dict[str, Any]]:
        """Returns the rows of `Evaluation.to_rows`, each with its ``model``."""
        return [
            {"model": model, **row}
            for model, evaluation in self.items()
            for row in evaluation.to_rows()
        ]

    def differences(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Returns the differences of all pairs of models, with paired intervals.

        Both models are scored on the same resamples of the rows, so that what a
        resample does to both cancels. An interval without 0 is a difference that these
        rows support. It does not include the variation between training seeds.

        Returns:
          A dict for each pair and value that has a bootstrap: ``score``, ``key``,
          ``first``, ``second``, ``difference`` (first minus second), ``low``, ``high``.
        """
        tail = 100.0 * (1.0 - level) / 2.0
        rows = []
        for first, second in itertools.combinations(self, 2):
            for name, score in self[first].items():
                other = self[second].get(name)
                for key in score.resampled:
                    if other is None or key not in other.resampled:
                        continue
                    drawn = score.resampled[key] - other.resampled[key]
                    low, high = np.percentile(drawn, [tail, 100.0 - tail])
                    rows.append({
                        "score": name, "key": key, "first": first, "second": second,
                        "difference": score[key] - other[key],
                        "low": float(low), "high": float(high),
                    })  # fmt: skip
        return rows

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Returns the head, and a row of texts for each value of a score."""
        values: dict[str, dict[str, float]] = {}
        for row in self.to_rows():
            name = row["score"] if row["key"] == row["score"] else (
                f"{row['score']}.{row['key']}"
            )  # fmt: skip
            values.setdefault(name, {})[row["model"]] = row["value"]
        rows = [
            [name, *(f"{found.get(m, np.nan):.4f}" for m in self)]
            for name, found in values.items()
        ]
        return ["score", *self], rows

    def __str__(self) -> str:
        head, rows = self.cells()
        lines = _aligned([head, *rows])
        found = self.differences()
        if found:
            lines += ["", "difference (first - second), paired bootstrap 95 %"]
            lines += _aligned([
                [
                    row["score"] if row["key"] == row["score"] else
                    f"{row['score']}.{row['key']}",
                    f"{row['first']} - {row['second']}", f"{row['difference']:+.4f}",
                    f"{row['low']:+.4f} … {row['high']:+.4f}",
                ]
                for row in found
            ])  # fmt: skip
        for model, evaluation in self.items():
            lines += [f"{model}: not computed: {e}" for e in evaluation.errors.values()]
        return "\n".join(lines)

    def to_latex(self) -> str:
        """Returns a LaTeX ``tabular`` with a column per model."""
        head, rows = self.cells()
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in (head, *rows)]
        columns = "l" + "r" * len(self)
        begin, end = rf"\begin{{tabular}}{{{columns}}}", r"\end{tabular}"
        return "\n".join([begin, lines[0], r"\hline", *lines[1:], end])


def _latex(text: str) -> str:
    return "".join(rf"\{c}" if c in "_%&#$" else c for c in text)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns lines whose first column is left-aligned and the others right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:],
                  widths[1:]))])
        for row in rows
    ]  # fmt: skip


def compare(
    codes: Mapping[str, ArrayLike],
    factors: ArrayLike,
    *,
    codes_test: Mapping[str, ArrayLike] | None = None,
    factors_test: ArrayLike | None = None,
    **settings: Any,
) -> Comparison:
    """Scores the codes of several models of the same observations.

    Args:
      codes: ``[N, D]`` codes of each model by its name.
      factors: ``[N, K]`` factors, which all models share.
      codes_test: ``[M, D]`` held-out codes of each model.
      factors_test: ``[M, K]`` factors of the held-out codes.
      **settings: further arguments of `evaluate`, the same for all models.

    Returns:
      A `Comparison`, whose `differences` have paired bootstrap intervals.
    """
    if codes_test is not None and set(codes_test) != set(codes):
        raise ValueError(
            "compare: `codes_test` must have the models of `codes` "
            f"({', '.join(codes)}), got {', '.join(codes_test)}."
        )
    return Comparison({
        name: evaluate(
            own, factors, factors_test=factors_test, intervals=True,
            codes_test=None if codes_test is None else codes_test[name], **settings,
        )
        for name, own in codes.items()
    })  # fmt: skip
