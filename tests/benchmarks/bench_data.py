"""Images per second of every stream, and how a stream slows a training step.

    python -m tests.benchmarks.bench_data

Datasets read from files are measured if the test data are present (``../shared/data``
or DISENTANGLE_TEST_DATA).
"""

import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax

from disentangle_jax import data, losses, models, sampling

BATCH = 64
SECONDS = 2.0


def _rate(step: Callable[[], object], images: int) -> float:
    """Returns the images per second of `step`, which handles `images` of them."""
    step()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        step()
        count += 1
    return count * images / (time.perf_counter() - start)


def _rate_per_core(step: Callable[[], object], images: int) -> float:
    """Returns the images per second of processor time, over all threads."""
    for _ in range(4):  # fills the prefetched batches
        step()
    count, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        step()
        count += 1
    return count * images / (time.process_time() - start)


def _datasets() -> Iterator[data.Dataset]:
    for name in ("rendered_shapes3d", "rendered_dsprites", "xysquares"):
        yield data.load(name)
    default = pathlib.Path(__file__).parents[3] / "shared" / "data"
    folder = pathlib.Path(os.environ.get("DISENTANGLE_TEST_DATA", default))
    if folder.exists():
        yield data.load("dsprites", data_dir=folder / "dsprites")
        yield data.load("noisy_dsprites", data_dir=folder / "dsprites")
        yield data.load("mnist", data_dir=folder / "mnist")
        yield data.load("celeba", data_dir=folder / "celeba_1k")
        yield data.load("image_folder", data_dir=folder / "celeba_1k", size=64)
    # Images of MPI3D's shape, memory-mapped as its file is.
    images = np.random.default_rng(0).integers(0, 256, (20_000, 64, 64, 3), np.uint8)
    with tempfile.TemporaryDirectory() as place:
        np.savez(pathlib.Path(place) / "images.npz", images=images)
        yield data.load("npz", data_dir=place)


def streams() -> dict[str, dict[str, float]]:
    """Images per second by dataset: stream, direct call, gather from memory.

    "Per core" counts processor time, which other programs disturb less.
    """
    results = {}
    rng = np.random.default_rng(0)
    for dataset in _datasets():
        rows = rng.choice(dataset.indices, min(4096, len(dataset.indices)), False)
        stream = data.pipeline(dataset, batch_size=BATCH, seed=0)
        array = dataset.images(rows)
        places = rng.integers(0, len(array), BATCH)
        results[dataset.name] = {
            "stream": _rate(lambda s=stream: next(s), BATCH),
            "stream, per core": _rate_per_core(lambda s=stream: next(s), BATCH),
            "images()": _rate(lambda d=dataset, r=rows: d.images(r[:BATCH]), BATCH),
            "numpy gather": _rate(lambda a=array, p=places: a[p].copy(), BATCH),
        }
    return results


def _conv64_step(shape: tuple[int, ...]):
    """Returns a beta-VAE step of the study's network on uint8 images."""
    module = models.create("conv64", shape)
    optimizer = optax.adam(1e-4)
    params = module.init(jax.random.key(0), jnp.zeros((1, *shape)))
    state = params, optimizer.init(params)

    def loss(params: dict, key: jax.Array, image: jax.Array) -> jax.Array:
        x = image.astype(jnp.float32) / 255
        mean, log_var, _ = module.apply(params, x, method="encode")
        z = sampling.reparameterize(key, mean, log_var)
        logits = module.apply(params, z, method="decode")
        return losses.beta_vae(x, logits, z, mean, log_var, beta=4.0)[0]

    @jax.jit
    def step(key: jax.Array, state: tuple, image: jax.Array) -> tuple:
        params, moments = state
        gradient = jax.grad(loss)(params, key, image)
        updates, moments = optimizer.update(gradient, moments)
        return optax.apply_updates(params, updates), moments

    return step, state


def steps() -> dict[str, float]:
    """Milliseconds of a conv64 step: fixed, streamed and device-sampled batches."""
    dataset = data.load("rendered_shapes3d")
    step, state = _conv64_step(dataset.image_shape)
    key = jax.random.key(1)
    stream = data.pipeline(dataset, batch_size=BATCH, seed=0)
    fixed = jax.device_put(next(stream)["image"])
    draw, arrays = data.device_sampler(dataset)

    @jax.jit
    def drawn_step(key: jax.Array, state: tuple, arrays: dict) -> tuple:
        return step(key, state, draw(key, BATCH, arrays)["image"])

    def milliseconds(run: Callable[[], object]) -> float:
        return 1000 / _rate(lambda: jax.block_until_ready(run()), 1)

    return {
        "fixed batch": milliseconds(lambda: step(key, state, fixed)),
        "streamed": milliseconds(lambda: step(key, state, next(stream)["image"])),
        "drawn on the device": milliseconds(lambda: drawn_step(key, state, arrays)),
    }


def run() -> dict:
    """Runs all measurements; returns ``{"streams": …, "conv64 step, ms": …}``."""
    return {"streams": streams(), "conv64 step, ms": steps()}


if __name__ == "__main__":
    results = run()
    print("| images/s, batch 64 | stream | per core | images() | numpy gather |")
    print("|---|--:|--:|--:|--:|")
    for name, row in results["streams"].items():
        print(f"| {name} | {' | '.join(f'{value:,.0f}' for value in row.values())} |")
    print("\n| conv64 step, batch 64 | ms |\n|---|--:|")
    for name, value in results["conv64 step, ms"].items():
        print(f"| {name} | {value:.1f} |")
