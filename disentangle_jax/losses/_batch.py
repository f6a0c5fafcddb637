"""Checks of batches, and means and gathers over a mapped axis."""

import jax
import jax.numpy as jnp

from disentangle_jax.batching import replicated


def check_same_shape(function: str, **arrays: jax.Array) -> None:
    """Raises unless all arrays have the shape of the first."""
    (first, reference), *others = arrays.items()
    for name, array in others:
        if array.shape != reference.shape:
            raise ValueError(
                f"{function}: `{name}` must have the shape of `{first}` "
                f"{reference.shape}, got {array.shape}."
            )


def check_codes(function: str, **arrays: jax.Array) -> None:
    """Raises unless all arrays are `[B, D]` of one shape."""
    name, array = next(iter(arrays.items()))
    if array.ndim != 2:
        raise ValueError(
            f"{function}: `{name}` must be [B, D], got shape {array.shape}. "
            "Use jax.vmap for further leading axes."
        )
    check_same_shape(function, **arrays)


def check_vector(function: str, **arrays: jax.Array) -> None:
    """Raises unless all arrays are `[B]`; their lengths may differ."""
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(
                f"{function}: `{name}` must be [B], one value per example, "
                f"got shape {array.shape}."
            )


def batch_size(array: jax.Array, axis_name: str | None) -> int:
    """Number of rows of the global batch."""
    devices = 1 if axis_name is None else jax.lax.axis_size(axis_name)
    return array.shape[0] * devices


def check_batch(function: str, array: jax.Array, axis_name: str | None) -> int:
    """Returns the number of rows of the global batch, or raises if it is 1."""
    rows = batch_size(array, axis_name)
    if rows < 2:
        raise ValueError(
            f"{function}: the batch must hold at least 2 examples, got {rows}. The "
            "term compares examples with one another; use a larger batch."
        )
    return rows


def batch_mean(values: jax.Array, axis_name: str | None) -> jax.Array:
    """Mean over the rows of the global batch."""
    mean = jnp.mean(values, axis=0)
    return mean if axis_name is None else jax.lax.pmean(mean, axis_name)


def gather(array: jax.Array, axis_name: str | None) -> jax.Array:
    """All rows of the global batch, in the order of the devices."""
    if axis_name is None:
        return replicated(array)
    return jax.lax.all_gather(array, axis_name, tiled=True)


def row_numbers(array: jax.Array, axis_name: str | None) -> jax.Array:
    """Indices of the local rows in the gathered batch."""
    rows = jnp.arange(array.shape[0])
    if axis_name is None:
        return rows
    return rows + jax.lax.axis_index(axis_name) * array.shape[0]
