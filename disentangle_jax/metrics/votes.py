"""Votes of latent variables by their variance, for the interventional scores."""

from collections.abc import Callable
from typing import Any

import numpy as np

# Votes whose codes are gathered at once, which bounds the memory.
_BLOCK = 512


def by_blocks(place: np.ndarray, function: Callable) -> np.ndarray:
    """Returns ``function(place)`` of votes ``[votes, …]``, a block at a time."""
    starts = range(0, len(place), _BLOCK)
    return np.concatenate([function(place[i : i + _BLOCK]) for i in starts])


def group_setting(groups: tuple[int, ...]) -> dict[str, Any]:
    """Returns the setting that states multi-dimensional variables, where there are."""
    return {"groups": groups} if max(groups) > 1 else {}


def lengths(difference: np.ndarray, groups: tuple[int, ...]) -> np.ndarray:
    """Returns the Euclidean lengths ``[..., G]`` of differences ``[..., D]``."""
    if max(groups) == 1:
        return np.abs(difference)
    return np.sqrt(_sums(difference**2, groups))


def _sums(values: np.ndarray, groups: tuple[int, ...]) -> np.ndarray:
    """Returns the sums ``[..., G]`` of values ``[..., D]`` over each variable."""
    if max(groups) == 1:
        return values
    return np.add.reduceat(values, np.cumsum((0, *groups[:-1])), axis=-1)


def majority(
    codes: np.ndarray,
    everything: np.ndarray,
    place: np.ndarray,
    factor: np.ndarray,
    pick: Callable,
    *,
    groups: tuple[int, ...],
    k: int,
    num_train: int,
    threshold: float,
    constant_votes: bool = False,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Predicts the factor ``[votes]`` of each vote by the majority of training votes.

    A vote names the latent variable that `pick` (``np.argmin`` or ``np.argmax``)
    chooses by its variance over ``codes[place]``, relative to its variance over
    `everything`. The variance of a variable is the sum over its dimensions.

    Returns:
      ``[votes]`` whether the prediction is right, the table ``[G, K]`` of training
      votes, and the number of variables that vote.
    """
    variance = _sums(everything.var(axis=0, ddof=1), groups)
    # The variance of a constant latent may round to above 0; its range does not.
    alive = _sums(np.ptp(everything, axis=0), groups) > 0
    active = np.flatnonzero((np.sqrt(variance) >= threshold) & alive)
    winner = np.zeros(len(factor), np.int64)
    if constant_votes and not alive.all():
        active = np.arange(len(alive))
        winner[:] = np.flatnonzero(~alive)[0]
    elif len(active):
        member = np.repeat(np.arange(len(groups)), groups)
        live = codes[:, np.isin(member, active)]
        sizes = tuple(groups[g] for g in active)

        def chosen(p: np.ndarray) -> np.ndarray:
            spread = _sums(live[p].var(axis=1, ddof=1), sizes)
            return active[pick(spread / variance[active], axis=1)]

        winner = by_blocks(place, chosen)
    table = np.zeros((len(groups), k), np.int64)
    np.add.at(table, (winner[:num_train], factor[:num_train]), 1)
    return table.argmax(axis=1)[winner] == factor, table, len(active)
