"""Relations between combinations of factors, as data: functions on factor tuples.

A relation maps one or several combinations of factors to another one: ``move_left``
maps (square, centre, up) to (square, left, up), and 7 + 8 is 5 modulo 10. A table holds
the result of several relations for every combination; a relational method and its
scores need nothing else::

    turn = Relation("next_shape", lambda f: ((f[0] + 1) % 3, *f[1:]))
    table = relation_table([*relations("dsprites"), turn], (3, 3, 3))

Combinations are numbered in row-major order of their factors.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from disentangle_jax.types import unknown_name

Factors = tuple[int, ...]


class Relation(NamedTuple):
    """One relation.

    Attributes:
      name: name of the relation.
      function: maps one factor tuple per operand (its number of arguments is the
        relation's arity) to the resulting tuple; to a tuple of tuples if there are
        several results; to None where the relation is not defined.
      operator: the combination that denotes the relation in the data (the symbol "+"),
        so that the model can encode it; None for a one-hot code.
    """

    name: str
    function: Callable[..., Factors | tuple[Factors, ...] | None]
    operator: Factors | None = None


class RelationTable(NamedTuple):
    """The results of relations, by the numbers of the combinations.

    Attributes:
      names: names of the R relations.
      targets: int32 ``[R, C, …, C, O]``, an axis of C combinations per operand: the O
        results of the relation; -1 where it is not defined.
      operators: int32 ``[R]``, the combination that denotes each; None for one-hot
        codes.
    """

    names: tuple[str, ...]
    targets: np.ndarray
    operators: np.ndarray | None

    @property
    def arity(self) -> int:
        """Number of operands."""
        return self.targets.ndim - 2

    @property
    def components(self) -> int:
        """C, number of combinations."""
        return self.targets.shape[1]

    @property
    def outputs(self) -> int:
        """O, number of results."""
        return self.targets.shape[-1]

    def operands(self) -> list[np.ndarray]:
        """Returns the operands for which each relation is defined, ``[M, arity]``."""
        return [
            np.argwhere((own >= 0).all(axis=-1)).astype(np.int32)
            for own in self.targets
        ]


def relation_table(
    relations: Iterable[Relation], factor_sizes: Sequence[int]
) -> RelationTable:
    """Returns the results of each relation for every combination.

    Args:
      relations: relations of one arity and one number of results, since one network
        learns them all; either all or none have an operator.
      factor_sizes: number of values of each factor.

    Raises:
      ValueError: a relation leaves the grid of factors (it must wrap, saturate or
        return None there), or the relations are not compatible.
    """
    relations, sizes = tuple(relations), tuple(int(size) for size in factor_sizes)
    if not relations or not sizes:
        raise ValueError(
            "relation_table: `relations` and `factor_sizes` must not be empty, got "
            f"{len(relations)} relations on {sizes}."
        )
    combinations = [tuple(map(int, place)) for place in np.ndindex(*sizes)]
    arities = {r.name: len(inspect.signature(r.function).parameters) for r in relations}
    if len(set(arities.values())) > 1:
        raise ValueError(
            "relation_table: `relations` must all take as many operands, got "
            f"{arities}."
        )
    arity = next(iter(arities.values()))
    rows: list[dict[tuple[int, ...], tuple[int, ...]]] = []
    widths: dict[int, str] = {}
    for relation in relations:
        own = {}
        for place in np.ndindex(*(len(combinations),) * arity):
            result = relation.function(*(combinations[c] for c in place))
            if result is not None:
                own[place] = _numbers(relation.name, place, result, combinations, sizes)
        if not own:
            raise ValueError(
                f"relation_table: relation {relation.name!r} is defined nowhere on "
                f"factors of sizes {sizes}."
            )
        rows.append(own)
        widths |= {len(result): relation.name for result in own.values()}
    if len(widths) > 1:
        raise ValueError(
            "relation_table: `relations` must all have as many results, got "
            f"{', '.join(f'{n} of {name!r}' for n, name in widths.items())}."
        )
    shape = (len(relations), *(len(combinations),) * arity, next(iter(widths)))
    targets = np.full(shape, -1, np.int32)
    for number, own in enumerate(rows):
        for place, result in own.items():
            targets[number][place] = result
    given = [relation.operator is not None for relation in relations]
    operators = None
    if any(given):
        if not all(given):
            raise ValueError(
                "relation_table: `relations` must all have an operator or none, got "
                f"{[r.name for r in relations if r.operator is None]} without."
            )
        operators = np.array(
            [
                _numbers(r.name, (), r.operator, combinations, sizes)[0]
                for r in relations
                if r.operator is not None
            ],
            np.int32,
        )
    return RelationTable(tuple(arities), targets, operators)


def _numbers(
    name: str,
    operands: tuple[int, ...],
    result: Factors | tuple[Factors, ...],
    combinations: list[Factors],
    sizes: tuple[int, ...],
) -> tuple[int, ...]:
    """Returns the numbers of the combinations in `result`."""
    results = result if isinstance(result[0], tuple) else (result,)
    for factors in results:
        inside = len(factors) == len(sizes) and all(
            0 <= value < size for value, size in zip(factors, sizes)
        )
        if not inside:
            start = " and ".join(str(combinations[c]) for c in operands)
            raise ValueError(
                f"relation_table: relation {name!r} leaves the grid of sizes {sizes}: "
                f"{start} leads to {tuple(factors)}. Let it wrap or saturate, or "
                "return None where it is not defined."
            )
    return tuple(int(np.ravel_multi_index(factors, sizes)) for factors in results)


def follow(
    table: RelationTable, chain: np.ndarray, start: np.ndarray, *others: np.ndarray
) -> np.ndarray:
    """Returns the results of chains of relations of any depth.

    The last result of a relation is the first operand of the next; the further operands
    are given for each depth.

    Args:
      table: result of :func:`relation_table`.
      chain: ``[N, depth]`` numbers of relations.
      start: ``[N]`` numbers of combinations, the first operands.
      *others: the ``arity - 1`` further operands, ``[N, depth]`` each.

    Returns:
      ``[N, O]`` numbers of the combinations after the last relation; -1 if any relation
      of the chain was not defined.
    """
    chain, place = np.asarray(chain), np.asarray(start)
    if chain.ndim != 2 or place.shape != chain.shape[:1]:
        raise ValueError(
            "follow: `chain` must be [N, depth] and `start` [N], got "
            f"{chain.shape} and {place.shape}."
        )
    if len(others) != table.arity - 1:
        raise ValueError(
            f"follow: `others` must be {table.arity - 1} arrays for relations of "
            f"{table.arity} operands, got {len(others)}."
        )
    result = np.repeat(place[:, None], table.outputs, axis=1)
    for depth in range(chain.shape[1]):
        operands = [other[:, depth] for other in others]
        found = table.targets[(chain[:, depth], np.maximum(place, 0), *operands)]
        result = np.where(place[:, None] < 0, -1, found)
        place = result[:, -1]
    return result


def random_chains(
    rng: np.random.Generator, table: RelationTable, start: np.ndarray, depth: int
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Draws chains of relations that are defined at every depth.

    At each depth the relation is uniform among those that are defined for the current
    first operand, and the further operands are uniform among those for which the
    relation is defined. So :func:`follow` returns -1 only for chains that reach a
    combination for which no relation is defined.

    Args:
      rng: random generator.
      table: result of :func:`relation_table`.
      start: ``[N]`` numbers of combinations.
      depth: number of relations.

    Returns:
      ``chain [N, depth]`` and the further operands, ``[N, depth]`` each, as
      :func:`follow` takes them.
    """
    defined = (table.targets >= 0).all(axis=-1)
    flat = defined.reshape(*defined.shape[:2], -1)
    place = np.array(start)
    chain = np.zeros((len(place), depth), np.int32)
    others = np.zeros((table.arity - 1, len(place), depth), np.int32)
    for number in range(depth):
        possible = flat[:, np.maximum(place, 0)].any(axis=-1).T
        chain[:, number] = (possible * rng.random(possible.shape)).argmax(axis=1)
        allowed = flat[chain[:, number], np.maximum(place, 0)]
        chosen = (allowed * rng.random(allowed.shape)).argmax(axis=1)
        if table.arity > 1:
            others[:, :, number] = np.unravel_index(chosen, defined.shape[2:])
        reached = table.targets.reshape(*flat.shape, -1)
        found = reached[chain[:, number], np.maximum(place, 0), chosen, -1]
        place = np.where(place < 0, -1, found)
    return chain, tuple(others)


def _shift(column: int, by: int, size: int, *, wrap: bool) -> Callable:
    """Returns the function that shifts one factor."""

    def function(factors: Factors) -> Factors:
        value = factors[column] + by
        value = value % size if wrap else min(max(value, 0), size - 1)
        return *factors[:column], value, *factors[column + 1 :]

    return function


def _arithmetic(
    function: Callable[[int, int], int], result: Callable[[int], tuple]
) -> Callable:
    """Returns `function` of digits as a relation of symbols."""

    def relation(left: Factors, right: Factors) -> tuple | None:
        if left[0] > 9 or right[0] > 9:
            return None
        return result(function(left[0], right[0]))

    return relation


def _of_digits(result: Callable[[int], tuple]) -> tuple[Relation, ...]:
    functions = {
        "plus": lambda a, b: a + b,
        "minus": lambda a, b: a - b,
        "times": lambda a, b: a * b,
    }
    return tuple(
        Relation(name, _arithmetic(function, result), operator=(10 + number,))
        for number, (name, function) in enumerate(functions.items())
    )


# Relations of the datasets with regions. Moves wrap around in dSprites; hue and scale
# of 3D Shapes saturate, as in the published code.
_RELATIONS: dict[str, tuple[Relation, ...]] = {
    # Factors shape, x, y; y counts from the top.
    "dsprites": (
        Relation("move_left", _shift(1, -1, 3, wrap=True)),
        Relation("move_right", _shift(1, 1, 3, wrap=True)),
        Relation("move_up", _shift(2, -1, 3, wrap=True)),
        Relation("move_down", _shift(2, 1, 3, wrap=True)),
        Relation("change_shape", _shift(0, 1, 3, wrap=True)),
    ),
    # Factors hue, shape, scale.
    "shapes3d": (
        Relation("+hue", _shift(0, 1, 10, wrap=False)),
        Relation("-hue", _shift(0, -1, 10, wrap=False)),
        Relation("+scale", _shift(2, 1, 3, wrap=False)),
        Relation("-scale", _shift(2, -1, 3, wrap=False)),
        Relation("change_shape", _shift(1, 1, 4, wrap=True)),
    ),
    # Factor symbol: digits, then + − ×. Modulo 10.
    "symbols": _of_digits(lambda value: (value % 10,)),
    # Paper Fig. 10, left: sign (a symbol too) and last digit of the result.
    "symbols_sign": _of_digits(
        lambda value: ((10 if value >= 0 else 11,), (abs(value) % 10,))
    ),
    # Paper Fig. 10, right: both digits of the result modulo 100.
    "symbols_two_digits": _of_digits(
        lambda value: ((value % 100 // 10,), (value % 10,))
    ),
}


def relations(name: str) -> tuple[Relation, ...]:
    """Returns the relations of a name.

    ``"dsprites"`` (factors shape, x, y; moves wrap), ``"shapes3d"`` (hue, shape, scale;
    hue and scale saturate), ``"symbols"`` (+, −, × of digits modulo 10), those of
    "Leveraging Relational Information for Learning Weakly Disentangled
    Representations", Sec. 4.1; ``"symbols_sign"`` and ``"symbols_two_digits"``, its
    Fig. 10, with two results each; and those that :func:`add_relations` has added.
    """
    if name not in _RELATIONS:
        raise unknown_name("data.relations", "name", name, _RELATIONS)
    return _RELATIONS[name]


def add_relations(name: str, relations: Iterable[Relation]) -> None:
    """Gives relations a name that configs can use.

    Args:
      name: a new name.
      relations: as in :func:`relation_table`.
    """
    if name in _RELATIONS:
        raise ValueError(
            f"data.add_relations: `name` must be new, got {name!r}, which is known."
        )
    _RELATIONS[name] = tuple(relations)
