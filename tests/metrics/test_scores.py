"""Scores against loops written here, hand-worked cases and closed forms."""

import itertools
import math

import jax
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr
from sklearn.feature_selection import mutual_info_classif
from sklearn.linear_model import Lasso
from sklearn.metrics import mutual_info_score, roc_auc_score

from disentangle_jax import metrics
from disentangle_jax.metrics.information import (
    contingency,
    quantise,
)
from disentangle_jax.metrics.normalised_information import knn_information
from disentangle_jax.metrics.predictability import roc_auc
from tests.metrics.test_descriptions import compute


@pytest.fixture
def arrays(rng):
    """300 rows, 4 latents that mix 3 factors with noise."""
    factors = np.stack([rng.integers(s, size=300) for s in (3, 5, 4)], axis=1)
    codes = factors @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(300, 4))
    return codes, factors


def entropy(labels):
    p = np.unique(labels, return_counts=True)[1] / len(labels)
    return -np.sum(p * np.log(p))


def loop_information(codes, factors, bins):
    """The matrix of informations by scikit-learn, one pair at a time."""
    out = np.empty((codes.shape[1], factors.shape[1]))
    for i, z in enumerate(codes.T):
        edges = np.histogram(z, bins)[1]
        binned = np.digitize(z, edges[:-1])
        for k, f in enumerate(factors.T):
            out[i, k] = mutual_info_score(binned, f)
    return out


def test_mig_family_against_loops(arrays):
    codes, factors = arrays
    mi = loop_information(codes, factors, 20)
    score = metrics.mig(codes, factors)
    np.testing.assert_allclose(score.matrices["mi"], mi, atol=1e-12)
    gaps = [
        (np.sort(mi[:, k])[-1] - np.sort(mi[:, k])[-2]) / entropy(factors[:, k])
        for k in range(3)
    ]
    np.testing.assert_allclose(float(score), np.mean(gaps), atol=1e-12)

    z = [np.digitize(c, np.histogram(c, 20)[1][:-1]) for c in codes.T]
    sup = [(np.sort(mi[i])[-1] - np.sort(mi[i])[-2]) / entropy(z[i]) for i in range(4)]
    np.testing.assert_allclose(
        float(metrics.mig_sup(codes, factors)), np.mean(sup), atol=1e-12
    )

    terms = []
    for k in range(3):
        order = np.argsort(mi[:, k])
        joint = entropy(z[order[-1]] * 100 + factors[:, k])
        gap = mi[order[-1], k] - mi[order[-2], k]
        terms.append(1 - (joint - gap) / (entropy(factors[:, k]) + math.log(20)))
    np.testing.assert_allclose(
        float(metrics.jemmig(codes, factors)), np.mean(terms), atol=1e-12
    )

    best = {}
    for i in range(4):
        k = int(np.argmax(mi[i]))
        best[k] = max(best.get(k, 0.0), np.sort(mi[i])[-1] - np.sort(mi[i])[-2])
    whole = sum(entropy(f) for f in factors.T)
    np.testing.assert_allclose(
        float(metrics.dcimig(codes, factors)), sum(best.values()) / whole, atol=1e-12
    )

    modular = []
    for row in mi:
        rest = np.sum(row**2) - row.max() ** 2
        modular.append(1 - rest / (row.max() ** 2 * 2))
    np.testing.assert_allclose(
        float(metrics.modularity(codes, factors)), np.mean(modular), atol=1e-12
    )


