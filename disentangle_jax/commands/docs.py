"""The command that writes the reference of the library."""

import contextlib
import inspect
import io
import pathlib
from collections.abc import Callable, Iterable, Sequence

from disentangle_jax.commands import lists
from disentangle_jax.commands.arguments import (
    Help,
    Parser,
    check_output,
    define,
    folder_of,
    get,
    names,
)


def network_table() -> Iterable[Sequence[str]]:
    """Yields head and rows of the table of networks."""
    from disentangle_jax import models

    yield "network", "overrides", "reference"
    for name in models.names():
        description = models.describe(name)
        defaults = [
            f"{key}={getattr(value, '__name__', None) or repr(value)}"
            for key, value in description.overrides.items()
        ]
        yield name, ", ".join(defaults), description.reference


def evaluator_table() -> Iterable[Sequence[str]]:
    """Yields head and rows of the table of evaluators."""
    from disentangle_jax import evaluation

    yield "evaluator", "what it does", "scores"
    for name in evaluation.names():
        summary = (inspect.getdoc(evaluation.get(name)) or "").partition("\n")[0]
        yield name, summary, ", ".join(evaluation.describe(name).scores)


def command_table() -> Iterable[Sequence[str]]:
    """Yields head and rows of the table of commands."""
    yield "command", "arguments", "what it does"
    for name in names():
        command = get(name)
        summary = (inspect.getdoc(command) or "").partition("\n")[0]
        yield name, f"disentangle {command.description.usage}", summary


def about_command(name: str) -> str:
    """Returns what ``disentangle NAME --help`` prints."""
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            get(name)(["--help"])()
    except Help as asked:
        return str(asked).strip()
    return text.getvalue().strip()


@define("docs DIR")
def docs(argv: list[str]) -> Callable[[], int]:
    """Write the reference of all packages, definitions and config fields as HTML.

    DIR/index.html is its first page; nothing is loaded from the network.
    """
    import disentangle_jax
    from disentangle_jax.reports import reference

    parser = Parser(docs)
    parser.add_folder("dir", help="folder to write to")
    args, overrides = parser.parse(argv)
    if overrides:
        raise ValueError("docs takes a folder and no --config.")
    folder = check_output(pathlib.Path(folder_of(args, "dir")))

    def work() -> int:
        listing = reference.Listing
        listings = {
            "methods": listing("Methods", lists.method_table(), lists.about_method),
            "metrics": listing("Scores", lists.score_table(), lists.about_score),
            "data": listing("Datasets", lists.dataset_table(), lists.about_dataset),
            "models": listing("Networks", network_table()),
            "evaluation": listing("Evaluators", evaluator_table()),
            "experiments": listing(
                "Protocols", lists.protocol_table(), lists.about_protocol
            ),
            "config": listing("Fields of a config", lists.field_table()),
            "commands": listing("Commands", command_table(), about_command),
        }
        packages = disentangle_jax.SUBPACKAGES
        print(f"reference: {reference.write(folder, packages, listings)}")
        return 0

    return work
