"""A method whose functions are compiled once for the tests of a module."""

import jax


class Compiled:
    """Behaves like `method`, with compiled functions."""

    def __init__(self, method):
        self.method = method
        for name in ("init", "step", "encode", "decode", "refit"):
            setattr(self, name, jax.jit(getattr(method, name)))

    def __getattr__(self, name):
        return getattr(self.method, name)
