"""Covariances and kernels against loops and hand-worked cases."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses
from tests.losses import reference

SHAPES = [(2, 1), (5, 3), (9, 6)]


@pytest.mark.parametrize("kind", ["i", "ii"])
@pytest.mark.parametrize(("batch", "dims"), SHAPES)
def test_dip_penalty(batch, dims, kind, make_batch):
    *_, mean, log_var = make_batch(batch, dims)
    got = losses.dip_penalty(mean, log_var, kind=kind, lambda_od=2.0, lambda_d=5.0)
    want = reference.dip(mean, log_var, kind, 2.0, 5.0)
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_dip_penalty_by_hand():
    # Means (1, 2) and (3, 6) lie 1 and 2 from their centre: the covariance, divided by
    # B = 2, is [[1, 2], [2, 4]]. Off the diagonal 2 * 2² = 8; on it 0 and 3² = 9.
    mean = jnp.array([[1.0, 2.0], [3.0, 6.0]])
    log_var = jnp.log(jnp.array([[0.5, 1.0], [1.5, 3.0]]))
    weights = {"lambda_od": 10.0, "lambda_d": 1.0}
    got = losses.dip_penalty(mean, log_var, kind="i", **weights)
    np.testing.assert_allclose(got, 80.0 + 9.0, rtol=1e-6)
    # Kind II adds the mean variances 1 and 2 to the diagonal: 1² and 5².
    got = losses.dip_penalty(mean, log_var, kind="ii", **weights)
    np.testing.assert_allclose(got, 80.0 + 1.0 + 25.0, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
@pytest.mark.parametrize(("batch", "dims"), SHAPES)
def test_mmd(batch, dims, kernel, getkey):
    x = jax.random.normal(getkey(), (batch + 1, dims))
    y = 1.0 + 2.0 * jax.random.normal(getkey(), (batch, dims))
    for scale in (None, 0.7):
        default = dims if kernel == "imq" else dims**2
        want = reference.mmd(x, y, kernel, default if scale is None else scale)
        got = losses.mmd(x, y, kernel=kernel, scale=scale)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    got = losses.mmd(x, y, kernel=kernel, mmd_compat="sae_code")
    want = losses.mmd(x, y, kernel=kernel) / (batch + 1)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_mmd_by_hand():
    # One dimension, C = 1: x = 0, 1 and y = 0, 2. Within: k = 1/2 and 1/5. Across:
    # k(0,0) = 1, k(0,2) = 1/5, k(1,0) = 1/2, k(1,2) = 1/2, mean 11/20. So 7/10 - 11/10.
    x, y = jnp.array([[0.0], [1.0]]), jnp.array([[0.0], [2.0]])
    np.testing.assert_allclose(losses.mmd(x, y), 0.7 - 1.1, rtol=1e-6)


def test_mmd_is_unbiased_at_zero(getkey):
    def draw(key):
        first, second = jax.random.split(key)
        shape = (16, 4)
        return losses.mmd(
            jax.random.normal(first, shape), jax.random.normal(second, shape)
        )

    values = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(getkey(), 4000)))
    # Counting a point with itself would add about 2/16 of the kernel's excess.
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(4000) < 0.01
    assert values.min() < 0


@pytest.mark.parametrize(("batch", "dims"), [(4, 2), (9, 3), (30, 5)])
def test_gaussian_total_correlation(batch, dims, getkey):
    codes = jax.random.normal(getkey(), (batch, dims))
    codes = codes @ jax.random.normal(getkey(), (dims, dims)) * 100.0
    (points,) = reference.arrays(codes)
    matrix = np.zeros((dims, dims))
    for row in points - points.mean(axis=0):
        matrix += np.outer(row, row) / (batch - 1)
    want = 0.5 * (np.log(np.diag(matrix)).sum() - np.linalg.slogdet(matrix)[1])
    got = losses.gaussian_total_correlation(codes)
    np.testing.assert_allclose(got, want, rtol=1e-3)


def test_gaussian_total_correlation_by_hand():
    # Correlation 1/2 between two dimensions: -log(1 - 1/4) / 2.
    codes = jnp.array([[1, 1], [1, 1], [1, 1], [1, -1], [-1, -1], [-1, -1], [-1, -1]])
    codes = jnp.concatenate([codes, jnp.array([[-1, 1]])]).astype(jnp.float32)
    got = losses.gaussian_total_correlation(codes)
    np.testing.assert_allclose(got, -0.5 * math.log(0.75), rtol=1e-5)


def test_gaussian_total_correlation_of_golden_codes(golden):
    records = json.loads((golden / "metrics.json").read_text())
    found = 0
    for record in records:
        # Grid cases score a random sample of the grid; array cases their own rows.
        if record["metric"] != "gaussian_total_correlation" or "grid" in record["case"]:
            continue
        codes = np.load(golden / f"{record['case']}.npz")["codes"]
        with jax.enable_x64(True):
            got = losses.gaussian_total_correlation(jnp.asarray(codes, jnp.float64))
        np.testing.assert_allclose(got, record["value"], rtol=1e-5)
        found += 1
    assert found >= 6


def test_a_dead_dimension_is_independent(getkey):
    codes = jax.random.normal(getkey(), (20, 3))
    codes = codes.at[:, 1].set(codes[:, 0] + codes[:, 1])
    dead = jnp.concatenate([codes, jnp.full((20, 1), 0.7)], axis=1)
    np.testing.assert_allclose(
        losses.gaussian_total_correlation(dead),
        losses.gaussian_total_correlation(codes),
        rtol=1e-5,
    )
    assert np.isfinite(jax.grad(losses.gaussian_total_correlation)(dead)).all()


def test_errors():
    codes = jnp.ones((4, 3))
    weights = {"lambda_od": 1.0, "lambda_d": 1.0}
    with pytest.raises(ValueError, match="dip_penalty: `kind` must be one of i, ii"):
        losses.dip_penalty(codes, codes, kind="iii", **weights)
    with pytest.raises(ValueError, match="dip_penalty: the batch must hold at least 2"):
        losses.dip_penalty(codes[:1], codes[:1], kind="i", **weights)
    with pytest.raises(ValueError, match="dip_penalty: `log_var` must have the shape"):
        losses.dip_penalty(codes, codes[:2], kind="i", **weights)
    with pytest.raises(ValueError, match="mmd: `kernel` must be one of imq, rbf"):
        losses.mmd(codes, codes, kernel="gauss")
    with pytest.raises(ValueError, match="mmd: the batch must hold at least 2"):
        losses.mmd(codes, codes[:1])
    with pytest.raises(ValueError, match="mmd: `y` must have as many dimensions"):
        losses.mmd(codes, codes[:, :2])
    with pytest.raises(ValueError, match="mmd: `mmd_compat` must be one of None, sae"):
        losses.mmd(codes, codes, mmd_compat="wae")
    with pytest.raises(ValueError, match="gaussian_total_correlation: the batch must"):
        losses.gaussian_total_correlation(codes[:1])
