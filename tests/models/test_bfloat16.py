"""Training in bfloat16 follows training in float32."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disentangle_jax import data, models

STEPS, BATCH = 200, 8


def final_loss(name, overrides, learning_rate, batches):
    """Mean loss of the last 20 of 200 steps of Adam."""
    module = models.create(name, (64, 64, 3), **overrides)
    optimizer = optax.adam(learning_rate)
    params = jax.jit(module.init)(jax.random.key(0), batches[0])["params"]

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, x):
        def loss(params):
            logits = module.apply({"params": params}, x)
            bce = optax.sigmoid_binary_cross_entropy(logits, x)
            return bce.sum((1, 2, 3)).mean()

        params, moments = state
        value, gradient = jax.value_and_grad(loss)(params)
        updates, moments = optimizer.update(gradient, moments)
        return (optax.apply_updates(params, updates), moments), value

    state, losses = (params, optimizer.init(params)), []
    for x in batches:
        state, value = step(state, x)
        losses.append(value)
    losses = np.array(losses)
    assert losses[-20:].mean() < 0.95 * losses[0]  # it learns
    return losses[-20:].mean()


# At the papers' learning rates. At 1e-3, conv64 sits on a plateau at about the mean
# image for a time that depends on the seed (float32 alone ends 14 % apart), so that a
# comparison there says nothing of the arithmetic.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, overrides, learning_rate",
    [("sae-12", {"channels": 8}, 5e-4), ("conv64", {"channel_scale": 0.25}, 1e-4)],
)
def test_bfloat16_training(name, overrides, learning_rate):
    dataset = data.load("rendered_shapes3d")
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(STEPS):
        images = dataset.images(rng.integers(len(dataset), size=BATCH))
        batches.append(jnp.asarray(images, jnp.float32) / 255)
    exact = final_loss(name, overrides, learning_rate, batches)
    overrides = overrides | {"dtype": jnp.bfloat16}
    coarse = final_loss(name, overrides, learning_rate, batches)
    print(f"{name}: float32 {exact:.1f} nats, bfloat16 {coarse:.1f} nats")
    assert abs(coarse / exact - 1) < 0.02
