import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax.fusion import stored


def kept(x):
    return stored(2 * x, x[(0,) * x.ndim] >= 0) + 1


@pytest.mark.parametrize("map_over", [False, True])
def test_value_is_stored_alone_and_in_lanes(map_over):
    # A conditional that became a selection would be fused into its readers.
    x = jnp.arange(6, dtype=jnp.int32).reshape(2, 3)
    compiled = jax.jit(jax.vmap(kept) if map_over else kept).lower(x).compile()
    np.testing.assert_array_equal(compiled(x), 2 * np.arange(6).reshape(2, 3) + 1)
    assert "conditional(" in compiled.as_text()


def test_lanes_may_share_the_value_or_the_condition():
    x, true = jnp.arange(3.0), jnp.ones(4, bool)
    shared = jax.vmap(stored, (None, 0), out_axes=None)(x, true)
    np.testing.assert_array_equal(shared, x)
    own = jax.vmap(stored, (0, None))(jnp.stack([x, x]), true[0])
    np.testing.assert_array_equal(own, [x, x])
