"""Estimators of the aggregate posterior: loops, hand-worked cases, identities."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import distributions, losses
from disentangle_jax.losses import aggregate
from tests.losses import cases, reference

ESTIMATORS = ["mws", "mss", "stratified", "naive"]
CASES = [(2, 1, (1,), 2), (5, 4, (1, 3), 50), (8, 6, (2, 1, 3), 1000)]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("batch", "dims", "groups", "size"), CASES)
def test_marginals_against_loops(batch, dims, groups, size, estimator, make_batch):
    _, _, z, mean, log_var = make_batch(batch, dims)
    pairwise = reference.pairwise_gaussian(z, mean, log_var)
    want = reference.aggregate(pairwise, estimator, size, groups)
    options = {"dataset_size": size, "estimator": estimator, "groups": groups}
    direct = cases.quick_jit(functools.partial(losses.log_q_marginals, **options))
    core = cases.quick_jit(functools.partial(losses.aggregate_log_densities, **options))
    for got in (direct(z, mean, log_var), core(jnp.asarray(pairwise, jnp.float32))):
        assert set(got) == set(want)
        for name in want:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("batch", "dims", "groups", "size"), CASES)
def test_decompositions_against_loops(batch, dims, groups, size, estimator, make_batch):
    _, _, z, mean, log_var = make_batch(batch, dims)
    for split in (None, groups):
        want = reference.decomposition(z, mean, log_var, estimator, size, split)
        options = {"dataset_size": size, "estimator": estimator, "groups": split}
        got = cases.quick_jit(functools.partial(losses.kl_decomposition, **options))(
            z, mean, log_var
        )
        assert set(got) == set(want)
        for name in want:
            np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-5)
        got = cases.quick_jit(functools.partial(losses.total_correlation, **options))(
            z, mean, log_var
        )
        want = want["total_correlation"]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# Two codes of two elements, with q(z_i,e | x_j):
#
#          j = 0 (own)   j = 1                    j = 0         j = 1 (own)
#   i = 0  1/2, 1/2      1/4, 1/8          i = 1  1/8, 1/2      1/4, 1
#   joint  1/4           1/32              joint  1/16          1/4
#
# In a dataset of N = 10 the rows of the estimates are, for joint | e=0 | e=1:
TWO_POINTS = np.log([[[1 / 2, 1 / 2], [1 / 4, 1 / 8]], [[1 / 8, 1 / 2], [1 / 4, 1]]])
BY_HAND = {
    # every pair 1/(NB) = 1/20:
    #   (1/4 + 1/32)/20  | (1/2 + 1/4)/20 | (1/2 + 1/8)/20
    #   (1/16 + 1/4)/20  | (1/8 + 1/4)/20 | (1/2 + 1)/20
    "mws": [[9 / 640, 3 / 80, 1 / 32], [1 / 64, 3 / 160, 3 / 40]],
    # own 1/N = 1/10; the only other is the one with (N-1)/N = 9/10:
    #   1/40 + 9/320     | 1/20 + 9/40    | 1/20 + 9/80
    #   9/160 + 1/40     | 9/80 + 1/40    | 9/20 + 1/10
    "mss": [[17 / 320, 11 / 40, 13 / 80], [13 / 160, 11 / 80, 11 / 20]],
    # own 1/N = 1/10, other (N-1)/(N(B-1)) = 9/10: the same for two points
    "stratified": [[17 / 320, 11 / 40, 13 / 80], [13 / 160, 11 / 80, 11 / 20]],
    # plain sums
    "naive": [[9 / 32, 3 / 4, 5 / 8], [5 / 16, 3 / 8, 3 / 2]],
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_two_points_by_hand(estimator):
    got = losses.aggregate_log_densities(
        jnp.asarray(TWO_POINTS, jnp.float32), dataset_size=10, estimator=estimator
    )
    np.testing.assert_allclose(np.exp(got["log_qz_given_x"]), [1 / 4, 1 / 4], 1e-5)
    want = np.array(BY_HAND[estimator])
    np.testing.assert_allclose(np.exp(got["log_qz"]), want[:, 0], rtol=1e-5)
    np.testing.assert_allclose(np.exp(got["log_qz_dims"]), want[:, 1:], rtol=1e-5)
    np.testing.assert_allclose(got["log_qz_groups"], got["log_qz_dims"], rtol=1e-6)


def test_three_points_by_hand():
    # With three points MSS and the stratified weights part: N = 10, B = 3 gives MSS own
    # 1/10, the next row (N-2)/(2N) = 4/10, the remaining one 1/2; stratified 1/10 and
    # 9/20 each. Densities 1, 2, 4 at j = 0, 1, 2, the same for all codes:
    pairwise = jnp.log(jnp.tile(jnp.array([1.0, 2.0, 4.0]), (3, 1)))[:, :, None]
    for estimator, want in {
        "mss": [0.1 + 0.8 + 2.0, 0.5 + 0.2 + 1.6, 0.4 + 1.0 + 0.4],
        "stratified": [0.1 + 0.9 + 1.8, 0.45 + 0.2 + 1.8, 0.45 + 0.9 + 0.4],
    }.items():
        got = losses.aggregate_log_densities(
            pairwise, dataset_size=10, estimator=estimator
        )
        np.testing.assert_allclose(np.exp(got["log_qz"]), want, rtol=1e-5)


@pytest.mark.parametrize("estimator", ["mss", "stratified"])
@pytest.mark.parametrize(("batch", "size"), [(2, 2), (5, 1000), (16, 20), (7, 7)])
def test_weights_of_a_row_sum_to_one(estimator, batch, size):
    # Where every density is 1 the estimate is the sum of the weights.
    got = losses.aggregate_log_densities(
        jnp.zeros((batch, batch, 3)), dataset_size=size, estimator=estimator
    )
    for name in ("log_qz", "log_qz_groups", "log_qz_dims"):
        np.testing.assert_allclose(got[name], np.zeros(got[name].shape), atol=1e-6)


def test_whole_data_set_as_batch_is_exact(make_batch):
    _, _, z, mean, log_var = make_batch(9, 3)
    got = losses.log_q_marginals(
        z, mean, log_var, dataset_size=9, estimator="stratified", groups=(1, 2)
    )
    exact = np.exp(reference.pairwise_gaussian(z, mean, log_var))
    np.testing.assert_allclose(
        got["log_qz"], np.log(exact.prod(axis=2).mean(axis=1)), rtol=1e-4
    )
    np.testing.assert_allclose(
        got["log_qz_dims"], np.log(exact.mean(axis=1)), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        got["log_qz_groups"][:, 1],
        np.log(exact[:, :, 1:].prod(axis=2).mean(axis=1)),
        rtol=1e-4,
        atol=1e-5,
    )


def test_stratified_and_mss_are_unbiased_densities():
    """Over all batches, the mean estimate of q(z) itself is exact."""
    size, batch = 5, 3
    rng = np.random.default_rng(1)
    density = rng.uniform(0.1, 1.0, size=(size, size))  # [z of n, posterior of m]
    exact = density.mean(axis=1)
    for estimator in ("mss", "stratified"):
        totals, counts = np.zeros(size), np.zeros(size)
        for rows in np.ndindex(*(size,) * batch):
            if len(set(rows)) < batch:
                continue
            pairwise = jnp.log(jnp.asarray(density[np.ix_(rows, rows)], jnp.float32))
            got = estimate(pairwise[:, :, None], size, estimator)
            for row, value in zip(rows, np.exp(got)):
                totals[row] += value
                counts[row] += 1
        np.testing.assert_allclose(totals / counts, exact, rtol=1e-5)


@functools.partial(cases.quick_jit, static_argnums=2)
def estimate(pairwise, size, estimator):
    return losses.aggregate_log_densities(
        pairwise, dataset_size=size, estimator=estimator
    )["log_qz"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parts_add_up_to_the_sampled_kl(estimator, make_batch):
    _, _, z, mean, log_var = make_batch(7, 4)
    want = reference.sampled_kl(z, mean, log_var).mean()
    options = {"dataset_size": 30, "estimator": estimator}
    run = functools.partial(losses.kl_decomposition, **options)
    for groups in (None, (4,), (1, 3)):
        one = cases.quick_jit(functools.partial(run, groups=groups))
        parts = one(z, mean, log_var)
        np.testing.assert_allclose(sum(parts.values()), want, rtol=1e-5)


def test_parts_add_up_for_another_prior(make_batch):
    _, _, z, mean, log_var = make_batch(7, 4)
    prior = {"prior_mean": jnp.arange(4.0), "prior_log_var": -0.5}
    parts = losses.kl_decomposition(
        z, mean, log_var, dataset_size=30, estimator="stratified", **prior
    )
    want = losses.sampled_gaussian_kl(z, mean, log_var, **prior).mean()
    np.testing.assert_allclose(sum(parts.values()), want, rtol=1e-5)


def test_concrete_variables_are_elements(make_batch, rng):
    """Beside Gaussians, in groups of their own and of both; value and gradient."""
    _, _, z, mean, log_var = make_batch(6, 3)
    options = {"dataset_size": 50, "estimator": "stratified", "groups": (1, 1, 2, 1)}

    def by_element(z, mean, log_var, draws, block_size=None):
        return losses.log_q_marginals(
            z, mean, log_var, concrete=draws, block_size=block_size, **options
        )

    def all_at_once(z, mean, log_var, draws):
        pairs = [
            losses.pairwise_log_density(
                distributions.gaussian_log_prob, z, mean, log_var
            )
        ]
        for log_y, logits, temperature in draws:
            pairs.append(
                losses.pairwise_log_density(
                    lambda y, parameters, t=temperature: (
                        distributions.exp_concrete_log_prob(y, parameters, t)
                    ),
                    log_y,
                    logits,
                )
            )
        pairwise = jnp.concatenate(pairs, axis=2)
        return losses.aggregate_log_densities(pairwise, **options)

    def with_gradient(function):
        def value(*arguments):
            densities = function(*arguments)
            return sum(jnp.tanh(v / 50).sum() for v in densities.values()), densities

        grad = jax.value_and_grad(value, argnums=(0, 1, 2, 3), has_aux=True)
        return cases.quick_jit(grad)

    reference_run = with_gradient(all_at_once)
    runs = [with_gradient(by_element)]
    runs.append(with_gradient(functools.partial(by_element, block_size=4)))
    for scale in (1.0, 80.0):
        draws = []
        for categories, temperature in ((4, 0.66), (2, 0.2)):
            logits = jnp.asarray(scale * rng.normal(size=(6, categories)), jnp.float32)
            key = jax.random.key(categories)
            log_y = distributions.exp_concrete_sample(key, logits, temperature)
            draws.append(losses.Concrete(log_y, logits, jnp.float32(temperature)))
        want = reference_run(z, mean, log_var, draws)
        for run in runs:
            jax.tree.map(
                lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5),
                run(z, mean, log_var, draws),
                want,
            )


def test_pairs_of_one_element_at_a_time():
    """B = 1024, D = 50: forward and backward without a B×B×D array (210 MB)."""
    codes = jax.ShapeDtypeStruct((1024, 50), jnp.float32)

    def run(z, mean, log_var):
        return losses.total_correlation(
            z, mean, log_var, dataset_size=60_000, estimator="stratified"
        )

    grad = jax.jit(jax.value_and_grad(run, argnums=(0, 1, 2)))
    memory = grad.lower(codes, codes, codes).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 50e6, memory.temp_size_in_bytes


def test_elements_at_once_equal_one_after_the_other(make_batch, monkeypatch):
    """Value and gradient, alone and as lanes; the pairs are few in both."""
    codes = make_batch(8, 5)[2:]
    lanes = jax.tree.map(lambda a: jnp.stack([a, 0.5 * a]), codes)

    def run():
        def value(*codes):
            options = {"dataset_size": 100, "estimator": "mss", "groups": (2, 3)}
            densities = losses.log_q_marginals(*codes, **options)
            return sum(jnp.sin(v).sum() for v in densities.values())

        found = jax.value_and_grad(value, argnums=(0, 1, 2))
        jaxpr = str(jax.make_jaxpr(found)(*codes))
        return found(*codes), jax.vmap(found)(*lanes), "scan" in jaxpr

    *at_once, loops = run()
    monkeypatch.setattr(aggregate, "_SMALL", 0)
    *one_by_one, others_loop = run()
    assert others_loop and not loops
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        at_once,
        one_by_one,
    )


@functools.partial(cases.quick_jit, static_argnums=0)
@functools.partial(jax.value_and_grad, argnums=(1, 2, 3))
def blockwise(block_size, *codes):
    options = {"dataset_size": 100, "estimator": "mss", "groups": (2, 3)}
    densities = losses.log_q_marginals(*codes, block_size=block_size, **options)
    return sum(jnp.sin(v).sum() for v in densities.values())


@pytest.mark.parametrize("block_size", [1, 3, 4, 100])
def test_blockwise_equals_all_at_once(block_size, make_batch):
    codes = make_batch(8, 5)[2:]
    got, want = blockwise(block_size, *codes), blockwise(None, *codes)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), got, want
    )


def test_blockwise_memory_is_bounded():
    """B = 4096, D = 64: forward and backward without a B×B×D array (4.3 GB)."""
    codes = jax.ShapeDtypeStruct((4096, 64), jnp.float32)

    def run(z, mean, log_var):
        return losses.total_correlation(
            z,
            mean,
            log_var,
            dataset_size=737_280,
            estimator="stratified",
            groups=(32, 32),
            block_size=16,
        )

    grad = jax.jit(jax.value_and_grad(run, argnums=(0, 1, 2)))
    memory = grad.lower(codes, codes, codes).compile().memory_analysis()
    # One block of pairs is 16 * 4096 * 64 * 4 bytes = 17 MB.
    assert memory.temp_size_in_bytes < 150e6, memory.temp_size_in_bytes


# --- HFVAE


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(("batch", "dims", "groups", "size"), CASES)
def test_hfvae_terms_against_loops(batch, dims, groups, size, estimator, make_batch):
    rng = np.random.default_rng(batch)
    _, _, z, mean, log_var = make_batch(batch, dims)
    pairwise = reference.pairwise_gaussian(z, mean, log_var)
    out = reference.aggregate(pairwise, estimator, size, groups)
    log_p = rng.normal(size=(batch, dims))
    by_group = rng.normal(size=(batch, len(groups)))
    joint = rng.normal(size=batch)
    for p_groups, p_joint in ((None, None), (by_group, None), (by_group, joint)):
        want = np.zeros(4)
        for i in range(batch):
            pg = [log_p[i, low:high].sum() for low, high in reference.bounds(groups)]
            pg = pg if p_groups is None else p_groups[i]
            pj = sum(pg) if p_joint is None else p_joint[i]
            q, qg, qe = (
                out["log_qz"][i],
                out["log_qz_groups"][i],
                out["log_qz_dims"][i],
            )
            want[0] += out["log_qz_given_x"][i] - q
            want[1] += (q - sum(qg)) - (pj - sum(pg))
            for g, (low, high) in enumerate(reference.bounds(groups)):
                want[2] += (qg[g] - qe[low:high].sum()) - (
                    pg[g] - log_p[i, low:high].sum()
                )
            want[3] += sum(qe) - sum(log_p[i])
        options = {"dataset_size": size, "groups": groups, "estimator": estimator}
        terms = cases.quick_jit(functools.partial(losses.hfvae_terms, **options))
        prior = {"log_p_groups": p_groups, "log_p_joint": p_joint}
        got = terms(*(a.astype(np.float32) for a in (pairwise, log_p)), **prior)
        order = ("mutual_information", "group_tc", "within_group_tc")
        got = [got.pop(name) for name in (*order, "dimension_wise_kl")] + list(got)
        np.testing.assert_allclose(got, want / batch, rtol=1e-4, atol=1e-5)


def test_a_posterior_like_a_correlated_prior_costs_nothing():
    """Where q(z) is the prior, correlated as it is, every term but ② vanishes."""
    # All posteriors are the same two-element density 0.2, 0.3 (so q(z) = q(z|x)); the
    # prior has these marginals for the elements but 0.2 * 0.3 * e for the pair.
    pairwise = jnp.log(jnp.tile(jnp.array([0.2, 0.3]), (4, 4, 1)))
    log_p = jnp.log(jnp.tile(jnp.array([0.2, 0.3]), (4, 1)))
    options = {"dataset_size": 9, "groups": (1, 1)}
    terms = losses.hfvae_terms(pairwise, log_p, **options)
    np.testing.assert_allclose(list(terms.values()), np.zeros(4), atol=1e-6)
    terms = losses.hfvae_terms(
        pairwise, log_p, log_p_joint=log_p.sum(axis=1) + 1.0, **options
    )
    # A prior with 1 nat of correlation that q lacks: Ⓐ is 0 - 1.
    np.testing.assert_allclose(list(terms.values()), [0, -1, 0, 0], atol=1e-6)


def test_a_concrete_variable_is_one_element(getkey):
    logits = jax.random.normal(getkey(), (4, 3))
    y = distributions.concrete_sample(getkey(), logits, 0.5)
    pairwise = losses.pairwise_log_density(
        lambda y, logits: distributions.concrete_log_prob(y, logits, 0.5), y, logits
    )
    assert pairwise.shape == (4, 4, 1)
    want = distributions.concrete_log_prob(y[1], logits[2], 0.5)
    np.testing.assert_allclose(pairwise[1, 2, 0], want, rtol=1e-5)


# --- errors

FUNCTIONS = [losses.log_q_marginals, losses.kl_decomposition, losses.total_correlation]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors(function):
    codes = jnp.ones((4, 3))
    good = {"dataset_size": 10, "estimator": "mws"}
    name = function.__name__
    with pytest.raises(
        ValueError, match=f"{name}: `estimator` must be one of mws, mss"
    ):
        function(codes, codes, codes, dataset_size=10, estimator="stratifed")
    with pytest.raises(ValueError, match="Did you mean 'stratified'"):
        function(codes, codes, codes, dataset_size=10, estimator="stratifed")
    with pytest.raises(ValueError, match=rf"{name}: `z` must be \[B, D\], got shape"):
        function(codes[0], codes, codes, **good)
    with pytest.raises(ValueError, match=f"{name}: `mean` must have the shape of `z`"):
        function(codes, codes[:2], codes, **good)
    with pytest.raises(ValueError, match=f"{name}: `groups` must be positive sizes"):
        function(codes, codes, codes, groups=(1, 1), **good)
    with pytest.raises(ValueError, match=f"{name}: `block_size` must be None or"):
        function(codes, codes, codes, block_size=0, **good)
    with pytest.raises(
        ValueError, match=f"{name}: `dataset_size` must be at least the"
    ):
        function(codes, codes, codes, dataset_size=3, estimator="mws")
    with pytest.raises(ValueError, match=f"{name}: `dataset_size` must be the number"):
        function(codes, codes, codes, dataset_size=None, estimator="mws")


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_example_is_an_error(function, estimator):
    codes = jnp.ones((1, 3))
    with pytest.raises(
        ValueError, match="the batch must hold at least 2 examples, got 1"
    ):
        function(codes, codes, codes, dataset_size=10, estimator=estimator)


def test_core_errors():
    good = {"dataset_size": 10, "estimator": "mws"}
    with pytest.raises(ValueError, match=r"`pairwise` must be \[B, B, E\]"):
        losses.aggregate_log_densities(jnp.ones((4, 4)), **good)
    with pytest.raises(ValueError, match=r"one column per example of the batch \(4\)"):
        losses.aggregate_log_densities(jnp.ones((4, 3, 2)), **good)
    with pytest.raises(ValueError, match="at least 2 examples"):
        losses.aggregate_log_densities(jnp.ones((1, 1, 2)), **good)
    with pytest.raises(ValueError, match="aggregate_log_densities: `groups` must be"):
        losses.aggregate_log_densities(jnp.ones((4, 4, 2)), groups=(3,), **good)


def test_hfvae_errors():
    pairwise, log_p = jnp.ones((4, 4, 2)), jnp.ones((4, 2))
    good = {"dataset_size": 10, "groups": (1, 1)}
    with pytest.raises(ValueError, match="hfvae_terms: `groups` must be the sizes"):
        losses.hfvae_terms(pairwise, log_p, dataset_size=10, groups=None)
    with pytest.raises(ValueError, match=r"`log_p_elements` must have shape \(4, 2\)"):
        losses.hfvae_terms(pairwise, log_p[:, :1], **good)
    with pytest.raises(ValueError, match=r"`log_p_groups` must have shape \(4, 2\)"):
        losses.hfvae_terms(pairwise, log_p, log_p_groups=jnp.ones((4, 3)), **good)
    with pytest.raises(ValueError, match=r"`log_p_joint` must have shape \(4,\)"):
        losses.hfvae_terms(pairwise, log_p, log_p_joint=jnp.ones((4, 1)), **good)
