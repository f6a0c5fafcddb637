"""The training loop: thin, resumable at any step, and loud when it goes wrong."""

import os
import signal
import sys
import threading
import time
from types import FrameType

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax import models
from disentangle_jax.training import memory
from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from disentangle_jax.training.feed import device_batches
from disentangle_jax.training.logging import MetricsWriter, Progress, duration
from disentangle_jax.training.processes import (
    Agreement,
    is_first,
    on_every_device,
    wait_for_all,
)
from disentangle_jax.training.program import Carry, Program
from disentangle_jax.training.run import Run
from disentangle_jax.training.states import begin_from
from disentangle_jax.training.workdir import start_workdir

# Floating-point operations a second that a training step was seen to reach on a CPU
# core; only for the first guess of a run's length, which the progress line corrects.
_CPU_FLOPS_PER_CORE = 3e10


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


def train(run: Run) -> Carry:
    """Trains `run` to its last step, from its newest checkpoint where it has one.

    Step ``t`` uses the key ``fold_in(key, t)`` and the batch that the stream gives for
    ``t``, so a resumed run repeats what an uninterrupted one does.

    Raises:
      TooLarge: the models do not fit into memory; says what to set.
      Interrupted: after SIGTERM or Ctrl-C, with the state saved; in all processes
        where one of them was asked to stop.
      NonFiniteLoss: with the step and the last good checkpoint. A run of several
        lanes goes on as long as one is finite.
    """
    config = run.config.train
    memory.check(run)
    program = program_lib.build(run)
    start_workdir(run.config, run.workdir)
    checkpoints = Checkpoints(run.workdir / "checkpoints", keep=config.keep_checkpoints)
    with checkpoints, StopSignals() as stop:
        like = program_lib.abstract_carry(run)
        carry = checkpoints.restore(like)
        _announce(run, program, like, 0 if carry is None else int(carry.step))
        if carry is None:
            carry = _initial_carry(run, like)
        else:
            print(f"continuing from the checkpoint of step {int(carry.step)}")
        start = int(carry.step)
        if start >= config.num_steps:
            print(f"already trained for {start} steps")
            return carry
        with Rows(run, start) as rows:
            return _steps(run, program, carry, checkpoints, rows, stop)


def _initial_carry(run: Run, like: Carry) -> Carry:
    places = jax.tree.map(lambda s: s.sharding, like)
    carry = jax.jit(lambda: program_lib.initial(run), out_shardings=places)()
    if run.config.train.start_from:
        carry = begin_from(run, carry)
    return carry


class Rows:
    """The metric rows of a run: its own, or one file per lane.

    Where there are several processes the first one writes them.
    """

    def __init__(self, run: Run, start: int):
        folders = [model.workdir for model in run.models()]
        self._writers = []
        if is_first():
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            self._writers = [MetricsWriter(f, start_step=start) for f in folders]
        self._names = [lane.name for lane in run.lanes]
        self._dead: set[int] = set()

    def __enter__(self) -> "Rows":
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()

    def settle(self, waiting: list[tuple[int, dict]]) -> list[dict[str, float] | None]:
        """Fetches terms of dispatches; returns their means per lane, None if dead.

        Args:
          waiting: for each dispatch, the step it ended with and its terms.

        Raises:
          NonFiniteLoss: every lane is dead; tells the step at which the last died.
        """
        fetched = jax.device_get([terms for _, terms in waiting])
        terms = {
            name: np.concatenate([t[name] for t in fetched]).astype(np.float64)
            for name in fetched[0]
        }
        count = len(self._names)
        alive = terms.pop("alive").astype(bool)
        last = waiting[-1][0]
        first = last - len(alive) + 1
        for lane in range(count):
            if lane not in self._dead and not alive[:, lane].all():
                at = first + int(np.argmin(alive[:, lane]))
                self._dead.add(lane)
                if len(self._dead) == count:
                    raise NonFiniteLoss(str(at))
                print(
                    f"lane {self._names[lane]} became non-finite at step {at}; it is "
                    f"frozen, {count - len(self._dead)} lanes go on"
                )
        return [
            None
            if lane in self._dead
            else {name: values[:, lane].mean() for name, values in terms.items()}
            for lane in range(count)
        ]

    def write(
        self, step: int, means: list[dict[str, float] | None], rate: float
    ) -> None:
        """Writes one row for each living lane."""
        for writer, values in zip(self._writers, means):
            if values is not None:
                writer.write(step, {**values, "images_per_second": rate})


