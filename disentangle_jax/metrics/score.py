"""Scores files of codes from the shell.

    disentangle score codes.npz
    disentangle score codes.npz --scores=mig,dci --json
    disentangle score codes.npz --convention=dlib
    disentangle score a.npz b.npz c.npz --intervals --csv=scores.csv

A file holds ``codes`` [N, D] and ``factors`` [N, K]. Scores of held-out rows also use
``codes_test`` and ``factors_test``; ``groups`` holds the sizes of multi-dimensional
latent variables. Several files are compared; with --intervals, files with the same
factors also get paired bootstrap intervals of their differences.
"""

import argparse
import csv
import json
import math
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from disentangle_jax import files as files_lib
from disentangle_jax.metrics.comparison import Comparison
from disentangle_jax.metrics.descriptions import conventions, describe, names
from disentangle_jax.metrics.evaluation import Evaluation, evaluate, table


def _jsonable(evaluation: Evaluation) -> dict:
    """Returns values, intervals, settings and errors by score, with None for NaN."""

    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    out: dict[str, dict[str, Any]] = {}
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


def _score_list() -> str:
    """Returns a line of help per score: its name and meaning."""
    lines = ["scores:"]
    for name in names(needs=("factors", "codes", "full grid")):
        described = describe(name)
        notes = [f"needs a {described.needs}"] if described.needs == "full grid" else []
        notes += ["slow: only if named"] if described.cost == "slow" else []
        note = f" [{', '.join(notes)}]" if notes else ""
        lines.append(f"  {name:<16}  {described.meaning}{note}")
    lines.append("  module:name       a score of your own, made with metrics.define")
    return "\n".join(lines)


def _seed(text: str) -> int:
    if not (text.isdecimal() and int(text) < 2**32):
        raise argparse.ArgumentTypeError(f"must lie in [0, 2**32), got {text}")
    return int(text)


def _options(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"""must be JSON such as '{{"mig": {{"bins": 40}}}}', got {text}"""
        ) from None


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Disentanglement scores of files of codes and factors.",
        epilog=_score_list(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE",
        help=".npz with codes, factors[, codes_test, …]; several are compared",
    )  # fmt: skip
    parser.add_argument(
        "--scores", default="all", help="names separated by commas, or all (default)"
    )
    parser.add_argument(
        "--options", type=_options, default={}, metavar="JSON",
        help="""arguments of scores, such as '{"mig": {"bins": 40}}'""",
    )  # fmt: skip
    parser.add_argument(
        "--convention", metavar="LIBRARY",
        help=f"compute scores as a library does: {', '.join(conventions())}",
    )  # fmt: skip
    parser.add_argument("--groups", help="sizes of latent variables, such as 2,2,2")
    parser.add_argument(
        "--tokens", choices=("whole", "pca"), default="whole",
        help="score variables of several dimensions as vectors (whole), or the first "
        "principal component of each (pca)",
    )  # fmt: skip
    parser.add_argument(
        "--intervals", action="store_true", help="add bootstrap 95 %% intervals"
    )
    parser.add_argument("--seed", type=_seed, default=0, help="seed of random choices")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--csv", metavar="FILE", help="write a CSV file, a row per value"
    )
    shown.add_argument("--latex", action="store_true", help="print a LaTeX table")
    shown.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _read(file: str) -> dict[str, np.ndarray]:
    """Returns the arrays of a file of codes."""
    if not pathlib.Path(file).is_file():
        raise ValueError(f"there is no file {file}.")
    arrays = files_lib.read_arrays(file)
    if not {"codes", "factors"} <= set(arrays):
        raise ValueError(
            f"{file} must hold `codes` and `factors`, it holds "
            f"{', '.join(sorted(arrays)) or 'nothing'}."
        )
    return arrays


def _evaluated(arrays: dict[str, np.ndarray], options: Any) -> Evaluation:
    groups = arrays["groups"].tolist() if "groups" in arrays else None
    if options.groups:
        sizes = options.groups.split(",")
        if not all(size.strip().isdecimal() for size in sizes):
            raise ValueError(
                f"--groups: must be sizes such as 2,2,2, got {options.groups!r}."
            )
        groups = [int(size) for size in sizes]
    return evaluate(
        arrays["codes"],
        arrays["factors"],
        scores=options.scores,
        codes_test=arrays.get("codes_test"),
        factors_test=arrays.get("factors_test"),
        groups=groups,
        tokens=options.tokens,
        convention=options.convention,
        options=options.options,
        intervals=options.intervals,
        seed=options.seed,
    )


def _same_rows(files: Sequence[dict[str, np.ndarray]]) -> bool:
    """Returns whether all files hold the same observations in the same order."""
    return all(
        np.array_equal(one.get(name, ()), files[0].get(name, ()))
        for one in files
        for name in ("factors", "factors_test")
    )


def _text(found: Comparison, options: Any) -> str:
    if options.json:
        parts = {name: _jsonable(one) for name, one in found.items()}
        shown = parts if len(parts) > 1 else next(iter(parts.values()))
        return json.dumps(shown, indent=1, default=list)
    if options.latex:
        return found.to_latex()
    if len(found) > 1:
        return str(found)
    return table(next(iter(found.values())))


def _write_csv(found: Comparison, path: pathlib.Path) -> None:
    if not path.parent.is_dir():
        raise ValueError(f"--csv: there is no folder {path.parent}.")
    rows = [row | {"settings": json.dumps(row["settings"], default=list)}
            for row in found.to_rows()]  # fmt: skip
    with files_lib.new_file(path) as partial, partial.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def main(
    argv: Sequence[str] | None = None,
    prog: str = "python -m disentangle_jax.metrics.score",
) -> int:
    """Runs the command and returns its exit status.

    Args:
      argv: arguments of the command; None for those of the process.
      prog: name of the command in its help.
    """
    options = _parser(prog).parse_args(argv)
    try:
        if len(set(options.files)) != len(options.files):
            raise ValueError("each file must be named once.")
        files = [_read(file) for file in options.files]
        found = Comparison(
            {name: _evaluated(own, options) for name, own in zip(options.files, files)}
        )
        if options.csv:
            _write_csv(found, pathlib.Path(options.csv))
    except (ValueError, TypeError, OSError, MemoryError) as error:
        print(f"score: {str(error) or 'out of memory'}", file=sys.stderr)
        return 2
    if options.intervals and not _same_rows(files):
        for evaluation in found.values():  # Differences would not be paired.
            for score in evaluation.values():
                score.resampled.clear()
        print("score: no differences: the files have different factors or test factors")
    print(f"csv: {options.csv}" if options.csv else _text(found, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
