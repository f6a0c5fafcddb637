"""Topic models: their scores against the functions, and their page."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from disentangle_jax import config as config_lib
from disentangle_jax import (
    data,
    evaluation,
    losses,
    main,
    metrics,
    reports,
    training,
)
from disentangle_jax.evaluation import topics as topics_lib
from tests.training import tiny

ROOT = __file__.rsplit("/tests/", 1)[0]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two seeds as lanes, trained and evaluated once."""
    config = tiny.topics(lanes__seeds=2)
    made = training.prepare(config, tmp_path_factory.mktemp("topics") / "run")
    training.train(made)
    evaluation.evaluate(made)
    return made


def test_scores_equal_what_the_functions_say(run):
    model = list(evaluation.load_models(run))[1]
    method, corpus = run.method, run.test_set
    found = evaluation.read_scores(model.run.workdir)
    indices = np.random.default_rng(run.config.eval.seed).permutation(corpus.indices)
    counts = corpus.images(indices)
    mean, log_var, _ = method.encode(model.state, jnp.asarray(counts, jnp.float32))

    # KL of normals with the prior's variance, one latent at a time.
    variance = np.exp(np.asarray(log_var, np.float64))
    prior = method.prior_variance
    kl = 0.5 * (
        (np.asarray(mean, np.float64) ** 2 + variance) / prior
        - np.log(variance / prior) - 1
    ).sum(axis=1)  # fmt: skip
    assert found["reconstruction"]["kl"] == pytest.approx(kl.mean(), rel=1e-5)
    # Reconstruction: mean over more draws than the score's; that of means is near.
    keys = jax.random.split(jax.random.key(5), 200)
    spread = jnp.exp(0.5 * log_var)
    draws = jax.lax.map(
        lambda key: losses.multinomial_reconstruction(
            counts,
            method.decode(
                model.state, mean + spread * jax.random.normal(key, mean.shape)
            ),
        ),
        keys,
    )
    nll = np.asarray(draws, np.float64).mean(axis=0)
    assert found["reconstruction"]["nll"] == pytest.approx(nll.mean(), rel=5e-3)
    values = found["metrics"]["perplexity"]["values"]
    want = np.exp(np.mean((nll + kl) / counts.sum(axis=1)))
    assert values["perplexity"] == pytest.approx(want, rel=0.02)

    information = metrics.latent_information(mean, log_var)
    shown = [topic["information"] for topic in found["topics"]]
    np.testing.assert_allclose(shown, information, rtol=1e-4, atol=1e-5)
    active = np.flatnonzero(information >= topics_lib.ACTIVE_NATS)
    assert found["metrics"]["active_topics"]["values"]["active_topics"] == len(active)
    correlation = metrics.group_correlation(mean, groups=(2, 2), kept=active)
    between = found["metrics"]["topic_correlation"]["values"]["between"]
    assert between == pytest.approx(correlation["between"], rel=1e-4)
    planted = metrics.planted_correlation(
        mean, corpus.proportions[indices], groups=(2, 2)
    )
    values = found["metrics"]["planted"]["values"]
    assert values["agreement"] == pytest.approx(planted["agreement"], rel=1e-3)

    # ProdLDA's words: those of a document of one topic, against an even mixture.
    params, stats = model.state.params, model.state.model_state["batch_stats"]
    kernel = np.asarray(params["topics"]["kernel"], np.float64)
    scale = np.sqrt(np.asarray(stats["word_norm"]["var"], np.float64) + 1e-3)
    weights = (kernel - kernel.mean(axis=0)) / scale
    words = metrics.top_words(weights, corpus.vocabulary)
    assert [topic["words"] for topic in found["topics"]] == words
    assert [topic["group"] for topic in found["topics"]] == [1, 1, 2, 2]
    train = run.train_set.images(run.train_set.indices)
    coherence = metrics.npmi(weights, train)
    values = found["metrics"]["npmi"]["values"]
    assert values["npmi"] == pytest.approx(coherence.mean(), rel=1e-6)


def test_report_and_comparison(run, tmp_path):
    folder = evaluation.folders(run)[0]
    text = reports.score_table(folder)
    scores = evaluation.read_scores(folder)
    assert "perplexity" in text and "NPMI" in text
    assert all(" ".join(topic["words"]) in text for topic in scores["topics"])
    assert not (folder / "pictures.npz").exists()
    page = reports.write(folder).read_text()
    assert " ".join(scores["topics"][0]["words"]) in page
    assert "Correlation of topics" in page and "Mean training loss" in page
    assert (folder / "topic_correlation.png").read_bytes()[:4] == b"\x89PNG"
    compared = reports.write_comparison([run.workdir], tmp_path).read_text()
    assert "perplexity ↓" in compared and "2 runs compared" in compared


@pytest.mark.parametrize("mode", ["sample", "explore"])
def test_pictures_of_documents_are_refused(mode, run, capsys):
    assert main.main([mode, str(run.workdir)]) == 2
    assert "needs images, and prodlda generates none from synthetic_topics" in (
        capsys.readouterr().err
    )


def test_own_documents_can_be_encoded(run):
    model = next(evaluation.load_models(run))
    counts = data.count_words(
        [["word03", "word03", "word17"]], run.train_set.vocabulary
    )
    counts = counts.toarray().astype(np.uint16)
    code = model.encode(counts)
    want = run.method.encode(model.state, jnp.asarray(counts, jnp.float32)).mean
    np.testing.assert_allclose(code, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.decode(code).sum(axis=1), [1.0], rtol=1e-5)


@pytest.mark.slow
def test_planted_topics_are_found(tmp_path):
    """HFVAE's objective finds the topics and parts partners into the two groups.

    Measured: 0.71 matched, 0.82 agreement, all partners apart, 0.756 for 0.761.
    """
    config = config_lib.load(f"{ROOT}/configs/topics.py:quick")
    run = training.prepare(config, tmp_path / "run")
    training.train(run)
    scores = evaluation.evaluate(run)
    planted = scores["metrics"]["planted"]["values"]
    assert planted["matched"] > 0.65
    assert planted["agreement"] > 0.75
    assert planted["partners_apart"] >= 0.8
    assert abs(planted["partners_found"] - planted["partners_planted"]) < 0.1
