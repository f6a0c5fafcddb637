"""How much memory training will take, estimated before anything is compiled."""

import math
import os
import pathlib
import resource
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend import core

from disentangle_jax.training.program import lanes_at_once
from disentangle_jax.training.run import Run

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
    the sizes of its values (:func:`peak_bytes`). The count leaves out what a compiler
    adds, copies and padding, so that no run is refused that would fit.
    """
    memory = device_memory(run.mesh)
    fixed = _state_bytes(run)
    lanes = len(run.lanes) // run.mesh.shape["lanes"]
    if lanes * fixed + 4 * _floats_at_most(run) < memory:
        return
    step = jax.make_jaxpr(run.method.step)(*_abstract_arguments(run))
    platform = run.mesh.devices.flat[0].platform
    working = peak_bytes(step.jaxpr, platform)
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


def peak_bytes(jaxpr: core.Jaxpr, platform: str) -> int:
    """Returns the most bytes that the values of `jaxpr` take at any one time.

    Each value is counted from the equation that makes it to the last one that uses
    it, in the order they stand; the inputs are not counted, the results are.

    Args:
      jaxpr: a traced function.
      platform: ``"cpu"``, ``"gpu"`` or ``"tpu"``: which branch is taken where a
        function has one for each platform.
    """
    last_use = {}
    for number, equation in enumerate(jaxpr.eqns):
        last_use |= dict.fromkeys(_variables(equation.invars), number)
    last_use |= dict.fromkeys(_variables(jaxpr.outvars), len(jaxpr.eqns))
    ends: dict[int, list[core.Var]] = {}
    for value, number in last_use.items():
        ends.setdefault(number, []).append(value)
    made: dict[core.Var, int] = {}
    now = peak = 0
    for number, equation in enumerate(jaxpr.eqns):
        results = {v: _bytes(v.aval) for v in equation.outvars if v in last_use}
        inside = [peak_bytes(inner, platform) for inner in _called(equation, platform)]
        peak = max(peak, now + max(sum(results.values()), *inside, 0))
        now += sum(results.values())
        made |= results
        now -= sum(made.pop(value, 0) for value in ends.get(number, ()))
    return peak


def _variables(values: list) -> Iterator[core.Var]:
    return (value for value in values if not isinstance(value, core.Literal))


def _called(equation: core.JaxprEqn, platform: str) -> Iterator[core.Jaxpr]:
    """Yields the functions that an equation may call on `platform`."""
    parameters = dict(equation.params)
    for platforms, branch in zip(
        parameters.pop("branches_platforms", None) or (), parameters.get("branches", ())
    ):
        if platforms is None or platform in platforms:
            parameters["branches"] = (branch,)
            break
    for value in parameters.values():
        for inner in value if isinstance(value, tuple | list) else (value,):
            if isinstance(inner, core.ClosedJaxpr):
                yield inner.jaxpr
            elif isinstance(inner, core.Jaxpr):
                yield inner


def _bytes(value: Any) -> int:
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return 8 * math.prod(value.shape)
    return math.prod(value.shape) * value.dtype.itemsize


def _tree_bytes(tree: Any) -> int:
    return sum(_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _floats_at_most(run: Run) -> int:
    config = run.config
    lanes = lanes_at_once(run)
    pixels = config.train.batch_size * math.prod(run.train_set.image_shape)
    return lanes * pixels * _MOST_FLOATS_PER_PIXEL // run.mesh.size


def _abstract_arguments(run: Run) -> tuple[Any, ...]:
    """Returns the arguments of one lane's step, for the rows that one device has."""
    share = run.mesh.shape["data"]
    batch = {
        name: jax.ShapeDtypeStruct((s.shape[0] // share, *s.shape[1:]), s.dtype)
        for name, s in run.batch_shapes().items()
    } | run.constant_shapes()
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(run.method.init, key, batch)
    scalar = jax.ShapeDtypeStruct((), "float32")
    return key, state, batch, dict.fromkeys(run.lanes[0].hyper, scalar)


def _state_bytes(run: Run) -> int:
    """Returns the bytes of what one lane keeps between steps."""
    _, state, _, _ = _abstract_arguments(run)
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
