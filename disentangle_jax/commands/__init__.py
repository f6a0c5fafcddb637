"""The commands of ``disentangle``, one module each.

A command is a function of its arguments that checks them and returns what to do::

    @define("evaluate RUN [--config.eval.FIELD=VALUE]")
    def evaluate(argv: list[str]) -> Callable[[], int]:
        ...

Heavy libraries are imported inside, so that ``--help`` answers at once.
"""

from disentangle_jax.commands.arguments import Help as Help
from disentangle_jax.commands.arguments import define as define
from disentangle_jax.commands.arguments import get as get
from disentangle_jax.commands.arguments import names as names
from disentangle_jax.commands.arguments import overview as overview
