"""Launches, watches and collects sweeps of thousands of models.

    disentangle sweep --config=FILE[:PRESET] --workdir=DIR --cluster=CLUSTER
    disentangle sweep status|resume|collect|cancel|run --workdir=DIR

In a checkout, `python -m launch.sweep` is the same command.

  --config=configs/studies/unsupervised.py:mini
                            a config file with `sweep(add, preset)`
  --config.SECTION.FIELD=VALUE
                            changes one field of all models
  --workdir=DIR             folder of the sweep; a sweep found there goes on, and one
                            that lacks some of the models is extended by them
  --cluster=local           worker processes on this machine (the default), or
            debug             this process, pack after pack
            slurm             array jobs of Slurm, submitted from here; DIR must be
                              on a disk that the nodes share
            k8s               writes a manifest for kubectl to DIR/k8s and ends
  --dry_run                 prints packs, shapes and an estimate of the total time,
                            from a measured step; trains nothing and writes nothing
  --lanes=N                 largest number of models in a pack; by default as many as
                            fit into memory, at most 64
  --parallelism=N           workers, tasks or pods at once (1 local, else 100)

  status                    done, running, failed, missing; ETA; why packs failed
  resume                    runs what is missing, as the sweep was launched; options of
                            the cluster may be given again
  collect                   writes DIR/table.csv: a row per model, settings and scores
  cancel                    stops what runs; nothing is lost, `resume` goes on
  run                       works on the sweep in this process, beside all others that
                            do: --packs=0,3 for some packs, --index_from=VARIABLE for
                            the pack whose index is in an environment variable

A sweep is a function `sweep(add, preset)` beside `get_config`. Each call of `add` is
one model: a row of the fields that it changes in the config. For example, my_sweep.py:

    from disentangle_jax import config as config_lib

    def get_config(preset=""):
        config = config_lib.load("beta_vae:quick")
        config.eval.scores = ("mig", "dci", "sap")
        return config

    def sweep(add, preset=""):
        for beta in (1.0, 4.0, 16.0):
            for seed in range(5):
                add({"method.beta": beta, "train.seed": seed})

    disentangle sweep --config=my_sweep.py --workdir=runs/betas   # with a line of
                                                                  # progress and ETA
    disentangle study runs/betas              # runs/betas/study/report.html
    disentangle compare runs/betas            # runs/compare/compare.html

Models are named in tables and plots by the fields that they change; `add(fields,
dataset=…, method=…, strength=…, seed=…)` gives other names. To extend a sweep, add more
values, seeds or methods to the file and start it again: rows that are there are kept.

Slurm and Kubernetes: --gpus=N --cpus=N --memory_gb=X --time_limit=MINUTES of a task.
Slurm: --partition=NAME --constraint=FEATURES --account=NAME. Tasks that are preempted
or reach their time limit are put back into the queue and go on from their last
checkpoint. Kubernetes: --image=IMAGE --volume=CLAIM [--tpu=v5e:2x2].

Ends with code 0 when all rows are there (or submitted); 1 where some packs failed or
rows are missing; 2 where the command is wrong; 130 or 143 where a signal stopped it.
"""

import argparse
import contextlib
import functools
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

from disentangle_jax import claims, files, training
from disentangle_jax import sweep as sweep_lib
from disentangle_jax.commands import process

from . import estimate, kubernetes, slurm, work

_COMMANDS = ("launch", "status", "resume", "collect", "cancel", "run")
_CLUSTERS = ("local", "debug", "slurm", "k8s")
_TASK_OPTIONS = ("gpus", "cpus", "memory_gb", "time_limit", "parallelism")
_SLURM_OPTIONS = ("partition", "constraint", "account")
_K8S_OPTIONS = ("image", "volume", "tpu")
# Seconds between looks at a running sweep.
_LOOK_EVERY = 2.0
# Seconds that a worker may take to save its state.
_ASK_AGAIN = 30.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise ValueError(f"{message}; see --help.")


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("command", nargs="?", choices=_COMMANDS, default="launch")
    parser.add_argument("--config")
    parser.add_argument("--workdir", type=pathlib.Path)
    parser.add_argument("--cluster", choices=_CLUSTERS)
    parser.add_argument("--dry_run", action="store_true")
    parser.add_argument("--lanes", type=_positive)
    parser.add_argument("--parallelism", type=_positive)
    parser.add_argument("--packs")
    parser.add_argument("--index_from")
    parser.add_argument("--gpus", type=functools.partial(_positive, least=0))
    parser.add_argument("--cpus", type=_positive)
    parser.add_argument("--memory_gb", type=functools.partial(_positive, kind=float))
    parser.add_argument("--time_limit", type=_positive)
    for name in (*_SLURM_OPTIONS, *_K8S_OPTIONS):
        parser.add_argument(f"--{name}")
    overrides = [arg for arg in argv if arg.startswith("--config.")]
    args = parser.parse_args([arg for arg in argv if arg not in overrides])
    if args.command == "launch":
        if args.config is None:
            raise ValueError("--config=FILE is required; see --help.")
        if args.workdir is None and not args.dry_run:
            raise ValueError("--workdir=DIR is required; see --help.")
    else:
        if args.workdir is None:
            raise ValueError("--workdir=DIR is required; see --help.")
        if args.config or overrides or args.dry_run:
            raise ValueError(f"{args.command} takes no --config and no --dry_run.")
    return args, overrides


