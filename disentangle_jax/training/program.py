"""The compiled program of a run: its first state, and several steps at a time."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax.data.device import Draw
from disentangle_jax.methods.method import Hyper
from disentangle_jax.training import schedules as schedules_lib
from disentangle_jax.training.lanes import over_lanes
from disentangle_jax.training.passes import Passes, lanes_at_once, lanes_updated
from disentangle_jax.training.run import Run
from disentangle_jax.types import State

# Elements below which an operation takes longer to start than to run.
_SMALL = 4096
# The constants of a program that have an axis of lanes.
_OF_LANES = ("keys", "hyper", "batch_seeds")


class Carry(NamedTuple):
    """What a dispatch passes on to the next, and what checkpoints hold (a pytree).

    Every leaf has a leading lane axis ``[L, …]``; L is 1 for a single model.

    Attributes:
      state: state of the method. A lane that became non-finite keeps its last good
        state, step included; ``state.step`` of the others is the step of the run.
      average: moving average of the parameters; empty where none is kept.
      alive: ``[L]`` bool, whether loss, gradients and parameters were finite so far.
    """

    state: State
    average: Any
    alive: jax.Array

    @property
    def step(self) -> jax.Array:
        """``[]`` int32, number of steps that were done."""
        return self.state.step.max()


class Program(NamedTuple):
    """Pure functions of one run, not yet compiled.

    Attributes:
      steps: ``(carry, inputs) -> (carry, terms)``; `inputs` hold the number ``step`` of
        the first step, ``batches`` and ``constants``; `terms` have the axes ``[k, L]``
        of steps and lanes.
      constants: arrays that ``inputs["constants"]`` must hold: keys, hyperparameters,
        images that are drawn on the device, and what the method asks for.
      refit: ``(carry, constants) -> carry``, what is done before the steps for which
        ``method.refit_due`` is true.
    """

    steps: Callable[[Carry, dict], tuple[Carry, dict]]
    constants: dict
    refit: Callable[[Carry, dict], Carry]


def _keys(run: Run) -> tuple[jax.Array, jax.Array]:
    """Returns ``[L]`` keys of the parameters and ``[L]`` keys of the steps."""
    seeds = jnp.array([lane.seed for lane in run.lanes], jnp.uint32)
    roots = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(seeds)
    return roots[:, 0], roots[:, 1]


def initial(run: Run) -> Carry:
    """Returns the carry before the first step; can be traced, reads no data."""

    def first(key: jax.Array) -> tuple[State, Any]:
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), run.batch_shapes())
        state = run.method.init(key, zeros)
        decay = run.config.train.ema_decay
        return state, jax.tree.map(jnp.copy, state.params) if decay else {}

    lanes = len(run.lanes)
    state, average = over_lanes(first, lanes, (0,))(_keys(run)[0])
    return Carry(state, average, jnp.ones(lanes, bool))


def first_carry(run: Run, places: Any = None) -> Carry:
    """Computes :func:`initial`.

    It runs once, so XLA's CPU compiler does not spend seconds on optimising it.

    Args:
      run: the run.
      places: sharding of each leaf; None for the default device.
    """
    on_cpu = run.mesh.devices.flat[0].platform == "cpu"
    options = {"xla_backend_optimization_level": 0} if on_cpu else {}
    compiled = jax.jit(
        lambda: initial(run), out_shardings=places, compiler_options=options
    )
    return compiled()


def batch_seeds(run: Run) -> list[int]:
    """Returns the seed of each lane's order of images."""
    own = run.laned and not run.config.lanes.same_batches
    return [lane.seed if own else run.config.data.seed for lane in run.lanes]


