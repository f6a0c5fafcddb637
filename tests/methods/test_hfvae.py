"""HFVAE's step against loops in float64, in lanes, on devices, at low temperature."""

import functools
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import methods, models

SHAPE = (4, 4, 1)
SIZE = 20
HYPER = {
    "alpha": 0.7,
    "beta": 4.0,
    "gamma": 3.0,
    "temperature": 0.66,
    "learning_rate": 1e-2,
}


def network(discrete=(3,)):
    return models.create(
        "hfvae-mlp", SHAPE, latent_dim=2, discrete=discrete, widths=(6,), head_width=5
    )


def create(model, **more):
    return methods.create(
        "hfvae", model, optax.scale_by_adam(), dataset_size=SIZE, **more
    )


@functools.cache
def compiled(discrete=(3,), groups=None):
    """Returns a model, its method, and the method's init and step, compiled once."""
    model = network(discrete)
    method = create(model, groups=groups)

    def init(key, images):
        # Larger parameters than at the start of training: posteriors that differ.
        state = method.init(key, images)
        return state._replace(params=jax.tree.map(lambda a: 3 * a, state.params))

    return model, method, jax.jit(init), jax.jit(method.step)


@pytest.fixture
def images(getkey):
    return {"image": jax.random.uniform(getkey(), (4, *SHAPE))}


def normal(z, mean, log_var):
    return -0.5 * (
        math.log(2 * math.pi) + log_var + (z - mean) ** 2 / math.exp(log_var)
    )


def concrete(y, logits, temperature):
    """Density on the simplex (Maddison et al., Eq. 11), not of the logarithm."""
    k = len(y)
    value = math.lgamma(k) + (k - 1) * math.log(temperature)
    total = 0.0
    for y_k, logit in zip(y, logits, strict=True):
        value += logit - (temperature + 1) * math.log(y_k)
        total += math.exp(logit) * y_k**-temperature
    return value - k * math.log(total)


def expected_loss(x, decoded, z, mean, log_var, ys, class_logits, groups, hyper):
    """Eq. 4 with the estimator of Sec. 3.1, one density at a time."""
    batch, dims = z.shape
    elements = dims + len(ys)
    density = np.zeros((batch, batch, elements))
    prior = np.zeros((batch, elements))
    t = hyper["temperature"]
    for i in range(batch):
        for d in range(dims):
            prior[i, d] = normal(z[i, d], 0.0, 0.0)
            for j in range(batch):
                density[i, j, d] = normal(z[i, d], mean[j, d], log_var[j, d])
        for e, (y, logits) in enumerate(zip(ys, class_logits, strict=True)):
            prior[i, dims + e] = concrete(y[i], np.zeros(y.shape[1]), t)
            for j in range(batch):
                density[i, j, dims + e] = concrete(y[i], logits[j], t)
    weights = np.full((batch, batch), (SIZE - 1) / (SIZE * (batch - 1)))
    np.fill_diagonal(weights, 1 / SIZE)

    def aggregate(i, members):
        return math.log(
            sum(
                weights[i, j] * math.exp(sum(density[i, j, e] for e in members))
                for j in range(batch)
            )
        )

    starts = np.cumsum([0, *groups])
    total = 0.0
    for i in range(batch):
        error = sum(
            math.log1p(math.exp(logit)) - pixel * logit
            for pixel, logit in zip(x[i].ravel(), decoded[i].ravel(), strict=True)
        )
        joint = aggregate(i, range(elements))
        by_group = [aggregate(i, range(a, b)) for a, b in zip(starts[:-1], starts[1:])]
        by_element = [aggregate(i, [e]) for e in range(elements)]
        total += error
        total += hyper["alpha"] * (density[i, i].sum() - joint)
        total += hyper["beta"] * (joint - sum(by_group))
        total += hyper["gamma"] * (sum(by_group) - sum(by_element))
        total += sum(by_element) - prior[i].sum()
    return total / batch


@pytest.mark.parametrize(
    "discrete, groups, in_objective",
    [((3,), None, (2, 1)), ((3, 2), (1, 2, 1), (1, 2, 1))],
)
def test_loss_of_a_step_equals_loops(discrete, groups, in_objective, images, getkey):
    model, _, init, step = compiled(discrete, groups)
    state = init(getkey(), images)
    key, x = getkey(), images["image"]
    _, terms = step(key, state, images, HYPER)

    apply = jax.jit(model.apply, static_argnames="method")
    variables = {"params": state.params}
    normal_key, concrete_key = jax.random.split(key)
    logits = apply(variables, x, method="encode").logits
    class_logits = np.split(np.asarray(logits, np.float64), np.cumsum(discrete)[:-1], 1)
    ys = []
    for number, part in enumerate(class_logits):
        noise_key = jax.random.fold_in(concrete_key, number)
        noise = np.asarray(jax.random.gumbel(noise_key, part.shape, jnp.float32))
        power = np.exp((part + noise) / HYPER["temperature"])
        ys.append(power / power.sum(axis=1, keepdims=True))
    classes = jnp.asarray(np.concatenate(ys, axis=1), jnp.float32)
    mean, log_var, _ = apply(variables, x, discrete=classes, method="encode")
    mean, log_var = np.asarray(mean, np.float64), np.asarray(log_var, np.float64)
    noise = np.asarray(jax.random.normal(normal_key, mean.shape))
    z = mean + np.exp(0.5 * log_var) * noise
    code = jnp.concatenate([jnp.asarray(z, jnp.float32), classes], axis=1)
    decoded = np.asarray(apply(variables, code, method="decode"), np.float64)
    x = np.asarray(x, np.float64)
    want = expected_loss(
        x, decoded, z, mean, log_var, ys, class_logits, in_objective, HYPER
    )
    assert float(terms["loss"]) == pytest.approx(want, rel=1e-5)
    # The weights matter: none of the terms that they weigh is 0.
    for term in ("mutual_information", "group_tc", "within_group_tc"):
        assert abs(float(terms[term])) > 0.01


