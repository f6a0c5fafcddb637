"""Runs on documents: trained, judged and shown, and what is refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from disentangle_jax import config as config_lib
from disentangle_jax import data, losses, main, metrics, reports, training
from disentangle_jax.training import topics as topics_lib
from tests.training.tiny import show_devices

ROOT = __file__.rsplit("/tests/", 1)[0]


def tiny(**fields):
    """Returns a config of seconds: four topics, thirty words."""
    config = config_lib.load(f"{ROOT}/configs/topics.py:quick")
    config.data.options = {"documents": 200, "topics": 4, "vocabulary_size": 30}
    config.model.latent_dim = 4
    config.model.width = 8
    config.train.update(
        batch_size=20, num_steps=200, log_every=100, checkpoint_every=200,
        steps_per_dispatch=20,
    )  # fmt: skip
    config.eval.batch_size = 16
    for name, value in fields.items():
        section, field = name.split("__")
        config[section][field] = value
    return config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two seeds as lanes, trained and evaluated once."""
    with pytest.MonkeyPatch.context() as patch:
        show_devices(patch, 1)
        made = training.prepare(
            tiny(lanes__seeds=2), tmp_path_factory.mktemp("topics") / "run"
        )
        training.train(made)
        training.evaluate(made)
        return made


def test_scores_equal_what_the_functions_say(run):
    model = list(training.load_trained(run))[1]
    method, corpus = run.method, run.test_set
    found = json.loads((model.run.workdir / "scores.json").read_text())
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
    folder = training.evaluated_folders(run)[0]
    text = reports.score_table(folder)
    assert "perplexity" in text and text.count("NPMI") == 4
    page = reports.write(folder).read_text()
    first = json.loads((folder / "scores.json").read_text())["topics"][0]
    assert " ".join(first["words"]) in page
    assert "Which topics go together" in page and "Training loss" in page
    assert (folder / "topic_correlation.png").read_bytes()[:4] == b"\x89PNG"
    compared = reports.write_comparison([run.workdir], tmp_path).read_text()
    assert "perplexity ↓" in compared and "2 runs compared" in compared


@pytest.mark.parametrize("mode", ["sample", "explore"])
def test_pictures_of_documents_are_refused(mode, run, capsys):
    assert main.main([f"--mode={mode}", f"--workdir={run.workdir}"]) == 2
    assert "draws images, and synthetic_topics holds documents" in (
        capsys.readouterr().err
    )


def test_own_documents_can_be_encoded(run):
    model = next(training.load_trained(run))
    counts = data.count_words(
        [["word03", "word03", "word17"]], run.train_set.vocabulary
    )
    counts = counts.toarray().astype(np.uint16)
    code = model.encode(counts)
    want = run.method.encode(model.state, jnp.asarray(counts, jnp.float32)).mean
    np.testing.assert_allclose(code, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.decode(code).sum(axis=1), [1.0], rtol=1e-5)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"data__name": "xysquares", "data__options": {}}, r"must be \(V,\)"),
        ({"model__name": "conv64"}, r"must be \(H, W, C\) for 'conv64'"),
        ({"method__name": "beta_tc_vae"}, "'beta_tc_vae' needs images, and"),
        ({"train__input": "device"}, "'stream' for methods that see pairs, labels or"),
        ({"data__standardize": True}, "must be False for synthetic_topics"),
        ({"eval__fid_weights": "file"}, "`eval.fid_weights` must be '' for documents"),
        ({"model__groups": 3}, "divisible by the 3 groups"),
        ({"method__groups": (1, 2)}, r"add up to 4, got \(1, 2\)"),
        ({"method__concentration": -1.0}, "`concentration` must be positive"),
    ],
)
def test_wrong_configs_are_refused_early(fields, message, tmp_path):
    config = tiny()
    if "method__name" in fields:
        del config.method["alpha"]
    for name in ("data__options", "method__groups", "method__concentration"):
        section, field = name.split("__")
        if name in fields and field in config[section]:
            del config[section][field]
    for name, value in fields.items():
        section, field = name.split("__")
        config[section][field] = value
    with pytest.raises(ValueError, match=message):
        training.prepare(config, tmp_path / "run")


def test_a_topic_model_needs_documents(run, tmp_path):
    from disentangle_jax.training.run import _check_documents

    squares = data.load("xysquares")
    with pytest.raises(ValueError, match="'prodlda' needs documents, and"):
        _check_documents(run.config, squares, run.method)


def test_empty_documents_are_refused(run):
    from disentangle_jax.training.run import _check_documents

    counts = scipy.sparse.csr_array(np.array([[1, 0], [0, 0], [0, 3]]))
    corpus = data.Corpus("mine", counts, ["a", "b"])
    with pytest.raises(ValueError, match="1 training documents .* have no words"):
        _check_documents(run.config, corpus, run.method)
    _check_documents(run.config, corpus.without_empty(), run.method)


def test_presets():
    path = f"{ROOT}/configs/topics.py"
    for preset in ("prodlda", "nvdm"):
        config = config_lib.load(f"{path}:{preset}")
        assert config.model.name == config.method.name == preset
        assert (config.model.latent_dim, config.model.groups) == (50, 2)
        assert (config.method.beta, config.method.gamma) == (0.1, 4.0)
        assert config.data.name == "newsgroups"
    assert config_lib.load(f"{path}:prodlda").optimizer.b1 == 0.99
    with pytest.raises(ValueError, match="Did you mean 'prodlda'"):
        config_lib.load(f"{path}:prodlad")


@pytest.mark.slow
def test_planted_topics_are_found(tmp_path):
    """HFVAE's objective finds the topics and parts partners into the two groups.

    Measured: 0.71 matched, 0.82 agreement, all partners apart, 0.756 for 0.761.
    """
    config = config_lib.load(f"{ROOT}/configs/topics.py:quick")
    scores = training.train_and_evaluate(config, tmp_path / "run")
    planted = scores["metrics"]["planted"]["values"]
    assert planted["matched"] > 0.65
    assert planted["agreement"] > 0.75
    assert planted["partners_apart"] >= 0.8
    assert abs(planted["partners_found"] - planted["partners_planted"]) < 0.1
