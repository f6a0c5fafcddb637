"""Networks describe themselves, and users' networks are found by their import path."""

import math

import pytest

from disentangle_jax import models
from disentangle_jax.models import layers
from disentangle_jax.types import Posterior


class Linear(models.Network):
    image_shape: tuple[int, int, int]
    latent_dim: int

    def setup(self):
        self.encoder = layers.Dense(self.latent_dim)
        self.decoder = layers.Dense(math.prod(self.image_shape))

    def encode(self, x, *, train=False):
        return Posterior(self.encoder(x.reshape(x.shape[0], -1)))

    def decode(self, z, *, train=False):
        return self.decoder(z).reshape(-1, *self.image_shape)


@models.define(reference="this test")
def linear(image_shape, *, latent_dim=3):
    return Linear(image_shape, latent_dim)


HERE = "tests.models.test_definitions"


def test_every_network_is_described():
    for name in models.names():
        description = models.describe(name)
        assert description.reference
        assert "latent_dim" in description.overrides
        counts = name in ("prodlda", "nvdm")
        assert description.observation == ("counts" if counts else "image")
    assert models.describe("fc1200").overrides["width"] == 1200


def test_networks_of_users_are_built_by_their_import_path():
    name = f"{HERE}:linear"
    assert models.describe(name).overrides == {"latent_dim": 3}
    module = models.create(name, (4, 4, 1), latent_dim=2)
    assert module.latent_groups == (1, 1)
    count = models.parameter_count(name, (4, 4, 1), latent_dim=2)
    assert count == (16 * 2 + 2) + (2 * 16 + 16)
    assert "linear" not in models.names()
    with pytest.raises(ValueError, match="Did you mean 'latent_dim'"):
        models.create(name, (4, 4, 1), latentdim=2)


def test_functions_without_a_description_are_rejected():
    with pytest.raises(ValueError, match="`name` must name a network"):
        models.create(f"{HERE}:test_every_network_is_described", (4, 4, 1))
