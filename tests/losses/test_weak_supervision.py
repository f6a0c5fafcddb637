"""Pairs and labels against loops and hand-worked cases."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import losses
from tests.losses import cases, reference

SHAPES = [(1, 2), (4, 3), (6, 10)]


@pytest.mark.parametrize("average", ["gvae", "ml_vae"])
@pytest.mark.parametrize("distance", ["symmetric_kl", "kl"])
@pytest.mark.parametrize(("batch", "dims"), SHAPES)
def test_ada_gvae_posteriors(batch, dims, distance, average, make_batch):
    *_, mean1, log_var1 = make_batch(batch, dims)
    *_, mean2, log_var2 = make_batch(batch, dims)
    pair = (mean1, log_var1, mean2, log_var2)
    options = {"distance": distance, "average": average}
    for ratio in (0.5, 0.2):
        run = jax.jit(
            lambda *p, r=ratio: losses.ada_gvae_posteriors(*p, ratio=r, **options)
        )
        got = run(*pair)
        want = reference.ada_posteriors(*pair, distance, average, ratio)
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_ada_gvae_by_hand():
    # Unit variances, means apart by 0, 1 and 4: symmetric KL 0, 1/2 and 8, threshold 4.
    # The first two are shared, at the midpoint; the third stays.
    mean1, mean2 = jnp.array([[0.0, 0.0, 0.0]]), jnp.array([[0.0, 1.0, 4.0]])
    zero = jnp.zeros((1, 3))
    got = losses.ada_gvae_posteriors(mean1, zero, mean2, zero)
    np.testing.assert_allclose(got[0], [[0.0, 0.5, 0.0]])
    np.testing.assert_allclose(got[2], [[0.0, 0.5, 4.0]])
    np.testing.assert_allclose([got[1], got[3]], np.zeros((2, 1, 3)), atol=1e-6)


def test_averages_by_hand():
    # Variances 1 and 3 at means 0 and 4, one dimension shared (the other is far apart).
    mean1, mean2 = jnp.array([[0.0, 0.0]]), jnp.array([[4.0, 1000.0]])
    log_var1, log_var2 = jnp.zeros((1, 2)), jnp.array([[math.log(3.0), 0.0]])
    got = losses.ada_gvae_posteriors(mean1, log_var1, mean2, log_var2)
    # Mean of means, and of *variances* (not of log-variances, which gives 1.73).
    np.testing.assert_allclose([got[0][0, 0], np.exp(got[1][0, 0])], [2.0, 2.0], 1e-6)
    got = losses.ada_gvae_posteriors(mean1, log_var1, mean2, log_var2, average="ml_vae")
    # Precisions 1 and 1/3: mean (0 + 4/3) / (4/3) = 1, variance 2 * 3 / 4 = 3/2.
    np.testing.assert_allclose([got[0][0, 0], np.exp(got[1][0, 0])], [1.0, 1.5], 1e-6)


def test_a_distance_at_the_threshold_is_not_shared():
    # Distances 0, 2 and 4 with unit variances: the middle one is exactly halfway.
    mean2 = jnp.sqrt(jnp.array([[0.0, 4.0, 8.0]]))
    zero = jnp.zeros((1, 3))
    got = losses.ada_gvae_posteriors(zero, zero, mean2, zero)
    np.testing.assert_allclose(got[0], np.zeros((1, 3)))
    np.testing.assert_allclose(got[2], mean2)


def test_direction_of_the_plain_distance():
    # KL(N(0, 1) || N(0, 9)) = (1/9 - 1 + log 9)/2 = 0.65 but 2.9 the other way round.
    # Beside a shift of 1 (0.5) and of 2 (2.0) the threshold falls on either side of it.
    mean1, mean2 = jnp.zeros((1, 3)), jnp.array([[0.0, 1.0, 2.0]])
    log_var1 = jnp.zeros((1, 3))
    log_var2 = jnp.array([[math.log(9.0), 0.0, 0.0]])
    got = losses.ada_gvae_posteriors(mean1, log_var1, mean2, log_var2, distance="kl")
    assert got[1][0, 0] == got[3][0, 0]
    got = losses.ada_gvae_posteriors(mean2, log_var2, mean1, log_var1, distance="kl")
    assert got[1][0, 0] != got[3][0, 0]


def test_identical_pairs_stay(make_batch):
    *_, mean, log_var = make_batch(3, 4)
    for average in ("gvae", "ml_vae"):
        got = losses.ada_gvae_posteriors(mean, log_var, mean, log_var, average=average)
        for a, b in zip(got, (mean, log_var, mean, log_var)):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("average", ["gvae", "ml_vae"])
@pytest.mark.parametrize("extreme", [(-20.0, -20.0), (-20.0, 20.0), (20.0, 20.0)])
def test_extreme_variances(extreme, average):
    mean1, mean2 = jnp.zeros((2, 3)), jnp.array([[0.0, 1.0, 5.0]] * 2)
    log_vars = [jnp.full((2, 3), v) for v in extreme]

    def total(m1, s1, m2, s2):
        out = losses.ada_gvae_posteriors(m1, s1, m2, s2, average=average)
        return sum(jnp.sin(o).sum() for o in out)

    grads = jax.grad(total, argnums=(0, 1, 2, 3))(
        mean1, log_vars[0], mean2, log_vars[1]
    )
    assert all(np.isfinite(g).all() for g in grads)


@pytest.mark.parametrize("name", ["ada_gvae", "ada_ml_vae"])
def test_averaged_posteriors_give_the_same_objective(name, make_batch):
    """Averaging before the objective or in it: equal values, terms and gradients."""
    x, logits, z, mean, log_var = make_batch(6, 4)
    objective = getattr(losses, name)
    options = {"distance": "kl", "ratio": 0.4}

    def inside(mean, log_var):
        return objective(x, logits, z, mean, log_var, beta=3.0, **options)

    def outside(mean, log_var):
        pair = losses.ada_gvae_posteriors(
            mean[:3],
            log_var[:3],
            mean[3:],
            log_var[3:],
            average=name.removeprefix("ada_"),
            **options,
        )
        mean, log_var = jnp.concatenate(pair[::2]), jnp.concatenate(pair[1::2])
        return objective(x, logits, z, mean, log_var, beta=3.0, averaged=True)

    got, want = (
        cases.quick_jit(jax.value_and_grad(run, argnums=(0, 1), has_aux=True))(
            mean, log_var
        )
        for run in (outside, inside)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, want)
    assert 0 < want[0][1]["shared_dims"] < 4


# --- labels


def labelled(getkey, batch, dims, sizes):
    mean = jax.random.normal(getkey(), (batch, dims))
    columns = [jax.random.randint(getkey(), (batch,), 0, size) for size in sizes]
    return mean, jnp.stack(columns, axis=1)


LABELLED = [(2, 1, (3,)), (5, 4, (2, 6, 3)), (9, 10, (3, 6, 40, 32, 32))]


@pytest.mark.parametrize(("batch", "dims", "sizes"), LABELLED)
def test_supervised_alignment(batch, dims, sizes, getkey):
    mean, factors = labelled(getkey, batch, dims, sizes)
    places = [jax.random.normal(getkey(), (size,)) for size in sizes]
    mu, labels = np.asarray(mean, np.float64), np.asarray(factors)
    xent = sigmoid = scaled = embed = 0.0
    for i in range(batch):
        for k, size in enumerate(sizes):
            code, label = mu[i, k], int(labels[i, k])
            p, target = 1 / (1 + math.exp(-code)), label / size
            xent -= target * math.log(p) + (1 - target) * math.log(1 - p)
            sigmoid += (p - target) ** 2
            scaled += (1.5 * code - label) ** 2
            scores = [-((0.7 * (code - e)) ** 2) for e in np.asarray(places[k])]
            embed -= (scores[label] - reference.log_sum_exp(scores)) / batch
    cov = 0.0
    for d in range(dims):
        for k in range(len(sizes)):
            entry = 0.0
            for i in range(batch):
                centred = mu[i, d] - mu[:, d].mean()
                entry += centred * (labels[i, k] - labels[:, k].mean()) / batch
            cov += entry**2 if d != k else 0.0
    for want, options in (
        (xent, {"kind": "xent", "factor_sizes": sizes}),
        (sigmoid, {"kind": "l2", "factor_sizes": sizes}),
        (scaled, {"kind": "l2", "scale": 1.5}),
        (cov, {"kind": "cov"}),
        (embed, {"kind": "embed", "embeddings": places, "sigma": 0.7}),
    ):
        run = functools.partial(losses.supervised_alignment, **options)
        got = cases.quick_jit(run)(mean, factors)
        assert got.shape == ()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_labels_are_divided_by_the_size_not_the_largest_value():
    # Factor of 4 values at its largest, 3: the target is 3/4. At logit log 3 the
    # prediction is 3/4 too, and the gradient vanishes; with target 1 it would not.
    mean, factors = jnp.array([[math.log(3.0)]]), jnp.array([[3]])
    grad = jax.grad(
        lambda m: losses.supervised_alignment(m, factors, factor_sizes=(4,))
    )(mean)
    np.testing.assert_allclose(grad, [[0.0]], atol=1e-6)


def test_learned_parts_have_gradients(getkey):
    mean, factors = labelled(getkey, 6, 4, (2, 3))
    grad = jax.grad(
        lambda b: losses.supervised_alignment(mean, factors, kind="l2", scale=b)
    )(1.0)
    assert grad != 0

    def embed(places, sigma):
        return losses.supervised_alignment(
            mean, factors, kind="embed", embeddings=places, sigma=sigma
        )

    places = [jnp.arange(2.0), jnp.arange(3.0)]
    grads = cases.quick_jit(jax.grad(embed, argnums=(0, 1)))(places, 1.0)
    assert all(np.any(g) for g in grads[0]) and grads[1] != 0


def test_errors(getkey):
    mean, factors = labelled(getkey, 4, 2, (2, 3))
    sizes = {"factor_sizes": (2, 3)}
    with pytest.raises(ValueError, match="`kind` must be one of xent, l2, cov, embed"):
        losses.supervised_alignment(mean, factors, kind="mine", **sizes)
    with pytest.raises(ValueError, match="`factor_sizes` must be 2 numbers of values"):
        losses.supervised_alignment(mean, factors)
    with pytest.raises(ValueError, match="`factor_sizes` must be 2 numbers of values"):
        losses.supervised_alignment(mean, factors, factor_sizes=(2,))
    with pytest.raises(ValueError, match="`embeddings` must be 2 arrays"):
        losses.supervised_alignment(mean, factors, kind="embed")
    with pytest.raises(ValueError, match=r"`factors` must be \[B, F\] with the rows"):
        losses.supervised_alignment(mean[:, :1], factors, **sizes)
    with pytest.raises(ValueError, match="the batch must hold at least 2"):
        losses.supervised_alignment(mean[:1], factors[:1], kind="cov")
    with pytest.raises(ValueError, match="`distance` must be one of symmetric_kl, kl"):
        losses.ada_gvae_posteriors(mean, mean, mean, mean, distance="l2")
    with pytest.raises(ValueError, match="`average` must be one of gvae, ml_vae"):
        losses.ada_gvae_posteriors(mean, mean, mean, mean, average="mlvae")
    with pytest.raises(ValueError, match="`log_var2` must have the shape of `mean1`"):
        losses.ada_gvae_posteriors(mean, mean, mean, mean[:2])
