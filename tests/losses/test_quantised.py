"""Quantised codes: gradients by loops, known Hessians, constant latents, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses
from tests.losses import cases, reference


def test_nearest_values_and_their_codebook_gradient(rng):
    z, codebook = rng.normal(size=(7, 3)), rng.normal(size=(3, 4))
    weights = rng.normal(size=(7, 3))
    values, numbers = reference.nearest(z, codebook)
    want = np.zeros(codebook.shape)
    for i in range(7):
        for d in range(3):
            want[d, numbers[i, d]] += weights[i, d]

    def total(z, codebook):
        found = losses.nearest_values(z, codebook)
        return (found * weights).sum(), found

    with jax.enable_x64(True):
        run = cases.quick_jit(jax.grad(total, argnums=(0, 1), has_aux=True))
        (to_codes, to_codebook), found = run(z, codebook)
    np.testing.assert_array_equal(found, values)
    np.testing.assert_allclose(to_codebook, want, rtol=1e-12)
    assert not np.any(to_codes)


def test_straight_through_is_exact(rng):
    z = jnp.asarray(rng.normal(size=(50, 3)), jnp.float32)
    rounded = losses.round_to_levels(jnp.tanh(z), levels=12)
    through = losses.straight_through(z, rounded)
    np.testing.assert_array_equal(through, rounded)
    slope = jax.grad(lambda z: (3.0 * losses.straight_through(z, rounded)).sum())(z)
    np.testing.assert_array_equal(slope, jnp.full_like(z, 3.0))


@pytest.mark.parametrize("levels", [2, 5, 12])
def test_rounding_to_levels_by_a_loop(levels, rng):
    z = rng.uniform(-1, 1, size=(20, 3))
    even = np.linspace(-1, 1, levels)
    want = reference.nearest(z, np.tile(even, (3, 1)))[0]
    got = losses.round_to_levels(jnp.asarray(z, jnp.float32), levels=levels)
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_both_gradients_of_qlae_by_a_loop(rng):
    batch, dims, pixels = 6, 3, 5
    x, z = rng.uniform(size=(batch, pixels)), rng.normal(size=(batch, dims))
    weights, codebook = rng.normal(size=(dims, pixels)), rng.normal(size=(dims, 4))
    q, numbers = reference.nearest(z, codebook)
    encoder, values = np.zeros((batch, dims)), np.zeros((dims, 4))
    for i in range(batch):
        logits = q[i] @ weights
        slope = (1 / (1 + np.exp(-logits)) - x[i]) / (batch * pixels)
        for d in range(dims):
            encoder[i, d] = slope @ weights[d]
            gap = z[i, d] - q[i, d]
            encoder[i, d] += 0.2 * 2 * gap / (batch * dims)
            values[d, numbers[i, d]] -= 0.3 * 2 * gap / (batch * dims)

    def loss(z, codebook):
        code = losses.straight_through(z, losses.nearest_values(z, codebook))
        weighted = {"lambda_quantisation": 0.3, "lambda_commitment": 0.2}
        return losses.qlae(x, code @ weights, code, z, codebook=codebook, **weighted)

    with jax.enable_x64(True):
        run = cases.quick_jit(jax.grad(loss, argnums=(0, 1), has_aux=True))
        (to_codes, to_codebook), terms = run(z, codebook)
    np.testing.assert_allclose(to_codes, encoder, rtol=1e-9)
    np.testing.assert_allclose(to_codebook, values, rtol=1e-9)
    assert float(terms["quantisation"]) == pytest.approx(((z - q) ** 2).mean())
    assert float(terms["commitment"]) == pytest.approx(((z - q) ** 2).mean())


def numeric_gradient(function, z, step=1e-5):
    out = np.zeros(z.shape)
    for place in np.ndindex(*z.shape):
        high, low = z.copy(), z.copy()
        high[place] += step
        low[place] -= step
        out[place] = (function(high) - function(low)) / (2 * step)
    return out


def test_gradients_of_tripods_penalties_by_differences(rng):
    z, key = rng.normal(size=(4, 3)), jax.random.key(3)

    def penalties(z, continuous):
        scale = losses.code_deviation(continuous)
        information = losses.multi_information(z, scale)
        mixed = losses.hessian_penalty(
            cases.activations, z, scale, key=key, perturbations=3, epsilon=0.5
        )
        return jnp.stack([information, mixed.mean()])

    with jax.enable_x64(True):
        sign_key, normal_key = jax.random.split(key)
        signs = jax.random.rademacher(sign_key, (4, 3, 3), "float64")
        normal = jax.random.normal(normal_key, (4, 3, 3), "float64")
        to_codes, to_scale = cases.quick_jit(jax.jacobian(penalties, argnums=(0, 1)))(
            z, np.tanh(z)
        )

    def information(z, continuous):
        return reference.multi_information(z, reference.deviation(continuous))

    def mixed(z, continuous):
        return reference.hessian_penalty(
            lambda z: cases.activations(z, np),
            z,
            reference.deviation(continuous),
            signs,
            normal,
            0.5,
        ).mean()

    for number, penalty in enumerate((information, mixed)):
        want = numeric_gradient(lambda v, penalty=penalty: penalty(v, np.tanh(z)), z)
        np.testing.assert_allclose(to_codes[number], want, rtol=1e-5, atol=1e-8)
        want = numeric_gradient(lambda v, penalty=penalty: penalty(z, v), np.tanh(z))
        np.testing.assert_allclose(to_scale[number], want, rtol=1e-5, atol=1e-8)


def test_hessian_penalty_of_quadratic_decoders(getkey):
    """The share of off-diagonal elements of Hessians that are known."""
    scale = jnp.array([0.5, 1.0, 2.0])
    hessians = jnp.array(
        [
            [[1.0, 0.5, 0.0], [0.5, -2.0, 1.0], [0.0, 1.0, 0.5]],
            [[0.0, 1.0, -1.0], [1.0, 1.0, 0.0], [-1.0, 0.0, 0.0]],
        ]
    )
    z = jax.random.normal(getkey(), (3, 3))

    def share(matrices):
        def quadratic(z):
            values = 0.5 * jnp.einsum("bi,aij,bj->ba", z, matrices, z)
            return {"layer": values + z @ jnp.ones((3, len(matrices)))}

        return losses.hessian_penalty(
            quadratic, z, scale, key=getkey(), perturbations=20_000
        )

    scaled = np.asarray(hessians * scale[None, :, None] * scale[None, None, :])
    diagonal = np.eye(3, dtype=bool)[None]
    off, whole = (scaled * ~diagonal) ** 2, scaled**2
    # One ratio of means over the activations, not a mean of ratios.
    np.testing.assert_allclose(share(hessians), off.sum() / whole.sum(), rtol=0.05)
    alone = jnp.where(jnp.asarray(diagonal), hessians, 0.0)
    np.testing.assert_allclose(share(alone), np.zeros(3), atol=1e-4)
    crossed = jnp.where(jnp.asarray(diagonal), 0.0, hessians)
    np.testing.assert_allclose(share(crossed), np.ones(3), rtol=0.05)


def test_multi_information_orders_codes(rng):
    """Copies of one latent inform about each other, independent ones do not."""
    free = jnp.asarray(rng.normal(size=(200, 3)), jnp.float32)
    copies = jnp.tile(free[:, :1], (1, 3))
    values = [
        float(losses.multi_information(z, losses.code_deviation(z)))
        for z in (free, copies)
    ]
    assert values[1] > values[0] + 1.0


def test_a_constant_latent_has_finite_gradients(getkey):
    z = jax.random.normal(getkey(), (8, 3)).at[:, 1].set(0.25)

    def total(z):
        scale = losses.code_deviation(z)
        mixed = losses.hessian_penalty(cases.activations, z, scale, key=getkey())
        return losses.multi_information(z, scale) + mixed.sum()

    assert np.isfinite(jax.grad(total)(z)).all()


def test_errors():
    z = jnp.zeros((4, 3))
    with pytest.raises(ValueError, match=r"`codebook` must be \[D, V\]"):
        losses.nearest_values(z, jnp.zeros((4, 3)))
    with pytest.raises(ValueError, match="`levels` must be at least 2"):
        losses.round_to_levels(z, levels=1)
    with pytest.raises(ValueError, match="`perturbations` must be at least 2"):
        losses.hessian_penalty(
            cases.activations, z, jnp.ones(3), key=jax.random.key(0), perturbations=1
        )
    with pytest.raises(ValueError, match="`quantised` must have the shape of `z`"):
        losses.commitment_loss(z, z[:2])
    with pytest.raises(ValueError, match="at least 2 examples"):
        losses.multi_information(z[:1], jnp.ones(3))
