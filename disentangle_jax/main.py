"""Trains, scores and shows one run, a paper's protocol, or compares several runs.

    python -m disentangle_jax.main --config=FILE[:PRESET] [--workdir=DIR] [--mode=MODE]
    python -m disentangle_jax.main --mode=compare RUN [RUN…] [--workdir=DIR]
    python -m disentangle_jax.main --mode=study SWEEP

  --config=configs/sae.py         a file of configs/, its paper's setting
  --config=configs/sae.py:quick   its preset for a CPU (minutes, no download)
  --config=configs/experiments/zero_shot.py
                                  a protocol of several runs, with a page of its own
  --config.SECTION.FIELD=VALUE    changes one field, e.g. --config.train.seed=1;
                                  disentangle_jax/config.py lists and explains them
  --workdir=DIR                   folder of the run; runs/<config>[-<preset>] if not
                                  given. A run found there goes on where it was.
  --mode=all                      train, evaluate and report (the default), or one of
         train                      train, to the last step of the config
         evaluate                   write scores.json, the pictures and report.html
         report                     draw the pictures and report.html again
         sample                     draw from the prior and hybrids: samples.npz, PNGs
         explore                    serve a page that moves the latents by sliders
                                  The last four need only --workdir.
  --mode=compare RUN…             one page, compare.html, of the evaluated runs in the
                                  folders RUN… and of their lanes; goes to --workdir,
                                  runs/compare if not given
  --mode=study SWEEP              analyses the sweep in a folder, finished or not, that
                                  python -m launch.sweep made: SWEEP/study/report.html
  --coordinator=HOST:PORT --num_processes=N --process_id=I
                                  with --mode=train: one of N processes, I = 0 … N-1,
                                  that train one run with the devices of all;
                                  --coordinator=auto where Slurm, Open MPI, Kubernetes
                                  or Cloud TPU started them

Ends with code 0; 2 where the command is wrong; 1 where training failed; 130 or 143
where Ctrl-C or SIGTERM stopped it, with its state saved.
"""

import argparse
import os
import pathlib
import sys
import warnings
from typing import NamedTuple

# TensorFlow only moves images here: no start-up messages. Set before its import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

from absl import logging

from disentangle_jax import config as config_lib
from disentangle_jax import experiments, reports, training
from disentangle_jax import sweep as sweep_lib


