"""The training loop: it resumes at any step and stops at a non-finite loss."""

import contextlib
import functools
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, cast

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax import models
from disentangle_jax.training import memory, writers
from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from disentangle_jax.training.feed import device_batches
from disentangle_jax.training.logging import MetricsWriter, Progress, duration
from disentangle_jax.training.passes import lanes_at_once
from disentangle_jax.training.processes import (
    Agreement,
    fetched,
    is_first,
    on_every_device,
    wait_for_all,
)
from disentangle_jax.training.program import Carry, Program
from disentangle_jax.training.run import Run
from disentangle_jax.training.states import begin_from
from disentangle_jax.training.stored_runs import write_dataset
from disentangle_jax.training.workdir import check_workdir, start_workdir, writing
from disentangle_jax.types import State

# ``(state [L, …], lane) -> (numbers, uint8 images [H, W, C])`` of one lane, by name.
Watch = Callable[[State, int], tuple[dict[str, float], dict[str, np.ndarray]]]

# What `signal.signal` takes and returns.
_Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

# Floating-point operations per second that a training step reached on a CPU core; only
# for the first estimate of a run's length, which the progress line corrects.
_CPU_FLOPS_PER_CORE = 3e10


class Interrupted(BaseException):
    """A signal stopped the run after it saved its state.

    Not an ``Exception``, as code that handles all of those must not handle it.

    Args:
      signal_number: the signal.
      step: of the state that was saved; None where nothing was being trained.
    """

    def __init__(self, signal_number: int, step: int | None = None):
        at = "" if step is None else f" at step {step}"
        super().__init__(f"stopped{at} by {signal.strsignal(signal_number)}")
        self.exit_code = 128 + signal_number


class NonFiniteLoss(FloatingPointError):
    """The loss became NaN or infinite."""


class StopSignals:
    """Records SIGTERM, SIGHUP and Ctrl-C while a block runs, instead of ending.

    SIGHUP, of a closed terminal, stays ignored where it is (``nohup``). A second Ctrl-C
    is not caught: it ends the process at once. Python handles signals in the main
    thread only; in other threads nothing is recorded.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, _Handler] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._record)
        return self

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        signal.signal(number, signal.SIG_DFL)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Raises :class:`Interrupted` where SIGTERM or SIGHUP arrives during a block.

    Ctrl-C raises ``KeyboardInterrupt``. For everything but training, which
    :class:`StopSignals` stops after its step: files are written whole or not at all,
    and folders are released.
    """
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        received.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else Interrupted(number)

    def report(unraisable: "sys.UnraisableHookArgs") -> None:
        if not received or isinstance(unraisable.exc_value, Exception):
            hook(unraisable)
            return
        # Code that cannot raise, as __del__, was running: sends the signal again.
        signal.signal(received[-1], stop)
        threading.Timer(0.01, os.kill, (os.getpid(), received[-1])).start()

    before, hook = {}, sys.unraisablehook
    if threading.current_thread() is threading.main_thread():
        sys.unraisablehook = report
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, stop)
    try:
        yield
    except Exception as error:
        if not received:
            raise
        # Some libraries turn the interruption into an error of their own.
        raise Interrupted(received[-1]) from error
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def train(run: Run, *, watch: Watch | None = None) -> Carry:
    """Trains `run` to its last step, from its newest checkpoint where it has one.

    Step ``t`` uses the key ``fold_in(key, t)`` and the batch that the stream gives for
    ``t``, so a resumed run repeats what an uninterrupted one does.

    Args:
      run: the run.
      watch: ``evaluation.watch(run)``, what is logged every ``eval.every`` steps beside
        the terms of the loss. It does not change the model.

    Raises:
      ValueError: ``eval.every`` is set and `watch` is None.
      TooLarge: the models do not fit into memory; the message says which fields to
        change.
      Interrupted: after SIGTERM or Ctrl-C, with the state saved; in all processes if
        one of them received the signal.
      InUse: another process writes to the folder of the run.
      NonFiniteLoss: with the step and the last good checkpoint. A run of several
        lanes continues as long as one is finite.
    """
    config = run.config.train
    if run.config.eval.every and watch is None:
        raise ValueError(
            "train: `watch` must be evaluation.watch(run), or `eval.every` 0, got "
            f"{run.config.eval.every}."
        )
    memory.check_memory(run)
    program = program_lib.build(run)
    folder, keep = run.workdir / "checkpoints", config.keep_checkpoints
    with writing(run.workdir), StopSignals() as stop:
        check_workdir(run.config, run.workdir)  # Another process may have begun it.
        start_workdir(run.config, run.workdir)
        write_dataset(run)
        with Checkpoints(folder, keep=keep) as checkpoints:
            carry = _continued(run, program, checkpoints, stop, watch)
        if stop.received is not None:  # In the last step, or before the first.
            raise Interrupted(stop.received, int(carry.step))
    return carry


