"""Draws against closed forms and loops; sharded draws against one device."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from disentangle_jax import sampling


def test_reparameterize_is_mean_plus_scaled_noise(getkey):
    key = getkey()
    mean = jax.random.normal(getkey(), (5, 3))
    log_var = jax.random.normal(getkey(), (5, 3))
    noise = sampling.reparameterize(key, jnp.zeros((5, 3)), jnp.zeros((5, 3)))
    z = sampling.reparameterize(key, mean, log_var)
    # A log-variance of 2 log 3 is a standard deviation of 3, not of 9.
    np.testing.assert_allclose(
        z, np.asarray(mean) + np.sqrt(np.exp(np.asarray(log_var))) * noise, rtol=1e-6
    )


def test_reparameterize_moments(getkey):
    shape = (200_000, 2)
    mean = jnp.broadcast_to(jnp.array([1.0, -2.0]), shape)
    log_var = jnp.broadcast_to(jnp.log(jnp.array([4.0, 0.25])), shape)
    z = np.asarray(sampling.reparameterize(getkey(), mean, log_var))
    # Standard errors: 2/sqrt(2e5) = 0.0045 of the mean, 0.3 % of the variance.
    np.testing.assert_allclose(z.mean(0), [1.0, -2.0], atol=0.02)
    np.testing.assert_allclose(z.var(0), [4.0, 0.25], rtol=0.02)


def test_reparameterize_gradients(getkey):
    mean, log_var = jnp.ones((4, 2)), jnp.full((4, 2), 0.5)
    key = getkey()

    def total(mean, log_var):
        return sampling.reparameterize(key, mean, log_var).sum()

    grads = jax.grad(total, argnums=(0, 1))(mean, log_var)
    z = sampling.reparameterize(key, mean, log_var)
    np.testing.assert_allclose(grads[0], np.ones((4, 2)))
    np.testing.assert_allclose(grads[1], (z - mean) / 2, rtol=1e-5)


def test_reparameterize_rejects_unequal_shapes(getkey):
    with pytest.raises(ValueError, match="reparameterize: `log_var`"):
        sampling.reparameterize(getkey(), jnp.ones((4, 2)), jnp.ones((4, 1)))


@pytest.mark.parametrize("groups", [None, (1, 1, 1, 1), (2, 2), (1, 3), (4,)])
def test_permute_dims_keeps_marginals_and_groups(groups, getkey):
    z = jnp.arange(24.0).reshape(6, 4)
    out = np.asarray(sampling.permute_dims(getkey(), z, groups=groups))
    np.testing.assert_array_equal(np.sort(out, axis=0), z)
    source = (out // 4).astype(int)  # row of z each entry came from
    start = 0
    for size in groups or (1,) * 4:
        block = source[:, start : start + size]
        np.testing.assert_array_equal(block, np.repeat(block[:, :1], size, axis=1))
        start += size


def test_permute_dims_breaks_dependence(getkey):
    column = jnp.arange(512.0)
    z = jnp.stack([column, column], axis=1)
    out = np.asarray(sampling.permute_dims(getkey(), z))
    # A correlation of 512 independent pairs has standard error 0.044; one shared
    # permutation for all columns would leave it at 1.
    assert abs(np.corrcoef(out.T)[0, 1]) < 0.2


def test_permute_dims_is_uniform(getkey):
    z = jnp.arange(3.0)[:, None]
    keys = jax.random.split(getkey(), 6000)
    out = jax.vmap(lambda key: sampling.permute_dims(key, z)[:, 0])(keys)
    _, counts = np.unique(np.asarray(out), axis=0, return_counts=True)
    # Six orders, 1000 each in the mean, standard deviation 29.
    assert counts.shape == (6,)
    assert np.abs(counts - 1000).max() < 150


@pytest.mark.parametrize("groups", [None, (2, 3)])
def test_permute_dims_across_devices(groups, getkey):
    key = getkey()
    z = jax.random.normal(getkey(), (16, 5))
    want = sampling.permute_dims(key, z, groups=groups)

    def local(key, z):
        return sampling.permute_dims(key, z, groups=groups, axis_name="i")

    pmapped = jax.pmap(local, axis_name="i", in_axes=(None, 0))
    got = pmapped(key, z.reshape(8, 2, 5)).reshape(16, 5)
    np.testing.assert_array_equal(got, want)
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(local, mesh=mesh, in_specs=(P(), P("i")), out_specs=P("i"))
    np.testing.assert_array_equal(mapped(key, z), want)
    sharded = jax.device_put(z, jax.NamedSharding(mesh, P("i")))
    jitted = jax.jit(lambda k, z: sampling.permute_dims(k, z, groups=groups))
    np.testing.assert_array_equal(jitted(key, sharded), want)


def test_permute_dims_gradient_returns_to_the_source_row(getkey):
    weight = jax.random.normal(getkey(), (6, 3))
    key = getkey()
    z = jnp.arange(18.0).reshape(6, 3)
    grad = jax.grad(lambda z: (weight * sampling.permute_dims(key, z)).sum())(z)
    out = np.asarray(sampling.permute_dims(key, z))
    for i in range(6):
        for d in range(3):
            assert grad[int(out[i, d]) // 3, d] == weight[i, d]


@pytest.mark.parametrize(
    ("z", "groups", "message"),
    [
        (jnp.ones(3), None, r"`z` must be \[B, D\]"),
        (jnp.ones((1, 3)), None, "at least two rows"),
        (jnp.ones((4, 3)), (1, 1), "`groups` must be positive sizes that add up to 3"),
        (jnp.ones((4, 3)), (4, -1), "`groups` must be positive"),
    ],
)
def test_permute_dims_errors(z, groups, message, getkey):
    with pytest.raises(ValueError, match=message):
        sampling.permute_dims(getkey(), z, groups=groups)


def test_hybrid_draws_from_the_product_of_marginals(getkey):
    # Two perfectly correlated variables: hybrid keeps each marginal, not the tie.
    first = np.arange(8.0)
    bank = jnp.asarray(np.stack([first, first], axis=1))
    codes = np.asarray(sampling.hybrid(getkey(), bank, 4000))
    for column in codes.T:
        counts = np.array([(column == value).sum() for value in first])
        assert counts.sum() == 4000  # only stored values
        # 500 expected of each, standard deviation 21.
        assert np.abs(counts - 500).max() < 5 * 21
    assert abs(np.corrcoef(codes.T)[0, 1]) < 5 / np.sqrt(4000)
    assert len(np.unique(codes, axis=0)) == 64  # all 8**2 combinations


def test_hybrid_never_splits_a_group(getkey):
    bank = jax.random.normal(getkey(), (16, 5))
    codes = np.asarray(sampling.hybrid(getkey(), bank, 200, groups=(2, 3)))
    stored = np.asarray(bank)
    for part in (slice(0, 2), slice(2, 5)):
        matches = (codes[:, None, part] == stored[None, :, part]).all(-1)
        assert (matches.sum(1) == 1).all()
    whole = (codes[:, None] == stored[None]).all(-1).any(1)
    assert whole.mean() < 0.3  # 1/16 expected


def test_hybrid_rejects_wrong_groups(getkey):
    with pytest.raises(ValueError, match="hybrid: `groups` must"):
        sampling.hybrid(getkey(), jnp.zeros((4, 5)), 2, groups=(2, 2))
    with pytest.raises(ValueError, match=r"hybrid: `bank` must be \[N, D\]"):
        sampling.hybrid(getkey(), jnp.zeros(5), 2)


def test_traverse_changes_one_dimension_from_low_to_high():
    code = jnp.array([5.0, 6.0])
    codes = sampling.traverse(
        code, jnp.array([0.0, 1.0]), jnp.array([2.0, 3.0]), steps=3
    )
    expected = [
        [[0.0, 6.0], [1.0, 6.0], [2.0, 6.0]],
        [[5.0, 1.0], [5.0, 2.0], [5.0, 3.0]],
    ]
    np.testing.assert_array_equal(codes, expected)
    with pytest.raises(ValueError, match="traverse: `code`, `low` and `high`"):
        sampling.traverse(code, jnp.zeros(3), jnp.ones(2), steps=3)