def test_lanes_equal_runs_of_their_own(images, getkey):
    _, method, init, step = compiled()
    apart = [init(getkey(), images) for _ in range(2)]
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *apart)
    keys = jax.random.split(getkey(), 2)
    lanes = {
        "alpha": [1.0, 0.5],
        "beta": [4.0, 1.0],
        "gamma": [3.0, 2.0],
        "temperature": [0.66, 0.3],
        "learning_rate": [1e-2, 1e-3],
    }
    lanes = {name: jnp.array(values) for name, values in lanes.items()}
    _, together = jax.jit(jax.vmap(method.step, in_axes=(0, 0, None, 0)))(
        keys, states, images, lanes
    )
    for lane, state in enumerate(apart):
        hyper = {name: float(values[lane]) for name, values in lanes.items()}
        _, alone = step(keys[lane], state, images, hyper)
        for term in alone:
            np.testing.assert_allclose(
                together[term][lane], alone[term], rtol=2e-5, atol=2e-6, err_msg=term
            )


def test_pmapped_step_equals_one_device(images, getkey):
    _, _, init, step = compiled()
    spread = create(network(), axis_name="data")
    state, key = init(getkey(), images), getkey()
    expected, terms = step(key, state, images, HYPER)
    shards = {"image": images["image"].reshape(2, 2, *SHAPE)}
    mapped = jax.pmap(
        spread.step,
        axis_name="data",
        in_axes=(None, None, 0, None),
        devices=jax.devices()[:2],
    )
    got, got_terms = mapped(key, state, shards, HYPER)
    for term in terms:
        np.testing.assert_allclose(got_terms[term], terms[term], rtol=2e-5, atol=2e-6)
    # Moments of Adam, i.e. the gradient: its updates hardly depend on its size.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a[0], b, rtol=1e-4, atol=1e-5),
        got.opt_state,
        expected.opt_state,
    )


def test_gradients_are_finite_at_low_temperature(images, getkey):
    _, _, init, step = compiled()
    state = init(getkey(), images)
    for temperature in (1e-1, 1e-2, 1e-3):
        hyper = {**HYPER, "temperature": temperature}
        new, terms = step(getkey(), state, images, hyper)
        leaves = jax.tree.leaves((new.params, new.opt_state, terms))
        assert all(np.isfinite(leaf).all() for leaf in leaves)


def test_code_is_means_then_most_probable_classes(images, getkey):
    model, method, init, _ = compiled((3, 2), (1, 2, 1))
    assert method.latent_groups == (1, 1, 3, 2)
    state = init(getkey(), images)
    x, variables = images["image"], {"params": state.params}
    code = jax.jit(method.encode)(state, x)
    logits = np.asarray(model.apply(variables, x, method="encode").logits)
    classes = np.zeros((4, 5), np.float32)
    for i, row in enumerate(logits):
        classes[i, row[:3].argmax()] = classes[i, 3 + row[3:].argmax()] = 1
    np.testing.assert_array_equal(code.mean[:, 2:], classes)
    np.testing.assert_allclose(code.logits, logits, rtol=1e-5, atol=1e-6)
    given = model.apply(variables, x, discrete=jnp.asarray(classes), method="encode")
    np.testing.assert_allclose(code.mean[:, :2], given.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(code.log_var, given.log_var, rtol=1e-5, atol=1e-6)
    assert method.decode(state, code.mean).shape == x.shape


@pytest.mark.parametrize("temperature", [0.0, -0.66, math.nan])
def test_temperature_must_be_positive(temperature, images, getkey):
    _, method, init, _ = compiled()
    state = init(getkey(), images)
    with pytest.raises(ValueError, match="hfvae: `temperature` must be positive, got"):
        method.step(getkey(), state, images, {**HYPER, "temperature": temperature})


def test_wrong_choices():
    with pytest.raises(ValueError, match=r"hfvae: `groups` must be .* add up to 3"):
        create(network(), groups=(2, 3))
    with pytest.raises(ValueError, match="Did you mean 'groups'?"):
        create(network(), group=(2, 1))


def test_presets_have_the_sizes_of_table_2():
    path = pathlib.Path(__file__).parents[2] / "configs" / "hfvae.py"
    sizes = {"": 3, "quick": 3, "dsprites": 3, "mnist": 10, "fashion": 10}
    for preset, categories in sizes.items():
        config = config_lib.load(f"{path}:{preset}")
        assert config.model.latent_dim == 10
        assert config.model.discrete == (categories,)
        assert (config.method.beta, config.method.gamma) == (4.0, 3.0)
        assert config.method.temperature == 0.66
    with pytest.raises(ValueError, match="Did you mean 'fashion'"):
        config_lib.load(f"{path}:fashon")
