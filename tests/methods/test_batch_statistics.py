"""Networks with batch norm and dropout: their state goes through the step."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax import methods
from disentangle_jax.types import Posterior

HYPER = {
    "vae": {"learning_rate": 0.01},
    "factor_vae": {"learning_rate": 0.01, "gamma": 2.0, "critic_learning_rate": 0.01},
}
MOMENTUM = 0.9


class Normed(nn.Module):
    """A small autoencoder with batch norm on both sides, and dropout in between."""

    latent_groups = (1, 1)
    rate: float = 0.0

    def setup(self):
        norm = {"momentum": MOMENTUM, "epsilon": 1e-5}
        self.enter, self.leave = nn.BatchNorm(**norm), nn.BatchNorm(**norm)
        self.hidden, self.heads = nn.Dense(6), nn.Dense(4)
        self.dropout, self.out = nn.Dropout(self.rate), nn.Dense(4)

    def encode(self, x, train=False):
        h = self.enter(x.reshape(x.shape[0], -1), use_running_average=not train)
        h = self.dropout(nn.relu(self.hidden(h)), deterministic=not train)
        return Posterior(*jnp.split(self.heads(h), 2, axis=-1))

    def decode(self, z, train=False):
        h = self.leave(z, use_running_average=not train)
        return self.out(h).reshape(-1, 2, 2, 1)

    def __call__(self, x, train=False):
        return self.decode(self.encode(x, train).mean, train)


def create(name="vae", rate=0.0, **more):
    more |= {"critic_width": 4} if name == "factor_vae" else {}
    model = Normed(rate=rate)
    return methods.create(name, model, optax.scale_by_adam(eps=1e-3), **more)


@pytest.fixture
def batches(rng):
    return [{"image": rng.random((8, 2, 2, 1)).astype(np.float32)} for _ in range(3)]


def trained(method, batches, key, hyper):
    state = method.init(key, batches[0])
    step = jax.jit(method.step)
    for number, batch in enumerate(batches):
        state, terms = step(jax.random.fold_in(key, number), state, batch, hyper)
    return state, terms


def assert_near(left, right, atol=1e-6):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=atol), left, right
    )


@pytest.mark.parametrize("name", HYPER)
def test_statistics_follow_the_written_out_recursion(name, batches, getkey):
    state, _ = trained(create(name), batches, getkey(), HYPER[name])
    mean, var = np.zeros(4), np.ones(4)
    for batch in batches:
        x = batch["image"].reshape(8, 4).astype(np.float64)
        mean = MOMENTUM * mean + (1 - MOMENTUM) * x.mean(axis=0)
        var = MOMENTUM * var + (1 - MOMENTUM) * x.var(axis=0)
    found = state.model_state["batch_stats"]
    np.testing.assert_allclose(found["enter"]["mean"], mean, atol=1e-6)
    np.testing.assert_allclose(found["enter"]["var"], var, atol=1e-6)
    # The decoder's are those of the codes it was given.
    assert float(jnp.abs(found["leave"]["mean"]).min()) > 0


def test_evaluation_uses_the_averages(batches, getkey):
    method = create(rate=0.5)
    state, _ = trained(method, batches, getkey(), HYPER["vae"])
    x = jnp.asarray(batches[0]["image"])
    together = method.encode(state, x).mean
    alone = jnp.concatenate([method.encode(state, row[None]).mean for row in x])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_dropout_draws_anew_at_each_step(batches, getkey):
    key = getkey()
    method = create(rate=0.5)
    state = method.init(key, batches[0])
    step = jax.jit(method.step)
    same, other = jax.random.fold_in(key, 1), jax.random.fold_in(key, 2)
    terms = [step(k, state, batches[0], HYPER["vae"])[1] for k in (same, same, other)]
    kl = [float(t["kl"]) for t in terms]  # Depends on no draw but dropout's.
    assert kl[0] == kl[1] != kl[2]
    without = create(rate=0.0)
    kl = [
        float(without.step(k, state, batches[0], HYPER["vae"])[1]["kl"])
        for k in (same, other)
    ]
    assert kl[0] == kl[1]


def test_lane_equals_solo(batches, getkey):
    method = create(rate=0.5)
    keys = jax.random.split(getkey(), 3)
    lanes, _ = jax.vmap(lambda key: trained(method, batches, key, HYPER["vae"]))(keys)
    solo, _ = trained(method, batches, keys[1], HYPER["vae"])
    assert_near(jax.tree.map(lambda a: a[1], lanes), solo)


@pytest.mark.parametrize("name", HYPER)
def test_four_devices_equal_one(name, batches, getkey):
    key = getkey()
    method = create(name, rate=0.5)
    one, _ = trained(method, batches, key, HYPER[name])
    devices = jax.devices()[:4]
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Auto,), devices=devices)
    split = jax.device_put(batches, NamedSharding(mesh, P("data")))
    four, _ = trained(method, split, key, HYPER[name])
    assert_near(four, one, atol=1e-5)


@pytest.mark.parametrize("name", HYPER)
def test_pmap_is_refused(name, batches, getkey):
    with pytest.raises(ValueError, match="must be None for networks with batch norm"):
        create(name, axis_name="data").init(getkey(), batches[0])
