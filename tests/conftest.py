"""Strict settings for every test: 8 virtual CPU devices, no rank promotion."""

import ctypes
import gc
import importlib.metadata
import os
import pathlib
import platform
import sys
import tempfile

# Before the first use of JAX. Workers and subprocesses share the cache, so that a
# program that several tests use is compiled once. They inherit all settings below.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR",
    os.path.join(tempfile.gettempdir(), "disentangle_jax_test_programs"),
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
# Most tests run a program once or twice, so optimising it takes longer than it saves.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# The emitters are a part of XLA that takes most of the time that remains. Later
# versions have no such flag, and abort where one is unknown.
if importlib.metadata.version("jaxlib").startswith("0.10."):
    os.environ["XLA_FLAGS"] = " ".join(
        (os.environ.get("XLA_FLAGS", ""), "--xla_cpu_use_fusion_emitters=false")
    ).strip()
# A device may wait in two independent collectives at once, each on a thread. With a
# thread per device, as is the default, another device then finds none: a deadlock.
os.environ.setdefault("PJRT_NPROC", "32")

import jax
import numpy as np
import pytest

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Parameters of glibc's `mallopt`, as <malloc.h> numbers them.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Gives a file to one worker, which compiles its programs and fixtures once."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # Long files have few tests: not at the end.
    return LoadFileScheduling(config, log)


@pytest.fixture
def getkey():
    """A function that returns a fresh typed key at each call, seeded per test."""
    root = jax.random.key(20)
    count = iter(range(1 << 30))
    return lambda: jax.random.fold_in(root, next(count))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def _shared(folder: str, variable: str) -> pathlib.Path:
    default = pathlib.Path(__file__).parents[2] / "shared" / folder
    path = pathlib.Path(os.environ.get(variable, default))
    if not path.exists():
        pytest.skip(f"needs {folder} beside the project, or {variable} to name it")
    return path


@pytest.fixture(scope="session")
def real_data() -> pathlib.Path:
    """Folder of real data files (``../shared/data`` or DISENTANGLE_TEST_DATA)."""
    return _shared("data", "DISENTANGLE_TEST_DATA")


@pytest.fixture(scope="session")
def golden() -> pathlib.Path:
    """Folder of golden values (``../shared/golden`` or DISENTANGLE_TEST_GOLDEN)."""
    return _shared("golden", "DISENTANGLE_TEST_GOLDEN")


@pytest.fixture(scope="session")
def tiny_lanes(tmp_path_factory):
    """A trained run of two lanes. Tests may evaluate it, and must not train it on."""
    from tests.training import tiny

    return tiny.trained_lanes(tmp_path_factory.mktemp("tiny") / "run")


@pytest.fixture(scope="session")
def tiny_absae(tmp_path_factory):
    """A run with labelled regions that was trained without a break, and its carry."""
    from disentangle_jax import training
    from tests.training import tiny

    with pytest.MonkeyPatch.context() as patch:
        tiny.show_devices(patch, 1)
        folder = tmp_path_factory.mktemp("regions") / "run"
        run = training.prepare(tiny.absae_labelled(), folder)
        return run, training.train(run)


def _free_memory() -> None:
    """Frees compiled programs, and returns what was freed to the system."""
    jax.clear_caches()
    gc.collect()
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        # Commands that a test runs here keep freed memory: back to glibc's defaults.
        libc.mallopt(_TRIM_THRESHOLD, 128 * 1024)
        libc.mallopt(_MMAP_MAX, 65536)
        libc.malloc_trim(0)


def _resident_bytes() -> int:
    statm = pathlib.Path("/proc/self/statm")
    pages = int(statm.read_text().split()[1]) if statm.exists() else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module", autouse=True)
def _compiled_programs_end_with_their_module():
    """Frees compiled programs after each module; a worker would keep gigabytes."""
    yield
    _free_memory()


@pytest.fixture(autouse=True)
def _workers_fit_a_laptop():
    """Frees compiled programs within a module that has too many of them."""
    yield
    if _resident_bytes() > 2e9:
        _free_memory()
