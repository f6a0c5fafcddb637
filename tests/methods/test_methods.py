"""Each method's step against its objective written out, and on several devices."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disentangle_jax import data as data_lib
from disentangle_jax import losses, methods, models, sampling
from disentangle_jax.types import Posterior
from tests.methods.compiled import Compiled

SHAPE = (8, 8, 1)

# What each method needs beyond its defaults.
HYPER = {
    "anchor_vae": {"lambda_": 0.5},
    "beta_vae": {"beta": 2.0},
    "annealed_vae": {"c_max": 5.0, "threshold": 4.0},
    "beta_tc_vae": {"beta": 3.0},
    "dip_vae_i": {"lambda_od": 2.0},
    "dip_vae_ii": {"lambda_od": 2.0},
    "info_vae": {"lambda_": 5.0},
    "information_dropout": {"beta": 1.0, "gamma": 0.5},
    "factor_vae": {"gamma": 3.0},
    "few_labels_vae": {"gamma_sup": 2.0},
    "control_vae": {"c_max": 5.0, "threshold": 4.0},
    # Steps far above the rounding errors of the small codes of a new network.
    "tripod": {"epsilon": 5.0},
}
CHOICES = {
    "factor_vae": {"critic_width": 8},
    "tripod": {"activations": ("layer_2", "layer_3")},
}


@functools.cache
def create(name, **more):
    model = models.create("fc1200", SHAPE, width=8, latent_dim=3)
    if name in ("ae", "wae"):
        model = Deterministic(model)
    method = methods.create(
        name,
        model,
        optax.scale_by_adam(),
        dataset_size=100,
        factor_sizes=(3, 4),
        **CHOICES.get(name, {}),
        **more,
    )
    return Compiled(method)


class Deterministic:
    """A network whose encoder gives no spread."""

    def __init__(self, model):
        self.model, self.latent_groups = model, model.latent_groups
        self.init = model.init

    def apply(self, variables, x, *, method, train=False):
        out = self.model.apply(variables, x, method=method, train=train)
        return Posterior(out.mean) if method == "encode" else out


def hyper(name):
    values = methods.hyperparameters(name) | HYPER.get(name, {})
    return {**values, "learning_rate": 1e-2}


def batch(key, rows=16):
    keys = jax.random.split(key, 4)
    image = functools.partial(jax.random.randint, shape=(rows, *SHAPE), minval=0)
    return {
        "image": image(keys[0], maxval=256, dtype=jnp.int32).astype(jnp.uint8),
        "image2": image(keys[1], maxval=256, dtype=jnp.int32).astype(jnp.uint8),
        "labelled_image": image(keys[2], maxval=256, dtype=jnp.int32).astype(jnp.uint8),
        "labels": jax.random.randint(keys[3], (rows, 2), 0, 3),
    }


def fed(method, examples):
    names = {
        data_lib.Images(): ("image",),
        data_lib.ImagePairs(): ("image", "image2"),
        data_lib.LabelledImages(): ("image", "labelled_image", "labels"),
    }[method.inputs]
    return {name: examples[name] for name in names}


# Topic models see documents, not images, and AbsAE labelled regions: test_topics.py and
# test_absae.py.
@pytest.mark.parametrize(
    "name",
    sorted({*methods.names()} - {"prodlda", "nvdm", "absae", "absae_labelled"}),
)
def test_loss_falls_on_one_batch(name, getkey):
    method = create(name)
    data = fed(method, batch(getkey()))
    state = method.init(getkey(), data)
    key, seen = getkey(), []
    numbers = hyper(name) | ({"c_max": 0.0} if name == "annealed_vae" else {})
    for _ in range(30):
        state, terms = method.step(key, state, data, numbers)
        seen.append(float(terms["loss"]))
    assert seen[-1] < seen[0]
    assert int(state.step) == 30
    assert all(np.isfinite(value) for value in terms.values())
    x = jnp.asarray(data["image"], jnp.float32) / 255
    posterior = method.encode(state, x)
    assert method.output(method.decode(state, posterior.mean)).shape == x.shape


def test_step_is_the_gradient_of_the_named_objective(getkey):
    # beta-TCVAE by hand: encode, draw, decode, differentiate, one update of Adam.
    method = create("beta_tc_vae")
    data = fed(method, batch(getkey()))
    state = method.init(getkey(), data)
    key, numbers = getkey(), hyper("beta_tc_vae")
    new, terms = method.step(key, state, data, numbers)
    x = data["image"].astype(jnp.float32) / 255

    def loss(params):
        at = state._replace(params=params)
        mean, log_var, _ = method.encode(at, x)
        z = sampling.reparameterize(jax.random.split(key)[0], mean, log_var)
        return losses.beta_tc_vae(
            x, method.decode(at, z), z, mean, log_var, beta=3.0, dataset_size=100
        )

    gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))
    (value, parts), grads = gradient(state.params)
    assert float(terms["loss"]) == pytest.approx(float(value), rel=1e-6)
    assert float(terms["total_correlation"]) == pytest.approx(
        float(parts["total_correlation"]), rel=1e-5
    )
    adam = optax.adam(1e-2)
    updates, _ = jax.jit(adam.update)(grads, adam.init(state.params))
    expected = optax.apply_updates(state.params, updates)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), new.params, expected
    )


def test_beta_tc_vae_of_the_study_by_a_loop(getkey):
    # disentanglement_lib: reconstruction + analytic KL + (beta - 1) TC, with densities
    # summed over the batch without constants.
    method = create("beta_tc_vae", estimator="naive", kl="analytic")
    data = fed(method, batch(getkey(), rows=5))
    state, key = method.init(getkey(), data), getkey()
    terms = method.step(key, state, data, hyper("beta_tc_vae"))[1]
    x = data["image"].astype(jnp.float32) / 255
    mean, log_var, _ = method.encode(state, x)
    z = sampling.reparameterize(jax.random.split(key)[0], mean, log_var)
    logits = np.asarray(method.decode(state, z), np.float64)
    mean, log_var, z, x = (np.asarray(a, np.float64) for a in (mean, log_var, z, x))
    error = (np.logaddexp(0, logits) - x * logits).sum() / 5
    kl = 0.5 * (mean**2 + np.exp(log_var) - log_var - 1).sum() / 5
    correlation = 0.0
    for i in range(5):
        density = np.exp(
            -0.5 * ((z[i] - mean) ** 2 / np.exp(log_var) + log_var + np.log(2 * np.pi))
        )
        together = np.log(density.prod(axis=1).sum())
        correlation += (together - np.log(density.sum(axis=0)).sum()) / 5
    expected = error + kl + (3.0 - 1.0) * correlation
    assert float(terms["loss"]) == pytest.approx(expected, rel=1e-5)


def test_vlae_takes_the_form_of_its_kl(getkey):
    method = create("vlae", kl="sae_code")
    data = fed(method, batch(getkey()))
    state = method.init(getkey(), data)
    _, terms = method.step(getkey(), state, data, hyper("vlae"))
    mean, log_var, _ = method.encode(state, data["image"].astype(jnp.float32) / 255)
    std = np.exp(0.5 * np.asarray(log_var, np.float64))
    kl = 0.5 * (np.asarray(mean, np.float64) ** 2 - np.log(std) + std - 1)
    assert float(terms["kl"]) == pytest.approx(kl.sum(axis=1).mean(), rel=1e-4)


def test_accumulated_gradients_equal_one_large_batch(getkey):
    # A deterministic autoencoder: its loss is a plain mean over the images.
    halves = [batch(getkey())["image"] for _ in range(2)]
    model = Deterministic(models.create("fc1200", SHAPE, width=8, latent_dim=3))
    twice = optax.MultiSteps(optax.scale_by_adam(), 2).gradient_transformation()
    split = Compiled(methods.create("ae", model, twice))
    whole = Compiled(methods.create("ae", model, optax.scale_by_adam()))
    start = split.init(getkey(), {"image": halves[0]})
    numbers, key = hyper("ae"), getkey()
    state, _ = split.step(key, start, {"image": halves[0]}, numbers)
    jax.tree.map(np.testing.assert_array_equal, state.params, start.params)
    state, _ = split.step(key, state, {"image": halves[1]}, numbers)
    large = start._replace(opt_state=optax.scale_by_adam().init(start.params))
    both = {"image": jnp.concatenate(halves)}
    expected, _ = whole.step(key, large, both, numbers)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
        state.params,
        expected.params,
    )


def test_capacity_grows_with_the_step(getkey):
    method = create("annealed_vae")
    data = fed(method, batch(getkey()))
    state = method.init(getkey(), data)
    key, numbers = getkey(), hyper("annealed_vae")
    for step, capacity in ((0, 0.0), (2, 2.5), (4, 5.0), (9, 5.0)):
        at = state._replace(step=jnp.int32(step))
        _, terms = method.step(key, at, data, numbers)
        gap = 1000.0 * abs(float(terms["kl"]) - capacity)
        expected = float(terms["reconstruction"]) + gap
        assert float(terms["loss"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name, factor", [("dip_vae_i", 10.0), ("dip_vae_ii", 1.0)])
def test_dip_weighs_the_diagonal_by_its_factor(name, factor, getkey):
    method = create(name)
    data = fed(method, batch(getkey()))
    state = method.init(getkey(), data)
    _, terms = method.step(getkey(), state, data, hyper(name))
    x = data["image"].astype(jnp.float32) / 255
    mean, log_var, _ = method.encode(state, x)
    penalty = losses.dip_penalty(
        mean, log_var, kind=name[8:], lambda_od=2.0, lambda_d=2.0 * factor
    )
    expected = terms["reconstruction"] + terms["kl"] + penalty
    assert float(terms["loss"]) == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("batches", [1, 2])
def test_factor_vae_updates_each_network_by_its_own_loss(batches, getkey):
    method = create("factor_vae", batches=batches)
    data = fed(method, batch(getkey()))
    state = method.init(getkey(), data)
    key, numbers = getkey(), hyper("factor_vae")
    new, terms = method.step(key, state, data, numbers)
    critic = models.FactorCritic(width=8)
    draw_key, permute_key = jax.random.split(key)
    x = data["image"].astype(jnp.float32) / 255
    mean, log_var, _ = method.encode(state, x)
    z = sampling.reparameterize(draw_key, mean, log_var)
    half = len(x) // batches
    other = z if batches == 1 else z[half:]
    permuted = sampling.permute_dims(permute_key, other)

    def critic_loss(params):
        odds = functools.partial(critic.apply, {"params": params})
        return losses.discriminator_loss(odds(z[:half]), odds(permuted))

    value, grads = jax.jit(jax.value_and_grad(critic_loss))(state.params["critic"])
    assert float(terms["critic_loss"]) == pytest.approx(float(value), rel=1e-5)
    adam = optax.adam(1e-4, b1=0.5, b2=0.9)
    updates, _ = adam.update(grads, adam.init(state.params["critic"]))
    expected = optax.apply_updates(state.params["critic"], updates)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7),
        new.params["critic"],
        expected,
    )
    # The autoencoder sees only its half, and the critic only through its log-odds.
    odds = critic.apply({"params": state.params["critic"]}, z[:half])
    tc = float(losses.density_ratio_tc(odds))
    assert float(terms["total_correlation"]) == pytest.approx(tc, rel=1e-4, abs=1e-6)
    reconstruction = losses.bernoulli_reconstruction(
        x[:half], method.decode(state, z[:half])
    ).mean()
    expected = float(reconstruction + terms["kl"]) + 3.0 * tc
    assert float(terms["loss"]) == pytest.approx(expected, rel=1e-5)


def test_pairs_share_what_differs_little(getkey):
    method = create("ada_gvae")
    data = fed(method, batch(getkey()))
    # Twins: every dimension differs by nothing, so nothing is above the threshold.
    data["image2"] = data["image"]
    state = method.init(getkey(), data)
    _, terms = method.step(getkey(), state, data, hyper("ada_gvae"))
    x = data["image"].astype(jnp.float32) / 255
    mean, log_var, _ = method.encode(state, x)
    # Averaging equal posteriors changes nothing: the KL is the plain one.
    expected = float(losses.gaussian_kl(mean, log_var).mean())
    assert float(terms["kl"]) == pytest.approx(expected, rel=1e-5)


def test_labels_pull_their_latent(getkey):
    method = create("few_labels_vae")
    data = fed(method, batch(getkey()))
    state = method.init(getkey(), data)
    numbers = hyper("few_labels_vae") | {"gamma_sup": 100.0}
    first = None
    for _ in range(100):
        state, terms = method.step(getkey(), state, data, numbers)
        first = first or float(terms["alignment"])
    assert float(terms["alignment"]) < 0.9 * first
    x = data["labelled_image"].astype(jnp.float32) / 255
    mean = np.asarray(method.encode(state, x).mean)
    labels = np.asarray(data["labels"])
    for k in range(2):
        assert np.corrcoef(mean[:, k], labels[:, k])[0, 1] > 0.7


# One of each way to couple the batch; the losses themselves are tested one by one.
COUPLED = (
    *("vae", "beta_tc_vae", "dip_vae_ii", "wae", "factor_vae", "ada_gvae"),
    *("qlae", "tripod", "control_vae", "slow_vae", "bio_ae"),
)


@pytest.mark.parametrize("name", COUPLED)
def test_pmapped_step_equals_one_device(name, getkey):
    single = create(name)
    spread = create(name, axis_name="data")
    data = fed(single, batch(getkey()))
    state = single.init(getkey(), data)
    key, numbers = getkey(), hyper(name)
    expected, terms = single.step(key, state, data, numbers)
    shards = jax.tree.map(lambda a: a.reshape(8, 2, *a.shape[1:]), data)
    mapped = jax.pmap(
        spread.method.step, axis_name="data", in_axes=(None, None, 0, None)
    )
    got, got_terms = jax.device_get(mapped(key, state, shards, numbers))
    for term in terms:
        np.testing.assert_allclose(got_terms[term], terms[term], rtol=2e-5, atol=1e-6)
    # Adam divides a gradient by its size: compare where that is well conditioned.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a[0], b, rtol=1e-4, atol=1e-5),
        got.opt_state,
        expected.opt_state,
    )
    jax.tree.map(lambda a: np.testing.assert_array_equal(a, a[:1] + 0 * a), got.params)


@pytest.mark.parametrize("kind", ["bernoulli", "gaussian", "mse", "l1"])
def test_reconstruction_by_name(kind, getkey):
    method = create("vae", reconstruction=kind)
    data = fed(method, batch(getkey()))
    state = method.init(getkey(), data)
    key = getkey()
    _, terms = method.step(key, state, data, hyper("vae"))
    x = data["image"].astype(jnp.float32) / 255
    mean, log_var, _ = method.encode(state, x)
    z = sampling.reparameterize(jax.random.split(key)[0], mean, log_var)
    logits = np.asarray(method.decode(state, z), np.float64)
    x = np.asarray(x, np.float64)
    sums = {
        "bernoulli": np.logaddexp(0, logits) - x * logits,
        "gaussian": 0.5 * (x - logits) ** 2,
        "mse": (x - logits) ** 2 / x[0].size,
        "l1": np.abs(x - logits),
    }[kind]
    expected = sums.sum(axis=(1, 2, 3)).mean()
    assert float(terms["reconstruction"]) == pytest.approx(expected, rel=1e-5)
    shown = method.output(jnp.zeros((1, *SHAPE)))
    assert float(shown.mean()) == (0.5 if kind == "bernoulli" else 0.0)


def test_adding_a_method_takes_a_loss(getkey, tmp_path, monkeypatch):
    """The smallest method: a denoising autoencoder, in a module outside the package."""
    (tmp_path / "my_methods.py").write_text(MY_METHODS)
    monkeypatch.syspath_prepend(tmp_path)
    name = "my_methods:Denoising"
    assert methods.hyperparameters(name) == {"sigma": 0.1}
    assert methods.options(name) == {"reconstruction": "bernoulli", "clip": True}
    assert methods.describe(name).summary == "Reconstructs images from noisy copies."
    assert "Denoising" not in methods.names()
    model = models.create("fc1200", SHAPE, width=8, latent_dim=3)
    with pytest.raises(ValueError, match="Did you mean 'clip'?"):
        methods.create(name, model, optax.scale_by_adam(), clipp=False)
    method = methods.create(
        name, model, optax.scale_by_adam(), reconstruction="mse", clip=False
    )
    assert method.likelihood.name == "mse" and not method.clip
    data = {"image": batch(getkey())["image"]}
    state = method.init(getkey(), data)
    numbers = {"sigma": 0.1, "learning_rate": 1e-2}
    step = jax.jit(method.step)
    _, first = step(getkey(), state, data, numbers)
    for _ in range(20):
        state, terms = step(getkey(), state, data, numbers)
    assert terms["loss"] < first["loss"]
    short = methods.create("my_methods:blurred_vae", model, optax.scale_by_adam())
    assert short.likelihood.name == "box_blur_mse"
    with pytest.raises(ValueError, match="must name a method"):
        methods.create("my_methods:jnp", model, optax.scale_by_adam())


MY_METHODS = '''
import dataclasses
import jax
import jax.numpy as jnp
from disentangle_jax import losses, methods


@methods.define(
    hyperparameters={"sigma": methods.Hyperparameter(0.1, doc="noise")},
    reference="Vincent et al. 2008",
)
@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Denoising(methods.GradientMethod):
    """Reconstructs images from noisy copies."""

    clip: bool = True

    def loss(self, networks, key, step, batch, hyper):
        x = batch["image"]
        noisy = x + hyper["sigma"] * jax.random.normal(key, x.shape)
        noisy = jnp.clip(noisy, 0.0, 1.0) if self.clip else noisy
        logits = networks.decode(networks.encode(noisy).mean)
        error = self.likelihood.loss(x, logits).mean()
        return error, {"reconstruction": error}


@methods.define()
def blurred_vae(
    model, optimizer, *, likelihood=losses.likelihood("box_blur_mse"), axis_name
):
    return methods.one_objective(model, losses.vae, optimizer, likelihood, axis_name)
'''


def test_a_parameter_without_default_must_be_known():
    with pytest.raises(ValueError, match="`sise` of 'wrong' must have a default or be"):

        @methods.define()
        def wrong(model, optimizer, *, likelihood, sise):
            pass


@pytest.mark.parametrize("name", methods.names())
def test_methods_describe_themselves(name):
    description = methods.describe(name)
    assert description.summary.endswith(".") and description.reference
    for hyperparameter in description.hyperparameters.values():
        assert hyperparameter.doc
        if hyperparameter.default is not None:
            hyperparameter.check("method.x", hyperparameter.default)


@pytest.mark.parametrize(
    "name, field, value, message",
    [
        ("beta_vae", "beta", None, "`method.beta` must be set; add --config.method.b"),
        ("beta_vae", "beta", -1.0, "`method.beta` must be non-negative and finite"),
        ("beta_vae", "beta", np.inf, "must be non-negative and finite, got inf"),
        ("beta_vae", "beta", np.nan, "must be non-negative and finite, got nan"),
        ("hfvae", "temperature", 0.0, "must be positive and finite, got 0.0"),
        ("ada_gvae", "ratio", 1.5, "must be non-negative and at most 1 and finite"),
    ],
)
def test_ranges_of_hyperparameters(name, field, value, message):
    known = methods.describe(name).hyperparameters[field]
    assert known.check(f"method.{field}", 1) == 1.0
    with pytest.raises(ValueError, match=message):
        known.check(f"method.{field}", value)


@pytest.mark.parametrize(
    "name, choices, message",
    [
        ("beta_vea", {}, "Did you mean 'beta_vae'?"),
        ("vae", {"reconstruction": "msee"}, "Did you mean 'mse'?"),
        ("beta_tc_vae", {"estimatr": "mws"}, "Did you mean 'estimator'?"),
        ("factor_vae", {"batches": 3}, "`batches` must be 1 or 2, got 3"),
        ("factor_vae", {"batches": 2, "axis_name": "data"}, "must be 1 under pmap"),
        ("few_labels_vae", {"factor_sizes": (2, 2, 2, 2)}, "3 latents for 4 factors"),
    ],
)
def test_wrong_names_and_choices(name, choices, message):
    model = models.create("fc1200", SHAPE, width=8, latent_dim=3)
    with pytest.raises(ValueError, match=message):
        methods.create(name, model, optax.scale_by_adam(), **choices)


def test_methods_are_immutable():
    method = create("vae").method
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.axis_name = "data"
    assert method.evaluators == ("codes", "reconstruction", "generation")
    assert method.constants(None, [], seed=0) == {} and not method.refit_due(0)


def test_anchor_vae_rewards_the_information_of_its_anchors(getkey):
    """The loss is the ELBO minus lambda times I(x; z_a), written out in float64."""
    method = create("anchor_vae", anchors=(2, 0))
    data = fed(method, batch(getkey()))
    state, key = method.init(getkey(), data), getkey()
    _, plain = method.step(key, state, data, hyper("anchor_vae") | {"lambda_": 0.0})
    _, terms = method.step(key, state, data, hyper("anchor_vae"))
    gain = float(plain["loss"] - terms["loss"])
    assert gain == pytest.approx(0.5 * float(terms["anchor_information"]), rel=1e-3)
    x = jnp.asarray(data["image"], jnp.float32) / 255
    posterior = method.encode(state, x)
    draw_key, _ = jax.random.split(key)
    z = method.draw_codes(draw_key, posterior)
    z, mean, log_var = (
        np.asarray(a, np.float64)[:, [2, 0]] for a in (z, *posterior[:2])
    )
    rows, size = len(z), 100
    want = 0.0
    for i in range(rows):
        logs = [
            -0.5
            * (
                np.log(2 * np.pi)
                + log_var[j]
                + (z[i] - mean[j]) ** 2 / np.exp(log_var[j])
            )
            for j in range(rows)
        ]
        q = np.exp([log.sum() for log in logs])
        others = (size - 1) / (size * (rows - 1)) * (q.sum() - q[i])
        want += np.log(q[i] / (q[i] / size + others)) / rows
    assert float(terms["anchor_information"]) == pytest.approx(want, rel=1e-4, abs=1e-5)
    with pytest.raises(ValueError, match="`anchors` must be indices of the 3 latents"):
        create("anchor_vae", anchors=(3,))
