"""The compiled program of a run: its first state, and several steps at a time."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax import data
from disentangle_jax.training import schedules as schedules_lib
from disentangle_jax.training.run import Run
from disentangle_jax.types import State


class Carry(NamedTuple):
    """What goes from dispatch to dispatch, and into checkpoints (a pytree).

    Attributes:
      step: ``[]`` int32, steps done.
      state: state of the method; with a leading lane axis where the run has lanes.
      average: moving average of the parameters; empty where none is kept.
      alive: ``[]`` or ``[L]`` bool. A lane whose loss or parameters become non-finite
        keeps its last good state from then on.
    """

    step: jax.Array
    state: State
    average: Any
    alive: jax.Array


class Program(NamedTuple):
    """Pure functions of one run, not yet compiled.

    Attributes:
      init: ``() -> Carry``.
      steps: ``(carry, inputs) -> (carry, terms)``; `terms` have a leading step axis
        ``[k]``, then the lane axis where there are lanes.
      constants: arrays that ``inputs["constants"]`` must hold: keys, hyperparameters,
        the device-resident images and the labelled ones.
      fit: ``(carry, constants) -> carry``, what is done before the few steps for which
        :func:`fits_before` says so; None where nothing ever is.
    """

    init: Callable[[], Carry]
    steps: Callable[[Carry, dict], tuple[Carry, dict]]
    constants: dict
    fit: Callable[[Carry, dict], Carry] | None


def build(run: Run) -> Program:
    """Returns the program of `run`."""
    train = run.config.train
    lanes, laned, at_once = run.lanes, run.laned, lanes_at_once(run)
    schedules = {
        name: schedules_lib.create(name, train.schedules[name])
        for name in train.schedules
    }
    roots = jax.vmap(lambda seed: jax.random.split(jax.random.key(seed)))(
        jnp.array([lane.seed for lane in lanes], jnp.uint32)
    )
    hyper = {
        name: jnp.array([lane.hyper[name] for lane in lanes], jnp.float32)
        for name in lanes[0].hyper
    }
    init_keys, constants = roots[:, 0], {"keys": roots[:, 1], "hyper": hyper}
    if not laned:
        init_keys, constants = jax.tree.map(lambda a: a[0], (init_keys, constants))
    draw = None
    if train.input == "device":
        draw, constants["images"] = data.device_sampler(run.train_set)

    regions = run.method.regions
    for name, shapes in run.labelled_example().items():
        labelled = data.labelled_images(
            run.train_set, shapes["image"].shape[1], seed=run.config.data.seed
        )
        constants[name] = jax.tree.map(jnp.asarray, labelled)

    def first(key: jax.Array) -> tuple[State, Any]:
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), run.example())
        state = run.method.init(key, zeros)
        average = jax.tree.map(jnp.copy, state.params) if train.ema_decay else {}
        return state, average

    def init() -> Carry:
        state, average = (jax.vmap(first) if laned else first)(init_keys)
        alive = jnp.ones(len(lanes) if laned else (), bool)
        return Carry(jnp.zeros((), jnp.int32), state, average, alive)

    def one_model(common, step, key, hyper, batch, state, average, alive):
        batch = {**batch, **common}
        hyper = {
            name: value * schedules[name](step) if name in schedules else value
            for name, value in hyper.items()
        }
        new, terms = run.method.step(jax.random.fold_in(key, step), state, batch, hyper)
        finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(new.params)]
        alive = alive & jnp.isfinite(terms["loss"]) & jnp.stack(finite).all()
        new = jax.tree.map(lambda n, o: jnp.where(alive, n, o), new, state)
        average = jax.tree.map(
            lambda a, p: train.ema_decay * a + (1 - train.ema_decay) * p,
            average,
            new.params if train.ema_decay else {},
        )
        return new, average, alive, terms

    def all_models(step, constants, batch, carry):
        args = (constants["keys"], constants["hyper"])
        rest = (carry.state, carry.average, carry.alive)
        common = {name: constants[name] for name in run.labelled_example()}
        one = functools.partial(one_model, common)
        if not laned:
            return one(step, *args, batch, *rest)
        shared = run.config.lanes.same_batches
        axes = (None, 0, 0, None if shared else 0, 0, 0, 0)
        many = jax.vmap(one, in_axes=axes)
        if at_once == len(lanes):
            return many(step, *args, batch, *rest)
        # Some lanes after the other, so that only their activations live. Those that
        # are computed at once are far apart, one on each of the devices that share
        # the lanes. The state is updated in place, not stacked from copies.
        own = jax.tree.map(folded, args if shared else (*args, batch))

        def some(models, number):
            key, hyper, *rows = taken(own, number)
            new = many(step, key, hyper, *(rows or [batch]), *taken(models, number))
            models = jax.tree.map(
                lambda a, n: jax.lax.dynamic_update_index_in_dim(a, n, number, 1),
                models,
                new[:3],
            )
            return models, new[3]

        passes = jnp.arange(len(lanes) // at_once)
        models, terms = jax.lax.scan(some, jax.tree.map(folded, rest), passes)
        terms = jax.tree.map(lambda a: a.swapaxes(0, 1), terms)
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), (*models, terms))

    def folded(array):
        """Lanes ``[L, …]`` as ``[at once, passes, …]``."""
        return array.reshape(at_once, -1, *array.shape[1:])

    def taken(tree, number):
        """The lanes of one pass."""
        return jax.tree.map(
            lambda a: jax.lax.dynamic_index_in_dim(a, number, 1, keepdims=False), tree
        )

    def one_step(carry: Carry, batch, constants) -> tuple[Carry, dict]:
        if draw is not None:
            key = jax.random.fold_in(jax.random.key(run.config.data.seed), carry.step)
            image = draw(key, train.batch_size, constants["images"])["image"]
            # Each device draws its rows only.
            rows = NamedSharding(run.mesh, P("data"))
            batch = {"image": jax.lax.with_sharding_constraint(image, rows)}
        state, average, alive, terms = all_models(carry.step, constants, batch, carry)
        carry = Carry(carry.step + 1, state, average, alive)
        return carry, {**terms, "alive": alive}

    def steps(carry: Carry, inputs: dict) -> tuple[Carry, dict]:
        batches, constants = inputs["batches"], inputs["constants"]
        if train.steps_per_dispatch == 1:
            # Without a loop: XLA on CPU runs the body of a loop less in parallel.
            batch = jax.tree.map(lambda a: a[0], batches)
            carry, terms = one_step(carry, batch, constants)
            return carry, jax.tree.map(lambda a: a[None], terms)
        return jax.lax.scan(
            lambda carry, batch: one_step(carry, batch, constants),
            carry,
            batches,
            length=train.steps_per_dispatch,
        )

    def fit(carry: Carry, constants: dict) -> Carry:
        def one(state: State, hyper: dict) -> State:
            return regions.fit(state, constants["labelled"], hyper)

        state = (jax.vmap(one) if laned else one)(carry.state, constants["hyper"])
        return carry._replace(state=state)

    return Program(init, steps, constants, None if regions is None else fit)


def fits_before(run: Run, step: int) -> bool:
    """Returns whether the regions of the method are fitted before this step."""
    if run.method.regions is None:
        return False
    first, every = run.method.regions.fit_steps
    again = every > 0 and step > first and (step - first) % every == 0
    return step == first or again


def lanes_at_once(run: Run) -> int:
    """Returns how many lanes are computed at once, over all devices.

    Unless the config says: all of them, but on TPUs one on each chip. There the
    activations of one small model stay in on-chip memory, those of many would not, and
    a loop over lanes moves less than it costs.
    """
    if run.config.lanes.chunk:
        return run.config.lanes.chunk
    tpu = run.mesh.devices.flat[0].platform == "tpu"
    return run.mesh.shape["lanes"] if tpu else len(run.lanes)


def shardings(run: Run, carry: Carry) -> Carry:
    """Returns where each leaf of the carry lives: lanes over the mesh, else copies."""
    lanes = NamedSharding(run.mesh, P("lanes") if run.laned else P())
    everywhere = NamedSharding(run.mesh, P())
    placed = jax.tree.map(lambda _: lanes, carry)
    return placed._replace(step=everywhere)


def batch_spec(run: Run) -> P:
    """Returns how the batches ``[k, B, …]`` or ``[k, L, B, …]`` are divided."""
    if run.laned and not run.config.lanes.same_batches:
        return P(None, "lanes", "data")
    return P(None, "data")


def abstract_carry(run: Run, program: Program) -> Carry:
    """Returns shapes, dtypes and shardings of the carry; allocates nothing."""
    shapes = jax.eval_shape(program.init)
    return jax.tree.map(
        lambda s, place: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=place),
        shapes,
        shardings(run, shapes),
    )


def abstract_inputs(run: Run, program: Program) -> dict:
    """Returns shapes, dtypes and shardings of what `program.steps` takes per call."""
    train = run.config.train
    own = run.laned and not run.config.lanes.same_batches
    batches = {}
    if train.input == "stream":
        shape = (train.steps_per_dispatch, *([len(run.lanes)] if own else []))
        place = NamedSharding(run.mesh, batch_spec(run))
        batches = jax.tree.map(
            lambda s: jax.ShapeDtypeStruct(shape + s.shape, s.dtype, sharding=place),
            run.example(),
        )
    everywhere = NamedSharding(run.mesh, P())
    constants = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=everywhere),
        program.constants,
    )
    return {"batches": batches, "constants": constants}


def evaluated_state(run: Run, carry: Carry) -> State:
    """Returns the state that is scored: with averaged parameters where kept."""
    if run.config.train.ema_decay:
        return carry.state._replace(params=carry.average)
    return carry.state
