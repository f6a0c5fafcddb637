"""Drawing codes: posteriors, priors, recombined banks, traversals and walks.

A traversal has two parts: which values each dimension takes (``…_values``,
``[D, steps]``), and the codes in which one dimension at a time takes them
(:func:`traverse_values`, ``[D, steps, D]``).

Everything random takes a typed ``key`` as its first argument. Under ``pmap`` or
``shard_map`` a function that mixes rows takes ``axis_name``: pass the *same* key on
every device and it mixes the global batch, as one device would.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.batching import replicated
from disentangle_jax.types import check_groups


def reparameterize(key: jax.Array, mean: jax.Array, log_var: jax.Array) -> jax.Array:
    r"""Draws from a diagonal Gaussian, differentiably in its parameters.

    .. math:: z = \mu + e^{\frac12 \log\sigma^2} \epsilon,
              \qquad \epsilon \sim \mathcal N(0, I)

    Kingma & Welling, "Auto-Encoding Variational Bayes", Eq. 4 and Sec. 2.4.

    Args:
      key: typed key. Inside ``pmap`` or ``shard_map`` fold the device's number in,
        ``jax.random.fold_in(key, jax.lax.axis_index(axis_name))``: with one key all
        devices draw the same noise.
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
    if axis_name is None:
        everything = replicated(z)
    else:
        everything = jax.lax.all_gather(z, axis_name, tiled=True)
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
    permuted = jnp.take_along_axis(everything, order[variable].T, axis=0)
    if everything is z or axis_name is not None:
        return permuted
    return jax.sharding.reshard(permuted, jax.typeof(z).sharding.spec)


def prior(
    key: jax.Array, n: int, dims: int, *, discrete: Sequence[int] = ()
) -> jax.Array:
    r"""Draws codes from the standard normal prior, :math:`\mathcal N(0, I)`.

    Discrete variables are drawn uniformly, as one-hot vectors behind the others.

    Meaningful for models whose training pulls their codes towards it (VAEs, WAE); an
    autoencoder without such a term has no prior, and its codes lie anywhere.

    Args:
      key: typed key.
      n: number of codes.
      dims: number of continuous latent dimensions D.
      discrete: numbers of categories of the discrete variables, M together.

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
      balanced: draw without replacement, by one permutation of the bank per variable
        and a new one after every N draws, as the paper's code does for groups: each
        stored value is then used once in N draws, and the marginals are those of the
        bank exactly. (For single dimensions that code permutes all N·D places at once,
        which is balanced over all columns together and not within each.)

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
    """Hybridises one chunk of a code's variables and keeps the others.

    With four chunks, each row of "Structure by Architecture", Fig. 6a: what one quarter
    of the variables, in their order, decides of an image.

    Args:
      key: typed key.
      code: ``[D]`` the code that is changed.
      bank: ``[N, D]`` stored codes; see :func:`hybrid`.
      n: number of codes to draw per chunk.
      groups: sizes of the contiguous variables; see :func:`hybrid`.
      chunks: number of chunks of consecutive variables, of sizes as equal as can be;
        at most as many as there are variables.

    Returns:
      ``[chunks, n, D]`` codes; row ``c`` differs from `code` in chunk ``c`` only.
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


def interpolate(start: jax.Array, end: jax.Array, *, steps: int) -> jax.Array:
    """Walks from one code to another in a straight line at even speed.

    Args:
      start: ``[..., D]`` first codes.
      end: ``[..., D]`` last codes.
      steps: number of codes, both ends included; at least 2.

    Returns:
      ``[..., steps, D]`` codes.
    """
    if start.shape != end.shape or start.ndim < 1:
        raise ValueError(
            "interpolate: `start` and `end` must have the same shape [..., D], got "
            f"{start.shape} and {end.shape}."
        )
    _check_steps("interpolate", steps)
    return jnp.linspace(start, end, steps, axis=-2)


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
    return traverse_values(code, jnp.linspace(low, high, steps, axis=1))


