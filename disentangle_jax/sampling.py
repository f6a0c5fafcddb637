"""Drawing codes: reparameterised posteriors and independently permuted batches.

Everything random takes a typed ``key`` as its first argument. Under ``pmap`` or
``shard_map`` a function that mixes rows takes ``axis_name``: pass the *same* key on
every device and it mixes the global batch, as one device would.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.types import check_groups


def reparameterize(key: jax.Array, mean: jax.Array, log_var: jax.Array) -> jax.Array:
    r"""Draws from a diagonal Gaussian, differentiably in its parameters.

    .. math:: z = \mu + e^{\frac12 \log\sigma^2} \epsilon,
              \qquad \epsilon \sim \mathcal N(0, I)

    Kingma & Welling, "Auto-Encoding Variational Bayes", Eq. 4 and Sec. 2.4.

    Args:
      key: typed key. Under ``pmap`` give each device its own (``fold_in`` the
        ``axis_index``), else all devices share one noise.
      mean: ``[..., D]`` means.
      log_var: log-variances, same shape as ``mean``.

    Returns:
      A draw, same shape and dtype as ``mean``.
    """
    if mean.shape != log_var.shape:
        raise ValueError(
            "reparameterize: `log_var` must have the shape of `mean`, "
            f"got {log_var.shape} and {mean.shape}."
        )
    noise = jax.random.normal(key, mean.shape, mean.dtype)
    return mean + jnp.exp(0.5 * log_var) * noise


def permute_dims(
    key: jax.Array,
    z: jax.Array,
    *,
    groups: Sequence[int] | None = None,
    axis_name: str | None = None,
) -> jax.Array:
    r"""Shuffles each variable over the batch on its own: a draw from the marginals.

    Row ``i`` of the result takes variable ``g`` from row ``pi_g(i)``, with one
    independent uniform permutation ``pi_g`` per variable. The result keeps every
    marginal of the batch exactly and breaks the dependence between variables: it is
    the sample from :math:`\prod_g q(z_g)` that FactorVAE's critic is trained on (Kim &
    Mnih, "Disentangling by Factorising", Algorithm 1).

    One-batch form (the public study): permute the same ``z`` the critic sees as joint.
    Two-batch form (the paper): permute the ``z`` of a second batch.

    Couples the batch: yes.

    Args:
      key: typed key; with ``axis_name`` the same one on every device.
      z: ``[B, D]`` codes.
      groups: sizes of contiguous variables that move together, adding up to ``D``;
        None means that each dimension is a variable.
      axis_name: mapped axis over which the batch is split; rows then move between
        devices, and the result equals that of one device on the global batch.

    Returns:
      ``[B, D]`` permuted codes (the local rows with ``axis_name``).
    """
    if z.ndim != 2:
        raise ValueError(f"permute_dims: `z` must be [B, D], got shape {z.shape}.")
    rows, dims = z.shape
    groups = check_groups("permute_dims", groups, dims)
    everything = (
        z if axis_name is None else jax.lax.all_gather(z, axis_name, tiled=True)
    )
    if everything.shape[0] < 2:
        raise ValueError(
            "permute_dims: `z` must hold at least two rows to permute, got 1. "
            "Use a larger batch."
        )
    keys = jax.random.split(key, len(groups))
    order = jax.vmap(lambda k: jax.random.permutation(k, everything.shape[0]))(keys)
    if axis_name is not None:
        start = jax.lax.axis_index(axis_name) * rows
        order = jax.lax.dynamic_slice_in_dim(order, start, rows, axis=1)
    variable = np.repeat(np.arange(len(groups)), groups)
    return jnp.take_along_axis(everything, order[variable].T, axis=0)


def hybrid(
    key: jax.Array,
    bank: jax.Array,
    n: int,
    *,
    groups: Sequence[int] | None = None,
) -> jax.Array:
    r"""Draws codes by recombining the variables of stored codes.

    .. math:: \tilde U_g \leftarrow U_g^{(j_g)}, \qquad j_g \sim \{1, \dots, N\}

    independently for every variable ``g`` and every draw: a sample from the product
    of the marginals of the bank, without any prior ("Structure by Architecture",
    Sec. 2.3, where N = 128 codes of training images are stored). :math:`N^G` codes
    can be reached; a variable of several dimensions is never taken apart.

    Args:
      key: typed key.
      bank: ``[N, D]`` stored codes (posterior means).
      n: number of codes to draw.
      groups: sizes of the contiguous variables, adding up to ``D``; None means that
        each dimension is a variable.

    Returns:
      ``[n, D]`` codes.
    """
    if bank.ndim != 2:
        raise ValueError(f"hybrid: `bank` must be [N, D], got shape {bank.shape}.")
    groups = check_groups("hybrid", groups, bank.shape[1])
    rows = jax.random.randint(key, (n, len(groups)), 0, bank.shape[0])
    variable = np.repeat(np.arange(len(groups)), groups)
    return jnp.take_along_axis(bank, rows[:, variable], axis=0)


def traverse(
    code: jax.Array, low: jax.Array, high: jax.Array, *, steps: int
) -> jax.Array:
    """Varies one dimension of a code at a time, from ``low`` to ``high``.

    Args:
      code: ``[D]`` the code to start from.
      low: ``[D]`` value of each dimension at the first step.
      high: ``[D]`` value of each dimension at the last step.
      steps: number of evenly spaced values.

    Returns:
      ``[D, steps, D]`` codes: row ``d`` differs from ``code`` in dimension ``d`` only.
    """
    if code.ndim != 1 or low.shape != code.shape or high.shape != code.shape:
        raise ValueError(
            "traverse: `code`, `low` and `high` must be [D], got shapes "
            f"{code.shape}, {low.shape} and {high.shape}."
        )
    values = jnp.linspace(low, high, steps, axis=1)
    chosen = jnp.eye(code.shape[0], dtype=bool)[:, None, :]
    return jnp.where(chosen, values[:, :, None], code[None, None, :])
