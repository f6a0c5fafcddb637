"""Trains, scores and shows one run.

    python -m disentangle_jax.main --config=FILE[:PRESET] [--workdir=DIR] [--mode=MODE]

  --config=configs/sae.py         a file of configs/, its paper's setting
  --config=configs/sae.py:quick   its preset for a CPU (minutes, no download)
  --config.SECTION.FIELD=VALUE    changes one field, e.g. --config.train.seed=1;
                                  disentangle_jax/config.py lists and explains them
  --workdir=DIR                   folder of the run; runs/<config>[-<preset>] if not
                                  given. A run found there goes on where it was.
  --mode=all                      train, evaluate and report (the default), or one of
         train                      train, to the last step of the config
         evaluate                   write scores.json and pictures.npz
         report                     draw the pictures and report.html
                                  The last two need only --workdir.

Ends with code 0; 2 where the command is wrong; 1 where training failed; 130 or 143
where Ctrl-C or SIGTERM stopped it, with its state saved.
"""

import os
import pathlib
import sys
import warnings

# TensorFlow only moves images here: no start-up messages. Set before its import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

from absl import flags, logging
from ml_collections import config_flags

from disentangle_jax import reports, training

_FLAGS = flags.FlagValues()
_CONFIG = config_flags.DEFINE_config_file("config", None, flag_values=_FLAGS)
flags.DEFINE_string("workdir", None, "Folder of the run.", flag_values=_FLAGS)
flags.DEFINE_enum(
    "mode",
    "all",
    ["all", "train", "evaluate", "report"],
    "What to do.",
    flag_values=_FLAGS,
)


class UsageError(ValueError):
    """The command line is wrong."""


def parse(argv: list[str]) -> tuple[training.Run, str]:
    """Returns the checked run that `argv` asks for, and the mode.

    Raises:
      UsageError, ValueError, TypeError, OSError: with the fix in one line.
    """
    try:
        rest = _FLAGS(argv)[1:]
    except flags.Error as error:
        # ml_collections puts a whole traceback into the message of a config's error.
        raise UsageError(str(error).strip().splitlines()[-1]) from None
    except (AttributeError, KeyError) as error:  # An unknown field of the config.
        message = str(error).strip("'\"").replace("\\n", " ").replace("\\'", "'")
        raise UsageError(
            f"--config: no field {message} See disentangle_jax/config.py."
        ) from None
    if rest:
        raise UsageError(f"unexpected argument {rest[0]!r}; see --help.")
    file = config_flags.get_config_filename(_FLAGS["config"])
    mode, workdir = _FLAGS.mode, _FLAGS.workdir
    if file is None:
        if workdir is None or mode in ("all", "train"):
            raise UsageError("--config=FILE is required; see --help.")
        return training.prepare(training.read_config(workdir), workdir), mode
    path, _, preset = file.partition(":")
    if not pathlib.Path(path).is_file():
        raise UsageError(f"--config: there is no file {path}; see the folder configs/.")
    if workdir is None:
        name = pathlib.Path(path).stem + (f"-{preset}" if preset else "")
        workdir = f"runs/{name}"
    return training.prepare(_FLAGS.config, workdir), mode


def main(argv: list[str] = sys.argv) -> int:
    if {"-h", "--help", "-help"} & set(argv[1:]):
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
    print(f"workdir: {run.workdir}", flush=True)
    try:
        if mode in ("all", "train"):
            training.train(run)
        if mode in ("all", "evaluate"):
            print(reports.score_table(training.evaluate(run)))
        if mode in ("all", "evaluate", "report"):
            print(f"report: {reports.write(run.workdir)}")
    except training.Interrupted as stopped:
        print(f"{stopped}; everything is saved. The same command goes on from there.")
        return stopped.exit_code
    except (training.NonFiniteLoss, training.UnreadableCheckpoint) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
