"""Small shared types: what an encoder returns, and how names are checked."""

import difflib
from collections.abc import Iterable
from typing import NamedTuple

import jax


class Posterior(NamedTuple):
    """What an encoder says of a batch of observations (a pytree).

    Attributes:
      mean: ``[B, D]`` means, or the codes themselves of a deterministic encoder.
      log_var: ``[B, D]`` log-variances; None for deterministic encoders.
      logits: ``[B, M]`` logits of the discrete variables; None where there are none.
    """

    mean: jax.Array
    log_var: jax.Array | None = None
    logits: jax.Array | None = None


def unknown_name(
    function: str, argument: str, got: object, known: Iterable[str]
) -> ValueError:
    """Returns the error for a name that is not in a closed list, with the nearest.

    Args:
      function: the public function that was called.
      argument: its argument that holds the name.
      got: what was passed.
      known: the names that exist.
    """
    known = list(known)
    near = difflib.get_close_matches(str(got), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(
        f"{function}: `{argument}` must be one of {', '.join(known)}, "
        f"got {got!r}.{hint}"
    )
