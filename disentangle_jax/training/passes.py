"""Which lanes of a run are computed at once, and loops over the others."""

import math
from typing import Any

import jax

from disentangle_jax.training.run import Run
from disentangle_jax.training.working_memory import step_bytes

# On TPUs: most lanes that one chip computes at once, most bytes of their values, and
# most lanes whose gradients it keeps in order to update them at once.
_AT_ONCE = 4
_AT_ONCE_BYTES = 2**29
_UPDATED = 32


def lanes_at_once(run: Run) -> int:
    """Returns how many lanes are computed at once, over all devices.

    Unless the config says otherwise: all of them, but on TPUs at most 4 on each chip.
    Four small models fill its matrix unit better than one. The values of large ones,
    or of many, would not stay in its on-chip memory. On CPUs it is one if a dispatch
    has several steps, since a lane then takes them all while the cache holds its state.
    """
    if run.config.lanes.chunk:
        return run.config.lanes.chunk
    across = run.mesh.shape["lanes"]
    if _platform(run) == "cpu" and run.config.train.steps_per_dispatch > 1:
        return across
    if _platform(run) != "tpu":
        return len(run.lanes)
    lanes = len(run.lanes) // across
    most = max(1, _AT_ONCE_BYTES // step_bytes(run)) if lanes > 1 else 1
    return across * _largest_divisor(lanes, min(most, _AT_ONCE))


def lanes_updated(run: Run) -> int:
    """Returns how many lanes are updated at once, over all devices.

    A multiple of :func:`lanes_at_once`, and more than it on TPUs only. There the small
    operations of an update take longer to start than to run.
    """
    at_once = lanes_at_once(run)
    if not (_platform(run) == "tpu" and run.method.divided):
        return at_once
    most = max(1, _UPDATED * run.mesh.shape["lanes"] // at_once)
    return at_once * _largest_divisor(len(run.lanes) // at_once, most)


def _platform(run: Run) -> str:
    return run.mesh.devices.flat[0].platform


def _largest_divisor(number: int, most: int) -> int:
    """Returns the largest divisor of `number` that is not above `most`."""
    return next(n for n in range(min(number, most), 0, -1) if number % n == 0)


class Passes:
    """Lanes ``[L, …]`` of a tree of arrays, some of which are taken in each pass.

    Devices that share the lanes each have their own in every pass.
    """

    def __init__(self, tree: Any, at_once: int, devices: int):
        self._tree = tree
        self._at_once = at_once
        self._parts = math.gcd(at_once, devices)

    def take(self, number: jax.Array) -> Any:
        """Returns the lanes ``[at once, …]`` of a pass."""

        def take(array: jax.Array) -> jax.Array:
            some = jax.lax.dynamic_index_in_dim(
                self._folded(array), number, 1, keepdims=False
            )
            return some.reshape(self._at_once, *array.shape[1:])

        return jax.tree.map(take, self._tree)

    def replace(self, number: jax.Array, new: Any) -> Any:
        """Returns the tree with other lanes of a pass."""

        def replace(array: jax.Array, some: jax.Array) -> jax.Array:
            folded = self._folded(array)
            some = some.reshape(self._parts, -1, *some.shape[1:])
            folded = jax.lax.dynamic_update_index_in_dim(folded, some, number, 1)
            return folded.reshape(array.shape)

        return jax.tree.map(replace, self._tree, new)

    def unfold(self, results: Any) -> Any:
        """Returns results ``[passes, at once, …]`` in the order of the lanes."""

        def unfold(array: jax.Array) -> jax.Array:
            parts = array.reshape(len(array), self._parts, -1, *array.shape[2:])
            return parts.swapaxes(0, 1).reshape(-1, *array.shape[2:])

        return jax.tree.map(unfold, results)

    def _folded(self, array: jax.Array) -> jax.Array:
        """Returns lanes as ``[parts, passes, lanes of a part in a pass, …]``."""
        shape = (self._parts, -1, self._at_once // self._parts)
        return array.reshape(*shape, *array.shape[1:])
