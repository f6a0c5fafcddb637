"""Quantised methods: values of the codes, updates of the codebook, chosen layers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disentangle_jax import losses, methods, models
from tests.methods.compiled import Compiled

SHAPE = (8, 8, 1)
LAYERS = ("layer_2", "layer_3")


def create(name, optimizer=None, **options):
    model = models.create("fc1200", SHAPE, width=8, latent_dim=3)
    optimizer = optimizer or optax.scale_by_adam()
    return methods.create(name, model, optimizer, **options)


@pytest.fixture
def images(getkey):
    return jax.random.uniform(getkey(), (16, *SHAPE))


@pytest.mark.parametrize(
    "name, options, count", [("qlae", {"values": 4}, 4), ("tripod", {}, 12)]
)
def test_codes_and_prior_have_the_values_of_the_codebook(
    name, options, count, images, getkey
):
    method = create(name, **options)
    state = method.init(getkey(), {"image": images})
    posterior = method.encode(state, images)
    assert posterior.log_var is None and posterior.logits is None
    values = np.asarray(method.latent_values(state, posterior.mean, 9))
    assert values.shape == (3, count) and (np.diff(values, axis=1) > 0).all()
    np.testing.assert_array_equal(values, method.latent_values(state, None, 9))
    np.testing.assert_array_equal(values, method.codebook_values(state))
    drawn = method.prior(getkey(), state, 400)
    for codes in (posterior.mean, drawn):
        for d in range(3):
            assert set(np.asarray(codes[:, d])) <= set(values[d])
    assert all(set(values[d]) == set(np.asarray(drawn[:, d])) for d in range(3))


def test_methods_without_codebooks_have_even_values(getkey):
    method = create("vae")
    codes = jax.random.normal(getkey(), (20, 3))
    values = np.asarray(method.latent_values(None, codes, 5))
    want = np.linspace(np.min(codes, axis=0), np.max(codes, axis=0), 5, axis=1)
    np.testing.assert_allclose(values, want, rtol=1e-6)
    flat = np.asarray(method.latent_values(None, None, 5))
    np.testing.assert_allclose(flat, np.tile([-2, -1, 0, 1, 2], (3, 1)))
    assert method.codebook_values(None) is None


def test_step_of_qlae_is_the_gradient_of_its_objective(images, getkey):
    method = Compiled(create("qlae", optax.identity()))
    state = method.init(getkey(), {"image": images})
    weights = {"lambda_quantisation": 0.5, "lambda_commitment": 0.25}
    new, terms = method.step(
        getkey(), state, {"image": images}, {**weights, "learning_rate": 0.1}
    )

    def loss(params):
        apply = {"params": params["autoencoder"]}
        codes = method.model.apply(apply, images, method="encode").mean
        q = losses.nearest_values(codes, params["codebook"])
        z = codes + jax.lax.stop_gradient(q - codes)
        logits = method.model.apply(apply, z, method="decode")
        error = losses.bernoulli_reconstruction(images, logits).mean() / 64
        frozen = jax.lax.stop_gradient
        return (
            error
            + 0.5 * jnp.square(frozen(codes) - q).mean()
            + 0.25 * jnp.square(codes - frozen(q)).mean()
        )

    value, grads = jax.jit(jax.value_and_grad(loss))(state.params)
    assert float(terms["loss"]) == pytest.approx(float(value), rel=1e-5)
    assert np.abs(grads["codebook"]).max() > 1e-5
    jax.tree.map(
        lambda n, p, g: np.testing.assert_allclose(n, p - 0.1 * g, atol=1e-6),
        new.params,
        state.params,
        grads,
    )


def test_tripod_penalises_the_named_layers(images, getkey):
    method = create("tripod", activations=LAYERS)
    state = method.init(getkey(), {"image": images})
    z = jax.random.normal(getkey(), (5, 3))
    found = method.decoder_activations(state.params, z)
    assert tuple(found) == LAYERS and found["layer_3"].shape == (5, 8)
    decoder = state.params["decoder"]
    hidden = z
    for name in ("layer_1", *LAYERS):
        hidden = hidden @ decoder[name]["kernel"] + decoder[name]["bias"][None]
        if name in LAYERS:
            np.testing.assert_allclose(found[name], hidden, rtol=1e-5, atol=1e-6)
        hidden = jnp.tanh(hidden)
    wrong = create("tripod", activations=("layer_9",))
    with pytest.raises(ValueError, match="tripod: `activations` must be one of"):
        wrong.decoder_activations(state.params, z)


def test_wrong_settings(getkey):
    with pytest.raises(ValueError, match="qlae: `values` must be at least 2"):
        create("qlae", values=1)
    model = models.create("absae", (16, 16, 1), latent_dim=3, channels=8)
    method = methods.create("qlae", model, optax.scale_by_adam())
    with pytest.raises(ValueError, match="must have no batch norm"):
        method.init(getkey(), {"image": jnp.zeros((2, 16, 16, 1))})
