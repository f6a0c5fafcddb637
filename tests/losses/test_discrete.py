"""Densities of a Concrete variable in HFVAE's terms, against sums written out."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import distributions, losses
from tests.losses import cases

N = 50
WEIGHTS = {"alpha": 0.7, "beta": 4.0, "gamma": 3.0}
TERMS = ("mutual_information", "group_tc", "within_group_tc", "dimension_wise_kl")
# Two Gaussian dimensions, then variables of 3 and 2 values: a group of both kinds, a
# group of one, and a group of two discrete variables.
GROUPS = {"mixed": (1, 2, 1), "discrete": (2, 2)}


@pytest.fixture
def batch(make_batch, rng):
    """Arguments of the objective, and logits and draws of two Concrete variables."""
    logits = [jnp.asarray(2 * rng.normal(size=(5, k)), jnp.float32) for k in (3, 2)]
    log_y = [
        distributions.exp_concrete_sample(jax.random.key(k), one, 0.66)
        for k, one in enumerate(logits)
    ]
    return make_batch(5, 2), logits, log_y


STATIC = ("density", "groups", "block_size")


def objective(arrays, logits, log_y, *, density, groups, block_size=None):
    drawn = [losses.Concrete(*pair, 0.66) for pair in zip(log_y, logits, strict=True)]
    return losses.hfvae(
        *arrays,
        **WEIGHTS,
        groups=groups,
        dataset_size=N,
        concrete=drawn,
        concrete_density=density,
        block_size=block_size,
    )


compiled = cases.quick_jit(objective, static_argnames=STATIC)


def written_out(arrays, logits, log_y, density, groups):
    """The four terms in float64, for one combination of values at a time."""
    z, mean, log_var = (np.asarray(a, np.float64) for a in arrays[2:])
    probs = [np.exp(np.asarray(a, np.float64)) for a in logits]
    probs = [p / p.sum(axis=1, keepdims=True) for p in probs]
    sizes = [p.shape[1] for p in probs]
    (rows, dims), count = z.shape, len(probs)
    q = np.zeros((rows, rows, dims + count))
    for i, j, e in np.ndindex(rows, rows, dims):
        variance = math.exp(log_var[j, e])
        q[i, j, e] = math.exp(-0.5 * (z[i, e] - mean[j, e]) ** 2 / variance)
        q[i, j, e] /= math.sqrt(2 * math.pi * variance)
    weights = np.full((rows, rows), (N - 1) / (N * (rows - 1)))
    np.fill_diagonal(weights, 1 / N)
    bounds = np.cumsum([0, *groups])
    terms = dict.fromkeys(TERMS, 0.0)
    for i, *values in np.ndindex(rows, *sizes):
        if density == "pmf":
            weight = math.prod(int(y[i].argmax()) == k for y, k in zip(log_y, values))
        else:
            weight = math.prod(p[i, k] for p, k in zip(probs, values))
        for number, (p, k) in enumerate(zip(probs, values)):
            q[i, :, dims + number] = p[:, k]
        aggregate = [
            math.log(sum(weights[i, j] * math.prod(q[i, j, a:b]) for j in range(rows)))
            for a, b in [
                (0, dims + count),
                *itertools.pairwise(bounds),
                *((e, e + 1) for e in range(dims + count)),
            ]
        ]
        joint = aggregate[0]
        by_group = sum(aggregate[1 : 1 + len(groups)])
        by_element = sum(aggregate[1 + len(groups) :])
        prior = -sum(math.log(size) for size in sizes)
        prior += sum(-0.5 * (v * v + math.log(2 * math.pi)) for v in z[i])
        found = [np.log(q[i, i]).sum() - joint, joint - by_group]
        found += [by_group - by_element, by_element - prior]
        for name, value in zip(TERMS, found):
            terms[name] += weight * value / rows
    return terms


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("density", ["pmf", "exact", "exact_stopped"])
def test_terms_equal_written_out_sums(batch, density, groups):
    want = written_out(*batch, density, GROUPS[groups])
    block_size = 2 if density == "exact" else None
    loss, terms = compiled(
        *batch, density=density, groups=GROUPS[groups], block_size=block_size
    )
    for name in TERMS:
        assert float(terms[name]) == pytest.approx(want[name], rel=1e-4, abs=1e-5)
    total = terms["reconstruction"] + want["dimension_wise_kl"]
    total += sum(w * want[t] for w, t in zip(WEIGHTS.values(), TERMS))
    assert float(loss) == pytest.approx(float(total), rel=1e-5)


def test_the_density_of_the_draws_is_another_value(batch):
    """Which the three others are not: what the method used to minimise."""
    groups = GROUPS["mixed"]
    values = {
        density: float(compiled(*batch, density=density, groups=groups)[0])
        for density in losses.CONCRETE_DENSITIES
    }
    assert values["exact"] == pytest.approx(values["exact_stopped"], rel=1e-6)
    assert len({round(value, 2) for value in values.values()}) == 3


def gradients(batch, density):
    """Gradient of each term with respect to the Gaussians and to the logits."""
    arrays, logits, log_y = batch

    def terms(gaussians, logits):
        _, found = objective(
            [*arrays[:2], *gaussians], logits, log_y, density=density, groups=(2, 2)
        )
        return jnp.stack([found[name] for name in TERMS])

    found = cases.quick_jit(jax.jacrev(terms, argnums=(0, 1)))(arrays[2:], logits)
    return [[np.asarray(leaf) for leaf in part] for part in found]


def test_only_the_group_term_is_stopped_and_only_at_the_logits(batch):
    exact, stopped = gradients(batch, "exact"), gradients(batch, "exact_stopped")
    for all_of, of_stopped in zip(exact[0], stopped[0]):
        np.testing.assert_allclose(of_stopped, all_of, rtol=1e-4, atol=1e-6)
    group_term = TERMS.index("group_tc")
    for all_of, of_stopped in zip(exact[1], stopped[1]):
        assert np.abs(all_of[group_term]).max() > 1e-3
        assert not of_stopped[group_term].any()
        others = np.arange(len(TERMS)) != group_term
        np.testing.assert_allclose(
            of_stopped[others], all_of[others], rtol=1e-4, atol=1e-6
        )


def test_mean_gradient_at_the_logits():
    """Over draws, with the batch as the dataset: 0 for the pmf, not for the others."""
    rng = np.random.default_rng(0)
    mean = jnp.asarray(rng.normal(size=(4, 1)), jnp.float32)
    logits = jnp.asarray(rng.normal(size=(4, 3)), jnp.float32)

    def regularisers(logits, key, density):
        noise, draws = jax.random.split(key)
        z = mean + 0.5 * jax.random.normal(noise, mean.shape)
        log_y = distributions.exp_concrete_sample(draws, logits, 0.66)
        value, terms = losses.hfvae(
            jnp.zeros((4, 1)),
            jnp.zeros((4, 1)),
            z,
            mean,
            jnp.full_like(mean, 2 * math.log(0.5)),
            groups=(1, 1),
            dataset_size=4,
            concrete=[losses.Concrete(log_y, logits, 0.66)],
            concrete_density=density,
            **WEIGHTS,
        )
        return value - terms["reconstruction"]

    keys = jax.random.split(jax.random.key(0), 10_000)
    z_scores, sizes = {}, {}
    for density in ("pmf", "exact"):
        one = functools.partial(jax.grad(regularisers), density=density)
        found = np.asarray(cases.quick_jit(jax.vmap(one, (None, 0)))(logits, keys))
        error = found.std(axis=0) / math.sqrt(len(keys))
        z_scores[density] = np.abs(found.mean(axis=0) / error).max()
        sizes[density] = np.abs(found.mean(axis=0)).max()
    assert z_scores["pmf"] < 4 < 20 < z_scores["exact"]
    assert sizes["exact"] > 5 * sizes["pmf"]


@pytest.mark.parametrize("density", ["pmf", "exact", "exact_stopped"])
def test_gradients_are_finite_at_extreme_logits(batch, density):
    arrays, logits, log_y = batch
    extreme = arrays, [80 * jnp.sign(one) for one in logits], log_y
    for part in gradients(extreme, density):
        assert all(np.isfinite(leaf).all() for leaf in part)


def test_unknown_density(batch):
    with pytest.raises(ValueError, match="`concrete_density` .*'pmf'"):
        objective(*batch, density="pdf", groups=(2, 2))
