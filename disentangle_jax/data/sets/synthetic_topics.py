"""A corpus drawn from known topics."""

import numpy as np
import scipy.sparse

from disentangle_jax.data.catalogue import define
from disentangle_jax.data.publisher_files import Folder
from disentangle_jax.data.text import Corpus


@define(
    note="none; the topics are known",
    size="2,000 documents",
    licence="Apache-2.0",
    documents=True,
)
def synthetic_topics(
    *,
    data_dir: Folder = None,
    split: str = "train",
    documents: int = 2000,
    topics: int = 10,
    vocabulary_size: int = 200,
    correlation: float = 0.8,
    words_per_document: float = 80.0,
    seed: int = 0,
) -> Corpus:
    """A corpus drawn from known topics in two groups, correlated across the groups.

    Topics are Dirichlet(0.05) over the words. The proportions of a document are
    softmax(2 z) with z ~ N(0, Σ), Σ = 1 on the diagonal, ``correlation`` between topics
    i and i + K/2, 0 elsewhere. So topics correlate between the groups and not within a
    group, which is what HFVAE looks for in text (Sec. 5.2). The number of words is
    Poisson. ``.topics`` and ``.proportions`` hold the ground truth.

    Args:
      data_dir: unused, as no file is read.
      split: as in ``data.load``.
      documents: number of documents.
      topics: number of topics, even.
      vocabulary_size: number of words.
      correlation: correlation of a topic and its partner in the other group, (-1, 1).
      words_per_document: mean length of a document.
      seed: seed of topics and documents.
    """
    del data_dir
    if topics % 2 or topics < 2 or not -1 < correlation < 1:
        raise ValueError(
            "synthetic_topics: `topics` must be even and `correlation` in (-1, 1), got "
            f"{topics} and {correlation}."
        )
    rng = np.random.default_rng(seed)
    of_topic = rng.dirichlet(np.full(vocabulary_size, 0.05), topics)
    first, fresh = rng.standard_normal((2, documents, topics // 2))
    second = correlation * first + np.sqrt(1 - correlation**2) * fresh
    z = np.concatenate([first, second], axis=1)
    weights = np.exp(2 * z)
    proportions = weights / weights.sum(1, keepdims=True)
    lengths = 1 + rng.poisson(words_per_document - 1, documents)
    counts = rng.multinomial(lengths, proportions @ of_topic)
    width = len(str(vocabulary_size - 1))
    return Corpus(
        "synthetic_topics",
        scipy.sparse.csr_array(counts),
        [f"word{word:0{width}d}" for word in range(vocabulary_size)],
        topics=of_topic,
        proportions=proportions,
    ).split(split)
