"""How a definition describes itself, and how it is found by name.

A definition is a method, a score, a dataset, a network, an evaluator or a protocol: a
function or class that a decorator of its package has given a ``description``. The
library's own definitions are found by a short name; those of users by
``package.module:name``, without any registration::

    # my_package/scores.py
    from disentangle_jax import metrics

    @metrics.define(keys={"spread": "how far codes lie apart"})
    def spread(codes, factors, *, codes_test=None, factors_test=None, seed=0):
        ...

    metrics.evaluate(codes, factors, scores=("mig", "my_package.scores:spread"))
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

from disentangle_jax.types import unknown_name


class Registry:
    """The definitions of one kind.

    Args:
      kind: what they are, for messages: ``"score"``.
      package: package whose modules hold the library's definitions. They are imported
        when a name is first looked up, so a new definition is a new module.
    """

    def __init__(self, kind: str, package: str):
        self._kind = kind
        self._package = package
        self._known: dict[str, Any] = {}
        self._imported = False

    def add(self, definition: Any, description: Any, name: str | None = None) -> Any:
        """Gives a definition its description, and a name if it is the library's.

        Args:
          definition: function or class; returned with the attribute ``description``.
          description: what lists, checks and help texts are derived from.
          name: how it is looked up; None for the ``__name__`` of the definition.
        """
        definition.description = description
        module = getattr(definition, "__module__", None) or ""
        if module == self._package or module.startswith(f"{self._package}."):
            self._known[name or definition.__name__] = definition
        return definition

    def decorator(self, description: Any) -> Callable[[Any], Any]:
        """Returns a decorator that adds a definition with this description."""
        return lambda definition: self.add(definition, description)

    def names(self) -> tuple[str, ...]:
        """Returns the names of the library's definitions."""
        self._import_modules()
        return tuple(self._known)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def get(self, name: str, function: str, argument: str = "name") -> Any:
        """Returns the definition called `name`.

        Args:
          name: one of :meth:`names`, or ``package.module:name`` of a user's definition.
          function: the public function that was called, for the error.
          argument: its argument that holds the name.

        Raises:
          ValueError: there is no such definition.
        """
        if isinstance(name, str) and ":" in name:
            definition = imported(name, function, argument)
            if not hasattr(definition, "description"):
                raise ValueError(
                    f"{function}: `{argument}` must name a {self._kind}, and {name!r} "
                    f"is none: decorate it as the {self._kind}s of {self._package} are."
                )
            return definition
        self._import_modules()
        if name not in self._known:
            raise unknown_name(function, argument, name, self._known)
        return self._known[name]

    def _import_modules(self) -> None:
        if self._imported:
            return
        self._imported = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            if not module.ispkg and module.name != "__main__":
                importlib.import_module(f"{self._package}.{module.name}")


def split_names(text: str) -> tuple[str, ...]:
    """Returns names separated by commas; commas in parentheses do not separate.

    A comma at the end, as in a tuple of one, is allowed.
    """
    parts = re.split(r",(?![^(]*\))", text.rstrip().removesuffix(","))
    return tuple(part.strip() for part in parts)


def imported(name: str, function: str, argument: str) -> Any:
    """Returns the object that ``package.module:name`` names.

    Args:
      name: module and attribute.
      function: the public function that was called, for the error.
      argument: its argument that holds the name.

    Raises:
      ValueError: the module cannot be imported, or has no such attribute.
    """
    path, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(path)
    except ImportError as error:
        raise ValueError(
            f"{function}: `{argument}` {name!r} cannot be imported ({error}); the "
            "module must be installed, or its folder be on PYTHONPATH."
        ) from None
    if not hasattr(module, attribute):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise unknown_name(f"{function}: {path}", argument, attribute, public)
    return getattr(module, attribute)
