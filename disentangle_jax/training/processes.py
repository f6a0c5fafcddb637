"""Several processes, each with devices of its own, that train one run together.

All start with the same command but for their number; the devices of all of them make
the mesh. The first process prints and writes metric rows; each process reads its part
of a batch and writes its part of a checkpoint, in one shared folder.
"""

import collections
import os
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def join_processes(
    coordinator: str, num_processes: int | None = None, process_id: int | None = None
) -> None:
    """Waits for the other processes of this run; must be called before JAX is used.

    The standard output of all processes but the first is dropped from then on.

    Args:
      coordinator: ``"host:port"`` of the first process, the same for all; ``"auto"``
        takes it, and both numbers below, from Slurm, Open MPI, Kubernetes or Cloud TPU.
      num_processes: number of processes.
      process_id: number of this process, from 0.
    """
    if coordinator == "auto":
        if num_processes is not None or process_id is not None:
            raise ValueError(
                "--coordinator: `auto` takes the number of processes and of this one "
                "from the cluster; leave out --num_processes and --process_id."
            )
        try:
            jax.distributed.initialize()
        except ValueError as error:
            raise ValueError(
                f"--coordinator: no cluster was found ({error}); give HOST:PORT, "
                "--num_processes and --process_id."
            ) from None
    else:
        _check(coordinator, num_processes, process_id)
        jax.distributed.initialize(coordinator, num_processes, process_id)
    if not is_first():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (until the end)


def _check(coordinator: str, count: int | None, number: int | None) -> None:
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(
            f"--coordinator: must be HOST:PORT or auto, got {coordinator!r}."
        )
    if count is None or number is None:
        raise ValueError(
            "--coordinator: needs --num_processes=N and --process_id=I as well."
        )
    if count < 1:
        raise ValueError(f"--num_processes: must be at least 1, got {count}.")
    if not 0 <= number < count:
        raise ValueError(
            f"--process_id: must lie in [0, {count}), the number of processes, got "
            f"{number}."
        )


def is_first() -> bool:
    """Returns whether this is the process that prints and writes for all."""
    return jax.process_index() == 0


def wait_for_all(what: str) -> None:
    """Returns when every process has reached `what`; they may be minutes apart."""
    ocp.multihost.get_barrier_sync_fn()(key=what, timeout_ms=3_600_000)


def on_every_device(tree: Any, mesh: jax.sharding.Mesh) -> Any:
    """Returns arrays that are the same in all processes, copied to all of `mesh`."""
    place = NamedSharding(mesh, P())
    if place.is_fully_addressable:
        return jax.device_put(tree, place)

    def copy(leaf: jax.Array) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            numbers = copy(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(leaf))
        value = np.asarray(leaf)
        return jax.make_array_from_callback(value.shape, place, value.__getitem__)

    return jax.tree.map(copy, tree)


def fetched(tree: Any, mesh: jax.sharding.Mesh) -> Any:
    """Returns arrays on `mesh` as NumPy arrays, in every process that shares them."""
    if jax.process_count() > 1:
        tree = jax.jit(lambda a: a, out_shardings=NamedSharding(mesh, P()))(tree)
    return jax.device_get(tree)


class Agreement:
    """A stop request of any process, seen by all of them at the same step.

    The votes are inputs of a compiled step, which returns whether any of them is true:
    the collectives of a separate program could run in another order on another process.
    With several processes the outcome counts two steps later, so that none waits for
    it.

    Synopsis::

        agreement = Agreement(mesh)
        for inputs in stream:
            outputs, outcome = compiled(inputs, agreement.votes(stop))
            if agreement.reached(stop, outcome):
                break
    """

    _LATER = 2

    def __init__(self, mesh: jax.sharding.Mesh):
        place = NamedSharding(mesh, P(mesh.axis_names))
        self._votes = [
            jax.make_array_from_process_local_data(
                place, np.full(len(mesh.local_devices), stop)
            )
            for stop in (False, True)
        ]
        self._outcomes: collections.deque[jax.Array] = collections.deque()

    def votes(self, stop: bool) -> jax.Array:
        """Returns ``[devices]`` bools, those of this process all `stop`."""
        return self._votes[stop]

    def reached(self, stop: bool, outcome: jax.Array) -> bool:
        """Returns whether some process asked to stop; every process must call it.

        Args:
          stop: whether this process asks to stop.
          outcome: ``[]`` bool, whether any of the votes is true.
        """
        if jax.process_count() == 1:
            return stop
        self._outcomes.append(outcome)
        return len(self._outcomes) > self._LATER and bool(self._outcomes.popleft())
