"""Vector-valued codes: each score of groups against a loop, and the PCA of tokens."""

import dataclasses
import types

import numpy as np
import pytest
import scipy.linalg
from scipy.special import digamma
from sklearn.decomposition import PCA

from disentangle_jax import metrics
from disentangle_jax.metrics import tasks, votes
from disentangle_jax.metrics.inputs import check_arrays
from disentangle_jax.metrics.normalised_information import (
    _vector_knn_information,
    knn_information,
)


@pytest.fixture
def tokens(rng):
    """Two factors on a circle each, a token of two dimensions per factor, and noise."""
    factors = np.stack([rng.integers(6, size=600), rng.integers(5, size=600)], axis=1)
    phi = 2 * np.pi * factors / [6, 5]
    codes = np.stack([np.cos(phi), np.sin(phi)], axis=-1).reshape(600, 4)
    codes = np.concatenate([codes, rng.normal(size=(600, 1))], axis=1)
    return codes + 0.05 * rng.normal(size=codes.shape), factors


def test_multiple_correlations(rng):
    codes, factors = rng.normal(size=(200, 5)), rng.normal(size=(200, 2))
    codes[:, 0] += factors[:, 0]
    codes[:, 4] += factors[:, 0] - factors[:, 1]
    score = metrics.mcc(codes, factors, groups=(2, 3), correlation="pearson")
    want = np.empty((2, 2))
    for g, part in enumerate((slice(0, 2), slice(2, 5))):
        for k in range(2):
            inner = np.corrcoef(codes[:, part].T)
            cross = [np.corrcoef(z, factors[:, k])[0, 1] for z in codes[:, part].T]
            want[g, k] = np.sqrt(cross @ np.linalg.solve(inner, cross))
    np.testing.assert_allclose(score.matrices["correlation"], want, atol=1e-10)
    assert float(score) == pytest.approx(
        max(want[0, 0] + want[1, 1], want[0, 1] + want[1, 0]) / 2
    )


def test_votes_of_variables_by_a_loop(rng):
    codes = rng.normal(size=(50, 5)) * [1, 2, 0.5, 0, 1]
    place, factor = rng.integers(50, size=(40, 8)), rng.integers(3, size=40)
    groups = (2, 2, 1)
    starts = [slice(0, 2), slice(2, 4), slice(4, 5)]
    whole = [codes[:, part].var(axis=0, ddof=1).sum() for part in starts]
    winners = []
    for rows in place:
        ratios = [
            sum(codes[rows, d].var(ddof=1) for d in range(part.start, part.stop)) / v
            for part, v in zip(starts, whole)
        ]
        winners.append(int(np.argmin(ratios)))
    table = np.zeros((3, 3), int)
    for winner, held in zip(winners[:30], factor[:30]):
        table[winner, held] += 1
    right, got, active = votes.majority(
        codes, codes, place, factor, np.argmin, groups=groups, k=3, num_train=30,
        threshold=0.05,
    )  # fmt: skip
    np.testing.assert_array_equal(got, table)
    np.testing.assert_array_equal(right, table[winners].argmax(axis=1) == factor)
    assert active == 3
    difference = rng.normal(size=(4, 5))
    want = [[np.linalg.norm(row[part]) for part in starts] for row in difference]
    np.testing.assert_allclose(votes.lengths(difference, groups), want)


def test_interventional_scores_of_tokens(tokens):
    codes, factors = tokens
    small = {"num_train": 400, "num_eval": 400}
    for name in ("factor_vae_score", "beta_vae_score"):
        score = getattr(metrics, name)
        found = score(codes, factors, groups=(2, 2, 1), **small)
        assert float(found) == 1.0 and found.settings["groups"] == (2, 2, 1)
    with pytest.raises(ValueError, match="factor_vae_score: `groups` must be positive"):
        metrics.factor_vae_score(codes, factors, groups=(2, 2), **small)
    one = metrics.z_max_var(codes[:, :4], factors, groups=(2, 2), bins=10)
    assert float(one) == 1.0 and one.matrices["votes"].shape == (2, 2)


def test_neighbours_of_vectors_by_a_loop(rng):
    labels = rng.integers(3, size=80)
    x = rng.normal(size=(80, 2)) + labels[:, None]
    terms = []
    for i in range(80):
        own = np.sort(np.linalg.norm(x[labels == labels[i]] - x[i], axis=1))
        k = min(4, len(own) - 1)
        inside = sum(np.linalg.norm(x - x[i], axis=1) < own[k] * (1 - 1e-12))
        terms.append(digamma(k) - digamma(len(own)) - digamma(inside))
    want = digamma(80) + np.mean(terms)
    assert _vector_knn_information(x, labels, 4) == pytest.approx(want, abs=1e-12)
    line = _vector_knn_information(x[:, :1], labels, 4)
    assert line == pytest.approx(knn_information(x[:, 0], labels, 4), abs=1e-9)


def test_information_of_tokens(tokens):
    codes, factors = tokens
    groups = (2, 2, 1)
    found = metrics.info_mec(codes, factors, groups=groups)
    assert found.matrices["nmi"].shape == (3, 2)
    assert found["compactness"] > 0.95 > metrics.info_mec(codes, factors)["compactness"]
    whole, single = (metrics.med(codes, factors, groups=g) for g in (groups, None))
    assert whole.matrices["importance"].shape == (3, 2)
    assert whole["completeness"] > single["completeness"] + 0.1


