"""Log-densities of codes, their groups and their elements under priors."""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from disentangle_jax import distributions
from disentangle_jax.losses._batch import check_codes
from disentangle_jax.losses.discrete import Discrete
from disentangle_jax.types import check_groups


def standard_log_prior(z: jax.Array, concrete: Sequence[Discrete] = ()) -> jax.Array:
    r"""Log-density of each element under a prior that factorises.

    The prior is :math:`\mathcal N(0, 1)` for each dimension, and uniform for each
    discrete variable: of the same temperature for a :class:`Concrete` one, whose
    density is that of its logarithm, and 1/K for each value of a :class:`Categorical`
    one.

    Couples the batch: no.

    Args:
      z: ``[B, D]`` draws of the Gaussian dimensions.
      concrete: C discrete variables, :class:`Concrete` or :class:`Categorical`.

    Returns:
      ``[B, D + C]`` nats; any real number.
    """
    parts = [distributions.gaussian_log_prob(z, jnp.zeros_like(z), jnp.zeros_like(z))]
    parts += [variable.log_prior()[:, None] for variable in concrete]
    return jnp.concatenate(parts, axis=1)


def correlated_log_prior(
    z: jax.Array,
    correlation: jax.Array,
    *,
    groups: Sequence[int],
    concrete: Sequence[Discrete] = (),
) -> dict[str, jax.Array]:
    r"""Log-densities under a Gaussian prior whose dimensions are correlated.

    .. math:: p(z) = \mathcal N(0, R), \qquad p(z_d) = \mathcal N(0, R_{dd}), \qquad
              p(z_{d,e}) = \mathcal N(0, 1)

    where :math:`R_{dd}` has the rows and columns of R that belong to group d. With such
    a prior, term Ⓐ of :func:`hfvae_terms` matches the dependence between groups to that
    of the prior, instead of removing it (Esmaeili et al., "Structured Disentangled
    Representations", Sec. 3). Discrete variables are uniform and independent of all
    others.

    Couples the batch: no.

    Args:
      z: ``[B, D]`` draws of the Gaussian dimensions.
      correlation: R, ``[D, D]`` positive definite with ones on its diagonal.
      groups: sizes of contiguous groups of elements, which add up to D + C.
      concrete: C discrete variables, which follow the D dimensions.

    Returns:
      Dict of nats, the keywords of :func:`hfvae_terms` and :func:`hfvae`:
      ``log_p_elements`` ``[B, D + C]``, ``log_p_groups`` ``[B, G]``, ``log_p_joint``
      ``[B]``.
    """
    name = "correlated_log_prior"
    z, correlation = jnp.asarray(z), jnp.asarray(correlation)
    check_codes(name, z=z)
    dims = z.shape[1]
    if correlation.shape != (dims, dims):
        raise ValueError(
            f"{name}: `correlation` must be [D, D] with D = {dims}, got "
            f"{correlation.shape}."
        )
    groups = check_groups(name, groups, dims + len(concrete))
    elements = standard_log_prior(z, concrete)

    def together(low: int, high: int) -> jax.Array:
        """Log-density of the elements from `low` to `high`, exclusive."""
        value = elements[:, max(low, dims) : max(high, dims)].sum(axis=1)
        inside = slice(low, min(high, dims))
        if low < dims:
            value += distributions.gaussian_component_log_prob(
                z[:, inside],
                jnp.zeros((1, inside.stop - low), z.dtype),
                correlation[inside, inside][None],
            )[:, 0]
        return value

    bounds = itertools.pairwise(itertools.accumulate(groups, initial=0))
    return {
        "log_p_elements": elements,
        "log_p_groups": jnp.stack([together(*bound) for bound in bounds], axis=1),
        "log_p_joint": together(0, dims + len(concrete)),
    }
