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


def test_traversals_set_one_class_at_a_time():
    code = jnp.array([0.5, 1.0, 0.0, 0.0, 0.0, 1.0])  # One number, classes of 3 and 2.
    values = jnp.linspace(-1.0, 1.0, 4)[None, :] * jnp.ones((6, 1))
    walks = sampling.traverse_values(code, values, discrete=(3, 2))
    np.testing.assert_array_equal(walks[0, :, 0], values[0])
    np.testing.assert_array_equal(walks[0, :, 1:], jnp.tile(code[1:], (4, 1)))
    for row in range(1, 6):
        own, other = (
            (slice(1, 4), slice(4, 6)) if row < 4 else (slice(4, 6), slice(1, 4))
        )
        vector = np.eye(own.stop - own.start)[row - own.start]
        for step in range(4):
            want = vector if step >= 2 else code[own]
            np.testing.assert_array_equal(walks[row, step, own], want)
            np.testing.assert_array_equal(walks[row, step, other], code[other])
            assert walks[row, step, 0] == 0.5
    with pytest.raises(ValueError, match="`discrete` must add up to at most D = 6"):
        sampling.traverse_values(code, values, discrete=(7,))


def test_hybrid_is_a_program_of_its_key(getkey):
    bank = jax.random.normal(getkey(), (8, 4))
    keys = jax.random.split(getkey(), 2)

    def draw(key):
        return sampling.hybrid(key, bank, 5, groups=(1, 3), balanced=True)

    both = np.asarray(jax.jit(jax.vmap(draw))(keys))
    np.testing.assert_array_equal(both[0], draw(keys[0]))
    assert (both[0] != both[1]).any()


