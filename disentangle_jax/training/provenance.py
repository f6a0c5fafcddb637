"""The recipe stored beside every number: versions, device, commit."""

import importlib.metadata
import os
import pathlib
import platform
import subprocess
import time
from typing import Any

import jax

_RECORDED = ("jax", "jaxlib", "flax", "optax", "numpy", "scikit-learn")


def recipe() -> dict[str, Any]:
    """Returns what this process runs on: library versions, device, commit, time."""
    device = jax.devices()[0]
    return {
        "versions": {
            "disentangle_jax": _version("disentangle_jax"),
            "python": platform.python_version(),
            **{name: _version(name) for name in _RECORDED},
        },
        "device": {
            "platform": device.platform,
            "kind": device.device_kind,
            "count": jax.device_count(),
            "cpu_cores": _cores(),
        },
        "commit": _commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """Returns the commit of the source tree, `-dirty` where it was edited.

    "unknown" for an installed copy, also where that lies inside another repository.
    """
    file = pathlib.Path(__file__)
    try:
        _git(file, "ls-files", "--error-unmatch", file.name)
        return _git(file, "describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(file: pathlib.Path, *arguments: str) -> str:
    out = subprocess.run(
        ["git", *arguments],
        cwd=file.parent,
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return out.stdout.strip()
