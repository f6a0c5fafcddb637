"""The persistent compilation cache: a program is compiled once per machine type."""

import hashlib
import os
import pathlib
import platform

import jax


def use_compilation_cache() -> None:
    """Keeps compiled programs under the user's cache folder.

    ``JAX_COMPILATION_CACHE_DIR`` names another place. Programs for a CPU are specific
    to its instruction set, so machines that share a home each get a folder of theirs.
    """
    if jax.config.jax_compilation_cache_dir:
        return
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(base) / "disentangle_jax" / f"xla-{_instruction_set()}"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _instruction_set() -> str:
    """Returns a short name of what this CPU can execute."""
    description = platform.machine() + platform.processor()
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        description += next((line for line in lines if line.startswith("flags")), "")
    return hashlib.sha256(description.encode()).hexdigest()[:12]
