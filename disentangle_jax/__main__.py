"""``python -m disentangle_jax`` is the command ``disentangle``."""

import sys

from disentangle_jax.main import command

if __name__ == "__main__":
    sys.exit(command())
