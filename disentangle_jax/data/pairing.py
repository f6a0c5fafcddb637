"""Pairs of images: which factors change, and which images have given factors."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike


class Pairs(NamedTuple):
    """Pairs of images that differ in a few factors.

    Attributes:
      images1, images2: ``[n, H, W, C]``.
      factors1, factors2: ``[n, K]``.
      changed: ``[n, K]`` bool, the factors that were drawn again (with the rule
        ``"dlib"`` a factor may keep its value).
    """

    images1: np.ndarray
    images2: np.ndarray
    factors1: np.ndarray
    factors2: np.ndarray
    changed: np.ndarray


class Combinations:
    """Finds the rows of a table of labels by the combination of their values.

    Args:
      table: ``[N, K]`` labels.
      sizes: number of values of each factor.
    """

    def __init__(self, table: np.ndarray, sizes: tuple[int, ...]):
        places = np.ravel_multi_index(tuple(table.T), sizes)
        self._order = np.argsort(places, kind="stable")
        self._known, self._first, self._count = np.unique(
            places[self._order], return_index=True, return_counts=True
        )

    def __len__(self) -> int:
        return len(self._known)

    def rows(
        self, places: np.ndarray, share: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns a row for each combination, and whether the table has one.

        Args:
          places: ``[n]`` combinations, by their place in the grid of all.
          share: in [0, 1), which of several rows with the same values.
        """
        found = np.minimum(np.searchsorted(self._known, places), len(self) - 1)
        number = (np.asarray(share) * self._count[found]).astype(np.int64)
        rows = self._order[self._first[found] + number]
        return rows, self._known[found] == places


def pair_factors(
    key: jax.Array,
    factors: ArrayLike,
    factor_sizes: tuple[int, ...],
    *,
    k: int | str = "uniform",
) -> tuple[jax.Array, jax.Array]:
    """Returns the factors of each image's partner, which differ in ``k`` factors.

    Pure JAX, usable inside ``jit``. Factors with a single value never change. Unlike
    here, disentanglement_lib (dlib) draws the new values from NumPy's global state, so
    that a seed does not determine the data.

    Args:
      key: typed PRNG key.
      factors: ``[n, K]`` factors of the first images.
      factor_sizes: number of values of each factor.
      k: how many factors change. ``"uniform"``: k ~ U[1, K] per pair (Ada-GVAE's text;
        Overlooked Implications, App. B.3). An int: always that many. In both cases each
        changed factor takes a *different* value, uniformly. ``"dlib"``: k' ~
        U[1, K - 1], then 1 or k' factors with equal probability are drawn again
        uniformly, so that they may keep their value (disentanglement_lib's code).
        ``"laplace"``: pairs in time, whose factors all move a little; see
        :func:`next_factors`.

    Returns:
      ``(partner [n, K] int32, changed [n, K] bool)``.
    """
    sizes = np.asarray(factor_sizes)
    movable = sizes > 1
    count = int(movable.sum())
    if k not in ("uniform", "dlib", "laplace") and not (
        isinstance(k, int | np.integer) and 1 <= k <= count
    ):
        raise ValueError(
            "pair_factors: `k` must be 'uniform', 'dlib', 'laplace' or a number of "
            f"factors in [1, {count}], got {k!r}."
        )
    if k == "dlib" and count < 2:
        raise ValueError("pair_factors: `k` 'dlib' needs at least two factors.")
    factors = jnp.asarray(factors, jnp.int32)
    if k == "laplace":
        partner = next_factors(key, factors, factor_sizes)
        return partner, partner != factors
    n = factors.shape[0]
    count_key, flip_key, order_key, value_key = jax.random.split(key, 4)
    if k == "uniform":
        changes = jax.random.randint(count_key, (n, 1), 1, count + 1)
    elif k == "dlib":
        many = jax.random.randint(count_key, (n, 1), 1, count)
        changes = jnp.where(jax.random.bernoulli(flip_key, 0.5, (n, 1)), many, 1)
    else:
        changes = jnp.full((n, 1), int(k))
    # A random order of the factors, with those that cannot change at the end.
    scores = jax.random.uniform(order_key, factors.shape) + ~movable[None]
    rank = jnp.argsort(jnp.argsort(scores, axis=-1), axis=-1)
    changed = rank < changes
    limit = jnp.asarray(sizes, jnp.int32)[None]
    if k == "dlib":
        drawn = jax.random.randint(value_key, factors.shape, 0, limit)
    else:
        step = jax.random.randint(value_key, factors.shape, 1, jnp.maximum(limit, 2))
        drawn = (factors + step) % limit
    return jnp.where(changed, drawn, factors), changed


def next_factors(
    key: jax.Array, factors: jax.Array, factor_sizes: tuple[int, ...]
) -> jax.Array:
    r"""Returns the factors of the images that follow given ones in time.

    .. math:: p(v' | v) \propto e^{-|v' - v| / \log S}, \qquad 0 \le v' < S

    for each factor of S values: a Laplace distribution on its values, so that most
    change a little and few much. If none changes, one that is chosen at random takes
    another value. Klindt et al., "Towards Nonlinear Disentanglement in Natural Data
    with Temporal Sparse Coding", LAP with rate 1; their categorical factors (shape,
    type of car) never change, and here all do.

    Pure JAX. Apply it again to its results for longer episodes.

    Args:
      key: typed PRNG key.
      factors: ``[n, K]`` factors of the first images.
      factor_sizes: number of values of each factor; at least one is above 1.
    """
    n, count = factors.shape
    place_key, *keys = jax.random.split(key, 1 + 2 * count)
    likely = jnp.asarray([size > 1 for size in factor_sizes], jnp.float32)
    place = jax.random.categorical(place_key, jnp.log(likely), shape=(n,))
    moved, forced = [], []
    for column, size in enumerate(factor_sizes):
        now = factors[:, column, None]
        values = jnp.arange(size)[None]
        scores = -jnp.abs(values - now) / max(math.log(size), 1e-6)
        moved.append(jax.random.categorical(keys[2 * column], scores))
        other = jnp.where(values == now, -jnp.inf, scores)
        forced.append(jax.random.categorical(keys[2 * column + 1], other))
    new = jnp.stack(moved, axis=1)
    stays = (new == factors).all(axis=1, keepdims=True)
    chosen = jnp.arange(count)[None] == place[:, None]
    return jnp.where(stays & chosen, jnp.stack(forced, axis=1), new).astype(jnp.int32)
