"""Commands that list what the library has, from the descriptions of its parts."""

from collections.abc import Callable, Iterable, Sequence

from disentangle_jax.commands.arguments import Parser, define
from disentangle_jax.types import unknown_name


def _shown(
    command: Callable,
    argv: list[str],
    about: Callable[[str], str],
    table: Callable[[], Iterable[Sequence[str]]],
) -> Callable[[], int]:
    """Returns the work of a command that shows one definition, or a table of all.

    Args:
      command: the command.
      argv: its arguments.
      about: returns the text of one definition.
      table: returns the head and the rows of the table.
    """
    parser = Parser(command)
    parser.add_argument("name", nargs="?", metavar="NAME", help="show only this one")
    parser.add_argument("--markdown", action="store_true", help="a Markdown table")
    args, _ = parser.parse(argv)
    if args.name:
        text = about(args.name)
    elif args.markdown:
        text = markdown(table())
    else:
        rows = list(table())
        widths = [max(map(len, column)) for column in zip(*rows)]
        text = "\n".join(
            "  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows
        )

    def work() -> int:
        print(text)
        return 0

    return work


def markdown(table: Iterable[Sequence[str]]) -> str:
    """Returns a head and rows as a Markdown table."""
    head, *rows = table
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def method_table() -> Iterable[Sequence[str]]:
    """Yields head and rows of the table of methods."""
    from disentangle_jax import methods as methods_lib

    yield "method", "hyperparameters", "reference"
    for name in sorted(methods_lib.names()):
        hypers = ", ".join(methods_lib.hyperparameters(name)) or "–"
        yield name, hypers, methods_lib.describe(name).reference


def protocol_table() -> Iterable[Sequence[str]]:
    """Yields head and rows of the table of protocols."""
    from disentangle_jax import experiments

    yield "protocol", "question", "reference"
    for name in sorted(experiments.names()):
        description = experiments.describe(name)
        yield name, description.question, description.reference


def score_table() -> Iterable[Sequence[str]]:
    """Yields head and rows of the table of scores."""
    from disentangle_jax import metrics

    yield "score", "meaning", "needs", "reference"
    for name in metrics.names():
        description = metrics.describe(name)
        yield name, description.meaning, description.needs, description.reference


def convention_table() -> Iterable[Sequence[str]]:
    """Yields head and rows of the table of the settings of each convention."""
    from disentangle_jax import metrics

    known = metrics.conventions()
    yield "score", *known
    for name in metrics.names():
        chosen = metrics.describe(name).conventions
        settings = [chosen.get(convention, {}).items() for convention in known]
        if chosen:
            cells = (", ".join(f"{k}={v}" for k, v in own) for own in settings)
            yield name, *(cell or "–" for cell in cells)


def dataset_table() -> Iterable[Sequence[str]]:
    """Yields head and rows of the table of datasets."""
    from disentangle_jax import data

    yield "dataset", "factors"
    for name in data.names():
        yield name, data.describe(name).factor_text


def field_table(section: str = "") -> Iterable[Sequence[str]]:
    """Yields head and rows of the table of config fields."""
    from disentangle_jax import config

    yield "field", "default", "meaning"
    for name, field in config.FIELDS.items():
        if name.startswith(section):
            yield f"--config.{name}", repr(field.default), field.doc


def about_method(name: str) -> str:
    """Returns the hyperparameters and options of a method."""
    from disentangle_jax import methods as methods_lib

    description = methods_lib.describe(name)
    lines = [f"{name}: {description.summary}", description.reference]
    lines += ["", "hyperparameters (--config.method.NAME=VALUE):"]
    for key, hyper in description.hyperparameters.items():
        value = "required" if hyper.default is None else f"{hyper.default:g}"
        lines.append(f"  {key:<28}{value:<12}{hyper.doc}".rstrip())
    lines.append("options:")
    lines += [f"  {k:<28}{v!r}" for k, v in methods_lib.options(name).items()]
    return "\n".join(lines)


def about_dataset(name: str) -> str:
    """Returns the factors, licence and files of a dataset."""
    from disentangle_jax import data

    return f"{name}\n{data.describe(name).text()}"


def about_protocol(name: str) -> str:
    """Returns the question and options of a protocol."""
    from disentangle_jax import experiments

    description = experiments.describe(name)
    options = [f"  {key:<22}{value!r}" for key, value in description.options.items()]
    first = [f"{name}: {description.question}", description.reference, ""]
    return "\n".join([*first, "options (--config.experiment):", *options])


def about_score(name: str) -> str:
    """Returns the values of a score with their meanings."""
    from disentangle_jax import metrics

    description = metrics.describe(name)
    lines = [f"{key:<28}{text}" for key, text in description.keys.items()]
    return "\n".join([name, description.reference, "", *lines])


@define("methods [NAME] [--markdown]", light=True)
def methods(argv: list[str]) -> Callable[[], int]:
    """List the training methods with their hyperparameters, or show one."""
    return _shown(methods, argv, about_method, method_table)


@define("datasets [NAME] [--markdown]", light=True)
def datasets(argv: list[str]) -> Callable[[], int]:
    """List the datasets with their factors, or show one with its licence and files."""
    return _shown(datasets, argv, about_dataset, dataset_table)


@define("protocols [NAME] [--markdown]", light=True)
def protocols(argv: list[str]) -> Callable[[], int]:
    """List the papers' protocols with their questions, or show one with its options."""
    return _shown(protocols, argv, about_protocol, protocol_table)


@define("scores [NAME] [--markdown]", light=True)
def scores(argv: list[str]) -> Callable[[], int]:
    """List the scores with their meanings, or show one."""
    return _shown(scores, argv, about_score, score_table)


@define("fields [SECTION] [--markdown]", light=True)
def fields(argv: list[str]) -> Callable[[], int]:
    """List the fields of a config with their defaults and meanings."""

    def about(section: str) -> str:
        from disentangle_jax import config

        rows = list(field_table(section))
        if len(rows) == 1:
            sections = dict.fromkeys(name.partition(".")[0] for name in config.FIELDS)
            raise unknown_name("fields", "section", section, sections)
        return "\n".join("  ".join(row) for row in rows)

    return _shown(fields, argv, about, field_table)


@define(
    "score FILE.npz … [--scores=NAME,NAME] [--csv=FILE | --latex | --json]", light=True
)
def score(argv: list[str]) -> Callable[[], int]:
    """Score and compare files of codes and factors; `disentangle score --help`."""
    from disentangle_jax.metrics import score as score_lib

    return lambda: score_lib.main(argv, prog="disentangle score")
