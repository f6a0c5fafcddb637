"""Lanes against successive runs: model-steps per second of complete steps.

Run with ``python -m tests.benchmarks.bench_lanes``. Each program runs training steps
(forward, loss, backward, Adam) on batches of 64 that are already on the device: 1, 4
and 16 models at once, with one or several steps per dispatch. A model-step is one step
of one model, so successive solo runs have the rate of one solo run. Repeats are
interleaved, so that other load affects all programs. The results are medians.
"""

import json
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from disentangle_jax import config as config_lib
from disentangle_jax import models, training
from disentangle_jax.training import program as program_lib

REPEATS = 5
SECONDS = 0.4  # Minimal duration of a measurement.

_BETA_VAE = {"name": "beta_vae", "beta": 4.0}

# Fields of the model and of the method, and numbers of steps per dispatch.
MODELS = {
    "fc1200-small": ({"name": "fc1200", "width": 64}, _BETA_VAE, (1, 20)),
    "conv64": ({"name": "conv64"}, _BETA_VAE, (1, 4)),
    "sae-12-narrow": (
        {"name": "sae-12", "channels": 16, "latent_dim": 12},
        {"name": "ae"},
        (1,),
    ),
}
LANES = (1, 4, 16)


def dispatches(model: dict, method: dict, lanes: int, steps: int) -> Callable[[], None]:
    """Returns a function that runs one dispatch and waits for it."""
    config = config_lib.study()
    config.model.update(model)
    config.method = method
    config.lanes.seeds = lanes
    config.train.update(steps_per_dispatch=steps, num_steps=steps)
    config.train.update(log_every=steps, checkpoint_every=steps)
    run = training.prepare(config, "runs/bench_lanes")  # Writes nothing.
    program = program_lib.build(run)
    rng = np.random.default_rng(0)
    inputs = {
        "batches": {
            name: jax.device_put(rng.integers(0, 256, (steps, *s.shape), s.dtype))
            for name, s in run.batch_shapes().items()
        },
        "constants": program.constants,
        "step": np.int32(0),
    }
    options = models.compiler_options()
    step = jax.jit(program.steps, donate_argnums=0, compiler_options=options)
    carry = program_lib.first_carry(run)

    def dispatch() -> None:
        nonlocal carry
        carry, terms = step(carry, inputs)
        jax.block_until_ready((carry, terms))

    return dispatch


def run(names: tuple[str, ...] = tuple(MODELS), repeats: int = REPEATS) -> dict:
    """Returns model-steps per second and the gain over solo, by model and program."""
    training.keep_freed_memory()
    results = {}
    for name in names:
        model, method, together = MODELS[name]
        programs, counts, times = {}, {}, {}
        for lanes in LANES:
            for steps in together:
                programs[lanes, steps] = dispatches(model, method, lanes, steps)
        for key, dispatch in programs.items():
            dispatch()  # Compiles.
            counts[key] = max(1, round(SECONDS / _seconds(dispatch, 1)))
            times[key] = []
        for _ in range(repeats):
            for key, dispatch in programs.items():
                times[key].append(_seconds(dispatch, counts[key]))
        rates = {
            (lanes, steps): lanes * steps / statistics.median(times[lanes, steps])
            for lanes, steps in programs
        }
        results[name] = {
            f"{lanes} lanes, {steps} steps per dispatch": {
                "model_steps_per_second": round(rate, 2),
                "against_solo": round(rate / rates[1, 1], 3),
            }
            for (lanes, steps), rate in rates.items()
        }
    return results


def _seconds(dispatch: Callable[[], None], count: int) -> float:
    """Returns the seconds per dispatch, as the mean of `count`."""
    start = time.perf_counter()
    for _ in range(count):
        dispatch()
    return (time.perf_counter() - start) / count


if __name__ == "__main__":
    training.use_compilation_cache()
    print(json.dumps(run(), indent=2))