def _positive(text: str, kind: type = int, least: int = 1) -> float:
    try:
        number = kind(text)
    except ValueError:
        number = math.nan
    if not least <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be at least {least}, got {text}")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if {"-h", "--help"} & set(argv):
        print(__doc__.strip())
        return 0
    try:
        args, overrides = _parse(argv)
        with training.stop_on_signals():
            if args.command == "launch":
                return _launch(args, overrides)
            sweep = sweep_lib.load(args.workdir)
            return _ON_A_SWEEP[args.command](sweep, args)
    except training.Interrupted as stopped:
        print("stopped; what was done is saved. `resume` goes on from there.")
        return stopped.exit_code
    except KeyboardInterrupt:
        print("stopped; what was done is saved. `resume` goes on from there.")
        return 130
    except work.Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (ValueError, TypeError, OSError) as error:
        print(f"error: {process.system_failure(error) or error}", file=sys.stderr)
        return 2


def _launch(args: argparse.Namespace, overrides: list[str]) -> int:
    expansion = sweep_lib.expand(args.config, overrides)
    if args.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            place = args.workdir
            if place is None or not (place / "manifest.jsonl").exists():
                place = folder
            sweep = sweep_lib.create(expansion, place, lanes=args.lanes)
            work.set_up_process()
            found = estimate.lines(sweep, report=_to_stderr)
        print(estimate.describe(found, args.parallelism or 1))
        return 0
    options = _options(args, {})
    sweep = sweep_lib.create(expansion, args.workdir, lanes=args.lanes)
    print(
        f"workdir: {sweep.workdir}\n{len(sweep.models)} models in {len(sweep.packs)} "
        f"packs of at most {max(len(p.models) for p in sweep.packs)}",
        flush=True,
    )
    return _start(sweep, options)


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr)


def _options(args: argparse.Namespace, before: dict[str, Any]) -> dict[str, Any]:
    """Returns the cluster and its options, checked; else those of `before`."""
    given = {name: getattr(args, name) for name in ("cluster", *_TASK_OPTIONS)}
    given |= {name: getattr(args, name) for name in (*_SLURM_OPTIONS, *_K8S_OPTIONS)}
    given = {name: value for name, value in given.items() if value is not None}
    options = {"cluster": "local", **before, **given}
    cluster = options["cluster"]
    allowed = {
        "local": ("parallelism",),
        "debug": (),
        "slurm": (*_TASK_OPTIONS, *_SLURM_OPTIONS),
        "k8s": (*_TASK_OPTIONS, *_K8S_OPTIONS),
    }[cluster]
    for name in given:
        if name != "cluster" and name not in allowed:
            raise ValueError(f"--{name}: is no option of --cluster={cluster}.")
    options = {k: v for k, v in options.items() if k in ("cluster", *allowed)}
    if cluster == "slurm":
        slurm.check()
        options = {"time_limit": 24 * 60, "parallelism": 100, **options}
    if cluster == "k8s":
        for name in ("image", "volume"):
            if name not in options:
                raise ValueError(f"--cluster=k8s: needs --{name}; see --help.")
        options = {"parallelism": 100, **options}
    return options


def _start(sweep: sweep_lib.Sweep, options: dict[str, Any]) -> int:
    """Runs, submits or writes what is missing."""
    _move_corrupt(sweep)
    files.write_json(sweep.workdir / "launch.json", options)
    options = dict(options)
    cluster = options.pop("cluster")
    packs = [pack.number for pack in sweep.packs if work.missing(sweep, pack)]
    if not packs:
        print("nothing is missing")
        return _report(sweep)
    if cluster == "slurm":
        active = slurm.active_packs(sweep)
        packs = [number for number in packs if number not in active]
        if active:
            print(f"{len(active)} packs are in Slurm's queue already")
        if packs:
            jobs = slurm.submit(sweep, packs, **options)
            print(f"submitted {len(packs)} packs as array job {', '.join(jobs)}")
        return 0
    if cluster == "k8s":
        path = kubernetes.write(sweep, packs, **options)
        print(f"{len(packs)} packs; submit them with: kubectl apply -f {path}")
        return 0
    if cluster == "debug":
        work.set_up_process()
        work.work(sweep)
        return _report(sweep)
    return _local(sweep, min(options.get("parallelism", 1), len(packs)))


def _move_corrupt(sweep: sweep_lib.Sweep) -> None:
    corrupt = sweep_lib.read_rows(sweep).corrupt
    for path in corrupt:
        print(f"warning: {path} is damaged; moved aside, to be made anew")
    sweep_lib.move_corrupt(corrupt)


