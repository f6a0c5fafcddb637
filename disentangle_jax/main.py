"""The command line of disentangle_jax.

    disentangle --config=FILE[:PRESET] [--workdir=DIR] [--config.SECTION.FIELD=VALUE]
    disentangle COMMAND …          (or: python -m disentangle_jax COMMAND …)
    disentangle --version

  --config=sae                    configs/sae.py, at the setting of its paper
  --config=sae:quick              its preset for a CPU (minutes, no download)
  --config=experiments/zero_shot  a protocol of several runs, with a page of its own
  --config=my_folder/my.py        a file of your own

Commands (`disentangle COMMAND --help` explains one):
{commands}

Exit codes: 0; 2 where the command is wrong, or another process writes to the folder; 1
where training failed; 129, 130 or 143 where a closed terminal, Ctrl-C or SIGTERM
stopped it, with its state saved.
"""

import os
import sys
import warnings

# TensorFlow only moves images here: no start-up messages. Set before its import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

from disentangle_jax import __version__, commands, missing
from disentangle_jax.commands import process


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv[:1] in (["-h"], ["--help"]):
        print(__doc__.strip().replace("{commands}", commands.overview()))
        return 0
    if argv == ["--version"]:
        print(f"disentangle_jax {__version__}")
        return 0
    name = argv.pop(0) if argv and not argv[0].startswith("-") else "run"
    warnings.showwarning = lambda message, *_: print(f"warning: {message}")
    try:
        command = commands.get(name)
        work = command(argv)
    except commands.Help as text:
        print(str(text).strip())
        return 0
    except (ValueError, TypeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"error: {name} needs {missing(error)}", file=sys.stderr)
        return 2
    return work() if command.description.light else _run(work)


def _run(work) -> int:
    from absl import logging

    from disentangle_jax import training

    logging.set_verbosity(logging.FATAL)  # Orbax logs what it raises.

    training.use_compilation_cache()
    training.keep_freed_memory()
    return process.exit_code(work)


def command() -> int:
    """Runs the command of this process; returns its exit code."""
    process.set_up()
    return main()


if __name__ == "__main__":
    sys.exit(command())
