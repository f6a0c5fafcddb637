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
from disentangle_jax import methods, models, sampling, training
from tests.methods.compiled import Compiled

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
    return Compiled(
        methods.create("hfvae", model, optax.scale_by_adam(), dataset_size=SIZE, **more)
    )


@functools.cache
def compiled(discrete=(3,), groups=None, density="relaxed"):
    """Returns a model, its method, and the method's init and step, compiled once."""
    model = network(discrete)
    method = create(model, groups=groups, concrete_density=density)

    def init(key, images):
        # Larger parameters than at the start of training: posteriors that differ.
        state = method.init(key, images)
        return state._replace(params=jax.tree.map(lambda a: 3 * a, state.params))

    return model, method, jax.jit(init), method.step


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


def pmf(y, logits, temperature):
    """Log-probability of the largest element of a draw; the temperature is not used."""
    return logits[np.argmax(y)] - math.log(sum(math.exp(logit) for logit in logits))


def expected_loss(
    x, decoded, z, mean, log_var, ys, class_logits, groups, hyper, density_of=concrete
):
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
            prior[i, dims + e] = density_of(y[i], np.zeros(y.shape[1]), t)
            for j in range(batch):
                density[i, j, dims + e] = density_of(y[i], logits[j], t)
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
    "discrete, groups, in_objective, density",
    [
        ((3,), None, (2, 1), concrete),
        ((3, 2), (1, 2, 1), (1, 2, 1), concrete),
        ((3,), None, (2, 1), pmf),
    ],
)
def test_loss_of_a_step_equals_loops(
    discrete, groups, in_objective, density, images, getkey
):
    name = "pmf" if density is pmf else "relaxed"
    model, _, init, step = compiled(discrete, groups, name)
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
        x, decoded, z, mean, log_var, ys, class_logits, in_objective, HYPER, density
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
    spread = create(network(), axis_name="data", concrete_density="relaxed")
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
    assert "discrete_variables" in method.evaluators
    state = init(getkey(), images)
    x, variables = images["image"], {"params": state.params}
    code = method.encode(state, x)
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
        method.method.step(
            getkey(), state, images, {**HYPER, "temperature": temperature}
        )


def test_wrong_choices():
    with pytest.raises(ValueError, match=r"hfvae: `groups` must be .* add up to 3"):
        create(network(), groups=(2, 3))
    with pytest.raises(ValueError, match="Did you mean 'groups'?"):
        create(network(), group=(2, 1))
    with pytest.raises(ValueError, match="`concrete_density` .*Did you mean 'exact'"):
        create(network(), concrete_density="exakt")


def test_faces_can_be_trained_on(real_data, tmp_path):
    path = pathlib.Path(__file__).parents[2] / "configs" / "hfvae.py"
    folder = real_data / "celeba_1k"
    schedule = "('linear', 1.0, 0.15, 0, 10000)"
    overrides = [
        f"--config.data.data_dir={folder}",
        "--config.train.batch_size=128",  # of 700 images
        f"--config.train.schedules.temperature={schedule}",
    ]
    run = training.prepare(config_lib.load(f"{path}:celeba", overrides), tmp_path)
    assert run.train_set.image_shape == (64, 64, 3)
    assert run.config.data.options.size == 64  # of the published 128
    assert run.config.model.name == "hfvae-conv"
    assert run.method.latent_groups == (1,) * 20 + (2,)
    config = run.config
    for wrong in (0.0, -1.0):
        config.method.temperature = wrong
        with pytest.raises(ValueError, match="`method.temperature` must be positive"):
            training.prepare(config, tmp_path)
    config.method.temperature = 0.66
    config.method.groups = (20, 2)
    with pytest.raises(ValueError, match="`groups` must be .* add up to 21, got"):
        training.prepare(config, tmp_path)


