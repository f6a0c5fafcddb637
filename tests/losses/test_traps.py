"""Mistakes found in public code, each with a check that the mistake fails.

Every check takes an implementation. It must pass ours, and it must raise for the wrong
one written out beside it, which shows that the check can fail.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses, sampling
from tests.losses import reference

B, D, N = 5, 4, 1000


@pytest.fixture
def codes(make_batch):
    """`(z, mean, log_var)` as float64 NumPy arrays."""
    return [np.asarray(a, np.float64) for a in make_batch(B, D)[2:]]


def jax_arrays(*arrays):
    return [jnp.asarray(a, jnp.float32) for a in arrays]


def rejects(check, wrong, *arguments):
    with pytest.raises(AssertionError):
        check(wrong, *arguments)


def close(got, want, rtol=1e-4):
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-4)


# --- 1: MSS weights on column 0 instead of the diagonal


def check_mss_weights(weights_of):
    weights = weights_of(B, N)
    close(weights.sum(axis=1), np.ones(B))
    close(np.diag(weights), np.full(B, 1 / N))


def our_mss_weights(batch, size):
    """Reads the weights off the estimate: one density at a time is 1, the others 0."""
    columns = []
    for j in range(batch):
        log_density = jnp.full((batch, batch, 1), -1e4).at[:, j].set(0.0)
        out = losses.aggregate_log_densities(
            log_density, dataset_size=size, estimator="mss"
        )
        columns.append(np.exp(out["log_qz"]))
    return np.stack(columns, axis=1)


def strided_mss_weights(batch, size):
    others = batch - 1
    weights = np.full((batch, batch), 1 / others)
    weights.reshape(-1)[:: others + 1] = 1 / size
    weights.reshape(-1)[1 :: others + 1] = (size - others) / (size * others)
    weights[others - 1, 0] = (size - others) / (size * others)
    return weights


def test_1_mss_weights():
    check_mss_weights(our_mss_weights)
    rejects(check_mss_weights, strided_mss_weights)
    # The public matrix has a row that sums to 1.248, as was found by running it.
    assert round(strided_mss_weights(B, N).sum(axis=1).max(), 3) == 1.248


# --- 2: the log-weight added once per dimension


def check_joint_density(log_qz, codes):
    pairwise = reference.pairwise_gaussian(*codes)
    want = reference.aggregate(pairwise, "mss", N, (1,) * D)["log_qz"]
    close(log_qz(*codes), want)


def our_joint_density(z, mean, log_var):
    return losses.log_q_marginals(
        *jax_arrays(z, mean, log_var), dataset_size=N, estimator="mss"
    )["log_qz"]


def weight_per_dimension(z, mean, log_var):
    log_weight = np.log(reference.weights("mss", B, N))
    pairwise = reference.pairwise_gaussian(z, mean, log_var) + log_weight[:, :, None]
    return np.array([reference.log_sum_exp(row) for row in pairwise.sum(axis=2)])


def test_2_one_weight_per_pair(codes):
    check_joint_density(our_joint_density, codes)
    rejects(check_joint_density, weight_per_dimension, codes)


# --- 3: constants dropped from a value that is logged


def check_no_correlation(total_correlation):
    """Posteriors that are all the same have a product for an aggregate: TC is 0."""
    z = np.random.default_rng(0).normal(size=(B, D))
    close(total_correlation(z, np.zeros((B, D)), np.zeros((B, D))), 0.0)


def our_correlation(estimator):
    return lambda *codes: losses.total_correlation(
        *jax_arrays(*codes), dataset_size=N, estimator=estimator
    )


def test_3_values_that_can_be_logged(codes):
    check_no_correlation(our_correlation("stratified"))
    check_no_correlation(our_correlation("mss"))
    # The study's estimator and Chen's own are off by constants, as documented:
    rejects(check_no_correlation, our_correlation("naive"))
    rejects(check_no_correlation, our_correlation("mws"))
    gap = our_correlation("mws")(*codes) - our_correlation("naive")(*codes)
    close(gap, (D - 1) * math.log(B * N))
    same = (np.zeros((B, D)),) * 3
    close(our_correlation("mws")(*same), (D - 1) * math.log(N))
    # ... which does not touch the gradient.
    grads = [
        jax.grad(lambda z, e=e: our_correlation(e)(z, *codes[1:]))(
            jax_arrays(codes[0])[0]
        )
        for e in ("mws", "naive")
    ]
    np.testing.assert_allclose(*grads, rtol=1e-4, atol=1e-6)


# --- 4: beta counted twice


def check_beta_once(objective, batch):
    x, logits, z, mean, log_var = batch
    kl = reference.analytic_kl(mean, log_var).sum(axis=1).mean()
    tc = reference.decomposition(z, mean, log_var, "naive", N)["total_correlation"]
    error = reference.bernoulli(x, logits).mean()
    close(objective(*batch, beta=6.0), error + kl + 5 * tc)


def test_4_beta_once(make_batch):
    batch = make_batch(B, D)

    def ours(*batch, beta):
        return losses.beta_tc_vae(
            *batch, beta=beta, dataset_size=N, estimator="naive", kl="analytic"
        )[0]

    def twice(*batch, beta):
        weighted = losses.beta_vae(*batch, beta=beta)[0]
        return weighted + (beta - 1) * our_correlation("naive")(*batch[2:])

    check_beta_once(ours, batch)
    rejects(check_beta_once, twice, batch)


# --- 5 and 6: covariances of DIP-VAE


def check_dip(penalty, codes):
    _, mean, log_var = codes
    close(penalty(mean, log_var), reference.dip(mean, log_var, "ii", 2.0, 3.0))


def our_dip(mean, log_var):
    return losses.dip_penalty(
        *jax_arrays(mean, log_var), kind="ii", lambda_od=2.0, lambda_d=3.0
    )


def penalty_of(matrix):
    off = matrix - np.diag(np.diag(matrix))
    return 2.0 * (off**2).sum() + 3.0 * ((np.diag(matrix) - 1) ** 2).sum()


def scalar_variance(mean, log_var):
    covariance = np.cov(mean.T, bias=True)
    return penalty_of(covariance + np.mean(np.diag(np.exp(log_var)[:D]), axis=0))


def centred_over_latents(mean, log_var):
    centred = mean - mean.mean(axis=1, keepdims=True)
    covariance = centred.T @ centred
    return penalty_of(covariance + np.mean(np.diag(np.exp(2 * log_var)[:D]), axis=0))


def test_5_dip_variance_is_per_dimension(codes):
    check_dip(our_dip, codes)
    rejects(check_dip, scalar_variance, codes)


def test_6_dip_covariance_is_over_the_batch(codes):
    check_dip(our_dip, codes)
    rejects(check_dip, centred_over_latents, codes)
    # Each part of that mistake alone is caught as well.
    mean, log_var = codes[1:]
    variances = np.diag(np.exp(log_var).mean(axis=0))
    centred = mean - mean.mean(axis=0)
    rejects(check_dip, lambda m, s: penalty_of(centred.T @ centred + variances), codes)
    squared = np.diag(np.exp(2 * log_var).mean(axis=0))
    rejects(check_dip, lambda m, s: penalty_of(np.cov(m.T, bias=True) + squared), codes)


# --- 7: |KL - C| per example


def check_capacity(penalty):
    # KL of 0 and 4 nats, mean 2, capacity 2: nothing to pay. Per example it is 2.
    close(penalty(np.array([0.0, 4.0]), 2.0), 0.0)


def test_7_capacity_of_the_mean():
    check_capacity(lambda kl, c: losses.capacity_kl(kl, gamma=1.0, capacity=c))
    rejects(check_capacity, lambda kl, c: np.abs(kl - c).mean())


# --- 8: half of the batch for each side of FactorVAE's critic


def check_whole_batch(critic_loss, z):
    """Every code of the batch contributes to both sides of the critic's loss."""
    grad = jax.grad(lambda w: critic_loss(w, z))(jnp.ones((z.shape[0],)))
    assert (np.abs(grad) > 0).all()


