"""How much memory training will take, estimated before anything is compiled."""

import math
import os
import pathlib
import resource
from typing import Any

import jax

from disentangle_jax.training.passes import lanes_at_once
from disentangle_jax.training.run import Run
from disentangle_jax.training.working_memory import (
    abstract_arguments,
    bytes_of,
    step_bytes,
)

# No step of our networks keeps more than a quarter of this many floats for each pixel
# of its batch; if even this many fit into memory, no estimate is needed.
_MOST_FLOATS_PER_PIXEL = 4000
# Address space that the compiler and its threads take; without it they abort.
_COMPILER_BYTES = 5 * 2**28

# Limits of a container: of control groups in version 2, and in version 1.
_CONTAINER_LIMITS = (
    pathlib.Path("/sys/fs/cgroup/memory.max"),
    pathlib.Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class TooLarge(ValueError):
    """The models of a run do not fit into the memory of its devices."""


def check_memory(run: Run) -> None:
    """Raises :class:`TooLarge` where training `run` needs more memory than there is.

    The step of one lane is traced, not compiled; what it keeps at once is counted from
    the sizes of its values (:func:`working_memory.peak_bytes`). The count leaves out
    what a compiler adds, copies and padding, so that no run is refused that would fit.
    """
    memory = device_memory(run.mesh)
    fixed = _state_bytes(run)
    lanes = len(run.lanes) // run.mesh.shape["lanes"]
    if lanes * fixed + 4 * _floats_at_most(run) < memory:
        return
    working = step_bytes(run)
    together = -(-lanes_at_once(run) // run.mesh.shape["lanes"])
    needed = lanes * fixed + together * working
    if needed <= memory:
        return
    raise TooLarge(
        f"config: {len(run.lanes)} lane(s) of batch {run.config.train.batch_size} need "
        f"about {_gibibytes(needed)} on each device, which has {_gibibytes(memory)}: "
        f"{_gibibytes(fixed)} for the state of a lane and {_gibibytes(working)} for "
        f"its step. {_advice(run, memory, fixed, working)}"
    )


def device_memory(mesh: jax.sharding.Mesh) -> int:
    """Returns the bytes that each device of `mesh` may use.

    Devices that do not report it share the memory of their host, or what a container
    or ``ulimit -v`` leaves of it.
    """
    devices = mesh.local_devices
    statistics = devices[0].memory_stats() or {}
    if "bytes_limit" in statistics:
        return statistics["bytes_limit"]
    return _host_memory() // len(devices)


def _host_memory() -> int:
    page = os.sysconf("SC_PAGE_SIZE")
    limits = [page * os.sysconf("SC_PHYS_PAGES")]
    for path in _CONTAINER_LIMITS:
        if path.is_file() and (text := path.read_text().strip()).isdigit():
            limits.append(int(text))
    addresses, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses != resource.RLIM_INFINITY:
        mapped = pathlib.Path("/proc/self/statm")
        used = page * int(mapped.read_text().split()[0]) if mapped.exists() else 0
        limits.append(max(0, addresses - used - _COMPILER_BYTES))
    return min(limits)


def _tree_bytes(tree: Any) -> int:
    return sum(bytes_of(leaf) for leaf in jax.tree.leaves(tree))


def _floats_at_most(run: Run) -> int:
    config = run.config
    lanes = lanes_at_once(run)
    pixels = config.train.batch_size * math.prod(run.train_set.image_shape)
    return lanes * pixels * _MOST_FLOATS_PER_PIXEL // run.mesh.size


def _state_bytes(run: Run) -> int:
    """Returns the bytes of what one lane keeps between steps."""
    _, state, _, _ = abstract_arguments(run)
    average = _tree_bytes(state.params) if run.config.train.ema_decay else 0
    return _tree_bytes(state) + average


def _advice(run: Run, memory: int, fixed: int, working: int) -> str:
    """Returns advice on which settings would fit."""
    lanes, across = len(run.lanes), run.mesh.shape["lanes"]
    left = memory - lanes // across * fixed
    fitting = [
        n
        for n in range(across, lanes)
        if lanes % n == 0 and -(-n // across) * working <= left
    ]
    steps = []
    if lanes > 1 and left <= 0:
        steps.append(f"train fewer than {lanes} lanes in a run")
    elif lanes > 1:
        steps.append(f"set `lanes.chunk` to {max(fitting, default=across)}")
    elif left <= 0:
        steps.append("use a smaller model")
    rows = run.config.train.batch_size
    smaller = rows // 2 ** math.ceil(math.log2(max(2, working / max(left, 1))))
    if not fitting and left > 0 and smaller:
        steps.append(
            f"lower `train.batch_size` to {smaller} (`optimizer.accumulate` averages "
            "the gradients of several batches)"
        )
    steps.append("set `model.remat` to True where the model has it")
    steps.append("use more devices")
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        steps.append("raise the limit of `ulimit -v`")
    return f"You can {', or '.join(steps)}."


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:.3g} GiB"
