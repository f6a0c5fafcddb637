"""AbsAE and ReL: four optimizers in one step, regions fitted to a few labels."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax import data, distributions, methods
from disentangle_jax.methods.relational_learner import RelationalLearner
from disentangle_jax.types import Posterior
from tests.methods.compiled import Compiled

WARMUP, ROWS = 2, 16
HYPER = {
    "beta": 0.2,
    "gamma": 1.0,
    "discriminator_learning_rate": 0.01,
    "relation_learning_rate": 0.01,
    "tau": 4.0,
    "covariance_scale": 0.1,
    "shrinkage": 1.0,
    "label_weight": 1.0,
    "learning_rate": 0.01,
}
FLOATS = {name: jnp.float32(value) for name, value in HYPER.items()}
RELATIONS = (
    data.Relation("flip_first", lambda f: (1 - f[0], f[1])),
    data.Relation("raise_second", lambda f: (f[0], 1) if f[1] == 0 else None),
)


class Small(nn.Module):
    """An autoencoder of 2×2 images with batch norm on both sides."""

    latent_groups = (1, 1, 1)

    def setup(self):
        norm = {"momentum": 0.9, "epsilon": 1e-3}
        self.enter, self.hidden = nn.BatchNorm(**norm), nn.Dense(16)
        self.codes, self.decoder = nn.Dense(3), nn.Dense(4)

    def encode(self, x, train=False):
        h = self.enter(x.reshape(x.shape[0], -1), use_running_average=not train)
        return Posterior(self.codes(jnp.tanh(self.hidden(h))))

    def decode(self, z, train=False):
        return self.decoder(z).reshape(-1, 2, 2, 1)

    def __call__(self, x, train=False):
        return self.decode(self.encode(x, train).mean, train)


@functools.cache
def create(name="absae", **more):
    more = {
        "relations": RELATIONS,
        "relation_batch": 8,
        "warmup_steps": WARMUP,
        "width": 16,
        "depth": 1,
        **more,
    }
    optimizer = optax.scale_by_adam(eps=1e-3)
    return Compiled(
        methods.create(name, Small(), optimizer, factor_sizes=(2, 2), **more)
    )


def images(rng, combination):
    """Both factors show in the pixels, under noise."""
    first, second = np.divmod(combination, 2)
    plain = np.stack([first, second, 1 - first, 1 - second], axis=-1) * 0.6 + 0.2
    noisy = plain + 0.05 * rng.standard_normal(plain.shape)
    return noisy.reshape(*combination.shape, 2, 2, 1).astype(np.float32)


@pytest.fixture
def labelled(rng):
    combination = np.repeat(np.arange(4)[:, None], 6, axis=1)
    return {
        "image": jnp.asarray(images(rng, combination)),
        "count": jnp.array([6, 6, 6, 6]),
    }


@pytest.fixture
def batches(rng):
    return [{"image": images(rng, rng.integers(0, 4, ROWS))} for _ in range(5)]


def trained(method, batches, labelled, key, hyper=HYPER):
    state = method.init(key, batches[0])
    hyper = {name: jnp.asarray(value, jnp.float32) for name, value in hyper.items()}
    for number, batch in enumerate(batches):
        if number == WARMUP:
            state = method.refit(state, {"labelled": labelled}, hyper)
        batch = {**batch, "labelled": labelled}
        state, terms = method.step(jax.random.fold_in(key, number), state, batch, hyper)
    return state, terms


def assert_near(left, right, atol):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=atol), left, right
    )


def assert_models_near(left, right):
    """Parameters, statistics and prior; moments of Adam have other scales."""
    for part in ("params", "model_state"):
        assert_near(getattr(left, part), getattr(right, part), atol=3e-5)


def prior(state):
    return state.model_state["prior"]


def test_four_optimizers_step_as_often_as_they_should(batches, labelled, getkey):
    method = create()
    state, terms = trained(method, batches, labelled, getkey())
    counts = {name: int(part.count) for name, part in state.opt_state.items()}
    # The encoder steps on the reconstruction and against the discriminator.
    assert counts == {"encoder": 10, "decoder": 5, "discriminator": 5, "learner": 3}
    assert sorted(terms) == [
        "discriminator", "generator", "loss", "reconstruction", "relation",
    ]  # fmt: skip
    assert all(np.isfinite(value) for value in terms.values())
    first = method.init(getkey(), batches[0])
    warm, terms = method.step(
        getkey(), first, {**batches[0], "labelled": labelled}, FLOATS
    )
    assert terms["relation"] == 0
    jax.tree.map(
        np.testing.assert_array_equal, warm.params["learner"], first.params["learner"]
    )
    assert_near(terms["loss"], terms["reconstruction"] + 0.2 * terms["generator"], 1e-6)


def test_reconstruction_is_a_mean_over_pixels(batches, labelled, getkey):
    """The decoder after one step is that of Adam on the mean cross-entropy alone."""
    method, x = create(), jnp.asarray(batches[0]["image"])
    state = method.init(getkey(), batches[0])

    def error(decoder):
        params = {**state.params["encoder"], "decoder": decoder}
        variables = {"params": params, "batch_stats": state.model_state["batch_stats"]}
        logits, _ = Small().apply(variables, x, train=True, mutable=["batch_stats"])
        return (jax.nn.softplus(logits) - x * logits).mean()

    value, grads = jax.value_and_grad(error)(state.params["decoder"])
    optimizer = optax.adam(0.01, eps=1e-3)
    updates, _ = optimizer.update(grads, optimizer.init(state.params["decoder"]))
    stepped, terms = method.step(
        getkey(), state, {**batches[0], "labelled": labelled}, FLOATS
    )
    assert_near(terms["reconstruction"], value, 1e-6)
    wanted = optax.apply_updates(state.params["decoder"], updates)
    assert_near(stepped.params["decoder"], wanted, 1e-6)


def test_the_learner_sees_draws_of_the_prior_and_no_images(batches, labelled, getkey):
    method, key = create(), getkey()
    state, _ = trained(method, batches[:3], labelled, key)
    left, right = (
        method.step(key, state, {**batch, "labelled": labelled}, FLOATS)[0]
        for batch in batches[3:]
    )
    jax.tree.map(
        np.testing.assert_array_equal, left.params["learner"], right.params["learner"]
    )
    moved = jax.tree.map(
        lambda a, b: float(jnp.abs(a - b).max()),
        left.params["learner"],
        state.params["learner"],
    )
    assert max(jax.tree.leaves(moved)) > 1e-4
    # And the prior is a constant of the step.
    jax.tree.map(np.testing.assert_array_equal, prior(left), prior(state))


def test_only_the_variant_trains_on_labelled_images(batches, labelled, getkey):
    """After the fit, other labelled images change a step of the variant alone."""
    key = getkey()
    other = {**labelled, "image": 1.0 - labelled["image"]}
    for name, same in (("absae", True), ("absae_labelled", False)):
        method = create(name)
        assert ("label_weight" in methods.hyperparameters(name)) == (not same)
        state, terms = trained(method, batches[:3], labelled, key)
        assert ("labelled" in terms) == (not same)
        left, right = (
            method.step(key, state, {**batches[3], "labelled": own}, FLOATS)[0]
            for own in (labelled, other)
        )
        gaps = jax.tree.map(
            lambda a, b: float(jnp.abs(a - b).max()), left.params, right.params
        )
        assert (max(jax.tree.leaves(gaps)) == 0) == same


@pytest.mark.parametrize("tau", [3.0, 6.0])
def test_the_fit_is_of_codes_in_evaluation_mode(batches, labelled, getkey, tau):
    method = create()
    state, _ = trained(method, batches[:2], labelled, getkey())
    hyper = FLOATS | {
        "tau": jnp.float32(tau),
        "covariance_scale": jnp.float32(0.3),
        "shrinkage": jnp.float32(2.0),
    }
    fitted = method.refit(state, {"labelled": labelled}, hyper)
    flat = labelled["image"].reshape(-1, 2, 2, 1)
    codes = method.encode(state, flat).mean.reshape(4, 6, 3)
    means, covariances, present = distributions.gaussian_mixture_fit(
        codes, jnp.full(4, int(tau)), scale=0.3, shrinkage=2.0
    )
    wanted = {"means": means, "covariances": covariances, "present": present}
    assert_near(prior(fitted), wanted, 1e-6)
    # A later fit leaves the scale to the codes, which have followed it.
    later = state._replace(step=jnp.int32(9))
    later = method.refit(later, {"labelled": labelled}, hyper)
    assert_near(
        prior(later)["covariances"], (covariances - 1e-6 * jnp.eye(3)[None]) / 0.3, 1e-5
    )
    # Everything but the prior stays.
    same = fitted._replace(model_state=state.model_state)
    jax.tree.map(np.testing.assert_array_equal, same, state)
    jax.tree.map(
        np.testing.assert_array_equal,
        fitted.model_state["batch_stats"],
        state.model_state["batch_stats"],
    )


def test_a_combination_without_labels_is_left_out(batches, labelled, getkey):
    labelled = {**labelled, "count": jnp.array([6, 6, 0, 1])}
    for method in (create(), create("absae_labelled", labelled_batch=4)):
        state, terms = trained(method, batches, labelled, getkey())
        assert prior(state)["present"].tolist() == [True, True, False, True]
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
        assert np.isfinite(terms["relation"])
    codes = method.prior(getkey(), state, 500)
    densities = np.asarray(method.log_densities(state, codes))
    assert (densities[:, 2] == -np.inf).all()
    assert np.isfinite(densities[:, [0, 1, 3]]).all()
    assert set(densities.argmax(axis=1)) <= {0, 1, 3}
    gaps = jnp.square(codes[:, None] - prior(state)["means"][None]).sum(axis=2)
    near = np.bincount(np.asarray(gaps[:, jnp.array([0, 1, 3])].argmin(axis=1)))
    assert (near > 100).all()  # Each of the three equally often.


def test_before_the_fit_no_region_has_a_density(batches, getkey):
    method = create()
    state = method.init(getkey(), batches[0])
    densities = method.log_densities(state, jnp.zeros((2, 3)))
    assert (np.asarray(densities) == -np.inf).all()


def test_examples_are_uniform_over_what_is_defined(getkey):
    table = data.relation_table(RELATIONS, (2, 2))
    learner = RelationalLearner(table, 3, form="nll", batch=8, width=16, depth=1)
    relation, operands, targets = learner.examples(getkey(), 3000)
    relation, start, end = (
        np.asarray(a).ravel() for a in (relation, operands, targets)
    )
    assert (np.bincount(relation) == 3000).all()
    for number, defined in ((0, [0, 1, 2, 3]), (1, [0, 2])):
        own = start[relation == number]
        assert set(own) == set(defined)
        shares = np.bincount(own, minlength=4)[defined] / 3000 * len(defined)
        assert (np.abs(shares - 1) < 0.12).all()
        wanted = table.targets[number, own, 0]
        np.testing.assert_array_equal(end[relation == number], wanted)


@pytest.mark.parametrize("form", ["nll", "mse"])
def test_learns_regions_and_relations(form, rng, labelled, getkey):
    """Three hundred steps on four kinds of image, with six labels each."""
    method = create(
        "absae_labelled",
        relation_loss=form,
        warmup_steps=100,
        labelled_batch=8,
        width=32,
        depth=2,
    )
    combination = rng.integers(0, 4, (300, 32))
    pictures = jnp.asarray(images(rng, combination))
    key = getkey()
    state = method.init(key, {"image": pictures[0]})
    hyper = {k: jnp.float32(v) for k, v in HYPER.items()}

    @jax.jit
    def steps(state, numbers):
        def one(state, number):
            batch = {"image": pictures[number], "labelled": labelled}
            step_key = jax.random.fold_in(key, number)
            return method.step(step_key, state, batch, hyper)[0], None

        return jax.lax.scan(one, state, numbers)[0]

    state = steps(state, jnp.arange(100))
    state = method.refit(state, {"labelled": labelled}, hyper)
    state = steps(state, jnp.arange(100, 200))
    state = steps(state, jnp.arange(200, 300))
    asked = rng.integers(0, 4, 200)
    codes = method.encode(state, jnp.asarray(images(rng, asked))).mean
    densities = method.log_densities(state, codes)
    assert (np.asarray(densities).argmax(axis=1) == asked).mean() > 0.95
    table = method.table
    for number, own in enumerate(table.operands()):
        start = jnp.asarray(rng.choice(own[:, 0], 100))
        relation = jnp.full(100, number)
        z = method.draw(key, state, start)
        symbol = method.symbol(key, state, relation)
        reached = method.relate(state, symbol, z)[:, 0]
        found = method.log_densities(state, reached).argmax(axis=1)
        wanted = table.targets[number, np.asarray(start), 0]
        assert (np.asarray(found) == wanted).mean() > 0.95


def test_operators_and_several_results(getkey, batches, labelled):
    """A binary relation told by the code of a region, with two results."""
    both = data.Relation("both", lambda f, g: (f, g), operator=(1, 1))
    method = create("absae_labelled", relations=(both,), labelled_batch=4)
    state, terms = trained(method, batches, labelled, getkey())
    assert np.isfinite(terms["relation"])
    symbol = method.symbol(getkey(), state, jnp.zeros(5, int))
    assert symbol.shape == (5, 3)
    near = method.log_densities(state, symbol)
    assert (np.asarray(near).argmax(axis=1) == 3).mean() > 0.5
    out = method.relate(state, symbol, jnp.zeros((5, 3)), jnp.ones((5, 3)))
    assert out.shape == (5, 2, 3)


def test_five_lanes_equal_solo(batches, labelled, getkey):
    method = create("absae_labelled", labelled_batch=4)
    keys = jax.random.split(getkey(), 5)
    taus = jnp.array([1.0, 2.0, 3.0, 4.0, 6.0])

    hyper = {name: jnp.full(5, value, jnp.float32) for name, value in HYPER.items()}
    hyper["tau"] = taus
    step = jax.jit(jax.vmap(method.step, in_axes=(0, 0, None, 0)))
    refit = jax.jit(jax.vmap(method.refit, in_axes=(0, None, 0)))
    fold = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    lanes = jax.vmap(method.init, in_axes=(0, None))(keys, batches[0])
    for number, batch in enumerate(batches):
        if number == WARMUP:
            lanes = refit(lanes, {"labelled": labelled}, hyper)
        batch = {**batch, "labelled": labelled}
        lanes, _ = step(fold(keys, number), lanes, batch, hyper)
    for number in (1, 4):
        alone = {**HYPER, "tau": float(taus[number])}
        solo, _ = trained(method, batches, labelled, keys[number], alone)
        lane = jax.tree.map(lambda a, n=number: a[n], lanes)
        assert_models_near(lane, solo)
    gap = jnp.abs(prior(lanes)["means"][0] - prior(lanes)["means"][1]).max()
    assert gap > 1e-2  # They are other models.


def test_eight_devices_equal_one(batches, labelled, getkey):
    key, method = getkey(), create("absae_labelled", labelled_batch=4)
    one, _ = trained(method, batches, labelled, key)
    mesh = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    split = jax.device_put(batches, NamedSharding(mesh, P("data")))
    everywhere = jax.device_put(labelled, NamedSharding(mesh, P()))
    eight, _ = trained(method, split, everywhere, key)
    assert_models_near(eight, one)


def test_labelled_images_are_constants():
    """As many per combination as the lane with the largest tau needs."""
    dataset = data.Dataset(
        "tiny",
        image_shape=(2, 2, 1),
        images=lambda indices: np.ones((len(indices), 2, 2, 1), np.uint8),
        factor_names=("first", "second"),
        factor_sizes=(2, 2),
        copies=2,
    )
    lanes = [{"tau": 1.0}, {"tau": 2.5}]
    made = create().constants(dataset, lanes, seed=0)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), made)
    assert shapes == create().constant_shapes(dataset, lanes)
    assert made["labelled"]["image"].shape == (4, 3, 2, 2, 1)
    assert made["labelled"]["count"].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("every, due", [(0, [2]), (3, [2, 5, 8])])
def test_steps_before_which_regions_are_fitted(every, due):
    method = create(refit_every=every)
    assert [step for step in range(10) if method.refit_due(step)] == due


def test_wrong_options():
    for more, message in (
        ({"relation_batch": 0}, "`relation_batch` must be at least 1"),
        ({"warmup_steps": -1}, "`warmup_steps` must be at least 0"),
        (
            {"name": "absae_labelled", "labelled_batch": 0},
            "`labelled_batch` must be at least 1",
        ),
        ({"labelled_batch": 4}, "labelled_batch"),
        ({"axis_name": "data"}, "`axis_name` must be None"),
        ({"relations": "dsprit"}, "Did you mean 'dsprites'"),
        ({"relations": "dsprites"}, "leaves the grid"),
    ):
        with pytest.raises(ValueError, match=message):
            create(**more)
    with pytest.raises(ValueError, match="regions need labels"):
        methods.create("absae", Small(), optax.scale_by_adam(), relations=RELATIONS)