class _Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that all errors are told in one way."""

    def error(self, message: str):
        raise ValueError(f"{message}; see --help.")


class Comparison(NamedTuple):
    """Evaluated runs to compare, and the folder of their page."""

    runs: list[pathlib.Path]
    workdir: pathlib.Path


Work = training.Run | experiments.Experiment | Comparison | sweep_lib.Sweep


def parse(argv: list[str]) -> tuple[Work, str]:
    """Returns what `argv` asks for, checked, and the mode.

    Raises:
      ValueError, TypeError, OSError: with the fix in one line.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    parser.add_argument("--workdir")
    modes = ("all", "train", "evaluate", "report", "sample", "explore")
    modes = (*modes, "compare", "study")
    parser.add_argument("--mode", choices=modes, default="all")
    parser.add_argument("--coordinator")
    parser.add_argument("--num_processes", type=int)
    parser.add_argument("--process_id", type=int)
    parser.add_argument("runs", nargs="*")
    overrides = [arg for arg in argv if arg.startswith("--config.")]
    args = parser.parse_intermixed_args([arg for arg in argv if arg not in overrides])
    if args.mode == "compare":
        if args.config or overrides:
            raise ValueError("--mode=compare takes folders of runs and no --config.")
        workdir = pathlib.Path(args.workdir or "runs/compare")
        above = (workdir.absolute(), *workdir.absolute().parents)
        folder = next(path for path in above if path.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise ValueError(
                f"workdir: {folder} is no folder that can be written to; give another "
                "--workdir."
            )
        return Comparison(reports.find_runs(args.runs), workdir), args.mode
    if args.mode == "study":
        folders = [*args.runs, *([args.workdir] if args.workdir else [])]
        if args.config or overrides or len(folders) != 1:
            raise ValueError("--mode=study takes the folder of one sweep, no --config.")
        sweep = sweep_lib.load(folders[0])
        if not sweep_lib.read_rows(sweep).found:
            raise ValueError(
                f"--mode=study: {folders[0]} holds no results yet; see python -m "
                f"launch.sweep status --workdir={folders[0]}."
            )
        return sweep, args.mode
    if args.runs:
        raise ValueError(f"unrecognized arguments: {' '.join(args.runs)}; see --help.")
    if args.config is None:
        if args.workdir is None or args.mode in ("all", "train") or overrides:
            raise ValueError("--config=FILE is required; see --help.")
        config = config_lib.complete(training.read_config(args.workdir))
    else:
        config = config_lib.load(args.config, overrides)
    workdir = args.workdir
    if workdir is None:
        path, _, preset = args.config.partition(":")
        name = pathlib.Path(path).stem + (f"-{preset}" if preset else "")
        workdir = f"runs/{name}"
    if "experiment" in config:
        if args.mode != "all":
            raise ValueError(
                f"--mode={args.mode}: {config.experiment.name} is a protocol of "
                "several runs; leave --mode out: what is done is not done again. Its "
                "runs are folders below its workdir and take any mode."
            )
        return experiments.prepare(config, workdir), args.mode
    processes = (args.coordinator, args.num_processes, args.process_id)
    if processes != (None, None, None):
        if args.mode != "train":
            raise ValueError(
                "--coordinator: several processes only train; add --mode=train, and "
                "evaluate in one process afterwards."
            )
        training.join_processes(args.coordinator or "", *processes[1:])
    run = training.prepare(config, workdir)
    if args.mode in ("sample", "explore") and run.method.feed == "documents":
        raise ValueError(
            f"--mode={args.mode}: draws images, and {run.config.data.name} holds "
            "documents; --mode=evaluate shows their topics."
        )
    if args.mode in ("evaluate", "sample", "explore"):
        training.check_trained(run)
    if args.mode == "report":
        for folder in training.evaluated_folders(run):
            reports.check_evaluated(folder)
    return run, args.mode


def _write_study(sweep: sweep_lib.Sweep) -> pathlib.Path:
    """Collects a sweep and writes its page; returns the path."""
    rows = sweep_lib.collect(sweep)
    sweep_lib.write_table(rows, sweep.workdir / "table.csv")
    codes = dict(sweep_lib.read_codes(sweep, [row["id"] for row in rows]))
    return experiments.write_study(
        rows,
        codes,
        sweep.workdir / "study",
        planned=len(sweep.models),
        recipe=sweep.header,
    )


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if {"-h", "--help"} & set(argv):
        print(__doc__.strip())
        return 0
    logging.set_verbosity(logging.ERROR)
    warnings.showwarning = lambda message, *_: print(f"warning: {message}")
    try:
        run, mode = parse(argv)
    except (ValueError, TypeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    training.use_compilation_cache()
    training.keep_freed_memory()
    print(f"workdir: {run.workdir}", flush=True)
    try:
        if mode == "compare":
            print(f"comparison: {reports.write_comparison(*run)}")
            return 0
        if mode == "study":
            print(f"study: {_write_study(run)}")
            return 0
        if mode == "explore":
            reports.explore(run)
            return 0
        if mode == "sample":
            for folder in training.sample(run):
                for path in reports.write_samples(folder):
                    print(f"samples: {path}")
            return 0
        if isinstance(run, experiments.Experiment):
            print(f"report: {experiments.run(run)}")
            return 0
        if mode in ("all", "train"):
            training.train(run)
        if mode in ("all", "evaluate"):
            training.evaluate(run)
        if mode != "train":
            for folder in training.evaluated_folders(run):
                print(reports.score_table(folder))
                print(f"report: {reports.write(folder)}")
    except training.Interrupted as stopped:
        print(f"{stopped}; everything is saved. The same command goes on from there.")
        return stopped.exit_code
    except training.TooLarge as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (training.NonFiniteLoss, training.UnreadableCheckpoint) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
