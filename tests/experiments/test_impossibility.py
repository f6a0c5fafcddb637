"""Theorem 1: the construction of the proof, and its page."""

import numpy as np
import pytest
from scipy import stats

from disentangle_jax import evaluation, metrics
from disentangle_jax.experiments import impossibility
from tests.experiments import made


def test_the_matrix_is_orthogonal_without_a_zero():
    for latents in (2, 5):
        matrix = impossibility.householder(latents, 0.3)
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(latents), atol=1e-12)
        assert np.abs(matrix).min() > 0.01
    # By hand, for two latents: v = (√0.2, √0.8).
    np.testing.assert_allclose(
        impossibility.householder(2, 0.2), [[0.6, -0.8], [-0.8, -0.6]], atol=1e-12
    )
    with pytest.raises(ValueError, match=r"`alpha` must lie in \(0, 0.5\)"):
        impossibility.householder(3, 0.5)
    with pytest.raises(ValueError, match="`latents` must be at least 2"):
        impossibility.householder(1, 0.3)


@pytest.mark.parametrize("marginal", [stats.norm(), stats.uniform(), stats.expon()])
def test_the_bijection_keeps_the_distribution_and_mixes_all(marginal, rng):
    matrix = impossibility.householder(3, 0.3)

    def f(z, matrix=matrix):
        return impossibility.entangle(z, matrix, marginal.cdf, marginal.ppf)

    z = marginal.rvs((20_000, 3), random_state=rng)
    turned = f(z)
    for column in turned.T:
        assert stats.kstest(column, marginal.cdf).pvalue > 0.01
    # Independent too: ranks of two latents are uncorrelated.
    ranks = stats.spearmanr(turned).statistic
    assert np.abs(ranks - np.eye(3)).max() < 0.03
    np.testing.assert_allclose(f(turned, matrix.T), z, rtol=1e-5, atol=1e-6)
    point = marginal.ppf([[0.3, 0.6, 0.7]])
    for latent in range(3):
        moved = point.copy()
        moved[0, latent] += 1e-4
        assert (np.abs(f(moved) - f(point)) > 1e-6).all()
    if marginal.dist.name == "norm":
        np.testing.assert_allclose(turned, z @ matrix.T, atol=1e-9)


def test_the_page_shows_both_codes(tmp_path):
    tested = made.config("impossibility", samples=500)
    tested.method = {"name": "beta_vae", "beta": 1.0}
    tested.eval.scores = ("irs",)
    values = made.values(tested, tmp_path)["0"]
    assert values["kl"]["f(z)"] == pytest.approx(values["kl"]["z"], rel=1e-4)
    assert values["distribution"]["images"]["largest difference in grey levels"] <= 1
    # The scores of both codes, by hand.
    model = evaluation.load(tmp_path / "model")
    chosen = np.random.default_rng(0).permutation(model.run.test_set.indices)[:40]
    mean = model.codes(model.run.test_set, chosen)
    turned = (mean @ impossibility.householder(3, 0.3).T).astype(np.float32)
    factors = model.run.test_set.factors(chosen)
    for name, codes in (("z", mean), ("f(z)", turned)):
        expected = metrics.irs(codes, factors)
        assert values["scores"][name]["irs"] == pytest.approx(float(expected))
    assert values["scores"]["z"] != values["scores"]["f(z)"]
    assert (tmp_path / "traversals.png").exists()
    assert "Differences from the paper" in (tmp_path / "report.html").read_text()
    tested.method = {"name": "ae"}
    with pytest.raises(ValueError, match="`method.name` must be one of"):
        made.values(tested, tmp_path / "other")
