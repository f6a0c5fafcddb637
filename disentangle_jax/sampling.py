"""Samples of codes: posteriors, priors, hybrids, permutations and traversals.

Random functions take a typed ``key`` as their first argument. Under ``pmap`` or
``shard_map``, functions that mix rows take ``axis_name``: with the *same* key on every
device they mix the global batch, as one device would.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.types import check_groups


def reparameterize(key: jax.Array, mean: jax.Array, log_var: jax.Array) -> jax.Array:
    r"""Draws from a diagonal Gaussian, differentiable in its parameters.

    .. math:: z = \mu + e^{\frac12 \log\sigma^2} \epsilon,
              \qquad \epsilon \sim \mathcal N(0, I)

    Kingma & Welling, "Auto-Encoding Variational Bayes", Eq. 4 and Sec. 2.4.

    Args:
      key: typed key. Under ``pmap`` give each device its own (``fold_in`` the
        ``axis_index``), so that devices draw different noise.
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
    r"""Permutes each variable over the batch independently.

    Row ``i`` of the result takes variable ``g`` from row ``pi_g(i)``, with one
    independent uniform permutation ``pi_g`` per variable. The result keeps every
    marginal of the batch and removes the dependence between variables. It is the sample
    of :math:`\prod_g q(z_g)` that FactorVAE's critic is trained on (Kim & Mnih,
    "Disentangling by Factorising", Algorithm 1); see
    :func:`disentangle_jax.losses.discriminator_loss`.

    Couples the batch: yes.

    Args:
      key: typed key; with ``axis_name`` the same one on every device.
      z: ``[B, D]`` codes.
      groups: sizes of the contiguous variables, which add up to ``D``; None means that
        each dimension is a variable.
      axis_name: mapped axis over which the batch is split. Rows then move between
        devices, and the result equals that of one device on the global batch.

    Returns:
      ``[B, D]`` permuted codes (with ``axis_name``, the local rows).
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


def prior(
    key: jax.Array, n: int, dims: int, *, discrete: Sequence[int] = ()
) -> jax.Array:
    r"""Draws codes from the standard normal prior, :math:`\mathcal N(0, I)`.

    Discrete variables are drawn uniformly, as one-hot vectors after the continuous
    dimensions. The prior is meaningful only for models whose training matches their
    codes to it, such as VAEs and WAE.

    Args:
      key: typed key.
      n: number of codes.
      dims: number of continuous latent dimensions D.
      discrete: numbers of categories of the discrete variables; their sum is M.

    Returns:
      ``[n, D + M]`` codes.
    """
    continuous = jax.random.normal(key, (n, dims))
    one_hots = [
        jax.nn.one_hot(jax.random.randint(jax.random.fold_in(key, i), (n,), 0, m), m)
        for i, m in enumerate(discrete)
    ]
    return jnp.concatenate([continuous, *one_hots], axis=1)


def hybrid(
    key: jax.Array,
    bank: jax.Array,
    n: int,
    *,
    groups: Sequence[int] | None = None,
    balanced: bool = False,
) -> jax.Array:
    r"""Draws codes by recombining the variables of stored codes.

    .. math:: \tilde U_g \leftarrow U_g^{(j_g)}, \qquad j_g \sim \{1, \dots, N\}

    independently for every variable ``g`` and every draw. This samples the product of
    the marginals of the bank without any prior ("Structure by Architecture", Sec. 2.3,
    which stores N = 128 codes of training images). There are :math:`N^G` such codes;
    the dimensions of one variable always come from the same stored code.

    Args:
      key: typed key.
      bank: ``[N, D]`` stored codes (posterior means).
      n: number of codes to draw.
      groups: as in :func:`permute_dims`.
      balanced: draw without replacement, by one permutation of the bank per variable
        and a new one after every N draws, as the paper's code does for groups. Each
        stored value is then used once in N draws, and the marginals equal those of the
        bank. (For single dimensions that code permutes all N·D entries at once, which
        balances all columns together and not each of them.)

    Returns:
      ``[n, D]`` codes.
    """
    if bank.ndim != 2 or bank.shape[0] < 1:
        raise ValueError(f"hybrid: `bank` must be [N, D], got shape {bank.shape}.")
    groups = check_groups("hybrid", groups, bank.shape[1])
    stored, variables = bank.shape[0], len(groups)
    if balanced:
        rounds = -(-n // stored)
        keys = jax.random.split(key, (rounds, variables))
        permute = jax.vmap(jax.vmap(lambda k: jax.random.permutation(k, stored)))
        rows = permute(keys).swapaxes(1, 2).reshape(rounds * stored, variables)[:n]
    else:
        rows = jax.random.randint(key, (n, variables), 0, stored)
    variable = np.repeat(np.arange(variables), groups)
    return jnp.take_along_axis(bank, rows[:, variable], axis=0)


def chunk_hybrids(
    key: jax.Array,
    code: jax.Array,
    bank: jax.Array,
    n: int,
    *,
    groups: Sequence[int] | None = None,
    chunks: int = 4,
) -> jax.Array:
    """Replaces one chunk of a code's variables by hybrid draws and keeps the others.

    With four chunks, each row of "Structure by Architecture", Fig. 6a, which shows what
    each quarter of the variables controls in an image.

    Args:
      key: typed key.
      code: ``[D]`` the code to change.
      bank: ``[N, D]`` stored codes; see :func:`hybrid`.
      n: number of codes to draw per chunk.
      groups: as in :func:`permute_dims`.
      chunks: number of chunks of consecutive variables, of almost equal sizes; at most
        the number of variables.

    Returns:
      ``[chunks, n, D]`` codes; row ``c`` differs from ``code`` in chunk ``c`` only.
    """
    if code.ndim != 1 or bank.ndim != 2 or bank.shape[1] != code.shape[0]:
        raise ValueError(
            "chunk_hybrids: `code` must be [D] and `bank` [N, D], got shapes "
            f"{code.shape} and {bank.shape}."
        )
    groups = check_groups("chunk_hybrids", groups, code.shape[0])
    if not 1 <= chunks <= len(groups):
        raise ValueError(
            f"chunk_hybrids: `chunks` must be 1 to the {len(groups)} variables, got "
            f"{chunks}."
        )
    sizes = [len(part) for part in np.array_split(np.arange(len(groups)), chunks)]
    chunk = np.repeat(np.repeat(np.arange(chunks), sizes), groups)  # of each dimension
    drawn = hybrid(key, bank, chunks * n, groups=groups).reshape(chunks, n, -1)
    changed = (chunk == np.arange(chunks)[:, None])[:, None, :]
    return jnp.where(changed, drawn, code[None, None, :])


def traverse_values(
    code: jax.Array, values: jax.Array, *, discrete: Sequence[int] = ()
) -> jax.Array:
    """Varies one dimension of a code at a time, over given values.

    A discrete variable always stays a one-hot vector: the row of category c has the
    code's own category in its first half and category c in its second half.

    Args:
      code: ``[D]`` the code to start from.
      values: ``[D, steps]`` the values of each dimension, e.g. from
        :func:`min_max_values`.
      discrete: numbers of categories of the discrete variables, which are one-hot
        vectors at the end of the code.

    Returns:
      ``[D, steps, D]`` codes: row ``d`` differs from ``code`` only in dimension ``d``,
      or only in the discrete variable that contains dimension ``d``.
    """
    if code.ndim != 1 or values.ndim != 2 or values.shape[0] != code.shape[0]:
        raise ValueError(
            "traverse_values: `code` must be [D] and `values` [D, steps], got shapes "
            f"{code.shape} and {values.shape}."
        )
    dims, steps = values.shape
    chosen = jnp.eye(dims, dtype=bool)[:, None, :]
    walks = jnp.where(chosen, values[:, :, None], code[None, None, :])
    start = dims - sum(discrete)
    if start < 0:
        raise ValueError(
            f"traverse_values: `discrete` must add up to at most D = {dims}, got "
            f"{tuple(discrete)}."
        )
    late = (jnp.arange(steps) >= steps // 2)[None, :, None]
    for size in discrete:
        part = slice(start, start + size)
        theirs = jnp.eye(size, dtype=code.dtype)[:, None, :]
        vectors = jnp.where(late, theirs, code[None, None, part])
        walks = walks.at[part].set(code[None, None, :])
        walks = walks.at[part, :, part].set(vectors)
        start += size
    return walks


def min_max_values(codes: jax.Array, *, steps: int) -> jax.Array:
    """Evenly spaced values from the smallest to the largest code of each dimension.

    Args:
      codes: ``[N, D]`` codes of many images.
      steps: number of values, at least 2.

    Returns:
      ``[D, steps]`` values, for :func:`traverse_values`.
    """
    if codes.ndim != 2 or codes.shape[0] < 1 or steps < 2:
        raise ValueError(
            "min_max_values: `codes` must be [N, D] and `steps` at least 2, got shape "
            f"{codes.shape} and {steps}."
        )
    return jnp.linspace(codes.min(axis=0), codes.max(axis=0), steps, axis=1)


def entangle(
    z: jax.Array,
    *,
    cdf: Callable[[jax.Array], jax.Array],
    inverse_cdf: Callable[[jax.Array], jax.Array],
    direction: jax.Array | None = None,
) -> jax.Array:
    r"""Mixes all latents of a factorised prior without changing its distribution.

    .. math:: f = g^{-1} \circ h^{-1} \circ A \circ h \circ g

    where :math:`g` is the cumulative distribution function (cdf) of each latent,
    :math:`h` the inverse of the normal cdf, and :math:`A = I - 2 v v^\top` orthogonal,
    so that it preserves the standard normal distribution. Every
    :math:`\partial f_i / \partial u_j` is non-zero, so each latent depends on all
    others, but observations cannot distinguish :math:`f(z)` from :math:`z`. Without
    inductive bias or labels, disentanglement is therefore impossible (Locatello et al.,
    "Challenging Common Assumptions in the Unsupervised Learning of Disentangled
    Representations", Theorem 1 and its proof). Each map is its own inverse.

    Args:
      z: ``[..., D]`` codes, D > 1.
      cdf: elementwise cdf of the latents, ``[..., D] -> [..., D]`` in (0, 1).
      inverse_cdf: its inverse.
      direction: ``[D]`` vector :math:`v` before normalisation; None for 1, 2, …, D. No
        entry may be 0 or have half of the squared length, where entries of :math:`A`
        are 0.

    Returns:
      Codes of the shape of ``z``, which follow the prior if ``z`` does. They are finite
      even in the far tails, where a cdf is 0 or 1 in floating point.
    """
    dims = z.shape[-1] if z.ndim else 0
    if dims < 2:
        raise ValueError(
            f"entangle: `z` must be [..., D] with D > 1, got shape {z.shape}."
        )
    if direction is None:
        direction = np.arange(1.0, dims + 1.0)
    v = np.asarray(direction, np.float64)
    if v.shape != (dims,):
        raise ValueError(
            f"entangle: `direction` must be [{dims}], got shape {v.shape}."
        )
    v = v / max(np.linalg.norm(v), np.finfo(np.float64).tiny)
    rotation = np.eye(dims) - 2.0 * np.outer(v, v)
    if not np.abs(rotation).min() > 1e-9:
        raise ValueError(
            "entangle: `direction` must have no entry that is 0 or half of the squared "
            f"length, where latents would not mix, got {direction}."
        )
    end = float(jnp.finfo(z.dtype).eps)
    normal = jax.scipy.stats.norm.ppf(jnp.clip(cdf(z), end, 1.0 - end))
    mixed = jnp.matmul(normal, jnp.asarray(rotation, z.dtype), precision="highest")
    return inverse_cdf(jnp.clip(jax.scipy.stats.norm.cdf(mixed), end, 1.0 - end))
