"""Scores of topic models against loops, hand-worked cases and closed forms."""

import math

import numpy as np
import pytest
import scipy.sparse
from scipy import integrate, stats

from disentangle_jax import metrics

# Topic 0 weighs words 2, 0, 1 most, topic 1 words 3, 1, 0.
TOPICS = np.array([[0.3, 0.2, 0.9, 0.0], [0.1, 0.2, -1.0, 0.4]])
COUNTS = np.array([[1, 0, 2, 0], [3, 1, 1, 0], [0, 1, 0, 0], [0, 2, 1, 1]])


def test_top_words_by_hand():
    words = metrics.top_words(TOPICS, ["a", "b", "c", "d"], count=3)
    assert words == [["c", "a", "b"], ["d", "b", "a"]]
    # Equal weights keep the order of the vocabulary.
    assert metrics.top_words(np.zeros((1, 3)), ["x", "y", "z"], count=2) == [["x", "y"]]


def test_npmi_by_hand():
    # Documents with a: 2 of 4, c: 3, b: 3, d: 1; a and c: 2, c and b: 2, a and b: 1;
    # d and b: 1, d and a: none.
    ac = math.log(2 / 4 / (2 / 4 * 3 / 4)) / -math.log(2 / 4)
    cb = math.log(2 / 4 / (3 / 4 * 3 / 4)) / -math.log(2 / 4)
    ab = math.log(1 / 4 / (2 / 4 * 3 / 4)) / -math.log(1 / 4)
    db = math.log(1 / 4 / (1 / 4 * 3 / 4)) / -math.log(1 / 4)
    want = [(ac + cb + ab) / 3, (db - 1 + ab) / 3]
    for counts in (COUNTS, scipy.sparse.csr_array(COUNTS), COUNTS.tolist()):
        counts = counts if hasattr(counts, "shape") else np.array(counts, np.uint16)
        got = metrics.npmi(TOPICS, counts, count=3)
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_npmi_of_words_that_come_together_never_and_always():
    topics = np.array(
        [[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [2.0, 0.0, 0.0, 1.0]]
    )
    counts = np.array([[1, 1, 1, 5], [0, 0, 1, 5], [0, 0, 1, 5]])
    # Only together; in every document; independent of a word in all documents.
    got = metrics.npmi(topics, counts, count=2)
    np.testing.assert_allclose(got, [1.0, 1.0, 0.0], atol=1e-12)
    absent = np.array([[1, 0, 1, 1], [1, 0, 1, 1]])
    assert metrics.npmi(topics, absent, count=2)[0] == -1.0


def test_perplexity_by_hand():
    # 2 words at 1/8 each, 1 word at 1/2.
    nll, lengths = np.log([64.0, 2.0]), np.array([2, 1])
    assert metrics.perplexity(nll, lengths) == pytest.approx(4.0)  # sqrt(8 * 2)
    by_word = metrics.perplexity(nll, lengths, mean="words")
    assert by_word == pytest.approx(128 ** (1 / 3))
    assert metrics.perplexity([1e6], [1]) == math.inf
    # Blind guesses among 7 words.
    assert metrics.perplexity(np.log(7.0) * lengths, lengths) == pytest.approx(7.0)


def test_latent_information_of_two_gaussians_equals_quadrature():
    # Half of the examples at -1, half at 1, with deviation s: I(x; z) is the entropy of
    # the mixture less that of a component.
    rows, s = 4000, 0.6
    mean = np.where(np.arange(rows) % 2, 1.0, -1.0)[:, None]
    mean = np.concatenate([mean, np.zeros((rows, 1)), 100 * mean], axis=1)
    log_var = np.full_like(mean, 2 * math.log(s))

    def integrand(z):
        q = 0.5 * (stats.norm.pdf(z, -1, s) + stats.norm.pdf(z, 1, s))
        return -q * math.log(q)

    entropy = integrate.quad(integrand, -5, 5)[0]
    want = entropy - stats.norm.entropy(0, s)
    got = metrics.latent_information(mean, log_var, seed=1)
    assert got.shape == (3,)
    # Three standard deviations of the mean of 4,000 draws; the second is exact.
    assert got[0] == pytest.approx(want, abs=3 * math.sqrt(2 * want / rows))
    assert got[1] == pytest.approx(0.0, abs=1e-5)
    assert got[2] == pytest.approx(math.log(2), abs=1e-4)


def test_latent_information_equals_loops(rng):
    mean, log_var = rng.normal(size=(7, 2)), rng.normal(size=(7, 2))
    import jax

    noise = np.asarray(jax.random.normal(jax.random.key(3), (7, 2)), np.float64)
    z = mean + np.exp(0.5 * log_var) * noise
    want = np.zeros(2)
    for d in range(2):
        for i in range(7):
            density = [
                stats.norm.pdf(z[i, d], mean[j, d], math.exp(0.5 * log_var[j, d]))
                for j in range(7)
            ]
            want[d] += math.log(density[i] / np.mean(density)) / 7
    got = metrics.latent_information(mean, log_var, seed=3)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_group_correlation_equals_loops(rng):
    codes = rng.normal(size=(50, 5)) @ rng.normal(size=(5, 5))
    codes[:, 4] = 3.0  # Constant: correlates with nothing.
    got = metrics.group_correlation(codes, groups=(2, 3))
    within, between = [], []
    for a in range(5):
        for b in range(5):
            r = 1.0 if a == b else 0.0
            if a != b and 4 not in (a, b):
                r = np.corrcoef(codes[:, a], codes[:, b])[0, 1]
            assert got["correlation"][a, b] == pytest.approx(r, abs=1e-12)
            if a < b:
                (within if (a < 2) == (b < 2) else between).append(abs(r))
    assert got["within"] == pytest.approx(np.mean(within))
    assert got["between"] == pytest.approx(np.mean(between))
    assert got["within_max"] == pytest.approx(max(within))
    assert got["between_max"] == pytest.approx(max(between))
    some = metrics.group_correlation(codes, groups=(2, 3), kept=[1, 2])
    assert some["between"] == pytest.approx(abs(got["correlation"][1, 2]))
    assert some["within"] == 0.0


def test_planted_correlation_finds_topics_in_any_order(rng):
    # Topics 0 and 1 correlate, 2 is alone; latents: a dead one, then 2, -0, 1.
    shared = rng.normal(size=(2000, 1))
    z = rng.normal(size=(2000, 3))
    z[:, :2] = 0.9 * shared + np.sqrt(1 - 0.81) * z[:, :2]
    weights = np.exp(z)
    proportions = weights / weights.sum(axis=1, keepdims=True)
    logs = np.log(proportions)
    logs -= logs.mean(axis=1, keepdims=True)
    codes = np.stack([np.zeros(2000), 5 * logs[:, 2], -logs[:, 0], logs[:, 1]], axis=1)
    got = metrics.planted_correlation(codes, proportions, groups=(2, 2))
    np.testing.assert_array_equal(got["latents"], [2, 3, 1])
    truth = np.corrcoef(logs.T)
    np.testing.assert_allclose(got["planted"], truth, atol=1e-10)
    np.testing.assert_allclose(got["found"], truth, atol=1e-10)
    assert got["matched"] == pytest.approx(1.0)
    assert got["agreement"] == pytest.approx(1.0)
    assert got["partners_found"] == pytest.approx(truth[0, 1])
    assert got["others_found"] == pytest.approx((truth[0, 2] + truth[1, 2]) / 2)
    assert got["partners_apart"] == 0.0  # Latents 2 and 3 are one group.
    apart = metrics.planted_correlation(codes, proportions, groups=(3, 1))
    assert apart["partners_apart"] == 1.0
    none = metrics.planted_correlation(
        codes, proportions, groups=(3, 1), planted_above=0.99
    )
    assert math.isnan(none["partners_apart"])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: metrics.top_words(TOPICS, ["a"]), "must have the 4 words"),
        (lambda: metrics.top_words(TOPICS, "abcd", count=5), r"lie in \[1, 4\]"),
        (lambda: metrics.npmi(TOPICS, COUNTS[:, :3], count=2), "the 4 words"),
        (lambda: metrics.npmi(TOPICS, COUNTS, count=1), "at least 2"),
        (lambda: metrics.perplexity([1.0], [0]), "a document without words"),
        (lambda: metrics.perplexity([1.0, 2.0], [1]), r"must be \[N\]"),
        (lambda: metrics.perplexity([1.0], [1], mean="word"), "Did you mean 'words'"),
        (
            lambda: metrics.latent_information(np.zeros((3, 2)), np.zeros((3, 1))),
            "must have one shape",
        ),
        (
            lambda: metrics.group_correlation(np.ones((3, 4)), groups=(2, 3)),
            "add up to 4",
        ),
        (
            lambda: metrics.group_correlation(np.ones((3, 2)), groups=(2,), kept=[2]),
            r"latents in \[0, 2\)",
        ),
        (
            lambda: metrics.planted_correlation(
                np.ones((3, 2)), np.ones((3, 3)), groups=(2,)
            ),
            "2 to 2 topics",
        ),
        (
            lambda: metrics.planted_correlation(
                np.ones((3, 2)), np.zeros((3, 2)), groups=(2,)
            ),
            "must be positive",
        ),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
