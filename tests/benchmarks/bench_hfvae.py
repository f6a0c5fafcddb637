"""Cost of HFVAE's objective: its training step against that of a plain VAE.

Run with ``python -m tests.benchmarks hfvae``. It runs complete steps (forward, loss,
backward, Adam) on batches of 512 and 1,024 that are already on the device, set up as in
`disentangle_jax.main`: the MLPs of HFVAE at 28 px with 10 Normal variables and one
Concrete variable of 10 categories, and `conv64` at 64 px with 10 Normal variables and
one Concrete variable of 3. The VAE has the same networks without the Concrete variable.
Repeats are interleaved, so that other load affects both. The results are medians, and
the compiler's figure for the memory of intermediate results.
"""

import json
import os
import time

import jax
import numpy as np
import optax

from disentangle_jax import methods, models, training

REPEATS = 7
NETWORKS = {
    "hfvae-mlp": ((28, 28, 1), (10,)),
    "conv64": ((64, 64, 1), (3,)),
}
BATCHES = (512, 1024)
SIZE = 60_000


def make_step(network: str, method: str, batch: int):
    """Returns a function that runs one step and waits, and its megabytes."""
    shape, discrete = NETWORKS[network]
    model = models.create(
        network, shape, latent_dim=10, discrete=discrete if method == "hfvae" else ()
    )
    made = methods.create(method, model, optax.scale_by_adam(), dataset_size=SIZE)
    rng = np.random.default_rng(0)
    images = jax.device_put(rng.integers(0, 256, (batch, *shape), np.uint8))
    hyper = {**methods.hyperparameters(method), "learning_rate": 1e-3}
    state = jax.jit(made.init)(jax.random.key(0), {"image": images})

    def step(state, images, hyper):
        key = jax.random.fold_in(jax.random.key(1), state.step)
        return made.step(key, state, {"image": images}, hyper)

    compiled = (
        jax.jit(step, donate_argnums=0, compiler_options=models.compiler_options())
        .lower(state, images, hyper)
        .compile()
    )

    def run() -> None:
        nonlocal state
        state, terms = compiled(state, images, hyper)
        jax.block_until_ready((state, terms))

    return run, compiled.memory_analysis().temp_size_in_bytes / 1e6


def run(
    *,
    repeats: int = REPEATS,
    networks: tuple[str, ...] = tuple(NETWORKS),
    batches: tuple[int, ...] = BATCHES,
) -> dict:
    """Returns, by network and batch, milliseconds, megabytes and the ratio."""
    training.keep_freed_memory()
    results = {"cores": os.cpu_count(), "jax": jax.__version__}
    for network in networks:
        for batch in batches:
            steps, times, memory = {}, {"vae": [], "hfvae": []}, {}
            for method in times:
                steps[method], memory[method] = make_step(network, method, batch)
                steps[method]()
            for _ in range(repeats):
                for method, step in steps.items():
                    start = time.perf_counter()
                    step()
                    times[method].append(1e3 * (time.perf_counter() - start))
            ratios = np.array(times["hfvae"]) / np.array(times["vae"])
            results[f"{network}, batch {batch}"] = {
                **{f"{m} (ms)": float(np.median(t)) for m, t in times.items()},
                "hfvae / vae": float(np.median(ratios)),
                "quartiles": np.quantile(ratios, (0.25, 0.75)).tolist(),
                **{f"{m} (MB)": megabytes for m, megabytes in memory.items()},
            }
    return results


if __name__ == "__main__":
    print(json.dumps(run(), indent=2))
