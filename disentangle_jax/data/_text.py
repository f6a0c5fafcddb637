"""Bags of words: 20 Newsgroups, and a corpus drawn from known topics."""

import os
import pathlib
import pickle
from collections.abc import Sequence

import numpy as np
import scipy.sparse

from disentangle_jax.data import _files
from disentangle_jax.data._dataset import Dataset
from disentangle_jax.types import unknown_name

ETM_PARTS = {"train": "tr", "validation": "va", "test": "ts"}


class Corpus(Dataset):
    """Documents as counts of words; ``images(indices)`` gives ``[n, V]`` uint16 counts.

    Args:
      name: name of the corpus.
      counts: sparse ``[N, V]`` counts.
      vocabulary: the V words, in the order of the counts.
      labels: ``[N]`` class of each document; None where there are none.
      classes: names of the classes.
      topics: ``[K, V]`` distributions of words that made the corpus, if known.
      proportions: ``[N, K]`` share of each topic in each document, if known.

    Attributes:
      counts: as given.
      lengths: ``[N]`` number of words of each document.
    """

    def __init__(
        self,
        name: str,
        counts: scipy.sparse.csr_array,
        vocabulary: list[str],
        *,
        labels: np.ndarray | None = None,
        classes: list[str] | None = None,
        topics: np.ndarray | None = None,
        proportions: np.ndarray | None = None,
    ):
        self.vocabulary = list(vocabulary)
        if counts.shape[1] != len(self.vocabulary):
            raise ValueError(
                "Corpus: `vocabulary` must have a word for each of the "
                f"{counts.shape[1]} columns of `counts`, got {len(self.vocabulary)}."
            )
        largest = np.iinfo(np.uint16).max
        if counts.nnz and not 0 <= counts.min() <= counts.max() <= largest:
            raise ValueError(
                f"Corpus: `counts` must lie in [0, {largest}], got {counts.min()} to "
                f"{counts.max()}."
            )
        self.counts = counts
        self.lengths = np.asarray(counts.sum(axis=1, dtype=np.int64)).ravel()
        self.classes = classes
        self.topics = topics
        self.proportions = proportions
        labelled = labels is not None
        super().__init__(
            name,
            image_shape=(len(self.vocabulary),),
            images=lambda indices: counts[indices].toarray().astype(np.uint16),
            factor_names=("newsgroup",) if labelled else (),
            factor_sizes=(len(classes),) if labelled else (),
            factor_table=labels[:, None] if labelled else None,
            length=counts.shape[0],
        )

    def without_empty(self) -> "Corpus":
        """Returns the corpus drawing only from documents that have a word at all."""
        return self.narrow(self.indices[self.lengths[self.indices] > 0])


def count_words(
    documents: Sequence[Sequence[str]],
    vocabulary: Sequence[str],
    *,
    unknown: str = "error",
) -> scipy.sparse.csr_array:
    """Returns documents as counts of words, ``[N, V]``.

    With them ``Corpus(name, counts, vocabulary)`` is a set that can be trained on, and
    ``counts.toarray().astype("uint16")`` what a trained model encodes.

    Args:
      documents: the words of each document, e.g. ``text.lower().split()``.
      vocabulary: the V words, in the order of the columns.
      unknown: ``"error"`` refuses words that are not in the vocabulary, ``"drop"``
        leaves them out.

    Raises:
      ValueError: a word is not in the vocabulary, or a document has no word of it: no
        topic can be told of it.
    """
    if unknown not in ("error", "drop"):
        raise unknown_name("count_words", "unknown", unknown, ("error", "drop"))
    column = {word: place for place, word in enumerate(vocabulary)}
    if len(column) != len(vocabulary):
        raise ValueError("count_words: `vocabulary` must not name a word twice.")
    words, ends = [], [0]
    for number, document in enumerate(documents):
        if isinstance(document, str):
            raise TypeError(
                "count_words: `documents` must be lists of words, got a text; split "
                "it, as in text.lower().split()."
            )
        known = [column[word] for word in document if word in column]
        if unknown == "error" and len(known) < len(document):
            foreign = next(word for word in document if word not in column)
            raise ValueError(
                f"count_words: `documents` must have words of the vocabulary, got "
                f"{foreign!r} in document {number}; unknown='drop' leaves such out."
            )
        if not known:
            raise ValueError(
                f"count_words: `documents` must not be empty, and document {number} "
                "has no word of the vocabulary; remove it."
            )
        words += known
        ends.append(len(words))
    shape = len(documents), len(vocabulary)
    counts = scipy.sparse.csr_array((np.ones(len(words), np.int64), words, ends), shape)
    counts.sum_duplicates()
    return counts


