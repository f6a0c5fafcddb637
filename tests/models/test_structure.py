"""How the latent variables reach the image: the structure that the names promise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import models
from disentangle_jax.models import sae
from tests.models.quick import quick_jit, random_variables

SHAPE = (32, 32, 3)


def decoder_features(name, getkey, **overrides):
    """A function of z to the output of every decoder block, in order."""
    module = models.create(name, SHAPE, channels=32, **overrides)
    x = jax.random.uniform(getkey(), (1, *SHAPE))
    variables = random_variables(module, x)

    @quick_jit
    def features(z):
        _, state = module.apply(
            variables, z, method="decode", capture_intermediates=True
        )
        decoder = state["intermediates"]["decoder"]
        return [decoder[f"block_{i}"]["__call__"][0] for i in range(1, 13)]

    return features


def first_changed(features, z, dim):
    """The first decoder block whose output depends on the latent; so do all after."""
    before, after = features(z), features(z.at[0, dim].add(1.0))
    changed = [bool((a != b).any()) for a, b in zip(before, after)]
    first = changed.index(True) + 1
    assert all(changed[first - 1 :])
    return first


@pytest.mark.parametrize(
    "name, positions",
    [
        ("sae-2", (1, 7)),
        ("sae-3", (1, 5, 9)),
        ("sae-4", (1, 4, 7, 10)),
        ("sae-6", (1, 3, 5, 7, 9, 11)),
        ("sae-12", tuple(range(1, 13))),
        ("vlae-3", (1, 5, 9)),
    ],
)
def test_a_variable_touches_nothing_before_its_transform(name, positions, getkey):
    features = decoder_features(name, getkey)
    z = jax.random.normal(getkey(), (1, 12))
    size = 12 // len(positions)
    for variable, position in enumerate(positions):
        for dim in {variable * size, variable * size + size - 1}:
            assert first_changed(features, z, dim) == position


@pytest.mark.parametrize("name", ["adaae-12", "ae"])
def test_unstructured_latents_touch_everything(name, getkey):
    features = decoder_features(name, getkey)
    z = jax.random.normal(getkey(), (1, 12))
    assert {first_changed(features, z, dim) for dim in (0, 5, 11)} == {1}


def test_positions_of_the_large_network():
    assert sae.transform_positions(16, 16) == tuple(range(1, 17))
    assert sae.transform_positions(16, 4) == (1, 5, 9, 13)


def test_ladder_puts_the_deepest_rung_first(getkey):
    # With one rung's output layer set to zero, its variable is zero.
    module = models.create("vlae-3", SHAPE, channels=32)
    x = jax.random.uniform(getkey(), (2, *SHAPE))
    variables = random_variables(module, x)
    encode = quick_jit(lambda v: module.apply(v, x, method="encode"))
    full = encode(variables)
    for rung, dims in ((1, slice(8, 12)), (2, slice(4, 8)), (3, slice(0, 4))):
        silent = jax.tree.map(lambda leaf: leaf, variables)
        last = silent["params"]["encoder"][f"rung_{rung}"]["layer_3"]
        silent["params"]["encoder"][f"rung_{rung}"]["layer_3"] = jax.tree.map(
            jnp.zeros_like, last
        )
        posterior = encode(silent)
        changed = np.flatnonzero((posterior.mean != full.mean).any(0))
        np.testing.assert_array_equal(changed, np.arange(12)[dims])
        assert not posterior.mean[:, dims].any()
        assert not posterior.log_var[:, dims].any()


def test_ladder_reads(getkey):
    # A rung sees its block and those before, not those after: rung k of vlae-3 reads
    # blocks 4, 8 and 12.
    module = models.create("vlae-3", SHAPE, channels=32)
    x = jax.random.uniform(getkey(), (1, *SHAPE))
    variables = random_variables(module, x)
    gradient = quick_jit(
        jax.jacrev(
            lambda v: module.apply(v, x, method="encode").mean.reshape(3, 4).sum(1)
        )
    )(variables)
    blocks = gradient["params"]["encoder"]
    for variable, block in ((0, 12), (1, 8), (2, 4)):
        for i in range(1, 13):
            depends = bool(blocks[f"block_{i}"]["conv"]["kernel"][variable].any())
            assert depends == (i <= block)


@pytest.fixture
def transform(getkey):
    """A Str-Tfm layer with its variables, features and latent variable."""
    backbone = models.create("sae-4", SHAPE, channels=8).backbone
    layer = sae.AffineTransform(backbone)
    features = jax.random.normal(getkey(), (2, 4, 4, 8))
    u = jax.random.normal(getkey(), (2, 3))
    return layer, random_variables(layer, features, u), features, u


def test_a_silent_transform_is_the_identity(transform):
    transform, variables, features, u = transform
    assert (transform.apply(variables, features, u) != features).any()
    last = variables["params"]["mlp"]["layer_3"]
    variables["params"]["mlp"]["layer_3"] = jax.tree.map(jnp.zeros_like, last)
    np.testing.assert_array_equal(transform.apply(variables, features, u), features)


def test_a_transform_scales_by_the_exponential(transform):
    transform, variables, features, u = transform
    # Bias alone: the first half shifts, the second is the log of the scale.
    layer = jax.tree.map(jnp.zeros_like, variables["params"]["mlp"]["layer_3"])
    layer["bias"] = jnp.concatenate([jnp.full(8, 0.5), jnp.full(8, -1.0)])
    variables["params"]["mlp"]["layer_3"] = layer
    y = transform.apply(variables, features, u)
    np.testing.assert_allclose(y, np.exp(-1.0) * features + 0.5, rtol=1e-5, atol=1e-6)


# --- summary --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sae-12", "vlae-4", "conv64"])
def test_summary_counts_every_parameter(name, capsys):
    table = models.summary(name, (64, 64, 3))
    assert capsys.readouterr().out == f"{table}\n"
    assert table.parameters == models.parameter_count(name, (64, 64, 3))
    lines = str(table).splitlines()
    assert len(lines) == len(table) + 2
    assert f"{table.parameters:,}" in lines[-1]


def test_summary_flops():
    table = {layer.path: layer for layer in models.summary("conv64", (64, 64, 3))}
    first = table["encoder/conv_1"]
    assert first.output_shape == (32, 32, 32)
    assert first.flops == 2 * 32 * 32 * (4 * 4 * 3 * 32)
    # The last transposed convolution reads 32×32 positions and writes 64×64.
    last = table["decoder/conv_4"]
    assert last.output_shape == (64, 64, 3)
    assert last.flops == 2 * 32 * 32 * (4 * 4 * 32 * 3)
    assert table["encoder/mean"].flops == 2 * 256 * 10
