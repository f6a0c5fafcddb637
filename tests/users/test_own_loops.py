"""Users bring codes from torch, and call losses in loops of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from disentangle_jax import losses, metrics, sampling


def test_codes_from_torch(rng):
    torch = pytest.importorskip("torch")
    factors = rng.integers(3, size=(200, 2))
    codes = torch.tensor(factors + 0.1, dtype=torch.float32, requires_grad=True)
    found = metrics.evaluate(codes, torch.tensor(factors), scores="mig,mcc")
    assert float(found["mcc"]) == pytest.approx(1.0)
    assert not found.errors


class Networks(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.encoder = nnx.Linear(6, 6, rngs=rngs)
        self.decoder = nnx.Linear(3, 6, rngs=rngs)


def loss_fn(networks, key, x):
    mean, log_var = jnp.split(networks.encoder(x), 2, axis=1)
    z = sampling.reparameterize(key, mean, log_var)
    return losses.beta_tc_vae(
        x, networks.decoder(z), z, mean, log_var, beta=4.0, dataset_size=100
    )


def trained(x, steps=3):
    """Returns the losses of a loop as users of NNX write it."""
    networks = Networks(nnx.Rngs(0))
    optimizer = nnx.Optimizer(networks, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(networks, optimizer, key, x):
        gradient = nnx.value_and_grad(loss_fn, has_aux=True)
        (loss, _), grads = gradient(networks, key, x)
        optimizer.update(networks, grads)
        return loss

    keys = [jax.random.fold_in(jax.random.key(1), i) for i in range(steps)]
    return [float(step(networks, optimizer, key, x)) for key in keys]


def test_an_nnx_loop_on_four_devices_is_that_of_one(rng):
    x = rng.uniform(size=(16, 6)).astype(np.float32)
    mesh = jax.make_mesh(
        (4,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4]
    )
    spread = jax.device_put(x, jax.NamedSharding(mesh, P("data")))
    np.testing.assert_allclose(trained(spread), trained(jnp.asarray(x)), rtol=1e-4)
