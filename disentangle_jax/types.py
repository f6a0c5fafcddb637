"""Types and checks that several packages share."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax


class Posterior(NamedTuple):
    """The output of an encoder for a batch of observations (a pytree).

    Attributes:
      mean: ``[B, D]`` means, or the codes of a deterministic encoder.
      log_var: ``[B, D]`` log-variances; None for deterministic encoders.
      logits: ``[B, M]`` logits of the discrete variables; None if there are none.
    """

    mean: jax.Array
    log_var: jax.Array | None = None
    logits: jax.Array | None = None


def unknown_name(
    function: str, argument: str, got: object, known: Iterable[str]
) -> ValueError:
    """Returns the error for an unknown name, which suggests the nearest known name.

    Args:
      function: the public function that was called.
      argument: its argument that holds the name.
      got: the value that was passed.
      known: the valid names.
    """
    known = list(known)
    near = difflib.get_close_matches(str(got), known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(
        f"{function}: `{argument}` must be one of {', '.join(known)}, "
        f"got {got!r}.{hint}"
    )


class State(NamedTuple):
    """The state of training between two steps (a pytree).

    Attributes:
      step: ``[]`` int32, the number of updates done.
      params: parameters of the networks.
      model_state: other variables of the networks, such as batch-norm statistics.
      opt_state: state of the optimizers.
    """

    step: jax.Array
    params: dict[str, Any]
    model_state: dict[str, Any]
    opt_state: Any


def check_groups(
    function: str, groups: Sequence[int] | None, elements: int
) -> tuple[int, ...]:
    """Returns the sizes of contiguous groups as a tuple, or raises if they do not fit.

    Args:
      function: the public function that was called.
      groups: sizes of contiguous groups; None means one group per element.
      elements: the number of elements, to which the groups must add up.
    """
    if groups is None:
        return (1,) * elements
    groups = tuple(int(size) for size in groups)
    if min(groups, default=0) < 1 or sum(groups) != elements:
        raise ValueError(
            f"{function}: `groups` must be positive sizes that add up to {elements}, "
            f"got {groups} (sum {sum(groups)})."
        )
    return groups
