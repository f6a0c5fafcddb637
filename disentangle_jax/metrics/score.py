"""Scores a file of codes from the shell.

    python -m disentangle_jax.metrics.score codes.npz
    python -m disentangle_jax.metrics.score codes.npz --scores=mig,dci --json

The file holds ``codes`` [N, D] and ``factors`` [N, K]. Scores of held-out rows also use
``codes_test`` and ``factors_test``; ``groups`` holds the sizes of multi-dimensional
latent variables.
"""

import argparse
import json
import math
import pathlib
import sys
from collections.abc import Sequence

from disentangle_jax import files
from disentangle_jax.metrics.descriptions import describe, names
from disentangle_jax.metrics.evaluation import Evaluation, evaluate, table


def _jsonable(evaluation: Evaluation) -> dict:
    """Returns values, intervals, settings and errors by score, with None for NaN."""

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


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Disentanglement scores of a file of codes and factors.",
        epilog=_score_list(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", help=".npz with codes, factors[, codes_test, …]")
    parser.add_argument(
        "--scores", default="all", help="names separated by commas, or all (default)"
    )
    parser.add_argument("--groups", help="sizes of latent variables, such as 2,2,2")
    parser.add_argument(
        "--intervals", action="store_true", help="add bootstrap 95 %% intervals"
    )
    parser.add_argument("--seed", type=_seed, default=0, help="seed of random choices")
    parser.add_argument(
        "--json", action="store_true", help="print JSON instead of a table"
    )
    return parser


def _evaluate(options: argparse.Namespace) -> Evaluation:
    """Returns the scores of the file that the command names."""
    path = pathlib.Path(options.file)
    if not path.is_file():
        raise ValueError(f"there is no file {path}.")
    arrays = files.read_arrays(path)
    if not {"codes", "factors"} <= set(arrays):
        raise ValueError(
            f"{path} must hold `codes` and `factors`, it holds "
            f"{', '.join(sorted(arrays)) or 'nothing'}."
        )
    groups = arrays.get("groups")
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
        intervals=options.intervals,
        seed=options.seed,
    )


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
        evaluation = _evaluate(options)
    except (ValueError, TypeError, OSError, MemoryError) as error:
        print(f"score: {str(error) or 'out of memory'}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(_jsonable(evaluation), indent=1, default=list))
    else:
        print(table(evaluation))
    return 0


if __name__ == "__main__":
    sys.exit(main())
