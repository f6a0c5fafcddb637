"""The training loop: thin, resumable at any step, and loud when it goes wrong."""

import collections
import itertools
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

import jax
import jax.numpy as jnp

from disentangle_jax import data
from disentangle_jax.training import run as run_lib
from disentangle_jax.training.checkpoint import Checkpoints
from disentangle_jax.training.logging import MetricsWriter, Progress, duration
from disentangle_jax.training.run import Run
from disentangle_jax.types import State

# Floating-point operations a second that a training step was seen to reach on a CPU
# core; only for the first guess of a run's length, which the progress line corrects.
_CPU_FLOPS_PER_CORE = 2e10


class Interrupted(Exception):
    """A signal stopped the run after it saved its state."""

    def __init__(self, signal_number: int, step: int):
        super().__init__(f"stopped at step {step} by {signal.strsignal(signal_number)}")
        self.exit_code = 128 + signal_number


class NonFiniteLoss(FloatingPointError):
    """The loss became NaN or infinite."""


class StopSignals:
    """Notes SIGTERM and Ctrl-C while a block runs, instead of dying at once.

    A second Ctrl-C is not caught: it ends the process the hard way. Python handles
    signals in the main thread only; elsewhere nothing is noted.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        signal.signal(number, signal.SIG_DFL)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def train(run: Run) -> State:
    """Trains `run` to its last step, from its newest checkpoint where it has one.

    Step ``t`` uses the key ``fold_in(step_key, t)`` and the batch that the stream
    gives for ``t``, so a resumed run repeats what an uninterrupted one does.

    Raises:
      Interrupted: after SIGTERM or Ctrl-C, with the state saved.
      NonFiniteLoss: with the step and the last good checkpoint.
    """
    config = run.config.train
    run_lib.start_workdir(run)
    checkpoints = Checkpoints(run.workdir / "checkpoints", keep=config.keep_checkpoints)
    with checkpoints, StopSignals() as stop:
        state = checkpoints.restore(run.abstract_state())
        _announce(run, 0 if state is None else int(state.step))
        if state is None:
            state = _initial_state(run)
        else:
            print(f"continuing from the checkpoint of step {int(state.step)}")
        start = int(state.step)
        if start >= config.num_steps:
            print(f"already trained for {start} steps")
            return state
        writer = MetricsWriter(run.workdir, start_step=start)
        try:
            return _steps(run, state, checkpoints, writer, stop)
        finally:
            writer.close()


def _initial_state(run: Run) -> State:
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), run.example())
    init = jax.jit(run.method.init, out_shardings=run.replicated)
    return init(run.keys()[0], zeros)


def _step_function(run: Run):
    def step(key, state, batch, hyper):
        return run.method.step(jax.random.fold_in(key, state.step), state, batch, hyper)

    return jax.jit(step, donate_argnums=1)


def _steps(
    run: Run,
    state: State,
    checkpoints: Checkpoints,
    writer: MetricsWriter,
    stop: StopSignals,
) -> State:
    config = run.config.train
    step_function, step_key = _step_function(run), run.keys()[1]
    step = start = int(state.step)
    progress = Progress("training", config.num_steps, start=start)
    waiting: list[tuple[int, dict]] = []
    logged_at, logged_step = time.monotonic(), start

    def settle() -> dict[str, float]:
        """Fetches the waiting terms, and returns their means."""
        fetched = [(at, jax.device_get(terms)) for at, terms in waiting]
        waiting.clear()
        for at, terms in fetched:
            if not math.isfinite(terms["loss"]):
                progress.interrupt()
                raise NonFiniteLoss(_non_finite_message("loss", at, checkpoints))
        return {
            name: float(sum(terms[name] for _, terms in fetched) / len(fetched))
            for name in fetched[0][1]
        }

    for batch in _device_batches(run, start):
        state, terms = step_function(step_key, state, batch, run.hyper)
        step += 1
        waiting.append((step, terms))
        if len(waiting) > 2:
            # Stay at most two steps ahead of the device, so that signals are
            # answered and the rate shown is the rate reached.
            jax.block_until_ready(waiting[-3][1]["loss"])
        stopping = stop.received is not None
        last = step == config.num_steps
        if step % config.log_every == 0 or last or stopping:
            means = settle()
            now = time.monotonic()
            rate = (step - logged_step) * config.batch_size / (now - logged_at)
            logged_at, logged_step = now, step
            if not stopping:
                writer.write(step, {**means, "images_per_second": rate})
            progress.update(step, f"loss {means['loss']:.2f}  {rate:.0f} images/s")
        if step % config.checkpoint_every == 0 or last or stopping:
            if waiting:
                settle()
            if not _all_finite(state.params):
                progress.interrupt()
                raise NonFiniteLoss(
                    _non_finite_message("parameters", step, checkpoints)
                )
            checkpoints.save(state)
        if stopping and not last:
            checkpoints.wait()
            progress.interrupt()
            raise Interrupted(stop.received, step)
    checkpoints.wait()
    return state


def _device_batches(run: Run, start: int) -> Iterator[dict[str, jax.Array]]:
    """Yields the batches from step `start` on, moved to the devices ahead of use."""
    config = run.config.train
    stream = data.pipeline(
        run.train_set,
        batch_size=config.batch_size,
        seed=config.seed,
        start_step=start,
        num_steps=config.num_steps - start,
        prefetch=config.prefetch,
    )
    moved = (
        {"image": jax.device_put(batch["image"], run.over_batch)} for batch in stream
    )
    ahead = collections.deque(itertools.islice(moved, config.prefetch))
    while ahead:
        yield ahead.popleft()
        ahead.extend(itertools.islice(moved, 1))


def _announce(run: Run, start: int) -> None:
    """Says at once how long a CPU will take, where that is long."""
    steps = run.config.train.num_steps - start
    if jax.default_backend() != "cpu" or steps <= 0:
        return
    lowered = _step_function(run).lower(
        run.keys()[1], run.abstract_state(), run.example(), run.hyper
    )
    flops = lowered.cost_analysis()["flops"]
    cores = os.process_cpu_count() if sys.version_info >= (3, 13) else os.cpu_count()
    seconds = flops * steps / (cores * _CPU_FLOPS_PER_CORE)
    if seconds > 3600:
        print(
            f"This will take about {duration(seconds)} on this CPU "
            f"({flops / 1e9:.0f} GFLOP a step, {cores} cores). The preset `:quick` of "
            "the config is sized for a CPU and takes minutes."
        )


@jax.jit
def _all_finite(tree) -> jax.Array:
    return jnp.array([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def _non_finite_message(what: str, step: int, checkpoints: Checkpoints) -> str:
    checkpoints.wait()
    good = checkpoints.latest_step()
    kept = "no checkpoint was saved yet"
    if good is not None:
        kept = f"the last good checkpoint is of step {good}"
    return (
        f"training: the {what} became non-finite at step {step}; {kept}. Lower "
        "`optimizer.learning_rate`, or look at the data."
    )