class _PlainUnpickler(pickle.Unpickler):
    """Reads pickled lists and strings, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> type:
        raise ValueError(f"a list of words must not need {module}.{name}")


def _read_etm(folder: pathlib.Path, split: str) -> Corpus:
    """Reads the files of the Embedded Topic Model's scripts."""
    import scipy.io

    path = folder / "vocab.pkl"
    with _files.reading(path), path.open("rb") as file:
        vocabulary = _PlainUnpickler(file).load()
    known = [*ETM_PARTS, "all"]
    if split not in known:
        raise unknown_name("data.load", "split", split, known)
    rows = []
    for part in ETM_PARTS.values() if split == "all" else (ETM_PARTS[split],):
        lists = []
        for kind in ("tokens", "counts"):
            path = folder / f"bow_{part}_{kind}.mat"
            with _files.reading(path):
                cells = scipy.io.loadmat(path)[kind].squeeze(0)
            lists.append([np.ravel(cell).astype(np.int64) for cell in cells])
        tokens, counts = lists
        ends = np.cumsum([0, *map(len, tokens)])
        content = np.concatenate(counts), np.concatenate(tokens), ends
        shape = len(tokens), len(vocabulary)
        with _files.reading(path):
            rows.append(scipy.sparse.csr_array(content, shape))
    return Corpus(
        "newsgroups", scipy.sparse.csr_array(scipy.sparse.vstack(rows)), vocabulary
    )


def newsgroups(
    *,
    data_dir: str | os.PathLike | None = None,
    split: str = "train",
    vocabulary_size: int = 2000,
    max_document_share: float = 0.7,
    remove: tuple[str, ...] = ("headers", "footers", "quotes"),
) -> Corpus:
    """20 Newsgroups by date as bags of words: 11,314 training and 7,532 test posts.

    The vocabulary follows the topic-model papers (NVDM, ProdLDA): words of letters
    only, in lower case, without English stop words and without words in more than
    ``max_document_share`` of the posts; of those the ``vocabulary_size`` in most
    training posts. Posts without any of these words are not drawn (``indices`` leaves
    them out; ProdLDA's code drops them too). Factor: newsgroup 20.

    Files in the layout of the Embedded Topic Model's scripts (``bow_tr_tokens.mat`` …,
    ``vocab.pkl``) are read as they are, with their own vocabulary and parts and without
    newsgroups.

    Args:
      data_dir: folder with scikit-learn's 20news-bydate_py3.pkz, or of ETM files.
      split: ``"train"`` and ``"validation"`` share the training posts 90/10, ``"test"``
        is the test posts, ``"all"`` both in that order.
      vocabulary_size: number of words (2000 in NVDM; 1995 in ProdLDA).
      max_document_share: words in a larger share of the posts are dropped.
      remove: parts of a post to strip first, as in scikit-learn.
    """
    from sklearn.datasets import fetch_20newsgroups
    from sklearn.feature_extraction.text import CountVectorizer

    candidates = ("20news-bydate_py3.pkz", "bow_tr_tokens.mat", "bow/bow_tr_tokens.mat")
    found = _files.find("newsgroups", data_dir, candidates)
    if found.suffix == ".mat":
        return _read_etm(found.parent, split)

    def posts(subset: str):
        with _files.reading(found):
            return fetch_20newsgroups(
                data_home=found.parent,
                subset=subset,
                remove=remove,
                download_if_missing=False,
            )

    counter = CountVectorizer(
        stop_words="english",
        token_pattern=r"(?u)\b[a-z][a-z]+\b",
        max_df=max_document_share,
        max_features=None,
    )
    train = posts("train")
    counts = counter.fit_transform(train.data)
    spread = np.asarray((counts > 0).sum(0)).ravel()
    # Ties are cut by the alphabet, so that the vocabulary is a function of the posts.
    chosen = np.sort(np.argsort(-spread, kind="stable")[:vocabulary_size])
    vocabulary = counter.get_feature_names_out()[chosen].tolist()
    labels = [train.target]
    parts = [counts[:, chosen]]
    if split in ("test", "all"):
        test = posts("test")
        parts.append(counter.transform(test.data)[:, chosen])
        labels.append(test.target)
    keep = slice(1, 2) if split == "test" else slice(0, 2)
    corpus = Corpus(
        "newsgroups",
        scipy.sparse.csr_array(scipy.sparse.vstack(parts[keep])),
        vocabulary,
        labels=np.concatenate(labels[keep]),
        classes=list(train.target_names),
    )
    return corpus.split_train(split).without_empty()


def synthetic_topics(
    *,
    data_dir: str | os.PathLike | None = None,
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
    i and i + K/2, 0 elsewhere: the ground truth for what HFVAE looks for in text (Sec.
    5.2), topics that correlate between groups and not within one. The number of words
    is Poisson. ``.topics`` and ``.proportions`` hold the truth.

    Args:
      data_dir: unused, as nothing is read.
      split: ``"train"``, ``"validation"``, ``"test"`` or ``"all"``.
      documents: number of documents.
      topics: number of topics, even.
      vocabulary_size: number of words.
      correlation: between a topic and its partner in the other group, in (-1, 1).
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
