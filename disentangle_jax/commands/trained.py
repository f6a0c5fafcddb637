"""Commands on the folder of a trained run."""

from collections.abc import Callable

from disentangle_jax.commands.arguments import (
    Parser,
    define,
    folder_of,
    print_reports,
    stored_run,
)


@define("evaluate RUN [--config.eval.FIELD=VALUE]")
def evaluate(argv: list[str]) -> Callable[[], int]:
    """Evaluate a trained run: scores.json, pictures and report.html."""
    from disentangle_jax import evaluation, training

    parser = Parser(evaluate)
    parser.add_folder()
    args, overrides = parser.parse(argv)
    prepared = stored_run(folder_of(args), overrides)
    evaluation.check(prepared)
    evaluation.check_trained(prepared)

    def work() -> int:
        with training.writing(prepared.workdir):
            evaluation.evaluate(prepared)
            return print_reports(evaluation.folders(prepared))

    return work


@define("report RUN")
def report(argv: list[str]) -> Callable[[], int]:
    """Draw the pictures and report.html of an evaluated run again."""
    from disentangle_jax import evaluation, reports

    parser = Parser(report)
    parser.add_folder()
    args, overrides = parser.parse(argv)
    prepared = stored_run(folder_of(args), overrides)
    folders = evaluation.folders(prepared)
    for folder in folders:
        reports.check_evaluated(folder)

    return lambda: print_reports(folders)


@define("sample RUN [--config.eval.num_samples=N]")
def sample(argv: list[str]) -> Callable[[], int]:
    """Draw images from the prior and from hybrid codes: samples.npz and PNG files."""
    from disentangle_jax import evaluation, reports

    parser = Parser(sample)
    parser.add_folder()
    args, overrides = parser.parse(argv)
    prepared = stored_run(folder_of(args), overrides)
    evaluation.check_generates(prepared, "sample")

    def work() -> int:
        for folder in evaluation.sample(prepared):
            for path in reports.write_samples(folder):
                print(f"samples: {path}")
        return 0

    return work


@define("explore RUN [--port=N]")
def explore(argv: list[str]) -> Callable[[], int]:
    """Serve a page on this machine that moves the latents by sliders.

    RUN is the folder of a run, a file that `export` wrote, or zoo:NAME.
    """
    from disentangle_jax import evaluation, reports, zoo

    parser = Parser(explore)
    parser.add_folder(help="folder of a run, exported file or zoo:NAME")
    parser.add_argument(
        "--port", type=int, default=0, help="port of the page; a free one by default"
    )
    args, overrides = parser.parse(argv)
    if not 0 <= args.port < 2**16:
        raise ValueError(f"--port must lie between 0 and 65535, got {args.port}.")
    name, file = args.run or "", None
    if name.startswith("zoo:"):
        file = zoo.path(name.removeprefix("zoo:"))
    elif name.endswith(evaluation.SUFFIX):
        file = name
    if file is None:
        prepared = stored_run(folder_of(args), overrides)
        evaluation.check_generates(prepared, "explore")
    elif overrides:
        raise ValueError("explore takes no --config for an exported model.")

    def work() -> int:
        if file is None:
            reports.explore(evaluation.load_models(prepared), args.port)
        else:
            reports.explore([evaluation.load_exported(file)], args.port)
        return 0

    return work


@define("export RUN FILE")
def export(argv: list[str]) -> Callable[[], int]:
    """Write the model of a run, or of one lane, as one .safetensors file."""
    from disentangle_jax import evaluation

    parser = Parser(export)
    parser.add_argument("run", metavar="RUN", help="folder of a run or of one lane")
    parser.add_argument("file", metavar="FILE", help="file to write")
    parser.add_argument("--licence", default="", help="licence of the weights")
    args, overrides = parser.parse(argv)
    if overrides:
        raise ValueError("export takes a folder and a file and no --config.")
    model = evaluation.load(args.run, with_dataset=True)

    def work() -> int:
        evaluation.export(model, args.file, licence=args.licence)
        print(f"exported: {args.file}")
        return 0

    return work