def traverse_values(
    code: jax.Array, values: jax.Array, *, discrete: Sequence[int] = ()
) -> jax.Array:
    """Varies one dimension of a code at a time, over given values.

    Numbers of discrete variables only make sense as one-hot vectors: such a row begins
    with the code's own class, and has that of its number from the middle on.

    Args:
      code: ``[D]`` the code to start from.
      values: ``[D, steps]`` the values that each dimension takes, e.g. of
        :func:`min_max_values`.
      discrete: numbers of categories of the discrete variables, one-hot vectors at the
        end of the code.

    Returns:
      ``[D, steps, D]`` codes: row ``d`` differs from ``code`` in dimension ``d`` only,
      or in the discrete variable that ``d`` is a number of.
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
    """Even steps from the smallest to the largest code of each dimension.

    Args:
      codes: ``[N, D]`` codes of many images.
      steps: number of values, at least 2.

    Returns:
      ``[D, steps]`` values, for :func:`traverse_values`.
    """
    _check_codes("min_max_values", codes)
    _check_steps("min_max_values", steps)
    return jnp.linspace(codes.min(axis=0), codes.max(axis=0), steps, axis=1)


def quantile_values(codes: jax.Array, *, steps: int) -> jax.Array:
    """Values between which equally many codes of each dimension lie.

    The quantiles at (i + 1/2) / steps: dense where codes are, and never at an outlier.

    Args:
      codes: ``[N, D]`` codes of many images.
      steps: number of values, at least 2.

    Returns:
      ``[D, steps]`` values, for :func:`traverse_values`.
    """
    _check_codes("quantile_values", codes)
    _check_steps("quantile_values", steps)
    return jnp.quantile(codes, (jnp.arange(steps) + 0.5) / steps, axis=0).T


def gaussian_values(
    mean: jax.Array, log_var: jax.Array, *, steps: int, bound: float = 3.0
) -> jax.Array:
    """Even steps over a diagonal Gaussian, from -bound to +bound standard deviations.

    With the posterior of an image this walks what its encoder is unsure of; with zeros
    for both, the prior from -3 to 3, as most papers do.

    Args:
      mean: ``[D]`` mean.
      log_var: ``[D]`` log-variance.
      steps: number of values, at least 2.
      bound: how far, in standard deviations.

    Returns:
      ``[D, steps]`` values, for :func:`traverse_values`.
    """
    if mean.ndim != 1 or mean.shape != log_var.shape:
        raise ValueError(
            "gaussian_values: `mean` and `log_var` must be [D], got shapes "
            f"{mean.shape} and {log_var.shape}."
        )
    _check_steps("gaussian_values", steps)
    width = bound * jnp.exp(0.5 * log_var)
    return jnp.linspace(mean - width, mean + width, steps, axis=1)


def cyclic_values(
    code: jax.Array, low: jax.Array, high: jax.Array, *, steps: int
) -> jax.Array:
    """A walk from a code's values up to `high`, down to `low` and back, without a jump.

    At even speed; the step after the last is the first again, so that the frames of an
    animation repeat smoothly.

    Args:
      code: ``[D]`` where each dimension starts; values outside the bounds start at
        the nearer one.
      low: ``[D]`` lower bound of each dimension.
      high: ``[D]`` upper bound of each dimension.
      steps: number of values of the whole cycle, at least 2.

    Returns:
      ``[D, steps]`` values, for :func:`traverse_values`.
    """
    if code.ndim != 1 or low.shape != code.shape or high.shape != code.shape:
        raise ValueError(
            "cyclic_values: `code`, `low` and `high` must be [D], got shapes "
            f"{code.shape}, {low.shape} and {high.shape}."
        )
    _check_steps("cyclic_values", steps)
    width = high - low
    share = jnp.where(width > 0, (code - low) / jnp.where(width > 0, width, 1.0), 0.0)
    # Places on a circle of circumference 2: up from 0 to 1, then down again.
    place = jnp.clip(share, 0.0, 1.0)[:, None] + 2.0 * jnp.arange(steps)[None] / steps
    height = 1.0 - jnp.abs(1.0 - jnp.mod(place, 2.0))
    return low[:, None] + height * width[:, None]


def entangle(
    z: jax.Array,
    *,
    cdf: Callable[[jax.Array], jax.Array],
    inverse_cdf: Callable[[jax.Array], jax.Array],
    direction: jax.Array | None = None,
) -> jax.Array:
    r"""Mixes all latents of a factorised prior without changing its distribution.

    .. math:: f = g^{-1} \circ h^{-1} \circ A \circ h \circ g

    with :math:`g` the cumulative distribution of each latent (to uniforms), :math:`h`
    the inverse of the normal one (to a standard normal), and the orthogonal
    :math:`A = I - 2 v v^\top`, which a standard normal does not notice. Every
    :math:`\partial f_i / \partial u_j` is non-zero, so that all latents depend on all
    others, and yet no observation tells :math:`f(z)` from :math:`z`: without a bias of
    the method, or labels, disentanglement cannot be learnt (Locatello et al.,
    "Challenging Common Assumptions in the Unsupervised Learning of Disentangled
    Representations", Theorem 1 and its proof). Every `direction` gives another such
    map; each is its own inverse.

    Args:
      z: ``[..., D]`` codes, D > 1.
      cdf: cumulative distribution function of each latent, elementwise (it may know
        the last axis): ``[..., D] -> [..., D]`` in (0, 1).
      inverse_cdf: its inverse.
      direction: ``[D]`` vector :math:`v` before its normalisation. No entry may be 0 or
        make up half of the squared length, where entries of :math:`A` vanish. None
        takes 1, 2, …, D.

    Returns:
      Codes of the shape of `z`, with the same distribution where `z` has the prior's.
      At the far tails, where a cdf is 0 or 1 in floating point, they stay finite.
    """
    dims = z.shape[-1] if z.ndim else 0
    if dims < 2:
        raise ValueError(
            f"entangle: `z` must be [..., D] with D > 1, got shape {z.shape}."
        )
    v = np.arange(1.0, dims + 1.0) if direction is None else np.asarray(direction)
    v = v.astype(np.float64)
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


def _check_codes(function: str, codes: jax.Array) -> None:
    if codes.ndim != 2 or codes.shape[0] < 1:
        raise ValueError(
            f"{function}: `codes` must be [N, D], got shape {codes.shape}."
        )


def _check_steps(function: str, steps: int) -> None:
    if steps < 2:
        raise ValueError(f"{function}: `steps` must be at least 2, got {steps}.")
