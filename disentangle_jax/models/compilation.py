"""Compiler options and hints that make the networks fast on CPU."""

import functools

import jax


def compiler_options(platform: str | None = None) -> dict[str, str]:
    """Returns ``compiler_options`` for the ``jax.jit`` of a step with our networks.

    XLA's CPU compiler passes convolutions to a library that runs each on one thread.
    These options keep them in XLA's own implementation, which uses all threads. They
    change results by rounding only. They are empty on accelerators, and if the
    installed XLA does not support them.

    Args:
      platform: ``"cpu"``, ``"gpu"`` or ``"tpu"``; None for that of the default backend.
    """
    platform = platform or jax.default_backend()
    return dict(_cpu_options()) if platform == "cpu" else {}


@functools.cache
def _cpu_options() -> dict[str, str]:
    # Sums stay in that library, where they are several times faster.
    options = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"}
    cpu = jax.local_devices(backend="cpu")[0]
    try:
        with jax.default_device(cpu):
            jax.jit(lambda x: x + 1, compiler_options=options).lower(0).compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options


def fence(x: jax.Array) -> jax.Array:
    """Asks XLA's CPU compiler to compute x once, not again inside each of its readers.

    This is a hint: it stops the passes before the fusion of loops, not that fusion.
    """
    return jax.lax.platform_dependent(
        x, cpu=jax.lax.optimization_barrier, default=lambda x: x
    )