def build(run: Run) -> Program:
    """Returns the program of `run`, with its constants in memory."""
    train, lanes = run.config.train, run.lanes
    names = lanes[0].hyper
    hyper = {
        n: jnp.array([lane.hyper[n] for lane in lanes], jnp.float32) for n in names
    }
    constants = {"keys": _keys(run)[1], "hyper": hyper, "method": run.constants()}
    draw: Draw | None = None
    if train.input == "device":
        draw, constants["images"] = run.method.inputs.on_device(
            run.train_set, run.config.data
        )
        constants["batch_seeds"] = jnp.array(batch_seeds(run), jnp.uint32)

    def drawn(key: jax.Array, constants: dict) -> dict:
        arrays = cast(Draw, draw)(key, train.batch_size, constants["images"])
        # Each device draws its rows only.
        rows = NamedSharding(run.mesh, P("data"))
        return {
            name: jax.lax.with_sharding_constraint(arrays[name], rows)
            for name in run.batch_shapes()
        }

    each_draws = draw is not None and own_batches(run)
    models = _some_models(run, drawn if each_draws else None)

    def one_step(
        carry: Carry, step: jax.Array, batch: Any, own: dict, constants: dict
    ) -> tuple[Carry, dict]:
        if draw is not None:
            roots = jax.vmap(jax.random.key)(own["batch_seeds"])
            keys = jax.vmap(jax.random.fold_in, (0, None))(roots, step)
            batch = keys if each_draws else drawn(keys[0], constants)
        *new, terms = models(step, own, constants, batch, carry)
        carry = Carry(*new)
        return carry, {**terms, "alive": carry.alive}

    def steps_of(
        carry: Carry, own: dict, batches: Any, inputs: dict
    ) -> tuple[Carry, dict]:
        constants = inputs["constants"]
        if train.steps_per_dispatch == 1:
            # Without a loop: XLA on CPU runs the body of a loop less in parallel.
            batch = jax.tree.map(lambda a: a[0], batches)
            carry, terms = one_step(carry, inputs["step"], batch, own, constants)
            return carry, jax.tree.map(lambda a: a[None], terms)
        numbers = inputs["step"] + jnp.arange(train.steps_per_dispatch)
        return jax.lax.scan(
            lambda carry, xs: one_step(carry, *xs, own, constants),
            carry,
            (numbers, batches),
        )

    def steps(carry: Carry, inputs: dict) -> tuple[Carry, dict]:
        batches, constants = inputs["batches"], inputs["constants"]
        own = {n: constants[n] for n in _OF_LANES if n in constants}
        updated = lanes_updated(run)
        if updated == len(lanes):
            return steps_of(carry, own, batches, inputs)
        # Some lanes take all steps of the dispatch before the others take theirs, so
        # that a CPU's cache holds their state. It is updated in place.
        divided = own_batches(run)
        rows = jax.tree.map(_lanes_first, batches) if divided else {}
        across = run.mesh.shape["lanes"]
        passes = Passes((own, rows), updated, across)

        def one_pass(carry: Carry, number: jax.Array) -> tuple[Carry, dict]:
            own, rows = passes.take(number)
            models = Passes(carry, updated, across)
            here = jax.tree.map(_lanes_first, rows) if divided else batches
            new, terms = steps_of(models.take(number), own, here, inputs)
            return models.replace(number, new), jax.tree.map(_lanes_first, terms)

        numbers = jnp.arange(len(lanes) // updated)
        carry, terms = jax.lax.scan(one_pass, carry, numbers)
        return carry, jax.tree.map(_lanes_first, passes.unfold(terms))

    def refit(carry: Carry, constants: dict) -> Carry:
        one = over_lanes(run.method.refit, len(lanes), (0, None, 0))
        state = one(carry.state, constants["method"], constants["hyper"])
        return carry._replace(state=state)

    return Program(steps, constants, refit)


def _first_half(
    run: Run,
    common: dict,
    step: jax.Array,
    key: jax.Array,
    hyper: Hyper,
    batch: dict,
    state: State,
) -> tuple[tuple[Any, ...], dict]:
    """Returns what the second half of one lane's step needs, and the terms.

    These are gradients and state of the networks, or the new state of a method that
    does not divide its step.
    """
    hyper = schedules_lib.scheduled(run.config.train.schedules, hyper, step)
    key = jax.random.fold_in(key, step)
    half = run.method.gradients if run.method.divided else run.method.step
    *found, terms = half(key, state, {**batch, **common}, hyper)
    return tuple(found), terms


def _second_half(
    run: Run,
    step: jax.Array,
    hyper: Hyper,
    found: tuple[Any, ...],
    loss: jax.Array,
    state: State,
    average: Any,
    alive: jax.Array,
) -> tuple[State, Any, jax.Array]:
    """Returns state, average and liveness of one lane after a step."""
    train = run.config.train
    hyper = schedules_lib.scheduled(train.schedules, hyper, step)
    if run.method.divided:
        # Finite gradients make finite parameters. Checking the gradients, not the
        # parameters, lets XLA update each parameter in one pass.
        checked, model_state = found
        new = run.method.update(state, checked, model_state, hyper)
    else:
        (new,) = found
        checked = new.params
    alive = alive & jnp.isfinite(loss) & _all_finite(checked)
    new = jax.tree.map(lambda n, o: jnp.where(alive, n, o), new, state)
    average = jax.tree.map(
        lambda a, p: train.ema_decay * a + (1 - train.ema_decay) * p,
        average,
        new.params if train.ema_decay else {},
    )
    return new, average, alive


def _all_finite(tree: Any) -> jax.Array:
    """Returns whether all elements are finite; checks all small arrays at once."""
    small: list[jax.Array] = []
    large: list[jax.Array] = []
    for leaf in jax.tree.leaves(tree):
        (small if leaf.size < _SMALL else large).append(leaf)
    if small:
        large.append(jnp.concatenate([leaf.ravel() for leaf in small]))
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in large]).all()