def _continued(
    run: Run,
    program: Program,
    checkpoints: Checkpoints,
    stop: StopSignals,
    watch: Watch | None,
) -> Carry:
    """Trains `run` from its newest checkpoint, or from its first step."""
    like = program_lib.abstract_carry(run)
    carry = checkpoints.restore(like)
    _announce(run, program, like, 0 if carry is None else int(carry.step))
    if carry is None:
        carry = _initial_carry(run, like)
    else:
        print(f"continuing from the checkpoint of step {int(carry.step)}")
    start = int(carry.step)
    if start >= run.config.train.num_steps:
        print(f"already trained for {start} steps")
        return carry
    rows = Rows(run, start, checkpoints.pending(start))
    try:
        return _steps(run, program, carry, checkpoints, rows, stop, watch)
    except NonFiniteLoss as error:
        message = _non_finite_message(str(error), checkpoints)
        raise NonFiniteLoss(message) from None
    finally:
        rows.close()


def _initial_carry(run: Run, like: Carry) -> Carry:
    places = jax.tree.map(lambda s: s.sharding, like)
    carry = program_lib.first_carry(run, places)
    if run.config.train.start_from:
        carry = begin_from(run, carry)
    return carry


class Rows:
    """The metric rows of a run: its own, or one file per lane.

    With several processes the first one writes them.

    Args:
      run: the run.
      start: the step that it starts or resumes at.
      pending: what :meth:`pending` returned at that step.
    """

    def __init__(self, run: Run, start: int, pending: dict):
        self._files: list[MetricsWriter] = []
        self._writers: list[list[writers.Writer]] = []
        for model in run.models() if is_first() else ():
            folder = model.workdir
            folder.mkdir(parents=True, exist_ok=True)
            self._files.append(MetricsWriter(folder, start_step=start))
            self._writers.append(writers.create(folder, model.config, start_step=start))
        self._names = [lane.name for lane in run.lanes]
        self._dead: set[int] = set()
        self._waiting: list[tuple[int, dict]] = []
        self._steps = pending.get("steps", 0)
        sums = pending.get("sums", {}).items()
        self._sums = {name: np.array(values) for name, values in sums}
        self._examples = run.config.train.batch_size * len(run.lanes)
        self._logged = time.monotonic(), start
        self.progress = Progress("training", run.config.train.num_steps, start=start)
        self.progress.update(start, "compiling …")
        self._compiling, self._note = True, ""

    def add(self, step: int, terms: dict) -> None:
        """Takes the terms of a dispatch that ends with `step`."""
        self._waiting.append((step, terms))
        if self._compiling:
            jax.block_until_ready(terms["loss"])
            self._compiling = False
            self.progress.measure_from(step)
            self.progress.update(step)
        elif len(self._waiting) > 2:
            # At most two dispatches ahead of the device, so that signals are handled
            # soon and the rate that is shown is the rate that is reached.
            done, earlier = self._waiting[-3]
            jax.block_until_ready(earlier["loss"])
            self.progress.update(done, self._note)

    def close(self) -> None:
        """Ends the writers."""
        for writer in itertools.chain(*self._writers):
            writer.close()

    def settle(self) -> None:
        """Fetches the terms that were added, and adds them to those of the next row.

        Raises:
          NonFiniteLoss: every lane is non-finite; the message is the step of the last.
        """
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        fetched = jax.device_get([terms for _, terms in waiting])
        terms = {
            name: np.concatenate([t[name] for t in fetched]).astype(np.float64)
            for name in fetched[0]
        }
        count = len(self._names)
        alive = terms.pop("alive").astype(bool)
        first = waiting[-1][0] - len(alive) + 1
        for lane in range(count):
            if lane not in self._dead and not alive[:, lane].all():
                at = first + int(np.argmin(alive[:, lane]))
                self._dead.add(lane)
                if len(self._dead) == count:
                    self.progress.interrupt()
                    raise NonFiniteLoss(str(at))
                print(
                    f"lane {self._names[lane]} became non-finite at step {at}; it is "
                    f"frozen, {count - len(self._dead)} lanes go on"
                )
        self._steps += len(alive)
        for name, values in terms.items():
            # One step after the other, so that a resumed run rounds in the same way.
            before = self._sums.get(name, np.zeros(count))
            self._sums[name] = np.cumsum([before, *values], axis=0)[-1]

    def pending(self) -> dict:
        """Returns the steps since the last row and the sums of their terms."""
        if not self._steps:
            return {}
        sums = {name: values.tolist() for name, values in self._sums.items()}
        return {"steps": self._steps, "sums": sums}

    def _means(self) -> list[dict[str, float] | None]:
        """Returns the mean terms of each lane; None for one that is non-finite."""
        means = {name: values / self._steps for name, values in self._sums.items()}
        return [
            None
            if lane in self._dead
            else {name: float(values[lane]) for name, values in means.items()}
            for lane in range(len(self._names))
        ]

    def log(
        self, step: int, *, write: bool, watch: Callable[[int], Any] | None = None
    ) -> None:
        """Shows the progress at `step` and, with `write`, writes a row per lane.

        `watch` returns further numbers, and images, of one lane.
        """
        self.settle()
        means = self._means()
        now, (before, last) = time.monotonic(), self._logged
        rate = (step - last) * self._examples / (now - before)
        self._note = _note(means, rate)
        if write:
            for lane, (file, values) in enumerate(zip(self._files, means)):
                if values is None:
                    continue
                numbers, images = watch(lane) if watch else ({}, {})
                values = {**values, "images_per_second": rate, **numbers}
                file.write(step, values)
                for writer in self._writers[lane]:
                    writer.write(step, values, images)
            self._steps, self._sums = 0, {}
        self._logged = (time.monotonic() if watch else now), step
        self.progress.update(step, self._note)


