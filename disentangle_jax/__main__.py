"""``python -m disentangle_jax`` is the command ``disentangle``."""

import sys

from disentangle_jax.main import main

if __name__ == "__main__":
    sys.exit(main())
