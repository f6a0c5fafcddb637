"""Pairs of layers on blocks of pixels equal the layers one after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax import losses, models
from disentangle_jax.losses.likelihoods import _as_blocks
from disentangle_jax.models import blocks, layers, matrix_convolution


@pytest.mark.parametrize("dtype, rtol", [("float32", 1e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("colours, padding", [(1, 1), (3, 2)])
@pytest.mark.parametrize("name", ["relu", "elu"])
def test_block_form_equals_native_form(name, colours, padding, dtype, rtol, rng):
    with jax.enable_x64(dtype == "float64"):

        def weights(inputs, outputs, features):
            shape = (4, 4, inputs, outputs)
            kernel = 0.1 * rng.standard_normal(shape)
            bias = rng.standard_normal(features)
            return blocks.Weights(jnp.asarray(kernel, dtype), jnp.asarray(bias, dtype))

        down = weights(colours, 8, 8), weights(8, 6, 6)
        up = weights(8, 6, 8), weights(colours, 8, colours)
        image = jnp.asarray(rng.standard_normal((2, 16, 24, colours)), dtype)
        features = jnp.asarray(rng.standard_normal((2, 4, 6, 6)), dtype)
        activate = layers.nonlinearity(name)
        paddings = dict(padding=padding)
        for native, block, x, pair, settings in (
            (blocks._native_pair, blocks._block_pair, image, down, paddings),
            (blocks._native_transpose_pair, blocks._block_transpose_pair)
            + (features, up, {}),
        ):

            def gradient(function, x=x, pair=pair, settings=settings):
                def loss(x, *pair):
                    y = function(x, *pair, activate=activate, **settings)
                    return jnp.sin(y).sum()

                return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))(x, *pair)

            leaves = zip(*map(jax.tree.leaves, (gradient(native), gradient(block))))
            for a, b in leaves:
                scale = max(1.0, float(jnp.abs(a).max()))
                np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)


@pytest.fixture
def on_tpu(monkeypatch):
    """Computes the networks in the form for TPUs."""

    def dispatch(native, block, settings, *arguments):
        return block(*arguments, **settings)

    def switch(on):
        monkeypatch.setattr(blocks, "_dispatch", dispatch if on else NATIVE)

    yield switch


NATIVE = blocks._dispatch


def network(variant, colours, dtype, **overrides):
    """Returns a narrow conv64 for 64 px, its parameters and a batch of two images."""
    model = models.create(
        "conv64",
        (64, 64, colours),
        kernel_variant=variant,
        channel_scale=0.125,
        dtype=dtype,
        **overrides,
    )
    x = jax.random.uniform(jax.random.key(0), (2, 64, 64, colours), dtype)
    return model, model.init(jax.random.key(1), x), x


def value_and_gradient(model, variables, x):
    def loss(variables):
        posterior = model.apply(variables, x, method="encode")
        logits = model.apply(variables, jnp.sin(posterior.mean), method="decode")
        return jnp.sin(logits).sum() + posterior.log_var.sum()

    return jax.jit(jax.value_and_grad(loss))(variables)


def assert_close(a, b, rtol):
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        scale = max(1.0, float(jnp.abs(left).max()))
        np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize(
    "variant, colours, dtype, rtol",
    [
        ("dlib", 1, "float32", 1e-5),
        ("burgess", 3, "float32", 1e-5),
        ("michlo", 3, "float64", 1e-10),
        ("dlib", 3, "float64", 1e-10),
    ],
)
def test_network_on_blocks_equals_the_native_one(variant, colours, dtype, rtol, on_tpu):
    with jax.enable_x64(dtype == "float64"):
        case = network(variant, colours, dtype)
        assert case[0].pixel_blocks == 4
        native = value_and_gradient(*case)
        on_tpu(True)
        assert_close(native, value_and_gradient(*case), rtol)


def test_lanes_and_devices_on_blocks_equal_the_native_form(on_tpu):
    model, variables, x = network("dlib", 1, "float32")
    x = jnp.concatenate([x] * 4)
    lanes = jax.tree.map(lambda p: jnp.stack([p, 1.1 * p]), variables)
    step = jax.vmap(lambda v: value_and_gradient(model, v, x))
    native = step(lanes)
    on_tpu(True)
    assert_close(native, step(lanes), 1e-5)
    mesh = jax.make_mesh((2, 4), ("lanes", "data"), axis_types=(AxisType.Auto,) * 2)
    x = jax.device_put(x, NamedSharding(mesh, P("data")))
    lanes = jax.device_put(lanes, NamedSharding(mesh, P("lanes")))
    assert_close(native, jax.jit(step)(lanes), 1e-5)


@pytest.mark.parametrize(
    "shape, settings", [((32, 32, 1), {}), ((64, 64, 1), {"channel_scale": 2.0})]
)
def test_small_images_and_wide_layers_stay_native(shape, settings):
    assert models.create("conv64", shape, **settings).pixel_blocks == 0


def test_loss_on_blocks_equals_the_loss(rng):
    x = jnp.float32(rng.uniform(size=(2, 8, 8, 3)))
    logits = jnp.float32(rng.standard_normal(x.shape))
    for name in losses.likelihoods():
        likelihood = losses.likelihood(name)
        blocked = likelihood.on_blocks(4)
        assert (blocked is likelihood) == (not likelihood.pixelwise)
        if likelihood.pixelwise:
            rearranged = [_as_blocks(a, 4) for a in (x, logits)]
            wanted = likelihood.loss(x, logits)
            np.testing.assert_allclose(likelihood.loss(*rearranged), wanted, rtol=1e-6)
            np.testing.assert_allclose(blocked.loss(x, logits), wanted, rtol=1e-6)


def test_loss_reads_the_blocks_of_the_decoder(rng):
    """Both rearrangements cancel: this is what makes the loss cheap on TPUs."""
    made = jnp.float32(rng.standard_normal((2, 4, 4, 48)))
    image = matrix_convolution.to_pixels(made, 4, 0, (16, 16))
    np.testing.assert_array_equal(_as_blocks(image, 4), made)
