"""The batches of a run, on the devices that need them."""

import collections
import itertools
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax.training.program import batch_seeds, batch_spec, own_batches
from disentangle_jax.training.run import Run

HostBatch = dict[str, np.ndarray]


def device_batches(run: Run, start: int) -> Iterator[dict[str, jax.Array]]:
    """Yields stacks of ``train.steps_per_dispatch`` batches, moved ahead of use.

    Every array has the shape ``[k, B, …]``, or ``[k, L, B, …]`` where lanes have
    batches of their own. With device-resident input there is nothing to move. With
    several processes, each reads what its own devices need.

    Args:
      run: the run.
      start: step of the first batch.
    """
    config = run.config.train
    dispatches = (config.num_steps - start) // config.steps_per_dispatch
    if config.input == "device":
        yield from itertools.repeat({}, dispatches)
        return
    stacks = _stacked(_host_batches(run, start), config.steps_per_dispatch)
    place = NamedSharding(run.mesh, batch_spec(run))
    lanes, rows = len(run.lanes), config.batch_size
    whole = (lanes, rows) if len(place.spec) == 3 else (rows,)

    def move(value: np.ndarray) -> jax.Array:
        shape = (value.shape[0], *whole, *value.shape[1 + len(whole) :])
        return jax.make_array_from_process_local_data(place, value, shape)

    moved = ({name: move(value) for name, value in stack.items()} for stack in stacks)
    ahead = collections.deque(itertools.islice(moved, config.prefetch))
    while ahead:
        yield ahead.popleft()
        ahead.extend(itertools.islice(moved, 1))


def _stacked(batches: Iterator[HostBatch], count: int) -> Iterator[HostBatch]:
    while group := list(itertools.islice(batches, count)):
        yield {name: np.stack([b[name] for b in group]) for name in group[0]}


def _host_batches(run: Run, start: int) -> Iterator[HostBatch]:
    seeds = batch_seeds(run)
    if not own_batches(run):
        return _one_stream(run, seeds[0], start)
    lanes, _ = _local_part(run)
    streams = [_one_stream(run, seeds[n], start) for n in lanes]
    return (
        {name: np.stack([b[name] for b in batches]) for name in batches[0]}
        for batches in zip(*streams)
    )


def _one_stream(run: Run, seed: int, start: int) -> Iterator[HostBatch]:
    """Yields the batches of one seed; batch ``t`` depends on the seed and t alone."""
    config = run.config.train
    _, rows = _local_part(run)
    return run.method.inputs.stream(
        run.train_set,
        run.config.data,
        batch_size=config.batch_size,
        seed=seed,
        start_step=start,
        num_steps=config.num_steps - start,
        prefetch=config.prefetch,
        process_index=rows.start // len(rows),
        process_count=config.batch_size // len(rows),
    )


def _local_part(run: Run) -> tuple[range, range]:
    """Returns the lanes, and the rows of a batch, that this process's devices need."""
    sizes = (len(run.lanes), run.config.train.batch_size)
    place = NamedSharding(run.mesh, P("lanes", "data"))
    indices = place.addressable_devices_indices_map(sizes).values()
    lanes, rows = (
        _block(
            [index[axis].indices(size)[:2] for index in indices if index is not None],
            size,
        )
        for axis, size in enumerate(sizes)
    )
    return lanes, rows


def _block(parts: list[tuple[int, int]], size: int) -> range:
    """Returns the range that `parts` make up, or everything if they are scattered."""
    start, stop = min(parts)[0], max(parts)[1]
    length = stop - start
    together = sum(b - a for a, b in set(parts)) == length
    if together and size % length == 0 and start % length == 0:
        return range(start, stop)
    return range(size)
