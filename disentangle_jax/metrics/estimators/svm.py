"""One-vs-rest linear SVM with squared hinge, many feature blocks at once, in float64.

The optimum of scikit-learn's ``LinearSVC(C, class_weight="balanced")`` (liblinear):

.. math:: \\min_{w,b} \\; \\tfrac12 (\\|w\\|^2 + b^2)
          + C \\sum_n c_n \\max(0, 1 - s_n (w \\cdot x_n + b))^2

with :math:`s_n = \\pm 1`, the intercept penalised, and :math:`c_n = N / (K n_c)` for
the rows of the class, 1 for all others. A block has few columns (one, for SAP), so
Newton's method with the exact Hessian converges in a handful of steps.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

# Coefficients, margins and losses of P problems, the step, whether they still move.
_State = tuple[jax.Array, jax.Array, jax.Array, int, jax.Array]


def _newton(x: jax.Array, sign: jax.Array, cost: jax.Array, C: jax.Array) -> jax.Array:
    """Returns coefficients ``[P, d + 1]`` of P binary problems on ``x [N, d + 1]``."""

    def loss_of(margin: jax.Array, w: jax.Array) -> jax.Array:
        slack = jnp.maximum(0.0, 1.0 - sign * margin)
        fit = C * jnp.sum(cost * slack**2, axis=1)
        return fit + 0.5 * jnp.sum(w**2, axis=1)

    outer = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    width = x.shape[1]

    def body(state: _State) -> _State:
        w, margin, loss, i, _ = state
        slack = 1.0 - sign * margin
        active = jnp.where(slack > 0, cost, 0.0)
        grad = w - 2.0 * C * (active * slack * sign) @ x
        hessian = 2.0 * C * (active @ outer).reshape(-1, width, width)
        hessian = hessian + jnp.eye(width)[None]
        step = -jnp.linalg.solve(hessian, grad[:, :, None])[:, :, 0]
        along = step @ x.T

        def shorter(carry: tuple[jax.Array, int]) -> tuple[jax.Array, int]:
            t, tries = carry
            worse = loss_of(margin + t[:, None] * along, w + t[:, None] * step) > loss
            return jnp.where(worse, 0.5 * t, t), tries + 1

        def rising(carry: tuple[jax.Array, int]) -> jax.Array:
            t, tries = carry
            new = loss_of(margin + t[:, None] * along, w + t[:, None] * step)
            return jnp.any(new > loss * (1.0 + 1e-14)) & (tries < 20)

        t, _ = jax.lax.while_loop(rising, shorter, (jnp.ones(len(w)), 0))
        w = w + t[:, None] * step
        margin = margin + t[:, None] * along
        moving = jnp.max(jnp.abs(step)) > 1e-10
        return w, margin, loss_of(margin, w), i + 1, moving

    def more(state: _State) -> jax.Array:
        return state[-1] & (state[-2] < 60)

    w = jnp.zeros((len(sign), width))
    margin = jnp.zeros(sign.shape)
    state = (w, margin, loss_of(margin, w), 0, jnp.asarray(True))
    return jax.lax.while_loop(more, body, state)[0]


@functools.partial(jax.jit, static_argnames="sizes")
def _fit(
    x: jax.Array, labels: jax.Array, C: jax.Array, *, sizes: tuple[int, ...]
) -> jax.Array:
    """Returns coefficients ``[G, sum(sizes), d + 1]`` for blocks ``x [G, N, d]``."""
    rows = x.shape[1]
    hot = jnp.concatenate(
        [jax.nn.one_hot(labels[:, k], s, dtype=x.dtype, axis=0) for k, s in
         enumerate(sizes)],
        axis=0,
    )  # fmt: skip
    count = hot.sum(axis=1, keepdims=True)
    classes = jnp.concatenate(
        [jnp.full((s, 1), (c > 0).sum()) for c, s in
         zip(jnp.split(count, np.cumsum(sizes)[:-1]), sizes)]
    )  # fmt: skip
    positive = rows / (classes * jnp.maximum(count, 1.0))
    cost = jnp.where(hot > 0, positive, 1.0)
    sign = 2.0 * hot - 1.0
    x = jnp.concatenate([x, jnp.ones((*x.shape[:2], 1))], axis=2)
    return jax.lax.map(lambda block: _newton(block, sign, cost, C), x)


def linear_svm(
    blocks: np.ndarray,
    labels: np.ndarray,
    sizes: tuple[int, ...],
    *,
    C: float = 0.01,
) -> np.ndarray:
    """Fits one-vs-rest linear SVMs for every block and factor.

    Args:
      blocks: ``[G, N, d]`` features; narrow blocks are padded with zero columns, which
        have no effect.
      labels: ``[N, K]`` integers below ``sizes``.
      sizes: number of classes of each factor.
      C: inverse of the penalty.

    Returns:
      ``[G, sum(sizes), d + 1]`` coefficients, intercept last. A class without rows
      has an intercept of minus infinity, so that it is never predicted.
    """
    with jax.enable_x64():
        fit = _fit(
            jnp.asarray(blocks, jnp.float64), jnp.asarray(labels, jnp.int32), C,
            sizes=tuple(sizes),
        )  # fmt: skip
        coefficients = np.array(fit)
    counts = [np.bincount(c, minlength=s) for c, s in zip(labels.T, sizes)]
    coefficients[:, np.concatenate(counts) == 0, -1] = -np.inf
    return coefficients
