"""Miniatures: our trainer against a plain PyTorch loop, in models per hour.

Three miniatures: a fully connected network on XYSquares at 16 px, conv64 of half width
at 32 px and SAE-12 of 16 channels at 32 px. Ours is the trainer's own program, which
draws its batches itself and takes ten steps per call, for one model and for 15 seeds as
lanes. PyTorch trains one model after the other on images that lie in memory, with fused
Adam: eager, eager with channels last, and compiled. Every variant is a process on the
same core, with one thread; repeats are interleaved. Times are medians of *processor*
time, which other work on the machine disturbs less than wall-clock time; both are
printed. Models per hour count imports and compilation, once for all seeds; 15 seeds of
a variant without lanes are trained one after the other.
"""

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from disentangle_jax import config as config_lib
from disentangle_jax import data, models, training
from disentangle_jax.models.backbone import POOLED, UPSAMPLED
from disentangle_jax.training import program as program_lib

SEEDS = 15
REPEATS = 5
SECONDS = 0.5  # Least processor time of a measurement.
STORED_IMAGES = 4096  # Images that PyTorch draws from.
VARIANTS = (
    "ours",
    f"ours, {SEEDS} lanes",
    "pytorch",
    "pytorch channels_last",
    "pytorch compiled",
)


def miniature(name: str):
    """Returns the config of a miniature."""
    config = config_lib.default() if name == "sae-12" else config_lib.study()
    if name == "fc":
        config.data.name = "xysquares"
        config = config_lib.mini(config, size=16, num_steps=6000)
        config.model = {"name": "fc1200", "width": 256, "latent_dim": 9}
        config.model.decoder_nonlinearity = "relu"
        config.method = {"name": "beta_vae", "beta": 0.001}
        config.train.batch_size = 128
    if name == "conv64":
        config = config_lib.mini(config, size=32, num_steps=15_000)
        config.model.channel_scale = 0.5
        config.method = {"name": "beta_vae", "beta": 2.0}
    if name == "sae-12":
        config = config_lib.mini(config, size=32, num_steps=8000)
        config.model.update(latent_dim=12, channels=16, norm_groups=2)
        config.train.batch_size = 32
    config.optimizer.learning_rate = 1e-3
    return config


def our_steps(name: str, lanes: int) -> tuple[Callable[[], None], int]:
    """Returns a function that runs a call of our trainer, and its model steps."""
    training.keep_freed_memory()
    config = miniature(name)
    config.lanes.seeds = lanes
    run = training.prepare(config, "runs/bench_miniatures")  # Writes nothing.
    program = program_lib.build(run)
    options = models.compiler_options()
    compiled = jax.jit(program.steps, donate_argnums=0, compiler_options=options)
    carry = program_lib.first_carry(run)
    number, together = 0, config.train.steps_per_dispatch

    def dispatch() -> None:
        nonlocal carry, number
        inputs = {"batches": {}, "constants": program.constants}
        carry, terms = compiled(carry, {**inputs, "step": np.int32(number)})
        number += together
        jax.block_until_ready(terms)

    return dispatch, lanes * together


def torch_steps(name: str, variant: str) -> tuple[Callable[[], None], int]:
    """Returns a function that runs a step of the PyTorch loop, and 1."""
    import torch

    from tests.benchmarks import torch_networks

    torch.set_num_threads(1)
    config = miniature(name)
    options = dict(config.data.options)
    dataset = data.load(config.data.name, **options)
    chosen = np.random.default_rng(0).choice(dataset.indices, STORED_IMAGES)
    stored = torch.from_numpy(np.array(dataset.images(chosen))).permute(0, 3, 1, 2)
    network = {
        "fc": torch_networks.fully_connected,
        "conv64": torch_networks.half_conv64,
        "sae-12": lambda: torch_networks.NarrowSAE(
            POOLED[12][:4],
            UPSAMPLED[12][-4:],
        ),
    }[name]()
    settings = dict(config.model)
    wanted = models.parameter_count(
        settings.pop("name"), dataset.image_shape, **settings
    )
    count = sum(p.numel() for p in network.parameters())
    if count != wanted:
        raise ValueError(f"{name}: PyTorch has {count} parameters, ours has {wanted}.")
    layout = torch.contiguous_format
    if "channels_last" in variant:
        layout = torch.channels_last
        network = network.to(memory_format=layout)
    stored = stored.contiguous(memory_format=layout)
    optimizer = torch.optim.Adam(
        network.parameters(), config.optimizer.learning_rate, fused=True
    )
    loss_of = torch.compile(network) if "compiled" in variant else network

    def step() -> None:
        rows = torch.randint(0, len(stored), (config.train.batch_size,))
        x = stored[rows].float() / 255
        optimizer.zero_grad(set_to_none=True)
        loss_of(x).backward()
        optimizer.step()

    return step, 1


