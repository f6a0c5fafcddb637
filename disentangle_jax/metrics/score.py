"""Scores a file of codes from the shell.

    python -m disentangle_jax.metrics.score codes.npz
    python -m disentangle_jax.metrics.score codes.npz --scores=mig,dci --json

The file holds ``codes`` [N, D] and ``factors`` [N, K], and for the scores that need
held-out rows ``codes_test`` and ``factors_test``; ``groups`` gives the sizes of
multi-dimensional latent variables.
"""

import argparse
import json
import math
import sys

import numpy as np

from disentangle_jax.metrics._evaluate import Evaluation, evaluate, table
from disentangle_jax.metrics._registry import names


def _plain(evaluation: Evaluation) -> dict:
    """The evaluation as JSON: values, intervals, settings and errors by score."""

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    out = {}
    for name, score in evaluation.items():
        out[name] = {
            "values": {key: number(value) for key, value in score.items()},
            "settings": score.settings,
        }
        if score.intervals:
            out[name]["intervals"] = score.intervals
        if name in evaluation.errors:
            out[name]["error"] = evaluation.errors[name]
    return out


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m disentangle_jax.metrics.score",
        description="Disentanglement scores of a file of codes and factors.",
        epilog=f"scores: {', '.join(names(needs=('factors', 'codes')))}",
    )
    parser.add_argument("file", help=".npz with codes, factors[, codes_test, …]")
    parser.add_argument("--scores", default="all", help="names with commas, or all")
    parser.add_argument("--groups", help="sizes of latent variables, such as 2,2,2")
    parser.add_argument("--intervals", action="store_true", help="bootstrap 95 %%")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    options = parser.parse_args(arguments)
    try:
        with np.load(options.file) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, ValueError) as error:
        print(f"score: cannot read {options.file}: {error}", file=sys.stderr)
        return 2
    missing = {"codes", "factors"} - set(arrays)
    if missing:
        print(
            f"score: {options.file} must hold `codes` and `factors`, it holds "
            f"{', '.join(sorted(arrays)) or 'nothing'}.",
            file=sys.stderr,
        )
        return 2
    groups = arrays.get("groups")
    if options.groups:
        groups = [int(size) for size in options.groups.split(",")]
    try:
        evaluation = evaluate(
            arrays["codes"],
            arrays["factors"],
            scores=options.scores,
            codes_test=arrays.get("codes_test"),
            factors_test=arrays.get("factors_test"),
            groups=groups,
            intervals=options.intervals,
            seed=options.seed,
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(_plain(evaluation), indent=1, default=list))
    else:
        print(table(evaluation))
    return 0


if __name__ == "__main__":
    sys.exit(main())
