"""Value and gradient on eight devices equal those of one, for everything coupled."""

from functools import partial

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from disentangle_jax import losses, sampling
from tests.losses import cases

BATCH, FEATURES, DIMS, PIXELS = 32, 3, 4, 6


def everything(part, weights, inputs, noise, factors, axis_name=None):
    """All terms, or all objectives, of a linear encoder and decoder."""
    mean, log_var = jnp.split(jnp.tanh(inputs @ weights["encoder"]) * 2, 2, axis=1)
    z = mean + jnp.exp(0.5 * log_var) * noise
    logits = z @ weights["decoder"]
    x = jax.nn.sigmoid(jnp.tile(inputs, (1, PIXELS // FEATURES)))
    batch = (x, logits, z, mean, log_var)
    if part == "terms":
        other = sampling.permute_dims(jax.random.key(3), z, axis_name=axis_name)
        return cases.batch_terms(batch, other, factors, axis_name)
    results = cases.objectives(
        batch, cases.HYPERPARAMETERS, jax.random.key(4), axis_name
    )
    return {
        name: jnp.stack([loss, *terms.values()])
        for name, (loss, terms) in results.items()
    }


def value_and_jacobian(part, weights, *data, axis_name=None):
    """All values, and their gradients with respect to the weights."""
    value, pull = jax.vjp(
        lambda w: everything(part, w, *data, axis_name=axis_name), weights
    )
    flat, unflatten = jax.flatten_util.ravel_pytree(value)
    (rows,) = jax.vmap(lambda seed: pull(unflatten(seed)))(jnp.eye(flat.size))
    return value, rows


def on_a_device(part, weights, *data):
    """What a user writes inside a mapped function."""
    value, jacobian = value_and_jacobian(part, weights, *data, axis_name="i")
    return value, jax.lax.pmean(jacobian, "i")


def make_inputs():
    rng = np.random.default_rng(0)
    weights = {
        "encoder": rng.normal(size=(FEATURES, 2 * DIMS)).astype(np.float32),
        "decoder": rng.normal(size=(DIMS, PIXELS)).astype(np.float32),
    }
    data = (
        rng.normal(size=(BATCH, FEATURES)).astype(np.float32),
        rng.normal(size=(BATCH, DIMS)).astype(np.float32),
        rng.integers(0, (4, 5), size=(BATCH, 2)).astype(np.int32),
    )
    return weights, data


def ways(part):
    """Value and gradient on one device and by each way on eight."""
    single, local_step = partial(value_and_jacobian, part), partial(on_a_device, part)
    weights, data = make_inputs()
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    jit = cases.quick_jit
    out = {"single": jit(single)(weights, *data)}
    pmapped = jax.pmap(local_step, axis_name="i", in_axes=(None, 0, 0, 0))
    local = [a.reshape(8, BATCH // 8, *a.shape[1:]) for a in data]
    pmapped = pmapped.lower(weights, *local).compile(cases.QUICK)
    # Each device holds the same; the last would show a device that disagrees.
    out["pmap"] = jax.tree.map(lambda a: a[-1], pmapped(weights, *local))
    specs = (P(), P("i"), P("i"), P("i"))
    for check in (True, False):
        mapped = jax.shard_map(
            local_step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=check
        )
        out[f"shard_map(check_vma={check})"] = jit(mapped)(weights, *data)
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((8,), ("i",), axis_types=(kind,))
        sharded = [jax.device_put(a, jax.NamedSharding(mesh, P("i"))) for a in data]
        replicated = jax.device_put(weights, jax.NamedSharding(mesh, P()))
        with jax.set_mesh(mesh):
            out[f"jit, {kind.name} axes"] = jit(single)(replicated, *sharded)
    return jax.tree.map(np.asarray, out)


@pytest.mark.parametrize("part", ["terms", "objectives"])
def test_every_way_equals_one_device(part):
    # Each program is compiled for many functions at once.
    results = ways(part)
    want_values, want_rows = results.pop("single")
    sizes = [np.size(v) for v in jax.tree.leaves(want_values)]
    names = np.repeat(sorted(want_values), sizes)
    assert part == "terms" or set(names) == set(cases.HYPERPARAMETERS)
    wrong = {}
    for way, (values, rows) in results.items():
        flat = np.concatenate([np.ravel(v) for v in jax.tree.leaves(values)])
        want = np.concatenate([np.ravel(v) for v in jax.tree.leaves(want_values)])
        for number, name in enumerate(names):
            error = abs(flat[number] - want[number]) / (1e-1 + abs(want[number]))
            for layer in rows:
                scale = np.abs(want_rows[layer][number]).max() + 1e-2
                gap = np.abs(rows[layer][number] - want_rows[layer][number]).max()
                error = max(error, gap / scale)
            if error > 1e-5:
                wrong[way, str(name)] = error
    assert not wrong, wrong
    # A gradient that is zero everywhere would agree as well.
    for name in set(names):
        slopes = [np.abs(r[names == name]).max() for r in want_rows.values()]
        assert max(slopes) > 1e-4, name


def test_lanes_within_devices():
    """A sweep of beta by `vmap`, inside `shard_map`, is the sweep on one device."""
    weights, (inputs, noise, _) = make_inputs()
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))

    def lane(beta, inputs, noise, axis_name=None):
        mean, log_var = jnp.split(inputs @ weights["encoder"], 2, axis=1)
        z = mean + jnp.exp(0.5 * log_var) * noise
        x = jax.nn.sigmoid(jnp.tile(inputs, (1, PIXELS // FEATURES)))
        return losses.beta_tc_vae(
            x,
            z @ weights["decoder"],
            z,
            mean,
            log_var,
            beta=beta,
            dataset_size=cases.N,
            axis_name=axis_name,
        )[0]

    betas = jnp.array([1.0, 4.0, 8.0])
    sweep = jax.vmap(partial(lane, axis_name="i"), in_axes=(0, None, None))
    mapped = jax.shard_map(
        sweep, mesh=mesh, in_specs=(P(), P("i"), P("i")), out_specs=P()
    )
    got = cases.quick_jit(mapped)(betas, inputs, noise)
    single = cases.quick_jit(lane)
    want = [single(beta, inputs, noise) for beta in betas]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_keys_on_several_devices():
    """Folding the device's number into the key draws noise of its own on each."""
    mean = jnp.zeros((8, 4, 2))
    key = jax.random.key(0)

    def draw(mean, recipe):
        own = key
        if recipe:
            own = jax.random.fold_in(key, jax.lax.axis_index("i"))
        return sampling.reparameterize(own, mean, jnp.zeros_like(mean))

    draws = {
        recipe: np.asarray(jax.pmap(partial(draw, recipe=recipe), "i")(mean))
        for recipe in (True, False)
    }
    assert len(np.unique(draws[True])) == mean.size
    assert len(np.unique(draws[False])) == mean.size // 8  # one noise on all devices
    mesh = jax.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(
        partial(draw, recipe=True), mesh=mesh, in_specs=P("i"), out_specs=P("i")
    )
    rows = jax.jit(mapped)(mean.reshape(32, 2))
    np.testing.assert_array_equal(rows, draws[True].reshape(32, 2))
    # Under `jit` with a sharded batch, one key draws the noise of the global batch.
    spread = jax.device_put(mean.reshape(32, 2), jax.NamedSharding(mesh, P("i")))
    drawn = jax.jit(lambda m: sampling.reparameterize(key, m, jnp.zeros_like(m)))(
        spread
    )
    one = sampling.reparameterize(
        key, np.zeros((32, 2), np.float32), jnp.zeros((32, 2))
    )
    np.testing.assert_allclose(drawn, one, rtol=1e-6)
