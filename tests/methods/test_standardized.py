"""Methods on standardised images: the loss sees them, users do not."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disentangle_jax import methods, models

MEAN, DEVIATION = (0.5, 0.25, 0.1), (0.2, 0.5, 1.0)


def build(reconstruction):
    model = models.create("fc1200", (8, 8, 3), width=4, latent_dim=2)
    return methods.create(
        "beta_vae", model, optax.scale_by_adam(), reconstruction=reconstruction
    )


def test_loss_code_and_output_are_those_of_standardised_images(getkey, rng):
    plain = build("mse")
    method = methods.Standardized(plain, MEAN, DEVIATION)
    image = rng.integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    scaled = ((image / 255.0 - MEAN) / DEVIATION).astype(np.float32)
    state = method.init(getkey(), {"image": jnp.asarray(image)})
    hyper = {"beta": 2.0, "learning_rate": 0.1}
    key = getkey()
    new, terms = jax.jit(method.step)(key, state, {"image": image}, hyper)
    want, want_terms = jax.jit(plain.step)(key, state, {"image": scaled}, hyper)
    assert terms["loss"] == pytest.approx(float(want_terms["loss"]), rel=1e-6)
    # Adam's first moments are the gradients, up to a factor.
    pairs = zip(jax.tree.leaves(new.opt_state.mu), jax.tree.leaves(want.opt_state.mu))
    for got, expected in pairs:
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        method.encode(state, (image / 255.0).astype(np.float32)).mean,
        plain.encode(state, scaled).mean,
        rtol=1e-4,
        atol=1e-5,
    )
    # What a perfect decoder of standardised images puts out are the images.
    np.testing.assert_allclose(method.output(scaled), image / 255.0, atol=1e-6)


def test_a_bernoulli_decoder_is_refused():
    with pytest.raises(ValueError, match="'mse'"):
        methods.Standardized(build("bernoulli"), MEAN, DEVIATION)
