"""Variables and compilation that keep the tests of networks fast."""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

# Networks run once here, so optimising their programs takes longer than it saves.
quick_jit = functools.partial(
    jax.jit, compiler_options={"xla_backend_optimization_level": 0}
)


def random_variables(module: nn.Module, *inputs: jax.Array) -> dict:
    """Returns variables like those of ``module.init``, without compiling it.

    Norms start as the identity, other parameters are U(±1/√fan_in).
    """
    rng = np.random.default_rng(20)

    def values(path, leaf):
        *_, parent, name = [entry.key for entry in path]
        if "norm" in parent:
            return jnp.full(leaf.shape, name in ("scale", "var"), leaf.dtype)
        bound = 1 / math.sqrt(math.prod(leaf.shape[:-1]) or 1)
        return jnp.asarray(rng.uniform(-bound, bound, leaf.shape), leaf.dtype)

    shapes = jax.eval_shape(module.init, jax.random.key(0), *inputs)
    return jax.tree_util.tree_map_with_path(values, shapes)
