"""TPU chips and slices that programs are compiled for without a TPU."""

import importlib.metadata
import math
import os
from typing import NamedTuple

# These are set before jax and the TPU library are imported: run on the CPU, ask no
# metadata server for a TPU, and lock none.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")

import jax
from jax.experimental import topologies

from disentangle_jax.types import unknown_name


class Chip(NamedTuple):
    """Peak figures of one chip (Google Cloud's TPU documentation).

    Attributes:
      flops: bfloat16 operations per second.
      bandwidth: bytes per second from and to HBM.
      memory: bytes of HBM.
      clock: cycles per second of the matrix units, from `flops` and their number.
    """

    flops: float
    bandwidth: float
    memory: float
    clock: float

    @property
    def ridge(self) -> float:
        """Operations per byte above which arithmetic, not memory, is the limit."""
        return self.flops / self.bandwidth


# v5e has 4 matrix units of 128×128 and v6e has 2 of 256×256; each element multiplies
# and adds once per cycle.
CHIPS = {
    "v5e": Chip(197e12, 819e9, 16e9, 197e12 / (4 * 128**2 * 2)),
    "v6e": Chip(918e12, 1640e9, 32e9, 918e12 / (2 * 256**2 * 2)),
}


def devices(topology: str) -> list[jax.Device]:
    """Returns the devices of a slice such as ``v5e:2x2``, which need not exist.

    Raises:
      ValueError: the name is wrong, or the TPU compiler is not installed.
    """
    chip_of(topology)
    if not has_compiler():
        raise ValueError(
            "--topology: the TPU compiler is missing; pip install disentangle_jax[tpu]."
        )
    _leave_out_cpu_flags()
    try:
        described = topologies.get_topology_desc(platform="tpu", topology_name=topology)
    except Exception as error:  # The library raises its own types.
        first = str(error).splitlines()[0]
        raise ValueError(
            f"--topology: must be a slice like v5e:2x2 or v5e:16x16, got {topology!r} "
            f"({first})."
        ) from None
    return list(described.devices)


def _leave_out_cpu_flags() -> None:
    """Removes flags for CPUs from ``XLA_FLAGS``: libtpu aborts at unknown flags."""
    jax.devices()  # Makes the CPU's compiler read its flags first.
    flags = os.environ.get("XLA_FLAGS", "").split()
    os.environ["XLA_FLAGS"] = " ".join(f for f in flags if "xla_cpu" not in f)


def has_compiler() -> bool:
    """Returns whether libtpu is installed."""
    try:
        importlib.metadata.version("libtpu")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def chip_of(topology: str) -> Chip:
    """Returns the chip of a topology, given its name."""
    generation = topology.partition(":")[0]
    if generation not in CHIPS:
        raise unknown_name("--topology", "generation", generation, CHIPS)
    return CHIPS[generation]


def compile_uncached(lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    """Compiles without writing to the persistent cache.

    JAX would warn that it cannot read the result back, which takes a real TPU.
    """
    name = "jax_persistent_cache_min_compile_time_secs"
    before = jax.config.values[name]
    jax.config.update(name, math.inf)
    try:
        return lowered.compile()
    finally:
        jax.config.update(name, before)