def test_8_the_critic_sees_the_whole_batch(getkey):
    z, key = jax.random.normal(getkey(), (6, 3)), getkey()

    # This critic weights each row, so its gradient shows which rows contribute.
    def one_batch(w, z):
        permuted = sampling.permute_dims(key, z)
        return losses.discriminator_loss(w * z[:, 0], w * permuted[:, 0])

    def side(which):
        def loss(w, z):
            half = z.shape[0] // 2
            permuted = sampling.permute_dims(key, z[half:])
            joint = (w * z[:, 0])[:half]
            logits = [joint, jnp.zeros(half)]
            if which == "permuted":
                logits = [jnp.zeros(half), w[half:] * permuted[:, 0]]
            return losses.discriminator_loss(*logits)

        return loss

    check_whole_batch(one_batch, z)
    rejects(check_whole_batch, side("joint"), z)
    rejects(check_whole_batch, side("permuted"), z)
    # Two-batch form: a second batch, of any size, is permuted instead.
    second = jax.random.normal(getkey(), (4, 3))
    permuted = sampling.permute_dims(key, second)
    got = losses.discriminator_loss(z[:, 0], permuted[:, 0])
    want = 0.5 * np.mean(np.log1p(np.exp(-z[:, 0])))
    close(got, want + 0.5 * np.mean(np.log1p(np.exp(permuted[:, 0]))))


