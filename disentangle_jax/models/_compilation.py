"""How the compiler is told to run these networks fast."""

import functools

import jax


def compiler_options(platform: str | None = None) -> dict[str, str]:
    """Options for ``jax.jit(step, compiler_options=...)`` of a step with our networks.

    XLA's CPU compiler hands convolutions to a library that runs each on one thread;
    these options leave them to its own, which uses all. They change no result beyond
    rounding. Empty on accelerators, and where the installed XLA does not know them.

    Args:
      platform: ``"cpu"``, ``"gpu"`` or ``"tpu"``; the default backend's if None.
    """
    platform = platform or jax.default_backend()
    return dict(_cpu_options()) if platform == "cpu" else {}


@functools.cache
def _cpu_options() -> dict[str, str]:
    # Sums stay with that library, where they are several times faster.
    options = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE"}
    cpu = jax.local_devices(backend="cpu")[0]
    try:
        with jax.default_device(cpu):
            jax.jit(lambda x: x + 1, compiler_options=options).lower(0).compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options
