"""Configs of topic models: presets, and what is refused."""

import numpy as np
import pytest
import scipy.sparse

from disentangle_jax import config as config_lib
from disentangle_jax import data, training
from tests.training import tiny


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"data__name": "xysquares", "data__options": {}}, r"must be \(V,\)"),
        ({"model__name": "conv64"}, r"must be \(H, W, C\) for 'conv64'"),
        ({"method__name": "beta_tc_vae"}, "'beta_tc_vae' needs images, and"),
        ({"train__input": "device"}, "'stream' for 'prodlda'"),
        ({"data__standardize": True}, "must be False for synthetic_topics"),
        ({"eval__fid_weights": "file"}, "`eval.fid_weights` must be '' for 'prodlda'"),
        ({"model__groups": 3}, "divisible by the 3 groups"),
        ({"method__groups": (1, 2)}, r"add up to 4, got \(1, 2\)"),
        ({"method__concentration": -1.0}, "`concentration` must be positive"),
    ],
)
def test_wrong_configs_are_refused_early(fields, message, tmp_path):
    config = tiny.topics()
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


def test_a_topic_model_needs_documents():
    config = tiny.topics()
    inputs = data.WordCounts()
    with pytest.raises(ValueError, match="needs documents, and"):
        inputs.check(data.load("xysquares"), config.data)


def test_empty_documents_are_refused():
    config = tiny.topics()
    inputs = data.WordCounts()
    counts = scipy.sparse.csr_array(np.array([[1, 0], [0, 0], [0, 3]]))
    corpus = data.Corpus("mine", counts, ["a", "b"])
    with pytest.raises(ValueError, match="1 training documents .* have no words"):
        inputs.check(corpus, config.data)
    inputs.check(corpus.without_empty(), config.data)


def test_presets():
    path = f"{tiny.ROOT}/configs/topics.py"
    for preset in ("prodlda", "nvdm"):
        config = config_lib.load(f"{path}:{preset}")
        assert config.model.name == config.method.name == preset
        assert (config.model.latent_dim, config.model.groups) == (50, 2)
        assert (config.method.beta, config.method.gamma) == (0.1, 4.0)
        assert config.data.name == "newsgroups"
    assert config_lib.load(f"{path}:prodlda").optimizer.b1 == 0.99
    with pytest.raises(ValueError, match="Did you mean 'prodlda'"):
        config_lib.load(f"{path}:prodlad")