def _local(sweep: sweep_lib.Sweep, count: int) -> int:
    """Runs worker processes to their end, with a line of progress."""
    folder = sweep.workdir / "logs"
    folder.mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        f"{__package__}.sweep",
        "run",
        f"--workdir={sweep.workdir}",
    ]
    workers = []
    try:
        for number in range(count):
            path = folder / f"worker-{time.strftime('%m%d-%H%M%S')}-{number}.log"
            with path.open("ab") as log:
                workers.append(
                    subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
                )
        line = _Line()
        while any(worker.poll() is None for worker in workers):
            time.sleep(_LOOK_EVERY)
            found = work.status(sweep)
            line.show(_text(found), found.seconds_left is not None)
        line.end()
    except BaseException:
        _stop(workers)
        raise
    return _report(sweep)


def _stop(workers: Sequence[subprocess.Popen]) -> None:
    """Asks workers to stop, and waits until they have saved their state.

    A worker that receives the signal at the very end of its training goes on to
    evaluate: it receives the signal again.
    """
    while any(worker.poll() is None for worker in workers):
        for worker in workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _ASK_AGAIN
        for worker in workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(max(0.0, deadline - time.monotonic()))


class _Line:
    """A line, drawn over on a terminal, and printed when it changes elsewhere.

    There a new estimate of the time alone is no change, but the first one is.
    """

    def __init__(self) -> None:
        self._last = ("", False)

    def show(self, text: str, estimated: bool) -> None:
        last = text.partition("  ETA")[0], estimated
        if sys.stdout.isatty():
            print(f"\r\033[K{text}", end="", flush=True)
        elif last != self._last:
            print(text, flush=True)
            self._last = last

    def end(self) -> None:
        if sys.stdout.isatty():
            print()


def _text(status: work.Status) -> str:
    parts = [f"{status.done}/{status.models} models done"]
    for name in ("running", "failed", "missing", "corrupt"):
        if getattr(status, name):
            parts.append(f"{getattr(status, name)} {name}")
    if status.seconds_left is not None:
        parts.append(f"ETA {training.duration(status.seconds_left)}")
    return "  ".join(parts)


def _report(sweep: sweep_lib.Sweep) -> int:
    """Prints how it stands; returns 0 where every row is there."""
    status = work.status(sweep)
    print(_text(status))
    for number, why in status.failures.items():
        print(f"pack {number} failed: {why}")
    return 0 if status.done == status.models else 1


def _status(sweep: sweep_lib.Sweep, args: argparse.Namespace) -> int:
    del args
    launched = _launched(sweep)
    if launched.get("cluster") == "slurm":
        states = list(slurm.active_packs(sweep).values())
        for state in sorted(set(states)):
            print(f"Slurm: {states.count(state)} packs {state.lower()}")
    return _report(sweep)


def _launched(sweep: sweep_lib.Sweep) -> dict[str, Any]:
    path = sweep.workdir / "launch.json"
    return (files.read_json_or_move(path) or {}) if path.exists() else {}


def _resume(sweep: sweep_lib.Sweep, args: argparse.Namespace) -> int:
    return _start(sweep, _options(args, _launched(sweep)))


def _collect(sweep: sweep_lib.Sweep, args: argparse.Namespace) -> int:
    del args
    table = sweep_lib.collect(sweep)
    path = sweep_lib.write_table(table, sweep.workdir / "table.csv")
    print(f"{len(table)} of {len(sweep.models)} models: {path}")
    return 0


def _cancel(sweep: sweep_lib.Sweep, args: argparse.Namespace) -> int:
    del args
    if _launched(sweep).get("cluster") == "slurm":
        jobs = slurm.cancel(sweep)
        print(f"cancelled: {', '.join(jobs) or 'nothing was queued'}")
        return 0
    stopped = 0
    for pack in sweep.packs:
        claim = claims.newest_claim(sweep.folder(pack))
        if claim is None or not claims.looks_alive(claim):
            continue
        if claims.stop_holder(claim):
            stopped += 1
        else:
            print(f"pack {pack.number}: stop {claims.claim_holder(claim)} there")
    print(f"stopped {stopped} processes")
    return 0


def _number(name: str, text: str, count: int) -> int:
    if not (text.isdecimal() and int(text) < count):
        raise ValueError(f"{name}: must lie in [0, {count}), got {text!r}.")
    return int(text)


def _run(sweep: sweep_lib.Sweep, args: argparse.Namespace) -> int:
    packs = None
    if args.packs is not None:
        packs = [
            _number("--packs", text, len(sweep.packs)) for text in args.packs.split(",")
        ]
    if args.index_from is not None:
        if args.index_from not in os.environ:
            raise ValueError(f"--index_from: ${args.index_from} is not set.")
        every = range(len(sweep.packs)) if packs is None else packs
        name = f"--index_from: ${args.index_from}"
        packs = [every[_number(name, os.environ[args.index_from], len(every))]]
    work.set_up_process()
    work.work(sweep, packs=packs)
    return 0


_ON_A_SWEEP = {
    "status": _status,
    "resume": _resume,
    "collect": _collect,
    "cancel": _cancel,
    "run": _run,
}


if __name__ == "__main__":
    process.set_up()
    sys.exit(main())