@pytest.mark.parametrize("n", [3, 20])
def test_balanced_hybrid_uses_every_stored_value_equally_often(n, getkey):
    rows = np.arange(8.0)
    bank = jnp.asarray(np.stack([rows, 10 + rows, 20 + rows, 20 + rows], axis=1))
    codes = np.asarray(
        sampling.hybrid(getkey(), bank, n, groups=(1, 1, 2), balanced=True)
    )
    assert codes.shape == (n, 4)
    np.testing.assert_array_equal(codes[:, 2], codes[:, 3])  # one variable
    for column, offset in zip(codes.T, (0, 10, 20, 20)):
        counts = np.bincount((column - offset).astype(int), minlength=8)
        # After every eight draws all eight were used once more.
        assert set(counts) <= {n // 8, -(-n // 8)}
        for start in range(0, n, 8):
            part = column[start : start + 8]
            assert len(set(part)) == len(part)


def test_balanced_hybrid_breaks_dependence(getkey):
    column = np.arange(512.0)
    bank = jnp.asarray(np.stack([column, column], axis=1))
    codes = np.asarray(sampling.hybrid(getkey(), bank, 512, balanced=True))
    np.testing.assert_array_equal(np.sort(codes, axis=0), bank)  # marginals, exactly
    assert abs(np.corrcoef(codes.T)[0, 1]) < 5 / np.sqrt(512)


def test_hybrid_breaks_the_correlation_of_gaussian_codes(getkey):
    first = jax.random.normal(getkey(), (400,))
    noise = jax.random.normal(getkey(), (400, 2))
    # Two variables of two dimensions: strong ties within and between them.
    bank = first[:, None] + 0.3 * jnp.concatenate([noise, noise[:, ::-1]], axis=1)
    codes = np.asarray(sampling.hybrid(getkey(), bank, 20_000, groups=(2, 2)))
    stored, drawn = np.corrcoef(np.asarray(bank).T), np.corrcoef(codes.T)
    assert stored[0, 2] > 0.8
    # Standard error of a correlation of 20,000 draws: 0.007.
    np.testing.assert_allclose(drawn[:2, 2:], 0.0, atol=0.04)
    assert drawn[0, 1] == pytest.approx(stored[0, 1], abs=0.02)  # kept inside
    for quantile in (0.1, 0.5, 0.9):  # marginals
        want = np.quantile(np.asarray(bank), quantile, axis=0)
        np.testing.assert_allclose(np.quantile(codes, quantile, axis=0), want, atol=0.1)


def test_prior_is_standard_normal(getkey):
    z = np.asarray(sampling.prior(getkey(), 50_000, 3))
    assert z.shape == (50_000, 3)
    np.testing.assert_allclose(np.cov(z.T), np.eye(3), atol=0.04)
    np.testing.assert_allclose(z.mean(0), 0.0, atol=0.03)


def test_prior_of_discrete_variables_is_uniform(getkey):
    key = getkey()
    z = np.asarray(sampling.prior(key, 6_000, 2, discrete=(3, 2)))
    assert z.shape == (6_000, 7)
    np.testing.assert_array_equal(z[:, :2], sampling.prior(key, 6_000, 2))
    for one_hot, size in ((z[:, 2:5], 3), (z[:, 5:], 2)):
        assert set(np.unique(one_hot)) == {0, 1}
        np.testing.assert_array_equal(one_hot.sum(1), 1)
        # Five standard deviations of a share.
        sd = np.sqrt((1 - 1 / size) / size / 6_000)
        np.testing.assert_allclose(one_hot.mean(0), 1 / size, atol=5 * sd)
    together = z[:, 2:5].T @ z[:, 5:] / 6_000
    np.testing.assert_allclose(together, 1 / 6, atol=0.025)


@pytest.mark.parametrize(
    ("groups", "chunks", "dims"),
    [(None, 4, [2, 1, 1, 1]), ((2, 1, 2), 2, [3, 2]), ((5,), 1, [5])],
)
def test_chunk_hybrids_change_one_chunk(groups, chunks, dims, getkey):
    bank = jax.random.normal(getkey(), (50, 5))
    code = jnp.full(5, 9.0)
    codes = np.asarray(
        sampling.chunk_hybrids(getkey(), code, bank, 30, groups=groups, chunks=chunks)
    )
    assert codes.shape == (chunks, 30, 5)
    start = 0
    for chunk, size in zip(codes, dims):
        inside = np.zeros(5, bool)
        inside[start : start + size] = True
        assert (chunk[:, ~inside] == 9.0).all()
        assert np.isin(chunk[:, inside], np.asarray(bank)[:, inside]).all()
        assert len(np.unique(chunk[:, inside], axis=0)) > 10
        start += size


def test_chunk_hybrids_errors(getkey):
    bank = jnp.zeros((4, 3))
    with pytest.raises(ValueError, match="chunk_hybrids: `code` must be"):
        sampling.chunk_hybrids(getkey(), jnp.zeros(2), bank, 2)
    with pytest.raises(ValueError, match="must be 1 to the 2 variables, got 4"):
        sampling.chunk_hybrids(getkey(), jnp.zeros(3), bank, 2, groups=(1, 2))


def test_interpolate_is_a_straight_line(getkey):
    start, end = jax.random.normal(getkey(), (2, 3, 4))
    path = np.asarray(sampling.interpolate(start, end, steps=5))
    assert path.shape == (3, 5, 4)
    for i in range(5):
        want = np.asarray(start) * (1 - i / 4) + np.asarray(end) * i / 4
        np.testing.assert_allclose(path[:, i], want, atol=1e-6)
    with pytest.raises(ValueError, match="interpolate: `start` and `end`"):
        sampling.interpolate(jnp.zeros(3), jnp.zeros(4), steps=5)
    with pytest.raises(ValueError, match="interpolate: `steps` must be at least 2"):
        sampling.interpolate(jnp.zeros(3), jnp.zeros(3), steps=1)


def test_values_of_traversals(rng):
    codes = rng.normal(size=(1001, 2)) * [1.0, 5.0]
    codes[0] = [50.0, -50.0]  # an outlier
    values = sampling.min_max_values(jnp.asarray(codes), steps=5)
    for d in range(2):
        want = np.linspace(codes[:, d].min(), codes[:, d].max(), 5)
        np.testing.assert_allclose(values[d], want, rtol=1e-5)
    values = np.asarray(sampling.quantile_values(jnp.asarray(codes), steps=4))
    want = np.quantile(codes, [1 / 8, 3 / 8, 5 / 8, 7 / 8], axis=0).T
    np.testing.assert_allclose(values, want, rtol=1e-4, atol=1e-5)
    mean, log_var = jnp.array([1.0, -1.0]), jnp.log(jnp.array([4.0, 0.25]))
    values = sampling.gaussian_values(mean, log_var, steps=3)
    np.testing.assert_allclose(values, [[-5, 1, 7], [-2.5, -1, 0.5]], rtol=1e-5)
    walked = sampling.traverse_values(mean, values)
    assert walked.shape == (2, 3, 2)
    np.testing.assert_array_equal(walked[0, :, 0], values[0])
    np.testing.assert_array_equal(walked[0, :, 1], [-1.0] * 3)
    with pytest.raises(ValueError, match="traverse_values: `code` must be"):
        sampling.traverse_values(mean, values.T)
    with pytest.raises(ValueError, match=r"quantile_values: `codes` must be \[N, D\]"):
        sampling.quantile_values(mean, steps=3)
    with pytest.raises(ValueError, match="gaussian_values: `mean` and `log_var`"):
        sampling.gaussian_values(mean, jnp.zeros(3), steps=3)


def test_cyclic_values_return_to_where_they_start():
    code = jnp.array([0.5, 0.0, 2.0, 7.0, 1.0])  # inside, ends, outside, no width
    low, high = jnp.zeros(5).at[4].set(1.0), jnp.array([2.0, 2.0, 2.0, 2.0, 1.0])
    values = np.asarray(sampling.cyclic_values(code, low, high, steps=8))
    # Circumference 4 in eight steps of 0.5: up, then down, then up again.
    np.testing.assert_allclose(values[0], [0.5, 1, 1.5, 2, 1.5, 1, 0.5, 0], atol=1e-6)
    np.testing.assert_allclose(values[1], [0, 0.5, 1, 1.5, 2, 1.5, 1, 0.5], atol=1e-6)
    np.testing.assert_allclose(values[2], [2, 1.5, 1, 0.5, 0, 0.5, 1, 1.5], atol=1e-6)
    np.testing.assert_allclose(values[3], values[2])
    np.testing.assert_array_equal(values[4], np.ones(8))
    with pytest.raises(ValueError, match="cyclic_values: `code`, `low` and `high`"):
        sampling.cyclic_values(code, low[:2], high, steps=8)


# Priors as (cdf, inverse cdf): each latent with a scale of its own.
SCALES = jnp.array([1.0, 2.0, 0.5])
PRIORS = {
    "uniform": (lambda z: z / SCALES, lambda u: u * SCALES),
    "exponential": (
        lambda z: -jnp.expm1(-z / SCALES),
        lambda u: -jnp.log1p(-u) * SCALES,
    ),
    "normal": (
        lambda z: jax.scipy.stats.norm.cdf(z / SCALES),
        lambda u: jax.scipy.stats.norm.ppf(u) * SCALES,
    ),
}


@pytest.mark.parametrize(
    ("name", "direction"),
    [("uniform", None), ("exponential", (1.0, -1.0, 1.0)), ("normal", None)],
)
def test_entangle_keeps_the_distribution_and_mixes_everything(name, direction, rng):
    cdf, inverse_cdf = PRIORS[name]

    def mix(one):
        return sampling.entangle(
            one, cdf=cdf, inverse_cdf=inverse_cdf, direction=direction
        )

    @jax.jit
    def program(u):
        z = jax.vmap(inverse_cdf)(u)
        f = jax.vmap(mix)(z)
        jacobians = jax.vmap(jax.jacobian(mix))(z[:200])
        return z, f, jax.vmap(cdf)(f), jax.vmap(mix)(f), jacobians

    u = rng.uniform(1e-3, 0.999, size=(20_000, 3)).astype(np.float32)
    z, f, uniform, again, jacobians = map(np.asarray, program(u))
    # Marginals: Kolmogorov-Smirnov distance, 1 % critical value 1.63 / sqrt(n).
    even = (np.arange(20_000) + 0.5)[:, None] / 20_000
    distance = np.abs(np.sort(uniform, axis=0) - even).max()
    assert distance < 1.63 / np.sqrt(20_000) + 1e-3
    # Jointly too: still independent, as far as first and second powers show.
    for power in (1, 2):
        correlation = np.corrcoef((uniform - 0.5).T ** power)
        np.testing.assert_allclose(correlation, np.eye(3), atol=0.035)
    # But every latent depends on every other, at every point.
    assert np.isfinite(jacobians).all()
    assert np.abs(jacobians).min() > 0
    assert np.abs(f - z).mean() > 0.1
    # A bijection: the map is its own inverse.
    np.testing.assert_allclose(again, z, rtol=2e-3, atol=2e-3)


def test_entangle_refuses_maps_that_do_not_mix():
    cdf, inverse_cdf = jax.scipy.stats.norm.cdf, jax.scipy.stats.norm.ppf
    both = dict(cdf=cdf, inverse_cdf=inverse_cdf)
    for direction in ((1.0, 1.0), (0.0, 1.0), (0.0, 0.0)):
        with pytest.raises(ValueError, match="where latents would not mix"):
            sampling.entangle(jnp.zeros((4, 2)), direction=direction, **both)
    with pytest.raises(ValueError, match=r"`direction` must be \[2\]"):
        sampling.entangle(jnp.zeros((4, 2)), direction=(1.0, 2.0, 3.0), **both)
    with pytest.raises(ValueError, match="with D > 1"):
        sampling.entangle(jnp.zeros((4, 1)), **both)
    # Far tails stay finite.
    assert np.isfinite(sampling.entangle(jnp.array([[40.0, -40.0]]), **both)).all()
