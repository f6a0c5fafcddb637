"""Commands that list what the library has, from the descriptions of its parts."""

from collections.abc import Callable, Iterable

from disentangle_jax.commands.arguments import Parser, define


def _shown(command: Callable, argv: list[str], about: Callable[[str], str], every):
    """Returns what prints one definition, or one line for each of them."""
    parser = Parser(command)
    parser.add_argument("name", nargs="?", metavar="NAME", help="show only this one")
    args, _ = parser.parse(argv)
    text = about(args.name) if args.name else "\n".join(every())

    def work() -> int:
        print(text)
        return 0

    return work


@define("methods [NAME]")
def methods(argv: list[str]) -> Callable[[], int]:
    """List the training methods with their hyperparameters, or show one."""
    from disentangle_jax import methods as methods_lib

    def about(name: str) -> str:
        description = methods_lib.describe(name)
        lines = [f"{name}: {description.summary}", description.reference]
        lines += ["", "hyperparameters (--config.method.NAME=VALUE):"]
        for key, hyper in description.hyperparameters.items():
            value = "required" if hyper.default is None else f"{hyper.default:g}"
            lines.append(f"  {key:<28}{value:<12}{hyper.doc}".rstrip())
        lines.append("options:")
        lines += [f"  {k:<28}{v!r}" for k, v in methods_lib.options(name).items()]
        return "\n".join(lines)

    def every() -> Iterable[str]:
        for name in methods_lib.names():
            hypers = ", ".join(methods_lib.hyperparameters(name)) or "none"
            yield f"{name:<22}{hypers}"

    return _shown(methods, argv, about, every)


@define("datasets [NAME]")
def datasets(argv: list[str]) -> Callable[[], int]:
    """List the datasets with their factors, or show one with its licence and files."""
    from disentangle_jax import data

    def about(name: str) -> str:
        return f"{name}\n{data.describe(name).text()}"

    def every() -> Iterable[str]:
        for name in data.names():
            yield f"{name:<24}{data.describe(name).factor_text}"

    return _shown(datasets, argv, about, every)


@define("fields [SECTION]")
def fields(argv: list[str]) -> Callable[[], int]:
    """List the fields of a config with their defaults and meanings."""
    from disentangle_jax import config

    def rows(section: str = "") -> list[str]:
        return [
            f"--config.{name:<28}{field.default!r:<22}  {field.doc}"
            for name, field in config.FIELDS.items()
            if name.startswith(section)
        ]

    return _shown(fields, argv, lambda name: "\n".join(rows(name)), rows)


@define("score FILE.npz [--scores=NAME,NAME] [--json]")
def score(argv: list[str]) -> Callable[[], int]:
    """Score a file of codes and factors; `disentangle score --help`."""
    from disentangle_jax.metrics import score as score_lib

    return lambda: score_lib.main(argv)