def test_presets_have_the_sizes_of_table_2():
    path = pathlib.Path(__file__).parents[2] / "configs" / "hfvae.py"
    sizes = {"": 3, "quick": 3, "dsprites": 3, "mnist": 10, "fashion": 10, "celeba": 2}
    for preset, categories in sizes.items():
        config = config_lib.load(f"{path}:{preset}")
        assert config.model.latent_dim == (20 if preset == "celeba" else 10)
        assert config.model.discrete == (categories,)
        assert (config.method.beta, config.method.gamma) == (4.0, 3.0)
        assert config.method.temperature == 0.66
        assert config.method.concrete_density == "pmf"  # as in the authors' code
        if preset != "quick":
            epochs = 100 if preset == "celeba" else 200
            assert (config.train.num_steps, config.train.num_epochs) == (0, epochs)
    with pytest.raises(ValueError, match="Did you mean 'fashion'"):
        config_lib.load(f"{path}:fashon")


def test_mnist_trains_on_all_60000_for_200_of_its_epochs(real_data, tmp_path):
    path = pathlib.Path(__file__).parents[2] / "configs" / "hfvae.py"
    folder = [f"--config.data.data_dir={real_data / 'mnist'}"]
    run = training.prepare(config_lib.load(f"{path}:mnist", folder), tmp_path)
    assert len(run.train_set.indices) == run.method.dataset_size == 60_000
    assert run.config.train.num_steps == 200 * 60_000 // 512
    assert len(run.test_set.indices) == 10_000


# --- priors that do not factorise

GIVEN = ((1.0, 0.6), (0.6, 1.0))


def test_given_correlation_moves_the_loss_by_its_closed_form(images, getkey):
    """Between two groups of one: Ⓐ gets −log p(z) + Σ log p(z_d), and (β − 1) of it."""
    model, _, init, plain = compiled((3,), (1, 1, 1))
    state, key = init(getkey(), images), getkey()
    _, before = plain(key, state, images, HYPER)
    method = create(
        model, groups=(1, 1, 1), correlation=GIVEN, concrete_density="relaxed"
    )
    _, after = method.step(key, state, images, HYPER)
    normal_key, concrete_key = jax.random.split(key)
    variables = {"params": state.params}
    apply = jax.jit(model.apply, static_argnames="method")
    logits = apply(variables, images["image"], method="encode").logits
    noise = jax.random.gumbel(jax.random.fold_in(concrete_key, 0), logits.shape)
    classes = jax.nn.softmax((logits + noise) / HYPER["temperature"])
    mean, log_var, _ = apply(
        variables, images["image"], discrete=classes, method="encode"
    )
    z = mean + jnp.exp(log_var / 2) * jax.random.normal(normal_key, mean.shape)
    z = np.asarray(z, np.float64)
    r = 0.6
    ratio = -0.5 * math.log(1 - r * r) - (
        (z**2).sum(axis=1) - 2 * r * z[:, 0] * z[:, 1]
    ) / (2 * (1 - r * r))
    ratio += 0.5 * (z**2).sum(axis=1)
    change = -float(ratio.mean())
    assert abs(change) > 0.01
    moved = float(after["group_tc"] - before["group_tc"])
    assert moved == pytest.approx(change, rel=1e-3, abs=1e-4)
    moved = float(after["loss"] - before["loss"])
    assert moved == pytest.approx(HYPER["beta"] * change, rel=1e-3, abs=1e-3)


def test_prior_samples_have_the_given_correlation(images, getkey):
    model, _, init, _ = compiled()
    method = create(model, correlation=GIVEN)
    codes = np.asarray(method.prior(getkey(), init(getkey(), images), 4000))
    assert codes.shape == (4000, 5)
    assert np.corrcoef(codes[:, :2].T)[0, 1] == pytest.approx(0.6, abs=0.05)
    np.testing.assert_array_equal(codes[:, 2:].sum(axis=1), np.ones(4000))
    key, plain = getkey(), compiled()[1]
    codes = plain.prior(key, None, 4000)
    np.testing.assert_array_equal(codes, sampling.prior(key, 4000, 2, discrete=(3,)))


