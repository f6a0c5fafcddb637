"""Process-wide settings with which programs compile once and run fast."""

import ctypes
import hashlib
import os
import pathlib
import platform
import sys

import jax


def use_compilation_cache() -> None:
    """Keeps compiled programs under the user's cache folder.

    ``JAX_COMPILATION_CACHE_DIR`` names another place. Programs for a CPU are specific
    to its instruction set, so each kind of machine that shares a home has its own.
    """
    # JAX adds its options when it is imported, which mypy does not see.
    if jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        return
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(base) / "disentangle_jax" / f"xla-{_instruction_set()}"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


# Parameters of glibc's `mallopt`, as <malloc.h> numbers them.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def keep_freed_memory() -> None:
    """Lets the process reuse memory that it freed, instead of returning it.

    XLA's CPU backend allocates the intermediate results of a step anew at each step.
    The C library takes allocations of that size from the system, and each of their
    pages costs a page fault when it is first touched: about a quarter of a step. Does
    nothing where the C library is not glibc. Meant for programs, not for libraries: the
    setting holds for the whole process.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return
    libc = ctypes.CDLL(None)
    # Large pieces from the one heap, which is never shortened.
    for parameter, value in (
        (_ARENA_MAX, 1),
        (_MMAP_MAX, 0),
        (_TRIM_THRESHOLD, 2**31 - 1),
    ):
        libc.mallopt(parameter, value)


def _instruction_set() -> str:
    """Returns a short name of what this CPU can execute."""
    description = platform.machine() + platform.processor()
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        description += next((line for line in lines if line.startswith("flags")), "")
    return hashlib.sha256(description.encode()).hexdigest()[:12]
