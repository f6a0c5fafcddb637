"""Runs benchmarks: ``python -m tests.benchmarks [NAME ...]``, all by default.

Prints one JSON object, ``{name: results}``. The docstring of each benchmark says what
it measures. All compare within one run, because ratios are more stable than times. Run
them on an otherwise idle machine.
"""

import importlib
import json
import pathlib
import sys

NAMES = sorted(
    path.stem.removeprefix("bench_")
    for path in pathlib.Path(__file__).parent.glob("bench_*.py")
)


def main(names: list[str]) -> int:
    if "--help" in names:
        print(__doc__.strip(), f"\n\nNames: {', '.join(NAMES)}.")
        return 0
    unknown = sorted(set(names) - set(NAMES))
    if unknown:
        print(
            f"error: no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}.",
            file=sys.stderr,
        )
        return 2
    results = {}
    for name in names or NAMES:
        print(f"benchmark: {name}", file=sys.stderr, flush=True)
        results[name] = importlib.import_module(f"tests.benchmarks.bench_{name}").run()
    print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