@pytest.mark.parametrize("kind, groups", [("full", (2, 1)), ("between", (1, 1, 1))])
def test_learned_correlation_follows_the_codes(kind, groups, images, getkey):
    model = network()
    method = create(model, groups=groups, correlation=kind)
    state = method.init(getkey(), images)
    np.testing.assert_array_equal(state.params["prior_correlation"], np.zeros((2, 2)))
    # Means that rise together: both read the same feature, with little spread.
    params = jax.tree.map(lambda a: a, state.params)
    for name, bias in (("mean", 0.0), ("log_std", -3.0)):
        last = params[name]["layer_2"]
        column = last["kernel"][:, :1]
        last["kernel"] = jnp.tile(8 * column if name == "mean" else 0 * column, (1, 2))
        last["bias"] = jnp.full(2, bias)
    state = state._replace(params=params)
    for _ in range(3):
        state, terms = method.step(getkey(), state, images, HYPER)
    learned = np.asarray(state.params["prior_correlation"])
    assert learned[1, 0] > 0.01 and np.isfinite(float(terms["loss"]))
    assert learned[0, 1] == 0.0
    draws = np.asarray(method.prior(getkey(), state, 4000))
    assert np.corrcoef(draws[:, :2].T)[0, 1] > 0
    assert method.decode(state, jnp.asarray(draws[:4])).shape == images["image"].shape


@pytest.mark.parametrize(
    "correlation, message",
    [
        ("all", "`correlation` must be one of full, between"),
        ("between", "needs at least two groups of continuous variables"),
        (((1.0, 1.2), (1.2, 1.0)), "symmetric positive definite 2 x 2 matrix"),
        (((1.0, 0.1), (0.2, 1.0)), "symmetric positive definite 2 x 2 matrix"),
        (((1.0,),), "symmetric positive definite 2 x 2 matrix"),
    ],
)
def test_wrong_correlations(correlation, message):
    with pytest.raises(ValueError, match=message):
        create(network(), correlation=correlation)


# --- networks


def test_convolutions_with_discrete_variables(getkey):
    small = {"latent_dim": 2, "discrete": (3, 2), "channel_scale": 0.1}
    model = models.create("conv64", (16, 16, 1), **small)
    assert model.latent_groups == (2, 1, 1)
    images = {"image": jax.random.uniform(getkey(), (4, 16, 16, 1))}
    method = create(model)
    state = method.init(getkey(), images)
    key = getkey()
    new, terms = method.step(key, state, images, HYPER)
    assert np.isfinite(float(terms["loss"]))
    assert method.latent_groups == (1, 1, 3, 2) and method.discrete == (3, 2)
    # Every part learns, also that which sees the draws.
    kernel = lambda s: np.asarray(s.params["encoder"]["mean"]["kernel"])  # noqa: E731
    assert kernel(state).shape == (256 + 5, 2)
    assert np.abs(kernel(new) - kernel(state))[:5].max() > 0
    # The draws are made inside the encoder, which may also be recomputed.
    again = create(models.create("conv64", (16, 16, 1), remat=True, **small))
    shapes, _ = jax.eval_shape(again.step, key, state, images, HYPER)
    assert jax.tree.map(jnp.shape, shapes) == jax.tree.map(jnp.shape, new)
    assert jax.eval_shape(again.encode, state, images["image"]).mean.shape == (4, 7)
    with pytest.raises(ValueError, match="number of categories"):
        models.create("conv64", (16, 16, 1), discrete=(1,))


@pytest.mark.parametrize(
    "name, hyper",
    [
        ("vae", {}),
        ("beta_vae", {"beta": 4.0}),
        ("beta_tc_vae", {"beta": 4.0, "alpha": 1.0, "gamma": 1.0}),
    ],
)
def test_baselines_on_the_same_networks(name, hyper, images, getkey):
    model = network(discrete=())
    method = Compiled(
        methods.create(name, model, optax.scale_by_adam(), dataset_size=SIZE)
    )
    # Each latent is a variable of its own for scores and hybrids.
    assert method.latent_groups == (1, 1) and method.discrete == ()
    assert "discrete_variables" not in method.evaluators
    state = method.init(getkey(), images)
    hyper = {**hyper, "learning_rate": 1e-2}
    _, terms = method.step(getkey(), state, images, hyper)
    assert np.isfinite(float(terms["loss"]))
    assert method.decode(state, jnp.zeros((4, 2))).shape == images["image"].shape
