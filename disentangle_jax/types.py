"""Small shared types: what an encoder returns, what a step carries, name errors."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax

# A hyperparameter: a number, or a traced value of a schedule or a sweep.
Scalar = jax.Array | float


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
    near = difflib.get_close_matches(str(got), known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(
        f"{function}: `{argument}` must be one of {', '.join(known)}, "
        f"got {got!r}.{hint}"
    )


class State(NamedTuple):
    """Everything a training step carries to the next (a pytree).

    Attributes:
      step: ``[]`` int32, the number of updates done.
      params: parameters of the networks, a dict.
      model_state: what the networks keep besides (batch-norm statistics), a dict.
      opt_state: state of the optimizer(s).
    """

    step: jax.Array
    params: dict[str, Any]
    model_state: dict[str, Any]
    opt_state: Any


def check_groups(
    function: str, groups: Sequence[int] | None, elements: int
) -> tuple[int, ...]:
    """Returns sizes of contiguous groups as a tuple, or raises where they do not fit.

    Args:
      function: the public function that was called.
      groups: sizes of contiguous groups; None means one group per element.
      elements: number of elements that the groups must add up to.
    """
    if groups is None:
        return (1,) * elements
    try:
        groups = tuple(int(size) for size in groups)
    except (TypeError, ValueError):
        raise ValueError(
            f"{function}: `groups` must be whole numbers, got {groups!r}."
        ) from None
    if min(groups, default=0) < 1 or sum(groups) != elements:
        raise ValueError(
            f"{function}: `groups` must be positive sizes that add up to {elements}, "
            f"got {groups} (sum {sum(groups)})."
        )
    return groups
