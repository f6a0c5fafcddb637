"""Multinomial logistic regression, many problems at once, in float64.

The model of scikit-learn's ``LogisticRegression``: softmax, L2 penalty on the weights
but not on the intercepts,

.. math:: \\min_W \\; C \\sum_n w_n [-\\log p(y_n | x_n)] + \\tfrac12 \\|W\\|^2 ,

solved to a tight tolerance by L-BFGS in coordinates in which the features are white
(the metric of Böhning's bound on the Hessian), so that correlated latents cost no more
iterations than independent ones.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

_MEMORY = 10
_MASKED = -1e30  # logit of a class that a problem does not have


def _lbfgs(
    value_and_grad: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    start: jax.Array,
    tolerance: jax.Array,
    steps: jax.Array,
) -> jax.Array:
    """Minimises a smooth convex function of a flat vector."""
    size = start.shape[0]

    def direction(grad, s, y, rho, count):
        def down(i, carry):
            q, alpha = carry
            j = (count - 1 - i) % _MEMORY
            use = (i < count).astype(q.dtype)
            a = use * rho[j] * jnp.vdot(s[j], q)
            return q - a * y[j], alpha.at[j].set(a)

        q, alpha = jax.lax.fori_loop(0, _MEMORY, down, (grad, jnp.zeros(_MEMORY)))
        newest = (count - 1) % _MEMORY
        scale = jnp.where(
            count > 0,
            jnp.vdot(s[newest], y[newest])
            / jnp.vdot(y[newest], y[newest]).clip(1e-300),
            1.0 / jnp.maximum(jnp.linalg.norm(grad), 1e-300),
        )

        def up(i, q):
            j = (count - jnp.minimum(count, _MEMORY) + i) % _MEMORY
            use = (i < count).astype(q.dtype)
            return q + use * s[j] * (alpha[j] - rho[j] * jnp.vdot(y[j], q))

        return -jax.lax.fori_loop(0, _MEMORY, up, scale * q)

    def search(x, f, grad, step):
        """Halves a step until it decreases the function enough."""
        slope = jnp.vdot(grad, step)

        def shorter(carry):
            t, tries, _, _ = carry
            new_f, new_grad = value_and_grad(x + 0.5 * t * step)
            return 0.5 * t, tries + 1, new_f, new_grad

        def too_long(carry):
            t, tries, new_f, _ = carry
            noise = 1e-15 * jnp.abs(f)
            return (new_f > f + 1e-4 * t * slope + noise) & (tries < 30)

        first = value_and_grad(x + step)
        t, tries, new_f, new_grad = jax.lax.while_loop(
            too_long, shorter, (jnp.ones(()), 0, *first)
        )
        return t * step, new_f, new_grad, tries < 30

    def body(state):
        x, f, grad, s, y, rho, count, i, _ = state
        step, new_f, new_grad, moved = search(
            x, f, grad, direction(grad, s, y, rho, count)
        )
        change = new_grad - grad
        curved = jnp.vdot(step, change) > 1e-300
        j = count % _MEMORY
        s = jnp.where(curved, s.at[j].set(step), s)
        y = jnp.where(curved, y.at[j].set(change), y)
        rho_new = 1.0 / jnp.where(curved, jnp.vdot(step, change), 1.0)
        rho = jnp.where(curved, rho.at[j].set(rho_new), rho)
        count = count + curved.astype(count.dtype)
        x = jnp.where(moved, x + step, x)
        new_f, new_grad = jnp.where(moved, new_f, f), jnp.where(moved, new_grad, grad)
        going = moved & (jnp.max(jnp.abs(new_grad)) > tolerance)
        return x, new_f, new_grad, s, y, rho, count, i + 1, going

    def more(state):
        return state[-1] & (state[-2] < steps)

    f, grad = value_and_grad(start)
    memory = jnp.zeros((_MEMORY, size))
    state = (start, f, grad, memory, memory, jnp.zeros(_MEMORY), jnp.asarray(0), 0)
    going = jnp.max(jnp.abs(grad)) > tolerance
    return jax.lax.while_loop(more, body, (*state, going))[0]


@functools.partial(jax.jit, static_argnames="classes")
def _fit(
    x: jax.Array,
    labels: jax.Array,
    allowed: jax.Array,
    weights: jax.Array,
    C: jax.Array,
    tolerance: jax.Array,
    steps: jax.Array,
    *,
    classes: int,
) -> jax.Array:
    """Returns coefficients ``[P, classes, D + 1]`` (intercept last) of P problems."""
    rows, latents = x.shape
    x = jnp.concatenate([x, jnp.ones((rows, 1))], axis=1)
    penalised = jnp.arange(latents + 1) < latents

    def solve(labels, allowed, weights, C):
        total = weights.sum()
        decay = penalised / (C * total)
        gram = 0.5 * (x * weights[:, None]).T @ x / total + jnp.diag(decay)
        # The penalty keeps the bound regular, also for dead latents.
        factor = jnp.linalg.cholesky(gram + 1e-12 * jnp.eye(latents + 1))
        white = jax.scipy.linalg.solve_triangular(factor, x.T, lower=True).T
        share = weights / total

        target = jax.nn.one_hot(labels, classes, dtype=x.dtype) * share[:, None]

        def unwhiten(v):
            return jax.scipy.linalg.solve_triangular(factor.T, v.T, lower=False).T

        def value_and_grad(flat):
            # Written by hand, since the gradient of a gather would be a scatter.
            v = flat.reshape(classes, latents + 1)
            logits = jnp.where(allowed[None, :], white @ v.T, _MASKED)
            peak = logits.max(axis=1, keepdims=True)
            unscaled = jnp.exp(logits - peak)
            z = unscaled.sum(axis=1, keepdims=True)
            own = jnp.sum(jnp.where(target > 0, logits * target, 0.0))
            w = unwhiten(v)
            value = jnp.sum(share * (jnp.log(z) + peak)[:, 0]) - own
            value = value + 0.5 * jnp.sum(decay[None, :] * w**2)
            grad = (unscaled * (share[:, None] / z) - target).T @ white
            pull = decay[:, None] * w.T
            grad = grad + jax.scipy.linalg.solve_triangular(factor, pull, lower=True).T
            return value, grad.reshape(-1)

        start = jnp.zeros(classes * (latents + 1))
        solution = _lbfgs(value_and_grad, start, tolerance, steps)
        return unwhiten(solution.reshape(classes, latents + 1))

    return jax.vmap(solve)(labels, allowed, weights, C)


def logistic_regression(
    x: np.ndarray,
    labels: np.ndarray,
    sizes: tuple[int, ...],
    *,
    C: float | np.ndarray = 1.0,
    weights: np.ndarray | None = None,
    tolerance: float = 1e-6,
    steps: int = 500,
) -> list[np.ndarray]:
    """Fits P multinomial logistic regressions on the same rows.

    Args:
      x: ``[N, D]`` features.
      labels: ``[N, P]`` integers below ``sizes``, a column per problem.
      sizes: number of classes of each problem.
      C: inverse of the penalty, one for all problems or ``[P]``.
      weights: ``[N, P]`` weights of the rows (0 leaves a row out); None for 1.
      tolerance: largest entry of the gradient of the mean loss, in white coordinates.
      steps: largest number of iterations.

    Returns:
      Coefficients ``[size, D + 1]`` per problem, intercept last. A class without rows
      has coefficients 0 and is never predicted (see `logits`).
    """
    count = len(sizes)
    classes = max(sizes)
    if weights is None:
        weights = np.ones(labels.shape)
    allowed = np.zeros((count, classes), bool)
    for p in range(count):
        allowed[p, np.unique(labels[weights[:, p] > 0, p])] = True
    # Two classes have one weight vector w in scikit-learn, penalised as such; here they
    # are ±w/2, whose penalty would be half as large.
    C = np.where(allowed.sum(axis=1) == 2, 0.5, 1.0) * C
    with jax.enable_x64():
        coefficients = _fit(
            jnp.asarray(x, jnp.float64),
            jnp.asarray(labels.T, jnp.int32),
            jnp.asarray(allowed),
            jnp.asarray(weights.T, jnp.float64),
            jnp.asarray(C, jnp.float64),
            tolerance,
            steps,
            classes=classes,
        )
        coefficients = np.asarray(coefficients)
    out = []
    for p, size in enumerate(sizes):
        own = coefficients[p, :size].copy()
        own[~allowed[p, :size]] = 0.0
        own[~allowed[p, :size], -1] = _MASKED
        out.append(own)
    return out


def logits(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns the logits ``[N, size]`` of one problem."""
    return np.asarray(x, np.float64) @ coefficients[:, :-1].T + coefficients[:, -1]
