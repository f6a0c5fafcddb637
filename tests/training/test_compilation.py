"""Memory that was freed is used again."""

import platform
import subprocess
import sys

import pytest

# Page faults of filling 64 MiB for the second time.
PROGRAM = """
import resource, sys
import numpy as np
from disentangle_jax import training

if sys.argv[1] == "keep":
    training.keep_freed_memory()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
np.ones(2**26, np.int8)
before = faults()
np.ones(2**26, np.int8)
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not glibc")
def test_freed_memory_is_kept():
    def faults(mode: str) -> int:
        command = [sys.executable, "-c", PROGRAM, mode]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout)

    # With huge pages 64 MiB are 32 faults, else 16,384.
    assert faults("give back") >= 32
    assert faults("keep") < 16
