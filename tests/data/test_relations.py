"""Relations as data: results by hand, chains, errors."""

import numpy as np
import pytest

from disentangle_jax import data

SIZES = {"dsprites": (3, 3, 3), "shapes3d": (10, 4, 3), "symbols": (13,)}


def table(name, **more):
    return data.relation_table(data.relations(name), SIZES[name.split("_")[0]])


def test_dsprites_moves_wrap():
    moves = table("dsprites")
    assert moves.names == (
        "move_left", "move_right", "move_up", "move_down", "change_shape",
    )  # fmt: skip
    assert (moves.arity, moves.components, moves.outputs) == (1, 27, 1)
    assert moves.operators is None
    # The class of shape s, place x, y is 9 s + 3 x + y. A heart (2), left (0), up (0):
    start = 9 * 2 + 0 + 0
    assert moves.targets[:, start, 0].tolist() == [
        18 + 6,  # left of the left edge is the right edge
        18 + 3,
        18 + 2,  # above the top is the bottom
        18 + 1,
        0,  # after the heart comes the square
    ]
    assert all(len(own) == 27 for own in moves.operands())


def test_shapes3d_saturates_and_cycles():
    changes = table("shapes3d")
    # Hue 9, shape 3, scale 2 is class 12·9 + 3·3 + 2, the last of 120.
    assert changes.targets[:, 119, 0].tolist() == [119, 107, 119, 118, 108 + 0 + 2]
    assert changes.targets[:, 0, 0].tolist() == [12, 0, 1, 0, 3]


def test_arithmetic_of_symbols():
    sums = table("symbols")
    assert (sums.arity, sums.components, sums.outputs) == (2, 13, 1)
    assert sums.operators.tolist() == [10, 11, 12]
    assert sums.targets[:, 7, 8, 0].tolist() == [5, 9, 6]  # 15, -1, 56 modulo 10
    assert (sums.targets[:, 10:] == -1).all() and (sums.targets[:, :, 10:] == -1).all()
    assert all(len(own) == 100 for own in sums.operands())
    sign = table("symbols_sign")
    assert sign.targets[:, 3, 5].tolist() == [[10, 8], [11, 2], [10, 5]]  # 8, -2, 15
    digits = table("symbols_two_digits")
    assert digits.targets[:, 9, 9].tolist() == [[1, 8], [0, 0], [8, 1]]


def test_a_relation_of_ones_own():
    turn = data.Relation("swap", lambda f: (f[1], f[0]))
    swap = data.relation_table([turn], (2, 2))
    assert swap.targets[0, :, 0].tolist() == [0, 2, 1, 3]
    partly = data.Relation("next", lambda f: (f[0] + 1,) if f[0] < 2 else None)
    some = data.relation_table([partly], (3,))
    assert some.targets[0, :, 0].tolist() == [1, 2, -1]
    assert some.operands()[0].tolist() == [[0], [1]]
    data.add_relations("of ones own", [turn])
    assert data.relations("of ones own") == (turn,)
    with pytest.raises(ValueError, match="must be new, got 'dsprites'"):
        data.add_relations("dsprites", [turn])
    with pytest.raises(ValueError, match="Did you mean 'dsprites'"):
        data.relations("dsprite")


def test_a_relation_that_leaves_the_grid_raises():
    with pytest.raises(ValueError, match=r"'up' leaves the grid.*\(2,\) leads to \(3,"):
        data.relation_table([data.Relation("up", lambda f: (f[0] + 1,))], (3,))
    with pytest.raises(ValueError, match="'up' leaves the grid"):
        data.relation_table([data.Relation("up", lambda f: (0, 0))], (3,))


def test_relations_that_do_not_fit_together():
    one = data.Relation("one", lambda f: f)
    two = data.Relation("two", lambda f, g: f)
    both = data.Relation("both", lambda f: (f, f))
    named = data.Relation("named", lambda f: f, operator=(0,))
    never = data.Relation("never", lambda f: None)
    for relations, message in (
        ([one, two], "as many operands"),
        ([one, both], "as many results"),
        ([one, named], "an operator or none"),
        ([never], "'never' is defined nowhere"),
        ([], "must not be empty"),
    ):
        with pytest.raises(ValueError, match=message):
            data.relation_table(relations, (3,))


def test_follow_composes_to_any_depth():
    moves = table("dsprites")
    chain = np.array([[0, 0, 0], [4, 1, 2]])  # thrice left; shape, right, up
    ends = data.follow(moves, chain, np.array([13, 13]))  # ellipse, centre, centre
    assert ends[:, 0].tolist() == [13, 9 * 2 + 3 * 2 + 0]
    sums = table("symbols")
    # ((7 + 8) × 9) − 3 modulo 10: 5, 45 → 5, 2.
    ends = data.follow(
        sums, np.array([[0, 2, 1]]), np.array([7]), np.array([[8, 9, 3]])
    )
    assert ends.tolist() == [[2]]
    # An operator is not a digit: the rest of the chain is not defined.
    ends = data.follow(sums, np.array([[0, 0]]), np.array([11]), np.array([[1, 1]]))
    assert ends.tolist() == [[-1]]
    with pytest.raises(ValueError, match="`others` must be 1 arrays"):
        data.follow(sums, np.array([[0]]), np.array([1]))
    with pytest.raises(ValueError, match=r"`chain` must be \[N, depth\]"):
        data.follow(moves, np.array([0]), np.array([1]))


@pytest.mark.parametrize("name", ["dsprites", "symbols", "symbols_sign"])
def test_random_chains_are_defined_all_along(name, rng):
    known = table(name)
    start = rng.integers(0, 10, 300)
    chain, others = data.random_chains(rng, known, start, 10)
    assert (data.follow(known, chain, start, *others) >= 0).all()
    counts = np.bincount(chain.ravel(), minlength=len(known.names))
    assert (np.abs(counts / counts.mean() - 1) < 0.15).all()  # 4 standard deviations
    if others:
        assert set(np.unique(others[0])) == set(range(10))


def test_random_chains_where_little_is_defined(rng):
    # 0 → 1 → 2 by "next"; from 2 only "back" leads on, to 0.
    relations = [
        data.Relation("next", lambda f: (f[0] + 1,) if f[0] < 2 else None),
        data.Relation("back", lambda f: (0,) if f[0] == 2 else None),
    ]
    known = data.relation_table(relations, (3,))
    chain, _ = data.random_chains(rng, known, np.array([0, 1]), 4)
    assert chain.tolist() == [[0, 0, 1, 0], [0, 1, 0, 0]]
