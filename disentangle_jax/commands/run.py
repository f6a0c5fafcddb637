"""Training: a run from its config file, or a protocol of several runs."""

import pathlib
from collections.abc import Callable

from disentangle_jax.commands.arguments import (
    Parser,
    define,
    field_names,
    print_reports,
)


def _parser(command: Callable) -> Parser:
    parser = Parser(command)
    parser.add_argument(
        "--config", metavar="FILE[:PRESET]", help="a file of configs/, and a preset"
    )
    parser.add_argument(
        "--workdir",
        help="folder of the run; runs/<config>[-<preset>] by default. A run found "
        "there is continued.",
    )
    return parser


def _config(args, overrides):
    from disentangle_jax import config as config_lib

    if args.config is None:
        raise ValueError("--config=FILE is required; see --help.")
    config = config_lib.load(args.config, overrides)
    path, _, preset = args.config.partition(":")
    name = pathlib.Path(path).stem + (f"-{preset}" if preset else "")
    return config, args.workdir or f"runs/{name}"


@define("[run] --config=FILE[:PRESET] [--workdir=DIR] [--config.SECTION.FIELD=VALUE]")
def run(argv: list[str]) -> Callable[[], int]:
    """Train, evaluate and report a run, or a paper's protocol.

    --config.SECTION.FIELD=VALUE changes one field, for example --config.train.seed=1;
    `disentangle fields` lists them. The same command continues a run or a protocol
    that was stopped.
    """
    from disentangle_jax import evaluation, experiments, training

    args, overrides = _parser(run).parse(argv)
    config, workdir = _config(args, overrides)
    if "experiment" in config:
        experiment = experiments.prepare(config, workdir, field_names(overrides))

        def protocol() -> int:
            with training.writing(experiment.workdir):
                print(f"workdir: {workdir}", flush=True)
                print(f"report: {experiments.run(experiment)}")
            return 0

        return protocol
    prepared = training.prepare(config, workdir)
    evaluation.check(prepared)
    training.check_memory(prepared)

    def work() -> int:
        with training.writing(prepared.workdir):
            print(f"workdir: {workdir}", flush=True)
            training.train(prepared, watch=evaluation.watch(prepared))
            evaluation.evaluate(prepared)
            return print_reports(evaluation.folders(prepared))

    return work


@define("train --config=FILE[:PRESET] [--workdir=DIR] [--coordinator=HOST:PORT …]")
def train(argv: list[str]) -> Callable[[], int]:
    """Only train; also as one of several processes that train one run.

    Start N processes with the same command but for --process_id; the devices of all of
    them train the run. Evaluate it in one process afterwards.
    """
    from disentangle_jax import evaluation, training

    parser = _parser(train)
    parser.add_argument(
        "--coordinator",
        metavar="HOST:PORT",
        help="address of the first process; `auto` under Slurm, Open MPI, Kubernetes "
        "or on Cloud TPUs",
    )
    parser.add_argument("--num_processes", type=int, metavar="N", help="how many")
    parser.add_argument("--process_id", type=int, metavar="I", help="from 0 to N - 1")
    args, overrides = parser.parse(argv)
    config, workdir = _config(args, overrides)
    if "experiment" in config:
        raise ValueError(
            f"train: {config.experiment.name} is a protocol of several runs; leave out "
            "`train`. Its runs are folders below its workdir and take any command."
        )
    processes = (args.coordinator, args.num_processes, args.process_id)
    if processes != (None, None, None):
        training.join_processes(args.coordinator or "", *processes[1:])
    prepared = training.prepare(config, workdir)
    evaluation.check(prepared)
    training.check_memory(prepared)

    def work() -> int:
        print(f"workdir: {workdir}", flush=True)
        training.train(prepared, watch=evaluation.watch(prepared))
        return 0

    return work
