"""Multinomial logistic regression, many problems at once, in float64.

The model of scikit-learn's ``LogisticRegression``: softmax, L2 penalty on the weights
but not on the intercepts,

.. math:: \\min_W \\; C \\sum_n w_n [-\\log p(y_n | x_n)] + \\tfrac12 \\|W\\|^2 ,

solved to a tight tolerance by L-BFGS in coordinates in which the features are white
(the metric of Böhning's bound on the Hessian), so that correlated latents cost no more
iterations than independent ones.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from disentangle_jax.metrics.estimators.threads import in_threads

_MEMORY = 10
_MASKED = -1e30  # logit of a class that a problem does not have

ValueAndGrad = Callable[[np.ndarray], tuple[float, np.ndarray]]


# The last steps and the changes of the gradient along them, oldest first.
_Memory = list[tuple[np.ndarray, np.ndarray]]


def _direction(grad: np.ndarray, memory: _Memory) -> np.ndarray:
    """Returns the L-BFGS step of a gradient; `memory` holds (step, change), old first.

    The two-loop recursion of Nocedal & Wright 2006, Algorithm 7.4.
    """
    if not memory:
        return -grad / max(float(np.linalg.norm(grad)), 1e-300)
    q, shares = grad.copy(), []
    for step, change in reversed(memory):
        shares.append((step @ q) / (step @ change))
        q -= shares[-1] * change
    step, change = memory[-1]
    q *= (step @ change) / max(float(change @ change), 1e-300)
    for (step, change), share in zip(memory, reversed(shares)):
        q += (share - (change @ q) / (step @ change)) * step
    return -q


def _lbfgs(
    value_and_grad: ValueAndGrad, start: np.ndarray, tolerance: float, steps: int
) -> np.ndarray:
    """Minimises a smooth convex function of a flat vector."""
    x = start
    memory: _Memory = []
    value, grad = value_and_grad(x)
    for _ in range(steps):
        if np.max(np.abs(grad)) <= tolerance:
            break
        step = _direction(grad, memory)
        slope = 1e-4 * (grad @ step)
        # A step is halved until it decreases the function enough.
        for t in 0.5 ** np.arange(30):
            new_value, new_grad = value_and_grad(x + t * step)
            if new_value <= value + t * slope + 1e-15 * abs(value):
                break
        else:
            break
        step, change = t * step, new_grad - grad
        if step @ change > 1e-300:
            memory = [*memory[1 - _MEMORY :], (step, change)]
        x, value, grad = x + step, new_value, new_grad
    return x


def _fit(
    x: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    classes: int,
    C: float,
    tolerance: float,
    steps: int,
) -> np.ndarray:
    """Returns coefficients ``[classes, D + 1]`` (intercept last) of one problem.

    All classes must occur.
    """
    rows, latents = x.shape
    x = np.concatenate([x, np.ones((rows, 1))], axis=1)
    share = weights / weights.sum()
    decay = (np.arange(latents + 1) < latents) / (C * weights.sum())
    gram = 0.5 * (x * share[:, None]).T @ x + np.diag(decay)
    # The penalty keeps the bound regular, also for dead latents.
    factor = cholesky(gram + 1e-12 * np.eye(latents + 1), lower=True)
    inverse = solve_triangular(factor, np.eye(latents + 1), lower=True)
    white = inverse @ x.T  # [D + 1, N]
    pull = (inverse * decay) @ inverse.T
    target = np.zeros((classes, latents + 1))
    np.add.at(target, labels, white.T * share[:, None])
    p = np.empty((classes, rows))

    def value_and_grad(flat: np.ndarray) -> tuple[float, np.ndarray]:
        v = flat.reshape(classes, latents + 1)
        np.matmul(v, white, out=p)
        peak = p.max(axis=0)
        np.subtract(p, peak, out=p)
        np.exp(p, out=p)
        z = p.sum(axis=0)
        pulled = v @ pull
        value = share @ (np.log(z) + peak) - np.vdot(target, v)
        np.multiply(p, share / z, out=p)
        grad = p @ white.T - target + pulled
        return value + 0.5 * np.vdot(pulled, v), grad.reshape(-1)

    solution = _lbfgs(value_and_grad, np.zeros(target.size), tolerance, steps)
    return solution.reshape(target.shape) @ inverse


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
    x = np.asarray(x, np.float64)
    if weights is None:
        weights = np.ones(labels.shape)
    C = np.broadcast_to(C, len(sizes))

    def fit(k: int) -> np.ndarray:
        used = weights[:, k] > 0
        present, own = np.unique(labels[used, k], return_inverse=True)
        # Two classes have one weight vector w in scikit-learn, penalised as such; here
        # they are ±w/2, whose penalty would be half as large.
        penalty = C[k] * (0.5 if len(present) == 2 else 1.0)
        out = np.zeros((sizes[k], x.shape[1] + 1))
        out[:, -1] = _MASKED
        out[present] = _fit(
            x[used], own, weights[used, k], len(present), penalty, tolerance, steps
        )
        return out

    return in_threads(fit, range(len(sizes)), sizes)


def logits(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns the logits ``[N, size]`` of one problem."""
    return np.asarray(x, np.float64) @ coefficients[:, :-1].T + coefficients[:, -1]
