"""States from checkpoints: for evaluation, and as the start of another run."""

from typing import Any

import jax

from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from disentangle_jax.training.program import Carry
from disentangle_jax.training.run import Run, prepare
from disentangle_jax.training.workdir import (
    has_checkpoint,
    named_place,
    read_config,
)
from disentangle_jax.types import State


def begin_from(run: Run, carry: Carry) -> Carry:
    """Returns `carry` with the state that the run ``train.start_from`` ended with.

    Parameters and the networks' statistics are taken over, and with
    ``train.start_optimizer`` the state of the optimizer, lane by lane. Steps count from
    0 again. Where the other run kept an average of its parameters, the average is
    taken.

    Args:
      run: the run that begins.
      carry: its first state, freshly initialised.
    """
    folder = named_place(run.config.train.start_from, run.workdir)
    other = prepare(read_config(folder), folder, devices=list(run.mesh.devices.flat))
    old = restore(other)
    print(f"beginning with the parameters of {folder} after {old.step.max()} steps")
    state = carry.state._replace(
        params=_placed(old.params, carry.state.params),
        model_state=_placed(old.model_state, carry.state.model_state),
    )
    if run.config.train.start_optimizer:
        state = state._replace(opt_state=_placed(old.opt_state, state.opt_state))
    average = carry.average
    if run.config.train.ema_decay:
        average = _placed(old.params, average)
    return carry._replace(state=state, average=average)


def _placed(old: Any, new: Any) -> Any:
    """Returns the leaves of `old` in the structure and the places of `new`.

    A frozen part adds containers, but no leaves, to the state of an optimizer.
    """
    leaves = [
        jax.device_put(leaf, place.sharding)
        for leaf, place in zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
    ]
    return jax.tree.unflatten(jax.tree.structure(new), leaves)


def restore(run: Run) -> State:
    """Returns the state ``[L, …]`` of the newest checkpoint of `run`, for evaluation.

    Builds no program and moves no data. Where an average of the parameters is kept, it
    takes their place.
    """
    carry = None
    if has_checkpoint(run.workdir):
        keep = run.config.train.keep_checkpoints
        with Checkpoints(run.workdir / "checkpoints", keep=keep) as checkpoints:
            carry = checkpoints.restore(program_lib.abstract_carry(run))
    if carry is None:
        raise ValueError(
            f"workdir: {run.workdir} holds no checkpoint yet; train it first."
        )
    return program_lib.evaluated_state(run, carry)