def _serve(connection, name: str, variant: str) -> None:
    """Answers each message with processor and wall seconds of one model step."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lanes = SEEDS if "lanes" in variant else 1
    ours = variant.startswith("ours")
    # JAX is imported by now: part of our start, but not of PyTorch's.
    begun = 0.0 if ours else time.process_time()
    try:
        step, steps = our_steps(name, lanes) if ours else torch_steps(name, variant)
        step()
    except Exception as error:  # No PyTorch, or no compiler for it.
        connection.send(repr(error))
        return
    started = time.process_time() - begun
    step()
    begun = time.process_time()
    step()
    count = max(1, round(SECONDS / (time.process_time() - begun)))
    connection.send(started)
    while connection.recv():
        processor, wall = time.process_time(), time.perf_counter()
        for _ in range(count):
            step()
        processor = time.process_time() - processor
        wall = time.perf_counter() - wall
        connection.send((processor / count / steps, wall / count / steps))


def measure(name: str, variants: tuple[str, ...], repeats: int) -> dict:
    """Returns seconds to start, and of a model step, of each variant that runs."""
    context = multiprocessing.get_context("spawn")
    servers, results = {}, {}
    for variant in variants:
        here, there = context.Pipe()
        arguments = (there, name, variant)
        context.Process(target=_serve, args=arguments, daemon=True).start()
        started = here.recv()
        if isinstance(started, str):
            results[variant] = started
            continue
        servers[variant], results[variant] = here, (started, [])
    for _ in range(repeats):
        for variant, server in servers.items():
            server.send(True)
            results[variant][1].append(server.recv())
    for server in servers.values():
        server.send(False)
    return results


def run(
    *,
    names: tuple[str, ...] = ("fc", "conv64", "sae-12"),
    variants: tuple[str, ...] = VARIANTS,
    repeats: int = REPEATS,
) -> dict:
    """Returns times and models per hour of each variant, and ratios to PyTorch."""
    results: dict = {"cores used": 1, "jax": jax.__version__}
    for name in names:
        table, steps = {}, miniature(name).train.num_steps
        for variant, measured in measure(name, variants, repeats).items():
            if isinstance(measured, str):
                table[variant] = measured
                continue
            started, times = measured
            processor, wall = (statistics.median(t) for t in zip(*times))
            table[variant] = {
                "processor ms per model step": round(1e3 * processor, 3),
                "wall ms per model step": round(1e3 * wall, 3),
                "processor s to start": round(started, 1),
            } | {
                f"models per hour, {n} seeds": round(
                    n * 3600 / (started + n * steps * processor), 2
                )
                for n in (1, SEEDS)
            }
        results[name] = table | _ratios(table)
    return results


def _ratios(table: dict) -> dict[str, float]:
    """Returns models per hour of ours over those of the better eager PyTorch."""
    eager = [
        table[variant]
        for variant in ("pytorch", "pytorch channels_last")
        if isinstance(table.get(variant), dict)
    ]
    ratios = {}
    for variant, seeds in ((VARIANTS[0], 1), (VARIANTS[1], SEEDS)):
        field = f"models per hour, {seeds} seeds"
        if eager and isinstance(table.get(variant), dict):
            best = max(row[field] for row in eager)
            ratios[f"ours / eager, {seeds} seeds"] = table[variant][field] / best
    return ratios
