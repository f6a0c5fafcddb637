"""Topic models: the step against loops in float64, priors, lanes, devices, errors."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from disentangle_jax import data, methods, models

WORDS, SIZE = 6, 20
HYPER = {"alpha": 0.7, "beta": 0.1, "gamma": 4.0, "learning_rate": 1e-2}


@functools.cache
def compiled(name="prodlda", **choices):
    """Returns a model, its method, and the method's init and step, compiled once."""
    # Dropout is drawn by keys of the step; here nothing is dropped.
    sizes = {"keep": 1.0, "width": 5} if name == "prodlda" else {"width": 5}
    model = models.create(name, (WORDS,), latent_dim=4, groups=2, **sizes)
    method = methods.create(
        name, model, optax.scale_by_adam(), dataset_size=SIZE, **choices
    )
    return model, method, jax.jit(method.init), jax.jit(method.step)


@pytest.fixture
def documents(rng):
    return {"counts": jnp.asarray(rng.poisson(1.5, (4, WORDS)), jnp.uint16)}


def normal(z, mean, variance):
    return -0.5 * (math.log(2 * math.pi * variance) + (z - mean) ** 2 / variance)


def expected_loss(counts, logits, z, mean, variance, prior_variance, groups, hyper):
    """Eq. 4 with the estimator of Sec. 3.1, one density at a time."""
    batch, dims = z.shape
    weights = np.full((batch, batch), (SIZE - 1) / (SIZE * (batch - 1)))
    np.fill_diagonal(weights, 1 / SIZE)

    def density(i, j, d):
        return normal(z[i, d], mean[j, d], variance[j, d])

    def aggregate(i, members):
        return math.log(
            sum(
                weights[i, j] * math.exp(sum(density(i, j, d) for d in members))
                for j in range(batch)
            )
        )

    starts = np.cumsum([0, *groups])
    total = 0.0
    for i in range(batch):
        log_total = math.log(sum(math.exp(logit) for logit in logits[i]))
        for n, logit in zip(counts[i], logits[i], strict=True):
            total -= n * (logit - log_total)
        own = sum(density(i, i, d) for d in range(dims))
        joint = aggregate(i, range(dims))
        by_group = sum(aggregate(i, range(a, b)) for a, b in zip(starts, starts[1:]))
        by_dim = sum(aggregate(i, [d]) for d in range(dims))
        prior = sum(normal(z[i, d], 0.0, prior_variance) for d in range(dims))
        total += hyper["alpha"] * (own - joint) + hyper["beta"] * (joint - by_group)
        total += hyper["gamma"] * (by_group - by_dim) + by_dim - prior
    return total / batch


# Laplace approximation to Dirichlet(a) over 4 topics: variance (1 - 1/4) / a.
@pytest.mark.parametrize(
    "name, choices, prior_variance, groups",
    [
        ("prodlda", {}, 0.75, (2, 2)),
        ("prodlda", {"concentration": 0.5, "groups": (1, 3)}, 1.5, (1, 3)),
        ("nvdm", {}, 1.0, (2, 2)),
    ],
)
def test_loss_of_a_step_equals_loops(
    name, choices, prior_variance, groups, documents, getkey
):
    model, method, init, step = compiled(name, **choices)
    assert method.prior_variance == prior_variance
    assert method.latent_groups == groups
    assert method.inputs == data.WordCounts()
    state = init(getkey(), documents)
    key = getkey()
    _, terms = step(key, state, documents, HYPER)

    def trained(value, of):
        variables = {"params": state.params, **state.model_state}
        kept = {"mutable": ["batch_stats"]} if state.model_state else {}
        out = model.apply(variables, value, method=of, train=True, **kept)
        return out[0] if kept else out

    mean, log_var, _ = trained(documents["counts"].astype(jnp.float32), "encode")
    variance = np.exp(np.asarray(log_var, np.float64))
    noise = jax.random.normal(jax.random.fold_in(key, 0), mean.shape)
    z = mean + jnp.exp(0.5 * log_var) * noise
    logits = np.asarray(trained(z, "decode"), np.float64)
    want = expected_loss(
        np.asarray(documents["counts"], np.float64),
        logits,
        np.asarray(z, np.float64),
        np.asarray(mean, np.float64),
        variance,
        prior_variance,
        groups,
        HYPER,
    )
    assert float(terms["loss"]) == pytest.approx(want, rel=1e-5)


