"""Hints that keep XLA's CPU compiler from computing a value more than once."""

import jax
import jax.numpy as jnp


def stored(x: jax.Array, true: jax.Array) -> jax.Array:
    """Makes XLA's CPU compiler store x instead of computing it in each of its readers.

    A conditional whose outcome the compiler cannot predict is not fused into what reads
    it, unlike the result of ``optimization_barrier``. Not differentiable.

    Args:
      x: any array.
      true: ``[]`` bool that is true, which the compiler must not be able to derive, as
        ``index[0] >= 0``.
    """
    return jax.lax.platform_dependent(x, true, cpu=_stored, default=lambda x, _: x)


@jax.custom_batching.custom_vmap
def _stored(x: jax.Array, true: jax.Array) -> jax.Array:
    return jax.lax.cond(true, lambda x: x, jnp.zeros_like, x)


@_stored.def_vmap
def _stored_batches(
    axis_size: int, in_batched: list[bool], x: jax.Array, true: jax.Array
) -> tuple[jax.Array, bool]:
    # A batched condition would become a selection, which is fused.
    del axis_size
    x_batched, true_batched = in_batched
    return _stored(x, true[0] if true_batched else true), x_batched