def _steps(
    run: Run,
    program: Program,
    carry: Carry,
    checkpoints: Checkpoints,
    rows: Rows,
    stop: StopSignals,
) -> Carry:
    config = run.config.train
    everywhere = NamedSharding(run.mesh, P())

    def dispatch(carry: Carry, inputs: dict, votes: jax.Array):
        return *program.steps(carry, inputs), votes.any()

    # Terms on every device, so that each process can read them.
    places = (program_lib.shardings(run, carry), everywhere, everywhere)
    compiled = jax.jit(
        dispatch,
        donate_argnums=0,
        out_shardings=places,
        compiler_options=models.compiler_options(),
    )
    constants = on_every_device(program.constants, run.mesh)
    agreement = Agreement(run.mesh)
    if jax.process_count() > 1:
        # All compile, then all begin: to connect, they must meet within half a minute.
        shapes = program_lib.abstract_inputs(run, program)
        compiled = compiled.lower(carry, shapes, agreement.votes(False)).compile()
        wait_for_all("compiled")
    step = start = int(carry.step)
    progress = Progress("training", config.num_steps, start=start)
    waiting: list[tuple[int, dict]] = []
    logged_at, logged_step = time.monotonic(), start

    def settle() -> list[dict[str, float] | None]:
        try:
            return rows.settle(waiting)
        except NonFiniteLoss as error:
            progress.interrupt()
            raise NonFiniteLoss(_non_finite_message(str(error), checkpoints)) from None
        finally:
            waiting.clear()

    for batches in device_batches(run, start):
        if run.method.refit_due(step):
            refit = jax.jit(program.refit, donate_argnums=0, out_shardings=places[0])
            carry = refit(carry, constants)
        inputs = {
            "step": np.int32(step),
            "batches": batches,
            "constants": constants,
        }
        votes = agreement.votes(stop.received is not None)
        carry, terms, stop_wished = compiled(carry, inputs, votes)
        step += config.steps_per_dispatch
        waiting.append((step, terms))
        if len(waiting) > 2:
            # Stay at most two dispatches ahead of the device, so that signals are
            # answered and the rate shown is the rate reached.
            jax.block_until_ready(waiting[-3][1]["loss"])
        stopping = agreement.reached(stop.received is not None, stop_wished)
        last = step == config.num_steps
        due = step % config.log_every == 0 or last
        if due or stopping:
            means = settle()
            now = time.monotonic()
            rate = (step - logged_step) * config.batch_size / (now - logged_at)
            rate *= len(run.lanes)
            logged_at, logged_step = now, step
            if due:
                rows.write(step, means, rate)
            progress.update(step, _note(means, rate))
        if step % config.checkpoint_every == 0 or last or stopping:
            if waiting:
                settle()
            checkpoints.save(step, carry)
        if stopping and not last:
            checkpoints.wait()
            progress.interrupt()
            raise Interrupted(stop.received or signal.SIGTERM, step)
    checkpoints.wait()
    return carry


def _note(means: list[dict[str, float] | None], rate: float) -> str:
    values = [mean["loss"] for mean in means if mean is not None]
    lanes = f"{len(values)} of {len(means)} lanes  " if len(means) > 1 else ""
    return f"{lanes}loss {sum(values) / len(values):.2f}  {rate:.0f} examples/s"


def _announce(run: Run, program: Program, like: Carry, start: int) -> None:
    """Says at once how long a CPU will take, where that is long."""
    config = run.config.train
    steps = config.num_steps - start
    if jax.default_backend() != "cpu" or steps <= 0:
        return
    inputs = program_lib.abstract_inputs(run, program)
    cost = jax.jit(program.steps).lower(like, inputs).cost_analysis()
    # A loop over steps or chunks of lanes counts its body once.
    flops = cost["flops"]
    if run.config.lanes.chunk:
        flops *= len(run.lanes) / run.config.lanes.chunk
    cores = os.process_cpu_count() if sys.version_info >= (3, 13) else os.cpu_count()
    seconds = flops * steps / (cores * _CPU_FLOPS_PER_CORE)
    if seconds > 3600:
        print(
            f"This will take about {duration(seconds)} on this CPU "
            f"({flops / 1e9:.0f} GFLOP a step, {cores} cores). The preset `:quick` of "
            "the config is sized for a CPU and takes minutes."
        )


def _non_finite_message(step: str, checkpoints: Checkpoints) -> str:
    checkpoints.wait()
    good = checkpoints.latest_step()
    kept = "no checkpoint was saved yet"
    if good is not None:
        kept = f"the last good checkpoint is of step {good}"
    return (
        f"training: the loss or a parameter became non-finite at step {step}; {kept}. "
        "Lower `optimizer.learning_rate`, or look at the data."
    )