# --- 9: which of a pair comes first


def check_pairs_are_unordered(posteriors):
    # Variances 1 and 9 are 0.65 nats apart one way and 2.9 the other; beside shifts of
    # 0.5 and 2 nats the plain distance shares the dimension in one order only.
    mean1, mean2 = jnp.zeros((1, 3)), jnp.array([[0.0, 1.0, 2.0]])
    zero, wide = jnp.zeros((1, 3)), jnp.array([[math.log(9.0), 0.0, 0.0]])
    first = posteriors(mean1, zero, mean2, wide)
    second = posteriors(mean2, wide, mean1, zero)
    for a, b in zip(first, (*second[2:], *second[:2])):
        close(a, b)


def test_9_pairs_have_no_order():
    check_pairs_are_unordered(losses.ada_gvae_posteriors)
    rejects(
        check_pairs_are_unordered,
        lambda *pair: losses.ada_gvae_posteriors(*pair, distance="kl"),
    )


# --- 10: the first batch alone; a reshape for a transpose


def check_mean_over_batches(evaluate, batch):
    want = losses.vae(*batch)[0]
    close(evaluate([[a[i : i + 2] for a in batch] for i in range(0, 6, 2)]), want)


def test_10_losses_of_batches_average_to_that_of_all(make_batch):
    def average(batches):
        return sum(float(losses.vae(*batch)[0]) for batch in batches) / len(batches)

    def first_only(batches):
        return float(losses.vae(*batches[0])[0]) / len(batches)

    batch = make_batch(6, 3)
    check_mean_over_batches(average, batch)
    rejects(check_mean_over_batches, first_only, batch)


def check_columns_are_dimensions(log_qz_dims, codes):
    got = log_qz_dims(*codes)
    for d in range(D):
        alone = reference.pairwise_gaussian(*(a[:, d : d + 1] for a in codes))
        want = reference.aggregate(alone, "stratified", N, (1,))["log_qz"]
        close(got[:, d], want)


def test_10_marginals_are_in_their_columns(codes):
    def ours(*codes):
        return losses.log_q_marginals(
            *jax_arrays(*codes), dataset_size=N, estimator="stratified"
        )["log_qz_dims"]

    check_columns_are_dimensions(ours, codes)
    rejects(check_columns_are_dimensions, lambda *c: ours(*c).reshape(D, B).T, codes)


# --- 11: results that depend on the order of the examples


def check_order_does_not_matter(total_correlation, codes):
    order = np.array([3, 0, 4, 1, 2])
    shuffled = [a[order] for a in codes]
    close(total_correlation(*shuffled), total_correlation(*codes), rtol=1e-5)


def test_11_order_of_examples(codes):
    for estimator in ("mws", "stratified", "naive"):
        check_order_does_not_matter(our_correlation(estimator), codes)

    def strided(*codes):
        log_weight = np.log(strided_mss_weights(B, N))
        pairwise = reference.pairwise_gaussian(*codes)

        def estimate(log_density):
            return [reference.log_sum_exp(row) for row in log_density + log_weight]

        joint = np.array(estimate(pairwise.sum(axis=2)))
        dims = sum(np.array(estimate(pairwise[:, :, d])) for d in range(D))
        return (joint - dims).mean()

    rejects(check_order_does_not_matter, strided, codes)