def _compiled(
    run: Run, program: Program, carry: Carry, agreement: Agreement
) -> tuple[Callable, Callable]:
    """Returns the compiled dispatch and the compiled refit of a run."""

    def dispatch(
        carry: Carry, inputs: dict, votes: jax.Array
    ) -> tuple[Carry, dict, jax.Array]:
        return *program.steps(carry, inputs), votes.any()

    # Terms on every device, so that each process can read them.
    everywhere = NamedSharding(run.mesh, P())
    places = (program_lib.shardings(run, carry), everywhere, everywhere)
    jitted = jax.jit(
        dispatch,
        donate_argnums=0,
        out_shardings=places,
        compiler_options=models.compiler_options(),
    )
    compiled: Callable = jitted
    if jax.process_count() > 1:
        # All compile before any begins: processes must connect within half a minute.
        shapes = program_lib.abstract_inputs(run, program)
        compiled = jitted.lower(carry, shapes, agreement.votes(False)).compile()
        wait_for_all("compiled")
    refit = jax.jit(program.refit, donate_argnums=0, out_shardings=places[0])
    return compiled, refit


def _steps(
    run: Run,
    program: Program,
    carry: Carry,
    checkpoints: Checkpoints,
    rows: Rows,
    stop: StopSignals,
    watch: Watch | None,
) -> Carry:
    config, every = run.config.train, run.config.eval.every
    agreement = Agreement(run.mesh)
    compiled, refit = _compiled(run, program, carry, agreement)
    constants = on_every_device(program.constants, run.mesh)
    step = int(carry.step)
    for batches in device_batches(run, step):
        if run.method.refit_due(step):
            carry = refit(carry, constants)
        inputs = {"step": np.int32(step), "batches": batches, "constants": constants}
        votes = agreement.votes(stop.received is not None)
        carry, terms, stop_agreed = compiled(carry, inputs, votes)
        step += config.steps_per_dispatch
        rows.add(step, terms)
        stopping = agreement.reached(stop.received is not None, stop_agreed)
        last = step == config.num_steps
        seen = None
        if watch is not None and every and (step % every == 0 or last):
            state = fetched(program_lib.evaluated_state(run, carry), run.mesh)
            seen = functools.partial(watch, state)
        due = step % config.log_every == 0 or last or seen is not None
        if due or stopping:
            rows.log(step, write=due, watch=seen)
        if step % config.checkpoint_every == 0 or last or stopping:
            rows.settle()  # Never saves a state that became non-finite.
            checkpoints.save(step, carry, pending=rows.pending())
        if stopping and not last:
            checkpoints.wait()
            rows.progress.interrupt()
            raise Interrupted(stop.received or signal.SIGTERM, step)
    checkpoints.wait()
    return carry


def _note(means: list[dict[str, float] | None], rate: float) -> str:
    values = [mean["loss"] for mean in means if mean is not None]
    lanes = f"{len(values)} of {len(means)} lanes  " if len(means) > 1 else ""
    return f"{lanes}loss {sum(values) / len(values):.2f}  {rate:.0f} examples/s"


def _announce(run: Run, program: Program, like: Carry, start: int) -> None:
    """Prints an estimate of the training time on a CPU, if it is long."""
    config = run.config.train
    steps = config.num_steps - start
    if jax.default_backend() != "cpu" or steps <= 0:
        return
    inputs = program_lib.abstract_inputs(run, program)
    lowered = jax.jit(program.steps).lower(like, inputs)
    cost = cast(dict[str, float], lowered.cost_analysis())
    # A loop over steps or chunks of lanes counts its body once.
    flops = cost["flops"]
    flops *= len(run.lanes) / lanes_at_once(run)
    if sys.version_info >= (3, 13):
        cores = os.process_cpu_count() or 1
    else:
        cores = os.cpu_count() or 1
    seconds = flops * steps / (cores * _CPU_FLOPS_PER_CORE)
    if seconds > 3600:
        print(
            f"This will take about {duration(seconds)} on this CPU "
            f"({flops / 1e9:.0f} GFLOP per step, {cores} cores). The preset `:quick` "
            "of the config is sized for a CPU and takes minutes."
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
