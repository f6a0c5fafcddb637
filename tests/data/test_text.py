"""Bags of words: counting your own documents, and errors."""

import collections

import numpy as np
import pytest
import scipy.sparse

from disentangle_jax import data
from disentangle_jax.data import scholar

WORDS = ["ball", "god", "chip"]


def test_own_documents_become_a_corpus():
    texts = ["chip ball chip", "god", "ball ball ball"]
    counts = data.count_words([text.split() for text in texts], WORDS)
    np.testing.assert_array_equal(counts.toarray(), [[1, 0, 2], [0, 1, 0], [3, 0, 0]])
    corpus = data.Corpus("mine", counts, WORDS)
    assert corpus.lengths.tolist() == [3, 1, 3]
    assert corpus.images([2, 0]).tolist() == [[3, 0, 0], [1, 0, 2]]
    assert corpus.images([0]).dtype == np.uint16


def test_words_outside_of_the_vocabulary():
    documents = [["god"], ["ball", "referee", "ball"]]
    message = "got 'referee' in document 1; unknown='drop' leaves such out"
    with pytest.raises(ValueError, match=message):
        data.count_words(documents, WORDS)
    counts = data.count_words(documents, WORDS, unknown="drop")
    np.testing.assert_array_equal(counts.toarray(), [[0, 1, 0], [2, 0, 0]])


@pytest.mark.parametrize("document", [[], ["referee"]])
def test_empty_documents(document):
    with pytest.raises(ValueError, match="document 1 has no word of the vocabulary"):
        data.count_words([["god"], document], WORDS, unknown="drop")
    counts = scipy.sparse.csr_array(np.array([[0, 2, 0], [0, 0, 0], [1, 0, 0]]))
    corpus = data.Corpus("mine", counts, WORDS)
    assert corpus.without_empty().indices.tolist() == [0, 2]


def test_posts_without_words_are_not_drawn(real_data):
    corpus = data.load(
        "newsgroups", data_dir=real_data / "newsgroups", split="test", remove=(),
        vocabulary_size=50,
    )  # fmt: skip
    assert len(corpus) == 7532 and len(corpus.indices) < 7532
    assert (corpus.images(corpus.indices).sum(axis=1) > 0).all()


def test_words_by_the_rules_of_scholar():
    text = (
        "From: me@site.edu (Me)\n>The U.S. can't say_so: x86's 'god'\n"
        " @you re-read e-mail, NASA!! well don't café isn\u2019t don't"
    )
    # Periods and apostrophes join; digits, short, foreign and stop words go.
    assert scholar.words(text) == ["say", "god", "read", "mail", "nasa"]


@pytest.mark.slow  # Reads and splits 19,000 posts twice.
def test_newsgroups_prepared_as_by_scholar(real_data):
    """Whole posts, and a vocabulary of training and test posts together."""
    options = {"data_dir": real_data / "newsgroups", "vocabulary_size": 40}
    corpus = data.load("newsgroups", preprocessing="scholar", **options)
    assert len(corpus) == 11_314
    # Headers are words of every post, which our usual rules leave out.
    assert {"subject", "lines", "organization"} <= set(corpus.vocabulary)
    assert not scholar.STOP_WORDS & set(corpus.vocabulary)
    from sklearn.datasets import fetch_20newsgroups

    posts = fetch_20newsgroups(
        data_home=real_data / "newsgroups", subset="all", download_if_missing=False
    ).data
    seen = collections.Counter(w for post in posts for w in set(scholar.words(post)))
    most = sorted(seen, key=lambda word: (-seen[word], word))[:40]
    assert corpus.vocabulary == sorted(most)
    with pytest.raises(ValueError, match="Did you mean 'scholar'"):
        data.load("newsgroups", preprocessing="scholer", **options)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: data.count_words([["god"]], ["god", "god"]), "name a word twice"),
        (
            lambda: data.count_words([["god"]], WORDS, unknown="droop"),
            "Did you mean 'drop'",
        ),
        (
            lambda: data.Corpus("mine", scipy.sparse.csr_array([[1, 2]]), WORDS),
            "a word for each of the 2 columns",
        ),
        (
            lambda: data.Corpus("mine", scipy.sparse.csr_array([[1, -2, 0]]), WORDS),
            r"must lie in \[0, 65535\], got -2",
        ),
        (
            lambda: data.Corpus("mine", scipy.sparse.csr_array([[1, 70000, 0]]), WORDS),
            "to 70000",
        ),
    ],
)
def test_wrong_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_texts_must_be_split():
    with pytest.raises(TypeError, match="must be lists of words, got a text"):
        data.count_words(["god"], WORDS)