def test_downstream_removes_whole_tokens(tokens, monkeypatch):
    """By hand: the second token is most important to both factors, then the first."""
    importance = np.array([[0.2, 0.3], [0.1, 0.0], [0.3, 0.3], [0.1, 0.2], [0.3, 0.2]])
    trees = types.SimpleNamespace(importance=importance)
    monkeypatch.setattr(tasks, "boosted_trees", lambda *_: trees)
    seen = []

    def predict(codes, labels, sizes, codes_test):
        seen.append(codes[0])
        return np.zeros((len(codes_test), sizes[0]))

    arrays = check_arrays("t", *tokens, *tokens, (2, 2, 1))
    tasks._reduced(arrays, arrays.test, predict, 100, 1)
    for row in seen:
        np.testing.assert_array_equal(row, arrays.codes[0, [0, 1, 4]])
    seen.clear()
    alone = dataclasses.replace(arrays, groups=(1,) * 5)
    tasks._reduced(alone, alone.test, predict, 100, 1)
    np.testing.assert_array_equal(seen[0], arrays.codes[0, [0, 1, 3, 4]])


def test_dependence_between_tokens(rng):
    mix = rng.normal(size=(6, 5))
    codes = rng.normal(size=(400, 6)) @ mix
    groups = (2, 2, 1)
    found = metrics.unsupervised(codes, groups=groups)
    cov = np.cov(codes, rowvar=False)
    block = np.zeros_like(cov)
    logs = 0.0
    for start, end in ((0, 2), (2, 4), (4, 5)):
        part = cov[start:end, start:end]
        block[start:end, start:end] = part
        logs += np.linalg.slogdet(part)[1]
    want = 0.5 * (logs - np.linalg.slogdet(cov)[1])
    assert found["gaussian_total_correlation"] == pytest.approx(want, rel=1e-9)
    root = scipy.linalg.sqrtm(block)
    middle = np.trace(scipy.linalg.sqrtm(root @ cov @ root)).real
    distance = 2 * np.trace(cov) - 2 * middle
    key = "gaussian_wasserstein_correlation"
    assert found[key] == pytest.approx(distance, rel=1e-6)
    assert found[f"{key}_norm"] == pytest.approx(distance / np.trace(cov), rel=1e-6)
    assert found.settings["groups"] == groups
    # The shares of a discrete variable add up to 1: a singular block, and no NaN.
    share = rng.dirichlet(np.ones(3), size=400)
    apart = metrics.unsupervised(
        np.concatenate([share, codes[:, :2]], axis=1), groups=(3, 2)
    )
    assert 0 <= apart["gaussian_total_correlation"] < 0.05
    alone = metrics.unsupervised(codes, groups=(5,))
    assert all(value == 0 for value in alone.values())


def test_first_components_are_those_of_pca(rng):
    codes = rng.normal(size=(100, 6)) @ rng.normal(size=(6, 6))
    new = rng.normal(size=(20, 6))
    project = metrics.first_components(codes, (3, 1, 2))
    for column, part in ((0, slice(0, 3)), (2, slice(4, 6))):
        pca = PCA(1).fit(codes[:, part])
        sign = np.sign(pca.components_[0][np.abs(pca.components_[0]).argmax()])
        want = sign * pca.transform(new[:, part])[:, 0]
        np.testing.assert_allclose(project(new)[:, column], want, atol=1e-9)
    np.testing.assert_allclose(project(new)[:, 1], new[:, 3])
    assert project(codes.astype(np.float32)).dtype == np.float32


def test_scores_of_first_components(tokens):
    codes, factors = tokens
    groups, test = (2, 2, 1), {"codes_test": codes, "factors_test": factors}
    names = ("mig", "sap", "mcc", "unsupervised")
    found = metrics.evaluate(
        codes, factors, scores=names, groups=groups, tokens="pca", **test
    )
    scalars = metrics.first_components(codes, groups)(codes)
    want = metrics.evaluate(
        scalars, factors, scores=names, codes_test=scalars, factors_test=factors
    )
    for name in names:
        assert dict(found[name]) == dict(want[name])
        assert "first principal" in found[name].settings["tokens"]
    # The first component of a token with a large nuisance is the nuisance.
    nuisance = 5 * codes[::-1, :2]
    codes = np.stack([nuisance[:, 0], factors[:, 0], nuisance[:, 1], factors[:, 1]], 1)
    several = {"scores": "mcc", "groups": (2, 2)}
    whole = metrics.evaluate(codes, factors, **several)
    first = metrics.evaluate(codes, factors, tokens="pca", **several)
    assert float(whole["mcc"]) > 0.99 and float(first["mcc"]) < 0.2
    with pytest.raises(ValueError, match="`tokens` must be one of whole, pca"):
        metrics.evaluate(codes, factors, tokens="pcs")


def test_interventions_see_the_components_too():
    grid = np.stack(np.meshgrid(range(4), range(5), indexing="ij"), -1).reshape(-1, 2)

    class Grid:
        factor_sizes = (4, 5)

        def index_of(self, factors):
            return np.asarray(factors) @ [5, 1]

        def images(self, indices):
            return grid[indices]

    def encode(images):
        return np.stack([images[:, 0], 2 * images[:, 0], images[:, 1]], axis=1) * 1.0

    found = metrics.evaluate(
        encode(grid), grid, scores="factor_vae_score", groups=(2, 1), tokens="pca",
        interventions=(encode, Grid()),
        options={"factor_vae_score": {"num_train": 100, "num_eval": 100}},
    )  # fmt: skip
    score = found["factor_vae_score"]
    assert score.settings["sampling"] == "dataset" and float(score) == 1.0
    assert score.matrices["votes"].shape == (2, 2)
