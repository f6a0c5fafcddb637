"""Objectives against sums of reference terms, transformations, extremes, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from disentangle_jax import distributions, losses
from tests.losses import cases, reference

SHAPES = [(4, 3), (6, 4), (10, 5)]


def close(got, want, rtol=2e-5):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5)


def expected(batch, key):
    """Every objective by NumPy loops, with the hyperparameters of `cases`."""
    x, logits, z, mean, log_var = batch
    error = reference.bernoulli(x, logits).mean()
    pixels = np.prod(x.shape[1:])
    kl = reference.analytic_kl(mean, log_var)
    total = kl.sum(axis=1).mean()
    parts = reference.decomposition(z, mean, log_var, "stratified", cases.N)
    critic = np.sum(z, axis=1) * np.cos(z[:, 0])
    prior = jax.random.normal(key, z.shape)
    dims = z.shape[1]
    densities = reference.aggregate(
        reference.pairwise_gaussian(z, mean, log_var),
        "stratified",
        cases.N,
        (2, dims - 2),
    )
    log_p = [[reference.log_normal(float(v), 0.0, 0.0) for v in row] for row in z]
    log_p = np.array(log_p)
    joint, groups, elements = (
        densities["log_qz"],
        densities["log_qz_groups"].sum(1),
        densities["log_qz_dims"].sum(1),
    )
    information = (densities["log_qz_given_x"] - joint).mean()
    anchors = [np.asarray(a)[:, [0, 2]] for a in (z, mean, log_var)]
    anchor = reference.decomposition(*anchors, "stratified", cases.N)
    out = {
        "ae": error,
        "vae": error + total,
        "beta_vae": error + 4 * total,
        "annealed_vae": error + 10 * abs(total - 3),
        "beta_tc_vae": error
        + 0.5 * parts["mutual_information"]
        + 6 * parts["total_correlation"]
        + 2 * parts["dimension_wise_kl"],
        "factor_vae": error + total + 10 * critic.mean(),
        "dip_vae": error + total + reference.dip(mean, log_var, "ii", 2.0, 5.0),
        "info_vae": error
        + 0.7 * total
        + (0.3 + 7 - 1) * reference.mmd(prior, z, "rbf", 3.0),
        "wae": error + 10 * reference.mmd(prior, z, "imq", 4.0),
        "hfvae": error
        + 0.5 * information
        + 4 * (joint - groups).mean()
        + 3 * (groups - elements).mean()
        + (elements - log_p.sum(1)).mean(),
        "anchor_vae": error
        + reference.sampled_kl(z, mean, log_var).mean()
        - 0.7 * anchor["mutual_information"],
        "information_dropout": error
        + 2 * parts["mutual_information"]
        + 3 * parts["total_correlation"],
        "vlae": error + 1.5 * total,
        "abs_ae": error / pixels + 0.2 * np.log1p(np.exp(-critic)).mean(),
        "slow_vae": 2 * error
        + 0.5 * total
        + 2 * reference.transition_kl(mean, log_var, 3.0).mean(),
        "bio_ae": error / pixels
        + 0.7 * np.maximum(-np.asarray(z, float), 0).mean()
        + 0.3 * (np.asarray(z, float) ** 2).mean()
        + 0.1 * (cases.WEIGHTS**2).sum() / 2,
        "qlae": error / pixels
        + 0.5 * ((mean - reference.nearest(mean, cases.codebook(dims))[0]) ** 2).mean(),
        "tripod": error / pixels
        + 0.1 * reference.multi_information(z, reference.deviation(mean))
        + 0.2 * hessian_penalties(z, mean, key).mean(),
    }
    halves = [a[start::2] for start in (0, 1) for a in (mean, log_var)]
    for name, average in (("ada_gvae", "gvae"), ("ada_ml_vae", "ml_vae")):
        m1, s1, m2, s2 = reference.ada_posteriors(
            *halves, "symmetric_kl", average, ratio=0.4
        )
        shared = reference.analytic_kl(m1, s1) + reference.analytic_kl(m2, s2)
        out[name] = error + 2 * shared.sum(axis=1).mean() / 2
    return out


def hessian_penalties(z, mean, key):
    sign_key, normal_key = jax.random.split(key)
    shape = (z.shape[0], 2, z.shape[1])
    return reference.hessian_penalty(
        lambda z: cases.activations(z, np),
        z,
        reference.deviation(mean),
        jax.random.rademacher(sign_key, shape, z.dtype),
        jax.random.normal(normal_key, shape, z.dtype),
        cases.HYPERPARAMETERS["tripod"]["epsilon"],
    )


@pytest.mark.parametrize(("batch", "dims"), SHAPES)
def test_every_objective(batch, dims, make_batch, getkey):
    arrays, key = make_batch(batch, dims), getkey()
    got = cases.quick_jit(cases.objectives)(arrays, cases.HYPERPARAMETERS, key)
    want = expected([np.asarray(a) for a in arrays], key)
    assert set(got) == set(want)
    for name in want:
        np.testing.assert_allclose(got[name][0], want[name], rtol=1e-4, err_msg=name)


def test_terms_dicts(make_batch, getkey):
    results = jax.eval_shape(
        cases.objectives, make_batch(4, 3), cases.HYPERPARAMETERS, getkey()
    )
    three = {"mutual_information", "total_correlation", "dimension_wise_kl"}
    keys = {
        "ae": set(),
        "vae": {"kl"},
        "beta_vae": {"kl"},
        "annealed_vae": {"kl", "capacity"},
        "beta_tc_vae": {"kl"} | three,
        "factor_vae": {"kl", "total_correlation"},
        "dip_vae": {"kl", "dip_penalty"},
        "info_vae": {"kl", "mmd"},
        "wae": {"mmd"},
        "hfvae": {
            "kl",
            "mutual_information",
            "group_tc",
            "within_group_tc",
            "dimension_wise_kl",
        },
        "anchor_vae": {"kl", "anchor_information"},
        "information_dropout": three,
        "vlae": {"kl", "kl_rung_0", "kl_rung_1"},
        "ada_gvae": {"kl", "shared_dims"},
        "ada_ml_vae": {"kl", "shared_dims"},
        "abs_ae": {"adversarial"},
        "slow_vae": {"kl", "transition_kl"},
        "bio_ae": {"negative", "activity", "weight_energy"},
        "qlae": {"quantisation", "commitment"},
        "tripod": {"multi_information", "hessian_penalty"},
    }
    for name, (loss, terms) in results.items():
        assert set(terms) == {"reconstruction"} | keys[name], name
        assert loss.shape == () and all(t.shape == () for t in terms.values()), name


# --- identities: both sides by independent code


@pytest.mark.parametrize("estimator", ["mws", "mss", "stratified", "naive"])
def test_unit_weights_give_the_elbo(estimator, make_batch):
    batch = make_batch(6, 4)
    x, logits, z, mean, log_var = batch
    elbo = (
        reference.bernoulli(x, logits) + reference.sampled_kl(z, mean, log_var)
    ).mean()
    close(losses.vae(*batch, kl="sampled")[0], elbo)
    options = {"dataset_size": 50, "estimator": estimator}
    weights = {"alpha": 1.0, "beta": 1.0, "gamma": 1.0}

    @cases.quick_jit
    def every_way(*batch):
        values = [losses.beta_tc_vae(*batch, **weights, **options)[0]]
        for groups in [(4,), (1, 3), (2, 2), (1, 1, 1, 1)]:
            options["groups"] = groups
            values.append(losses.hfvae(*batch, **weights, **options)[0])
        return values

    for got in every_way(*batch):
        close(got, elbo)


@pytest.mark.parametrize("estimator", ["mws", "mss", "stratified", "naive"])
def test_one_group_per_dimension_is_beta_tc_vae(estimator, make_batch):
    batch = make_batch(6, 4)
    options = {"dataset_size": 50, "estimator": estimator, "alpha": 0.3, "beta": 5.0}
    # With groups of one element nothing is within them: gamma of HFVAE has no effect,
    # and the last term has weight 1, as gamma = 1 of beta-TCVAE.
    want = losses.beta_tc_vae(*batch, gamma=1.0, **options)[0]
    got = losses.hfvae(*batch, gamma=7.0, groups=(1,) * 4, **options)[0]
    close(got, want)
    # Within one group of everything it is HFVAE's gamma that weighs the correlation.
    options["beta"] = 11.0
    got = losses.hfvae(*batch, gamma=5.0, groups=(4,), **options)[0]
    close(got, want)


def test_study_objective_is_the_kl_plus_excess_correlation(make_batch):
    # disentanglement_lib: KL + (beta - 1) TC, unweighted log-sum-exp over the batch.
    batch = make_batch(6, 4)
    x, logits, z, mean, log_var = batch
    got = losses.beta_tc_vae(
        *batch, beta=6.0, dataset_size=None, estimator="naive", kl="analytic"
    )[0]
    parts = reference.decomposition(z, mean, log_var, "naive", None)
    want = reference.bernoulli(x, logits).mean() + 5 * parts["total_correlation"]
    close(got, want + reference.analytic_kl(mean, log_var).sum(1).mean())


def test_hfvae_with_a_concrete_variable_and_a_joint_prior(make_batch, getkey):
    x, logits, z, mean, log_var = make_batch(5, 2)
    y_logits = jax.random.normal(getkey(), (5, 3))
    y = distributions.concrete_sample(getkey(), y_logits, 0.66)

    def concrete(y, logits):
        return distributions.concrete_log_prob(y, logits, 0.66)

    pairwise = jnp.concatenate(
        [
            losses.pairwise_log_density(
                distributions.gaussian_log_prob, z, mean, log_var
            ),
            losses.pairwise_log_density(concrete, y, y_logits),
        ],
        axis=2,
    )
    assert pairwise.shape == (5, 5, 3)
    log_p = jnp.concatenate(
        [
            distributions.gaussian_log_prob(z, jnp.zeros_like(z), jnp.zeros_like(z)),
            concrete(y, jnp.zeros_like(y_logits))[:, None],
        ],
        axis=1,
    )
    log_p_joint = log_p.sum(axis=1) + jnp.arange(5.0)
    got, terms = losses.hfvae(
        x,
        logits,
        z,
        mean,
        log_var,
        alpha=1.0,
        beta=1.0,
        gamma=1.0,
        groups=(2, 1),
        dataset_size=50,
        pairwise=pairwise,
        log_p_elements=log_p,
        log_p_joint=log_p_joint,
    )
    own = jnp.trace(pairwise.sum(axis=2)) / 5
    close(terms["kl"], own - log_p_joint.mean())
    close(got, reference.bernoulli(x, logits).mean() + terms["kl"])


def test_hfvae_takes_another_factorised_prior(make_batch):
    batch = make_batch(5, 4)
    _, _, z, mean, log_var = batch
    log_p = distributions.gaussian_log_prob(z, jnp.ones_like(z), jnp.ones_like(z))
    _, terms = losses.hfvae(
        *batch,
        beta=0.1,
        gamma=4.0,
        groups=(2, 2),
        dataset_size=50,
        log_p_elements=log_p,
    )
    want = losses.sampled_gaussian_kl(
        z, mean, log_var, prior_mean=1.0, prior_log_var=1.0
    )
    close(terms["kl"], want.mean())


def test_vlae_rungs_add_up(make_batch):
    batch = make_batch(4, 5)
    loss, terms = losses.vlae(*batch, latent_groups=(2, 1, 2))
    close(loss, losses.vae(*batch)[0])
    kl = reference.analytic_kl(*batch[3:]).mean(axis=0)
    close(terms["kl_rung_0"], kl[:2].sum())
    close(terms["kl_rung_1"], kl[2])
    close(terms["kl_rung_2"], kl[3:].sum())


def test_other_reconstructions_and_kl_functions(make_batch):
    x, x_hat, z, mean, log_var = batch = make_batch(4, 3)
    for function in (losses.mse, losses.gaussian_reconstruction, losses.box_blur_mse):
        loss, _ = losses.vae(*batch, reconstruction=function)
        kl = losses.gaussian_kl(mean, log_var).mean()
        close(loss, function(x, x_hat).mean() + kl)

    def shifted(z, mean, log_var):
        return losses.gaussian_kl(mean, log_var, prior_mean=1.0)

    _, terms = losses.beta_vae(*batch, beta=2.0, kl=shifted)
    close(terms["kl"], losses.gaussian_kl(mean - 1.0, log_var).mean())
    _, terms = losses.vae(*batch, kl="sae_code")
    close(terms["kl"], losses.gaussian_kl(mean, log_var, kl_compat="sae_code").mean())


def test_deterministic_encoders_need_no_variance(make_batch, getkey):
    x, logits, z, mean, log_var = make_batch(4, 3)
    key = getkey()
    for name, extra in {
        "ae": {},
        "wae": {"key": key},
        "abs_ae": {"critic_logits": z[:, 0]},
        "qlae": {"codebook": cases.codebook(3)},
        "bio_ae": {"weights": z},
    }.items():
        objective = getattr(losses, name)
        got = objective(x, logits, z, mean, None, **extra)[0]
        close(got, objective(x, logits, z, mean, log_var, **extra)[0])


# --- transformations


def test_jit_does_not_trace_again(make_batch, getkey):
    traces = []

    @cases.quick_jit
    def run(batch, numbers, key):
        traces.append(None)
        return cases.objectives(batch, numbers, key)

    run(make_batch(4, 3), cases.HYPERPARAMETERS, getkey())
    other = jax.tree.map(lambda v: v * 1.5, cases.HYPERPARAMETERS)
    other = {
        name: {k: int(v) if k == "dataset_size" else v for k, v in numbers.items()}
        for name, numbers in other.items()
    }
    run(make_batch(4, 3), other, getkey())
    assert len(traces) == 1


def test_vmap_over_every_number_and_key(make_batch, getkey):
    batch = make_batch(4, 3)
    keys = jax.random.split(getkey(), 3)
    lanes = jax.tree.map(
        lambda v: jnp.asarray(v, jnp.float32) * jnp.array([1.0, 1.5, 2.0]),
        cases.HYPERPARAMETERS,
    )
    run = cases.quick_jit(jax.vmap(cases.objectives, in_axes=(None, 0, 0)))
    single = cases.quick_jit(cases.objectives)
    got = run(batch, lanes, keys)
    for lane in range(3):
        numbers = jax.tree.map(lambda v: v[lane], lanes)  # noqa: B023
        want = single(batch, numbers, keys[lane])
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a[lane], b, rtol=1e-4, atol=1e-5),  # noqa: B023
            got,
            want,
        )
    # The lanes differ in their hyperparameters, and in the keys of info_vae and wae.
    for name, (loss, _) in got.items():
        if cases.HYPERPARAMETERS[name]:
            assert len(np.unique(np.asarray(loss))) == 3, name


def extreme(kind, make_batch):
    x, logits, z, mean, log_var = make_batch(4, 3)
    if kind == "equal":
        same = jnp.zeros_like(z)
        return x, logits, same, same, same
    number = float(kind.split()[1])
    if kind.startswith("logits"):
        return x, jnp.full_like(logits, number), z, mean, log_var
    log_var = jnp.full_like(log_var, number)
    return x, logits, mean + jnp.exp(log_var / 2) * 0.5, mean, log_var


@pytest.fixture(scope="module")
def gradients():
    """Values of every objective and term, and gradients of their sum."""

    def scalars(batch, key):
        results = cases.objectives(batch, cases.HYPERPARAMETERS, key)
        values = {name: loss for name, (loss, _) in results.items()}
        factors = jnp.array([[0, 1], [3, 4], [2, 2], [1, 0]])
        other = jax.random.normal(jax.random.key(1), batch[2].shape)
        return values | cases.batch_terms(batch, other, factors)

    def total(batch, key):
        values = scalars(batch, key)
        return sum(values.values()), values

    return cases.quick_jit(jax.grad(total, has_aux=True))


@pytest.mark.parametrize(
    "kind", ["log_var -20", "log_var 20", "logits -80", "logits 80", "equal"]
)
def test_extreme_inputs_have_finite_gradients(kind, make_batch, getkey, gradients):
    # A sum has a finite gradient only if each of its terms has.
    grads, values = gradients(extreme(kind, make_batch), getkey())
    for name in values:
        assert np.isfinite(values[name]), name
    for array in grads:
        assert np.isfinite(array).all()


def test_float64(make_batch, getkey):
    arrays = [np.asarray(a, np.float64) for a in make_batch(4, 3)]
    key = getkey()
    with jax.enable_x64(True):
        batch = [jnp.asarray(a) for a in arrays]
        got = cases.quick_jit(cases.objectives)(batch, cases.HYPERPARAMETERS, key)
        want = expected(arrays, key)
        for name, (loss, terms) in got.items():
            assert loss.dtype == np.float64, name
            assert all(term.dtype == np.float64 for term in terms.values()), name
            np.testing.assert_allclose(loss, want[name], rtol=1e-9, err_msg=name)


# --- errors

DETERMINISTIC = {"ae", "wae", "abs_ae", "bio_ae", "qlae", "tripod"}


@pytest.mark.parametrize(
    "name",
    sorted(set(cases.HYPERPARAMETERS) - DETERMINISTIC),
)
def test_variances_are_asked_for(name, make_batch, getkey):
    x, logits, z, mean, _ = make_batch(4, 3)
    extra = {
        "factor_vae": {"critic_logits": z[:, 0]},
        "dip_vae": {"kind": "i"},
        "info_vae": {"key": getkey()},
        "hfvae": {"groups": (1, 2)},
        "anchor_vae": {"anchors": (0,)},
        "vlae": {"latent_groups": (1, 2)},
    }.get(name, {})
    with pytest.raises(ValueError, match=f"{name}: `log_var` must be an array"):
        getattr(losses, name)(
            x, logits, z, mean, None, **extra, **cases.HYPERPARAMETERS[name]
        )


def test_errors(make_batch, getkey):
    x, logits, z, mean, log_var = batch = make_batch(5, 4)
    with pytest.raises(ValueError, match="vae: `kl` must be one of analytic, sampled"):
        losses.vae(*batch, kl="analytical")
    with pytest.raises(ValueError, match=r"vae: `reconstruction` must return \[B\]"):
        losses.vae(*batch, reconstruction=lambda x, y: jnp.square(x - y))
    with pytest.raises(
        ValueError, match="bernoulli_reconstruction: `logits` must have"
    ):
        losses.vae(x, logits[:, :2], z, mean, log_var)
    with pytest.raises(ValueError, match="`log_var` must have the shape of `mean`"):
        losses.vae(x, logits, z, mean, log_var[:, :2])
    with pytest.raises(ValueError, match="ada_gvae: the batch must hold pairs"):
        losses.ada_gvae(*batch)
    with pytest.raises(ValueError, match="vlae: `groups` must be positive sizes"):
        losses.vlae(*batch, latent_groups=(1, 1))
    with pytest.raises(ValueError, match="anchor_vae: `anchors` must be indices"):
        losses.anchor_vae(*batch, anchors=(4,), lambda_=1.0, dataset_size=9)
    weights = {"beta": 1.0, "gamma": 1.0, "dataset_size": 9, "groups": (2, 2)}
    with pytest.raises(ValueError, match="`log_p_elements` must be given with"):
        losses.hfvae(*batch, pairwise=jnp.zeros((5, 5, 4)), **weights)
    with pytest.raises(ValueError, match="`block_size` must be None where `pairwise`"):
        losses.hfvae(
            *batch,
            pairwise=jnp.zeros((5, 5, 4)),
            log_p_elements=jnp.zeros((5, 4)),
            block_size=2,
            **weights,
        )
    with pytest.raises(ValueError, match=r"abs_ae: `critic_logits` must be \[B\]"):
        losses.abs_ae(x, logits, z, mean, critic_logits=z)


# --- the worked example


def test_plain_optax_loop(getkey):
    """Drops one objective into a loop that uses no other part of the library."""
    size, pixels, dims = 256, 12, 2
    hidden = jax.random.normal(getkey(), (size, dims))
    data = jax.nn.sigmoid(3.0 * hidden @ jax.random.normal(getkey(), (dims, pixels)))
    params = {
        "encoder": 0.1 * jax.random.normal(getkey(), (pixels, 2 * dims)),
        "decoder": 0.1 * jax.random.normal(getkey(), (dims, pixels)),
    }
    optimizer = optax.adam(1e-2)

    def loss_fn(params, key, x):
        mean, log_var = jnp.split((x - 0.5) @ params["encoder"], 2, axis=1)
        z = mean + jnp.exp(0.5 * log_var) * jax.random.normal(key, mean.shape)
        logits = z @ params["decoder"]
        return losses.beta_tc_vae(
            x, logits, z, mean, log_var, beta=2.0, dataset_size=size
        )

    @jax.jit
    def step(params, state, key):
        pick, noise = jax.random.split(key)
        x = data[jax.random.choice(pick, size, (64,), replace=False)]
        (loss, terms), grads = jax.value_and_grad(loss_fn, has_aux=True)(
            params, noise, x
        )
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss, terms

    state, history = optimizer.init(params), []
    for _ in range(300):
        params, state, loss, terms = step(params, state, getkey())
        history.append(float(loss))
    # Untrained it costs 12 log 2 = 8.3 nats; what pays for itself is learnt.
    assert np.mean(history[-20:]) < np.mean(history[:20]) - 0.7
    assert terms["mutual_information"] > 0.5