def test_unit_weights_are_the_vae_objective(documents, getkey):
    _, method, init, step = compiled()
    ones = {"alpha": 1.0, "beta": 1.0, "gamma": 1.0, "learning_rate": 1e-2}
    _, terms = step(getkey(), init(getkey(), documents), documents, ones)
    bound = float(terms["reconstruction"]) + float(terms["kl"])
    assert float(terms["loss"]) == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("name", ["prodlda", "nvdm"])
def test_loss_falls_and_the_code_decodes(name, documents, getkey):
    _, method, init, step = compiled(name)
    state, key = init(getkey(), documents), getkey()
    seen = []
    for _ in range(30):
        state, terms = step(key, state, documents, HYPER)
        seen.append(float(terms["loss"]))
    assert seen[-1] < seen[0]
    x = documents["counts"].astype(jnp.float32)
    code = method.encode(state, x).mean
    assert code.shape == (4, 4)
    words = method.output(method.decode(state, code))
    np.testing.assert_allclose(words.sum(axis=1), np.ones(4), rtol=1e-5)


def test_counts_are_not_pixels(documents):
    x = methods.as_unit_interval(documents["counts"])
    assert x.dtype == jnp.float32
    np.testing.assert_array_equal(x, np.asarray(documents["counts"], np.float32))


def test_prior_has_its_variance(documents, getkey):
    _, method, init, _ = compiled("prodlda", concentration=0.5, groups=(1, 3))
    codes = method.prior(getkey(), init(getkey(), documents), 4000)
    assert codes.shape == (4000, 4)
    assert float(codes.var()) == pytest.approx(1.5, rel=0.05)


def test_lanes_equal_runs_of_their_own(documents, getkey):
    _, method, init, step = compiled()
    apart = [init(getkey(), documents) for _ in range(2)]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *apart)
    keys = jax.random.split(getkey(), 2)
    lanes = {
        "alpha": [1.0, 0.5],
        "beta": [1.0, 0.1],
        "gamma": [1.0, 4.0],
        "learning_rate": [1e-2, 1e-3],
    }
    lanes = {name: jnp.array(values) for name, values in lanes.items()}
    together, terms = jax.jit(jax.vmap(method.step, in_axes=(0, 0, None, 0)))(
        keys, states, documents, lanes
    )
    for lane, state in enumerate(apart):
        hyper = {name: float(values[lane]) for name, values in lanes.items()}
        alone, alone_terms = step(keys[lane], state, documents, hyper)
        for term in alone_terms:
            np.testing.assert_allclose(
                terms[term][lane], alone_terms[term], rtol=2e-5, atol=2e-6
            )
        jax.tree.map(
            lambda a, b, lane=lane: np.testing.assert_allclose(a[lane], b, atol=1e-6),
            together.model_state,
            alone.model_state,
        )


def test_four_devices_equal_one(documents, getkey):
    _, _, init, step = compiled()
    state, key = init(getkey(), documents), getkey()
    new, terms = step(key, state, documents, HYPER)
    mesh = jax.make_mesh(
        (4,), ("data",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4]
    )
    split = jax.device_put(documents, NamedSharding(mesh, P("data")))
    four, four_terms = step(key, state, split, HYPER)
    for term in terms:
        np.testing.assert_allclose(
            four_terms[term], terms[term], rtol=2e-5, atol=2e-6, err_msg=term
        )
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6),
        four.model_state,
        new.model_state,
    )


@pytest.mark.parametrize(
    "choices, message",
    [
        ({"groups": (2, 3)}, r"`groups` must be .* add up to 4, got \(2, 3\)"),
        ({"concentration": 0.0}, "`concentration` must be positive"),
        ({"concentration": math.inf}, "`concentration` must be positive and finite"),
        ({"reconstruction": "bernoulli"}, "must be 'multinomial' for topic models"),
        ({"concentracion": 1.0}, "Did you mean 'concentration'"),
    ],
)
def test_wrong_choices(choices, message):
    model = models.create("prodlda", (WORDS,), latent_dim=4)
    with pytest.raises(ValueError, match=message):
        methods.create("prodlda", model, optax.scale_by_adam(), **choices)


def test_groups_of_a_network_must_divide_its_topics():
    with pytest.raises(ValueError, match="divisible by the 3 groups of 'prodlda'"):
        models.create("prodlda", (WORDS,), latent_dim=4, groups=3)