def test_mig_by_hand():
    """z0 has one bit of a factor of two bits, z1 the other: no gap."""
    factor = np.arange(4).repeat(5)[:, None]
    codes = np.concatenate([factor % 2, factor // 2], axis=1).astype(float)
    score = metrics.mig(codes, factor)
    np.testing.assert_allclose(
        score.matrices["mi"][:, 0], [math.log(2), math.log(2)], atol=1e-12
    )
    np.testing.assert_allclose(float(score), 0.0, atol=1e-12)
    alone = metrics.mig(codes[:, :1], factor)  # the second of one latent is 0
    np.testing.assert_allclose(float(alone), 0.5, atol=1e-12)


def test_contingency_counts_exactly(rng):
    labels = rng.integers(6, size=(500, 3))
    factors = np.stack([rng.integers(4, size=500), rng.integers(5, size=500)], axis=1)
    weights = rng.integers(4, size=500)
    table = contingency(labels, factors, weights, cells=6, sizes=(4, 5))
    want = np.zeros((3, 6, 9))
    for n, i in itertools.product(range(500), range(3)):
        want[i, labels[n, i], factors[n, 0]] += weights[n]
        want[i, labels[n, i], 4 + factors[n, 1]] += weights[n]
    np.testing.assert_array_equal(table, want)


@pytest.mark.parametrize("groups", [None, (2, 1)])
def test_lanes_are_the_scores_of_each_code_set(rng, groups):
    factors = np.stack([rng.integers(s, size=200) for s in (3, 4)], axis=1)
    mix = rng.normal(size=(5, 2, 3))
    codes = factors[None] @ mix + 0.3 * rng.normal(size=(5, 200, 3))
    names = ("mig", "mig_sup", "jemmig", "dcimig", "modularity")
    lanes = metrics.evaluate_lanes(codes, factors, scores=names, groups=groups)
    for name in names:
        alone = [
            float(getattr(metrics, name)(c, factors, groups=groups)) for c in codes
        ]
        np.testing.assert_allclose(lanes[name], alone, atol=1e-12, err_msg=name)
    with pytest.raises(ValueError, match=r"must have shape \[L, N, D\]"):
        metrics.evaluate_lanes(codes[0], factors)
    with pytest.raises(ValueError, match="evaluate_lanes: `scores` must be one of"):
        metrics.evaluate_lanes(codes, factors, scores=("dci",))


def test_rows_over_eight_devices(rng):
    """Rows spread over a mesh give the same table as on one device."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    labels = rng.integers(6, size=(160, 3))
    factors = rng.integers(4, size=(160, 2))
    rows = jax.NamedSharding(mesh, jax.P("data"))
    spread = contingency(
        jax.device_put(labels, rows), jax.device_put(factors, rows), cells=6,
        sizes=(4, 4),
    )  # fmt: skip
    np.testing.assert_array_equal(
        spread, contingency(labels, factors, cells=6, sizes=(4, 4))
    )


def test_analytic_mig_agrees_with_the_closed_form(rng):
    """One latent is the factor plus known noise: I is that of a Gaussian mixture."""
    factor = rng.integers(2, size=2000)
    mean = np.stack([4.0 * factor - 2.0, 1e-3 * rng.normal(size=2000)], axis=1)
    log_var = np.full(mean.shape, 2 * math.log(0.5))
    score = metrics.mig(mean, factor[:, None], log_var=log_var)
    # Modes 8 deviations apart: the code determines the factor, ln 2 nats.
    np.testing.assert_allclose(score.matrices["mi"][:, 0], [0.6931, 0.0], atol=5e-3)
    np.testing.assert_allclose(float(score), 1.0, atol=1e-2)
    np.testing.assert_allclose(
        float(metrics.mig(mean, factor[:, None], log_var=log_var, seed=0)), float(score)
    )


def test_rmig_integrates_the_posterior(rng):
    factor = rng.integers(3, size=400)[:, None]
    codes = np.concatenate([factor - 1.0, rng.normal(size=(400, 1))], axis=1)
    sharp = metrics.rmig(codes, factor, log_var=np.full(codes.shape, -40.0))
    hard = metrics.rmig(codes, factor)
    # Values at −1, 0, 1 lie on bin edges: move them inside for the comparison.
    moved = metrics.rmig(codes + 0.011, factor)
    inside = metrics.rmig(codes + 0.011, factor, log_var=np.full(codes.shape, -40.0))
    np.testing.assert_allclose(float(inside), float(moved), atol=1e-6)
    assert float(sharp) <= 1.0 and float(hard) <= 1.0
    wide = metrics.rmig(codes, factor, log_var=np.full(codes.shape, 4.0))
    assert float(wide) < 0.2  # noise of deviation 7 hides the factor


def test_dci_of_a_given_importance_matrix():
    from disentangle_jax.metrics.importance import disentanglement_completeness

    importance = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]])
    d, c = disentanglement_completeness(importance, floor=0.0)
    assert d == pytest.approx(1.0)
    assert c == pytest.approx(0.5 * 1.0 + 0.5 * (1 - math.log(2) / math.log(3)))
    assert disentanglement_completeness(np.zeros((2, 2))) == (0.0, 0.0)


@pytest.mark.parametrize("estimator", ["gbt", "gbt_exact", "forest", "logistic"])
def test_dci_estimators_on_an_aligned_code(rng, estimator):
    factors = np.stack([rng.integers(3, size=300), rng.integers(4, size=300)], axis=1)
    codes = factors[:, ::-1] + 0.05 * rng.normal(size=(300, 2))
    score = metrics.dci(codes, factors, estimator=estimator)
    np.testing.assert_array_equal(score.matrices["importance"].argmax(axis=0), [1, 0])
    # A linear classifier, or full-grown trees on 300 rows, spread their weights more.
    least = {"logistic": 0.4, "forest": 0.5}.get(estimator, 0.85)
    assert score["disentanglement"] > least
    assert score["informativeness"] > 0.95


def test_sap_without_test_rows_is_scored_on_the_training_rows(arrays):
    codes, factors = arrays
    test = {"codes_test": codes, "factors_test": factors}
    assert dict(metrics.sap(codes, factors)) == dict(metrics.sap(*arrays, **test))


def test_explicitness_auc(rng):
    scores = rng.integers(5, size=200).astype(float)  # many ties
    positive = rng.random(200) < 0.4
    assert roc_auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))
    assert math.isnan(roc_auc(scores, np.ones(200, bool)))


def test_irs_against_a_loop(arrays):
    codes, factors = arrays
    want_top, want_bottom = 0.0, 0.0
    for z in codes.T:
        largest = np.abs(z - z.mean()).max()
        best = 0.0
        for f in factors.T:
            within = [
                np.percentile(np.abs(z[f == v] - z[f == v].mean()), 99)
                for v in np.unique(f)
            ]
            best = max(best, 1 - np.mean(within) / largest)
        want_top, want_bottom = want_top + largest * best, want_bottom + largest
    np.testing.assert_allclose(
        float(metrics.irs(codes, factors)), want_top / want_bottom, atol=1e-12
    )


def test_mcc_against_scipy(arrays):
    codes, factors = arrays
    matrix = np.abs([[spearmanr(z, f)[0] for f in factors.T] for z in codes.T])
    rows, columns = linear_sum_assignment(matrix, maximize=True)
    want = matrix[rows, columns].sum() / 3
    np.testing.assert_allclose(float(metrics.mcc(codes, factors)), want, atol=1e-12)
    # Fewer latents than factors: the unmatched count 0.
    few = float(metrics.mcc(codes[:, :1], factors))
    np.testing.assert_allclose(few, matrix[0].max() / 3, atol=1e-12)


def test_knn_information_against_scikit_learn(rng):
    labels = rng.integers(4, size=800)
    x = labels + 0.5 * rng.normal(size=800)
    want = mutual_info_classif(
        x[:, None], labels, discrete_features=False, n_neighbors=10, random_state=0
    )[0]
    np.testing.assert_allclose(knn_information(x, labels, 10), want, atol=1e-4)


def test_info_mec_orders_codes(rng):
    factors = np.stack([rng.integers(4, size=600), rng.integers(5, size=600)], axis=1)
    noise = 0.05 * rng.normal(size=(600, 2))
    aligned = metrics.info_mec(factors + noise, factors)
    angle = np.pi / 4
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turned = metrics.info_mec((factors - factors.mean(axis=0) + noise) @ turn, factors)
    assert aligned["modularity"] > 0.9 > 0.6 > turned["modularity"]
    assert aligned["compactness"] > 0.9 > 0.6 > turned["compactness"]
    # Explicitness is linear, so a rotation leaves it.
    np.testing.assert_allclose(
        aligned["explicitness"], turned["explicitness"], atol=2e-2
    )
    plug_in = metrics.info_mec(
        factors + noise, factors, information_estimator="histogram"
    )
    assert plug_in["modularity"] > 0.85


def test_med_top_k_drops_noise(rng):
    factors = np.stack([rng.integers(4, size=500), rng.integers(5, size=500)], axis=1)
    codes = np.concatenate([factors, rng.normal(size=(500, 30))], axis=1)
    assert float(metrics.med(codes, factors, top_k=1)) > 0.9
    assert float(metrics.med(codes, factors)) < float(
        metrics.med(codes, factors, top_k=1)
    )


def test_udr_lasso_against_scikit_learn(rng):
    z = rng.normal(size=(400, 3))
    others = [z[:, [2, 0, 1]] * [1, -2, 3], z @ rng.normal(size=(3, 3))]
    codes = [z, *others]
    score = metrics.udr(codes)

    def standard(c):
        return (c - c.mean(axis=0)) / c.std(axis=0)

    for i, j in itertools.permutations(range(3), 2):
        r = np.abs(Lasso(alpha=0.1, tol=1e-10).fit(
            standard(codes[i]), standard(codes[j])
        ).coef_.T)  # fmt: skip
        want = 0.5 * sum(
            np.mean(
                np.nan_to_num(r.max(axis=a) ** 2 / np.maximum(r.sum(axis=a), 1e-300))
            )
            for a in (0, 1)
        )
        np.testing.assert_allclose(score.matrices["pairs"][i, j], want, atol=1e-6)
    np.testing.assert_allclose(
        score["model_0"], np.median(score.matrices["pairs"][0, 1:]), atol=1e-12
    )
    # A permutation with other signs and scales is full agreement up to the shrinkage.
    np.testing.assert_allclose(score.matrices["pairs"][0, 1], 0.9, atol=0.02)
    spearman = metrics.udr(codes[:2], similarity="spearman")
    assert spearman["udr"] > 0.85


def test_udr_leaves_out_latents_at_the_prior(rng):
    z = rng.normal(size=(300, 2))
    noisy = [np.concatenate([z, rng.normal(size=(300, 3))], axis=1) for _ in range(2)]
    kl = [np.array([1.0, 2.0, 0.0, 0.001, 0.0])] * 2
    assert metrics.udr(noisy, kl)["udr"] > metrics.udr(noisy)["udr"] + 0.1


def test_groups_see_a_factor_that_single_latents_do_not(rng):
    """cos and sin of an angle: either holds part of the factor, both hold it all."""
    angle = rng.integers(8, size=2000)
    other = rng.integers(4, size=2000)
    phi = 2 * np.pi * (angle + 0.5) / 8
    codes = np.stack([np.cos(phi), np.sin(phi), other, 0.1 * other], axis=1)
    codes = codes + 0.02 * rng.normal(size=codes.shape)
    factors = np.stack([angle, other], axis=1)
    for score, gain in (
        (metrics.mig, 0.1), (metrics.dcimig, 0.1), (metrics.jemmig, 0.03),
        (metrics.irs, 0.005),
    ):  # fmt: skip
        single = float(score(codes, factors))
        grouped = float(score(codes, factors, groups=(2, 2)))
        assert grouped > single + gain, score.__name__
    test = {"codes_test": codes, "factors_test": factors}
    sap = [float(metrics.sap(codes, factors, groups=g, **test)) for g in (None, (2, 2))]
    assert sap[1] > sap[0] + 0.2
    dci = [metrics.dci(codes, factors, groups=g) for g in (None, (2, 2))]
    assert dci[1]["completeness"] > dci[0]["completeness"] + 0.2


def test_groups_of_one_are_the_classic_score(arrays):
    for name in metrics.names():
        if metrics.describe(name).groups:
            np.testing.assert_allclose(
                list(compute(name, *arrays, groups=(1, 1, 1, 1)).values()),
                list(compute(name, *arrays).values()),
                atol=1e-12,
                err_msg=name,
            )


def test_quantiser_of_a_block_ignores_row_order(rng):
    codes = rng.normal(size=(300, 2)).astype(np.float32)
    order = rng.permutation(300)
    a, cells = quantise(codes, (2,), 5)
    b, _ = quantise(codes[order], (2,), 5)
    assert cells == 10 and a.max() < 10
    np.testing.assert_array_equal(a[order], b)


def test_reconstruction_by_hand():
    x = np.array([[0.0, 1.0], [1.0, 1.0]])
    logits = np.array([[0.0, 2.0], [0.0, -1.0]])
    p = 1 / (1 + np.exp(-logits))
    score = metrics.reconstruction(
        x, logits, mean=np.array([[1.0], [0.0]]), log_var=np.zeros((2, 1))
    )
    nll = -np.sum(x * np.log(p) + (1 - x) * np.log(1 - p)) / 2
    assert score["mse"] == pytest.approx(np.mean((x - p) ** 2), rel=1e-5)
    assert score["nll"] == pytest.approx(nll, rel=1e-5)
    assert score["kl"] == pytest.approx(0.25)
    assert score["elbo"] == pytest.approx(-nll - 0.25, rel=1e-5)
    gaussian = metrics.reconstruction(x, logits, output="gaussian")
    assert gaussian["nll"] == pytest.approx(0.25 * np.sum((x - logits) ** 2), rel=1e-5)
    bytes_ = metrics.reconstruction((255 * x).astype(np.uint8), logits)
    assert bytes_["mse"] == pytest.approx(score["mse"], rel=1e-5)


def test_cluster_and_relation_accuracy():
    log_densities = np.log([[0.9, 0.1], [0.2, 0.6], [0.01, 0.02], [0.7, 0.1]])
    labels = np.array([0, 1, 0, 1])
    score = metrics.cluster_accuracy(log_densities, labels)
    assert dict(score) == {"accuracy": 0.5, "accepted": 1.0}
    score = metrics.cluster_accuracy(log_densities, labels, alpha=0.1)
    assert score["accuracy"] == pytest.approx(2 / 3)
    assert score["accepted"] == 0.75
    score = metrics.relation_accuracy(log_densities, labels, [0, 0, 1, 1], alpha=0.1)
    assert score["accuracy"] == pytest.approx((1.0 + 0.0) / 2)
    with pytest.raises(ValueError, match="`labels`"):
        metrics.cluster_accuracy(log_densities, labels[:2])


def test_downstream(rng):
    factors = np.stack([rng.integers(3, size=600), rng.integers(4, size=600)], axis=1)
    codes = factors + 0.1 * rng.normal(size=(600, 2))
    args = codes[:400], factors[:400]
    test = {"codes_test": codes[400:], "factors_test": factors[400:]}
    trees = metrics.downstream(*args, **test, train_sizes=(10, 100, 9999))
    assert list(trees) == ["accuracy", "accuracy_10", "accuracy_100"]
    assert trees["accuracy_10"] < trees["accuracy_100"] == trees["accuracy"]
    linear = metrics.downstream(*args, **test, model="logistic", train_sizes=(100, 400))
    assert linear["efficiency"] == pytest.approx(
        linear["accuracy_100"] / linear["accuracy_400"]
    )
    assert linear["accuracy"] > 0.95
    strong = metrics.downstream(*args, **test, train_sizes=(100,), variant="strong")
    assert strong["accuracy"] > 0.9  # an aligned code does not care
    reduced = metrics.downstream(*args, **test, train_sizes=(100,), variant="reduced")
    assert reduced["accuracy"] < 0.45  # and its factor is gone with its latent
    assert reduced["gap"] > 0.5
    with pytest.raises(ValueError, match="`codes_test`"):
        metrics.downstream(*args)


def test_fairness_of_an_aligned_and_a_mixed_code(rng):
    factors = np.stack([rng.integers(3, size=900), rng.integers(3, size=900)], axis=1)
    aligned = factors + 0.02 * rng.normal(size=(900, 2))
    # The larger of both is also the best guess of either: given the other factor, its
    # total variation is 2/9, 3/9 and 4/9 for the values 0, 1 and 2.
    mixed = factors.max(axis=1, keepdims=True).astype(float)
    fair = metrics.fairness(aligned, factors)
    unfair = metrics.fairness(mixed, factors)
    # 0.05 is the noise of 100 points for each value.
    assert float(fair) < 0.08
    assert float(unfair) == pytest.approx(1 / 3, abs=0.05)
    assert fair.matrices["unfairness"][0, 0] == 0.0