def _lanes_first(array: jax.Array) -> jax.Array:
    """Swaps the axes of steps and lanes."""
    return array.swapaxes(0, 1)


def _some_models(run: Run, drawn: Callable | None) -> Callable:
    """Returns ``(step, own, constants, batch, carry) -> (*carry, terms)``.

    It is one step of as many lanes as are updated at once; ``own`` are their constants.

    Args:
      run: the run.
      drawn: ``(key, constants) -> batch`` where each lane draws its own batch on the
        device; ``batch`` is then the lanes' keys ``[L]``.
    """
    updated, at_once = lanes_updated(run), lanes_at_once(run)
    shared = run.config.lanes.same_batches
    batch_axis = None if shared else 0
    second = over_lanes(
        functools.partial(_second_half, run), updated, (None, *(0,) * 6)
    )

    def first(
        constants: dict,
        step: jax.Array,
        key: jax.Array,
        hyper: Hyper,
        batch: Any,
        state: State,
    ) -> tuple[tuple[Any, ...], dict]:
        def one(
            common: dict,
            step: jax.Array,
            key: jax.Array,
            hyper: Hyper,
            batch: Any,
            state: State,
        ) -> tuple[tuple[Any, ...], dict]:
            if drawn is not None:
                batch = drawn(batch, constants)
            return _first_half(run, common, step, key, hyper, batch, state)

        some = over_lanes(one, at_once, (None, None, 0, 0, batch_axis, 0))
        common = constants["method"]
        if at_once == updated:
            return some(common, step, key, hyper, batch, state)
        # Some lanes after the others, so that only their activations live.
        lanes = (key, hyper, state, {} if shared else batch)
        own = Passes(lanes, at_once, run.mesh.shape["lanes"])

        def one_pass(_: None, number: jax.Array) -> tuple[None, Any]:
            key, hyper, state, rows = own.take(number)
            return None, some(
                common, step, key, hyper, batch if shared else rows, state
            )

        found = jax.lax.scan(one_pass, None, jnp.arange(updated // at_once))[1]
        return own.unfold(found)

    def models(
        step: jax.Array, own: dict, constants: dict, batch: Any, carry: Carry
    ) -> tuple[State, Any, jax.Array, dict]:
        if not shared and not own_batches(run):
            batch = jax.tree.map(lambda a: a[None], batch)
        keys, hyper = own["keys"], own["hyper"]
        found, terms = first(constants, step, keys, hyper, batch, carry.state)
        return (*second(step, hyper, found, terms["loss"], *carry), terms)

    return models


def shardings(run: Run, carry: Carry) -> Carry:
    """Returns the sharding of each leaf of the carry: its lanes over the mesh."""
    return jax.tree.map(lambda _: NamedSharding(run.mesh, P("lanes")), carry)


def batch_spec(run: Run) -> P:
    """Returns how the batches ``[k, B, …]`` or ``[k, L, B, …]`` are divided."""
    return P(None, "lanes", "data") if own_batches(run) else P(None, "data")


def own_batches(run: Run) -> bool:
    """Returns whether each lane of `run` has batches of its own."""
    return len(run.lanes) > 1 and not run.config.lanes.same_batches


def abstract_carry(run: Run) -> Carry:
    """Returns shapes, dtypes and shardings of the carry; allocates nothing."""
    shapes = jax.eval_shape(lambda: initial(run))
    return jax.tree.map(
        lambda s, place: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place),
        shapes,
        shardings(run, shapes),
    )


def abstract_inputs(run: Run, program: Program) -> dict:
    """Returns shapes, dtypes and shardings of what `program.steps` takes per call."""
    train = run.config.train
    batches = {}
    if train.input == "stream":
        lanes = [len(run.lanes)] if own_batches(run) else []
        shape = (train.steps_per_dispatch, *lanes)
        place = NamedSharding(run.mesh, batch_spec(run))
        batches = jax.tree.map(
            lambda s: jax.ShapeDtypeStruct(shape + s.shape, s.dtype, sharding=place),
            run.batch_shapes(),
        )
    everywhere = NamedSharding(run.mesh, P())
    constants = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=everywhere),
        program.constants,
    )
    step = jax.ShapeDtypeStruct((), jnp.int32, sharding=everywhere)
    return {"step": step, "batches": batches, "constants": constants}


def evaluated_state(run: Run, carry: Carry) -> State:
    """Returns the state that is evaluated: with averaged parameters where kept."""
    if run.config.train.ema_decay:
        return carry.state._replace(params=carry.average)
    return carry.state
