"""Likelihoods by name against the functions that they refer to."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses

EXPECTED = {
    "bernoulli": (losses.bernoulli_reconstruction, jax.nn.sigmoid, "sum"),
    "gaussian": (losses.gaussian_reconstruction, lambda a: a, "sum"),
    "mse": (losses.mse, lambda a: a, "mean"),
    "l1": (losses.l1_reconstruction, lambda a: a, "sum"),
    "box_blur_mse": (losses.box_blur_mse, lambda a: a, "mean"),
    "multinomial": (losses.multinomial_reconstruction, jax.nn.softmax, "sum"),
}
# A likelihood of another package, found by `module:name`.
MINE = losses.Likelihood("mine", losses.mse, jnp.tanh, reduction="mean")


@pytest.mark.parametrize("name", losses.likelihoods())
def test_likelihood(name, getkey):
    loss, mean, reduction = EXPECTED[name]
    found = losses.likelihood(name)
    shape = (3, 8) if name == "multinomial" else (3, 4, 5, 2)
    x = jax.random.uniform(getkey(), shape)
    logits = jax.random.normal(getkey(), shape)
    assert found.name == name and found.reduction == reduction
    np.testing.assert_array_equal(found.loss(x, logits), loss(x, logits))
    np.testing.assert_allclose(found.mean(logits), mean(logits), rtol=1e-6)
    pixels = np.prod(shape[1:]) if reduction == "sum" else 1
    got = found.mean_over_pixels(x, logits)
    np.testing.assert_allclose(got, loss(x, logits) / pixels, rtol=1e-6)
    # `reduction` describes the loss: twice as many pixels double a sum, not a mean.
    double = [jnp.concatenate([a, a], axis=-1) for a in (x, logits)]
    if name != "multinomial":
        factor = 2 if reduction == "sum" else 1
        np.testing.assert_allclose(
            found.loss(*double), factor * found.loss(x, logits), rtol=1e-5
        )


def test_attributes():
    assert set(losses.likelihoods()) == set(EXPECTED)
    found = [losses.likelihood(name) for name in losses.likelihoods()]
    assert {one.name for one in found if not one.standardizable} == {
        "bernoulli",
        "multinomial",
    }
    assert {one.name: one.error for one in found if one.error} == {
        "bernoulli": "bce",
        "multinomial": "nll",
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        found[0].name = "other"


def test_user_likelihood():
    assert losses.likelihood(f"{__name__}:MINE") is MINE


def test_errors():
    with pytest.raises(ValueError, match="likelihood: `name` must be one of bernoulli"):
        losses.likelihood("bernouli")
    with pytest.raises(ValueError, match="Did you mean 'bernoulli'"):
        losses.likelihood("bernouli")
    with pytest.raises(ValueError, match="methods.create: `reconstruction` must be"):
        losses.likelihood("x", function="methods.create", argument="reconstruction")
    with pytest.raises(ValueError, match="must name a Likelihood, and .* is a dict"):
        losses.likelihood(f"{__name__}:EXPECTED")
    with pytest.raises(ValueError, match="cannot be imported"):
        losses.likelihood("no_such_package:mine")
    with pytest.raises(ValueError, match="Likelihood: `reduction` must be one of sum"):
        losses.Likelihood("mine", losses.mse, jnp.tanh, reduction="average")
