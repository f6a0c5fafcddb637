"""Commands on several runs: comparisons, sweeps and studies."""

import importlib
import pathlib
import sys
from collections.abc import Callable

from disentangle_jax.commands.arguments import (
    Parser,
    check_output,
    define,
    folder_of,
)


@define("compare RUN [RUN …] [--workdir=DIR] [--published=DATASET]")
def compare(argv: list[str]) -> Callable[[], int]:
    """Compare evaluated runs, their lanes, and sweeps on one page: compare.html."""
    from disentangle_jax import reports
    from disentangle_jax.experiments import published

    parser = Parser(compare)
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="folders of runs or sweeps"
    )
    parser.add_argument("--workdir", help="folder of the page; runs/compare by default")
    parser.add_argument(
        "--published", metavar="DATASET",
        help="also show the published scores of models on this dataset: "
        + ", ".join(published.datasets()),
    )  # fmt: skip
    args, overrides = parser.parse(argv)
    if overrides:
        raise ValueError("compare takes folders of runs and no --config.")
    workdir = check_output(pathlib.Path(args.workdir or "runs/compare"))
    found = reports.find_runs(args.runs)
    known = published.scores(args.published) if args.published else ()

    def work() -> int:
        page = reports.write_comparison(found, workdir, published=known)
        print(f"comparison: {page}")
        return 0

    return work


@define("results [RUN …] [--to=DIR]")
def results(argv: list[str]) -> Callable[[], int]:
    """Store the models of runs as rows of DIR/NAME.csv, and write DIR/../RESULTS.md."""
    from disentangle_jax.reports import results as results_lib

    parser = Parser(results)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="runs or protocols")
    parser.add_argument(
        "--to", default="configs/studies/results", help="folder of the CSV files"
    )
    args, overrides = parser.parse(argv)
    folder = pathlib.Path(args.to)
    if overrides:
        raise ValueError("results takes folders of runs and no --config.")
    if not folder.is_dir():
        raise ValueError(f"results: there is no folder {folder}.")
    runs = [pathlib.Path(run) for run in args.runs]
    found = {run.resolve().name: results_lib.model_rows(run) for run in runs}

    def work() -> int:
        for name, rows in found.items():
            results_lib.write_csv(folder / f"{name}.csv", rows)
        print(f"results: {results_lib.write_page(folder)}")
        return 0

    return work


@define("study SWEEP")
def study(argv: list[str]) -> Callable[[], int]:
    """Analyse a sweep, finished or not: SWEEP/study/report.html."""
    from disentangle_jax import experiments
    from disentangle_jax import rows as rows_lib
    from disentangle_jax import sweep as sweep_lib

    parser = Parser(study)
    parser.add_folder("sweep", help="folder of a sweep")
    args, overrides = parser.parse(argv)
    if overrides:
        raise ValueError("study takes the folder of one sweep and no --config.")
    sweep = sweep_lib.load(folder_of(args, "sweep"))
    if not sweep_lib.read_rows(sweep).found:
        raise ValueError(
            f"study: {sweep.workdir} holds no results yet; see disentangle sweep "
            f"status --workdir={sweep.workdir}."
        )

    def work() -> int:
        rows = sweep_lib.collect(sweep)
        sweep_lib.write_table(rows, sweep.workdir / "table.csv")
        codes = dict(sweep_lib.read_codes(sweep, [row["id"] for row in rows]))
        page = experiments.write_study(
            rows,
            codes,
            sweep.workdir / "study",
            planned=len(sweep.models),
            hyperparameters=rows_lib.hyperparameters(
                [model.labels.get("method", "") for model in sweep.models],
                [model.fields for model in sweep.models],
            ),
            recipe=sweep.header,
        )
        print(f"study: {page}")
        return 0

    return work


@define("sweep --config=FILE[:PRESET] --workdir=DIR | status|resume|collect|cancel|run")
def sweep(argv: list[str]) -> Callable[[], int]:
    """Train thousands of models, here or on a cluster; `disentangle sweep --help`."""
    package = pathlib.Path(__file__).parents[1]
    name = "launch.sweep"
    if (package / "launch").is_dir():  # A wheel holds it in the package.
        name = "disentangle_jax.launch.sweep"
    elif str(package.parent) not in sys.path:
        sys.path.append(str(package.parent))  # A checkout holds it beside.
    launcher = importlib.import_module(name)
    return lambda: launcher.main(argv)
