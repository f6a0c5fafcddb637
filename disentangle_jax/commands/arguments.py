"""What the commands share: how they are found, and how their arguments are read."""

import argparse
import inspect
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from disentangle_jax import registry

COMMANDS = registry.Registry("command", "disentangle_jax.commands")


class CommandDescription(NamedTuple):
    """What is known of a command.

    Attributes:
      usage: its arguments.
      light: whether it neither trains nor loads models.
    """

    usage: str
    light: bool = False


class Help(Exception):
    """The user asked for help; the message is the help text."""


class Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that all errors are reported in one way.

    Args:
      command: the function that parses its arguments with it; its docstring is the
        help text.
    """

    def __init__(self, command: Callable):
        super().__init__(
            prog=f"disentangle {command.description.usage}",
            usage="%(prog)s",
            description=inspect.getdoc(command),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str):
        raise ValueError(f"{message}; see --help.")

    def print_help(self, file=None):
        raise Help(self.format_help())

    def parse(self, argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """Returns the arguments, and the texts ``--config.SECTION.FIELD=VALUE``."""
        overrides = [arg for arg in argv if arg.startswith("--config.")]
        rest = [arg for arg in argv if not arg.startswith("--config.")]
        return self.parse_intermixed_args(rest), overrides

    def add_folder(self, name: str = "run", **options) -> None:
        """Adds a folder, given by its place or, for one folder, as ``--workdir``."""
        self.add_argument(name, nargs="?", metavar=name.upper(), **options)
        self.add_argument("--workdir", help=f"the same as {name.upper()}")


def define(usage: str, *, light: bool = False) -> Callable:
    """Returns a decorator that makes a function a command."""
    return COMMANDS.decorator(CommandDescription(usage, light))


def get(name: str) -> Callable[[list[str]], Callable[[], int]]:
    """Returns the command called `name`."""
    return COMMANDS.get(name, "disentangle", "command")


def names() -> tuple[str, ...]:
    """Returns the names of the commands."""
    return COMMANDS.names()


def overview() -> str:
    """Returns one line for each command."""
    lines = []
    for name in names():
        summary = inspect.getdoc(get(name)).splitlines()[0]
        lines.append(f"  {name:<10}{summary}")
    return "\n".join(lines)


def folder_of(args: argparse.Namespace, name: str = "run") -> pathlib.Path:
    """Returns the one folder that was given."""
    given = [f for f in (getattr(args, name), args.workdir) if f is not None]
    if len(given) != 1:
        wrong = "was given twice" if given else "is required"
        raise ValueError(
            f"{name.upper()} {wrong}: give one folder, as an argument or by --workdir; "
            "see --help."
        )
    return pathlib.Path(given[0])


def check_output(workdir: pathlib.Path) -> pathlib.Path:
    """Returns `workdir`, or raises where it is no folder that can be written to."""
    above = (workdir.absolute(), *workdir.absolute().parents)
    folder = next(path for path in above if path.exists())
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ValueError(
            f"workdir: {folder} is no folder that can be written to; give another "
            "--workdir."
        )
    return workdir


def print_reports(folders: Sequence[pathlib.Path]) -> int:
    """Prints the scores of evaluated models and writes their reports; returns 0."""
    from disentangle_jax import reports

    for folder in folders:
        print(reports.score_table(folder))
        print(f"report: {reports.write(folder)}")
    return 0


def field_names(overrides: Sequence[str]) -> list[str]:
    """Returns the dotted names of texts ``--config.SECTION.FIELD=VALUE``."""
    return [text.removeprefix("--config.").partition("=")[0] for text in overrides]


def stored_run(folder: pathlib.Path, overrides: Sequence[str] = ()):
    """Returns the run of a folder, with fields of its evaluation changed."""
    from disentangle_jax import config as config_lib
    from disentangle_jax import training

    for field in field_names(overrides):
        if not field.startswith("eval."):
            raise ValueError(
                f"--config.{field}: a trained run keeps its config; only "
                "--config.eval.FIELD can be changed."
            )
    config = config_lib.override(training.read_config(folder), overrides)
    return training.prepare(config, folder)
