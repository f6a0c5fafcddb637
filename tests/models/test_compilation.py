"""The compiler options are known to this XLA and change no result."""

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import models
from disentangle_jax.models import compilation, convolution


def test_none_for_accelerators():
    assert models.compiler_options("tpu") == models.compiler_options("gpu") == {}


def test_same_result(getkey):
    options = models.compiler_options("cpu")
    assert options, "this XLA refuses the options: convolutions run on one thread"
    x = jax.random.normal(getkey(), (4, 8, 8, 16))
    kernel = jax.random.normal(getkey(), (3, 3, 16, 16))

    @jax.grad
    def gradient(kernel, x):
        y = convolution.conv(x, kernel, stride=1, padding=(1, 1))
        return jnp.square(y).mean()

    wanted = jax.jit(gradient)(kernel, x)
    got = jax.jit(gradient, compiler_options=options)(kernel, x)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


def test_options_of_another_xla_are_left_out(monkeypatch):
    refused = jax.errors.JaxRuntimeError("No such compile option")

    def jit(function, compiler_options):
        del function, compiler_options
        raise refused

    monkeypatch.setattr(jax, "jit", jit)
    compilation._cpu_options.cache_clear()
    try:
        assert models.compiler_options("cpu") == {}
    finally:
        compilation._cpu_options.cache_clear()
