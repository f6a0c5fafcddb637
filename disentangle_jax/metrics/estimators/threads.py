"""Independent NumPy computations on all cores."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], costs: Sequence[float]
) -> list[Result]:
    """Returns ``[function(item) for item in items]``, computed on all cores.

    Threads suffice where the time goes into large arrays, since NumPy releases the
    lock. The costliest items go first, so that the cores end at about the same time.
    Matrix products take one core each meanwhile: their own threads would wait for each
    other most of the time.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    order = sorted(range(len(items)), key=lambda i: -costs[i])
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(cores) as pool:
        found = dict(zip(order, pool.map(lambda i: function(items[i]), order)))
    return [found[i] for i in range(len(items))]
