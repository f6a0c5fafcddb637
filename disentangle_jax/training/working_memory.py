"""How much memory the values of one step take, counted from its trace."""

import math
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend import core

from disentangle_jax.training.run import Run


def step_bytes(run: Run) -> int:
    """Returns the most bytes that one lane's step keeps at once on one device."""
    step = jax.make_jaxpr(run.method.step)(*abstract_arguments(run))
    return peak_bytes(step.jaxpr, run.mesh.devices.flat[0].platform)


def abstract_arguments(run: Run) -> tuple[Any, ...]:
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


def peak_bytes(jaxpr: core.Jaxpr, platform: str) -> int:
    """Returns the most bytes that the values of `jaxpr` take at any one time.

    Each value is counted from the equation that makes it to the last one that uses
    it, in the order they stand; the inputs are not counted, the results are.

    Args:
      jaxpr: a traced function.
      platform: ``"cpu"``, ``"gpu"`` or ``"tpu"``: which branch is taken where a
        function has one for each platform.
    """
    last_use: dict[core.Var, int] = {}
    for number, equation in enumerate(jaxpr.eqns):
        last_use |= dict.fromkeys(_variables(equation.invars), number)
    last_use |= dict.fromkeys(_variables(jaxpr.outvars), len(jaxpr.eqns))
    ends: dict[int, list[core.Var]] = {}
    for value, number in last_use.items():
        ends.setdefault(number, []).append(value)
    made: dict[core.Var, int] = {}
    now = peak = 0
    for number, equation in enumerate(jaxpr.eqns):
        results = {v: bytes_of(v.aval) for v in equation.outvars if v in last_use}
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


def bytes_of(value: Any) -> int:
    """Returns the bytes of an array from its shape and dtype."""
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return 8 * math.prod(value.shape)
    return math.prod(value.shape) * value.dtype.itemsize
