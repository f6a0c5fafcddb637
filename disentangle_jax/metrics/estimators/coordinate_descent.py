"""Lasso by coordinate descent on the Gram matrix, all targets and folds at once."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

# Coefficients, the number of sweeps, and whether the last one changed them.
_State = tuple[jax.Array, int, jax.Array]


@functools.partial(jax.jit, static_argnames="steps")
def _descend(
    gram: jax.Array, target: jax.Array, alpha: jax.Array, *, steps: int
) -> jax.Array:
    """Returns coefficients ``[D]`` for the matrices X^T X / n and X^T y / n."""
    size = gram.shape[0]
    diagonal = jnp.diag(gram)

    def coordinate(j: int, w: jax.Array) -> jax.Array:
        rest = target[j] - gram[j] @ w + diagonal[j] * w[j]
        shrunk = jnp.sign(rest) * jnp.maximum(jnp.abs(rest) - alpha, 0.0)
        alive = diagonal[j] > 0
        return w.at[j].set(
            jnp.where(alive, shrunk / jnp.where(alive, diagonal[j], 1.0), 0.0)
        )

    def body(state: _State) -> _State:
        w, i, _ = state
        new = jax.lax.fori_loop(0, size, coordinate, w)
        change = jnp.max(jnp.abs(new - w))
        return new, i + 1, change > 1e-10 * jnp.maximum(jnp.max(jnp.abs(new)), 1e-30)

    def more(state: _State) -> jax.Array:
        return state[2] & (state[1] < steps)

    start = (jnp.zeros(size), 0, jnp.asarray(True))
    return jax.lax.while_loop(more, body, start)[0]


def lasso(
    x: np.ndarray,
    y: np.ndarray,
    alphas: np.ndarray,
    *,
    weights: np.ndarray | None = None,
    steps: int = 5000,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Fits :math:`\min_w \frac{1}{2n}\|y - Xw - b\|^2 + \alpha \|w\|_1`, in float64.

    Args:
      x: ``[N, D]`` features.
      y: ``[N, K]`` targets.
      alphas: ``[A]`` penalties.
      weights: ``[F, N]`` row weights of F folds (0 leaves a row out); None for one fold
        with all rows.
      steps: largest number of sweeps.

    Returns:
      Coefficients ``[F, A, K, D]`` and intercepts ``[F, A, K]``.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if weights is None:
        weights = np.ones((1, len(x)))
    share = weights / weights.sum(axis=1, keepdims=True)
    mean_x, mean_y = share @ x, share @ y
    gram = np.einsum("fn,ni,nj->fij", share, x, x, optimize=True)
    gram -= mean_x[:, :, None] * mean_x[:, None, :]
    # Rounding must not make a dead latent look alive.
    scale = np.einsum("fn,ni->fi", share, x**2)
    dead = np.einsum("fii->fi", gram) <= 1e-14 * scale
    gram[dead[:, :, None] | dead[:, None, :]] = 0.0
    target = np.einsum("fn,ni,nk->fki", share, x, y, optimize=True)
    target -= mean_y[:, :, None] * mean_x[:, None, :]
    target[np.broadcast_to(dead[:, None, :], target.shape)] = 0.0
    with jax.enable_x64():
        solve = functools.partial(_descend, steps=steps)
        solve = jax.vmap(solve, in_axes=(None, 0, None))  # targets
        solve = jax.vmap(solve, in_axes=(None, None, 0))  # alphas
        solve = jax.vmap(solve, in_axes=(0, 0, None))  # folds
        w = np.asarray(
            solve(jnp.asarray(gram), jnp.asarray(target), jnp.asarray(alphas, float))
        )
    return w, mean_y[:, None, :] - np.einsum("faki,fi->fak", w, mean_x)
