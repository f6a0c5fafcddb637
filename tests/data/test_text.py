"""Bags of words: counting your own documents, and errors."""

import numpy as np
import pytest
import scipy.sparse

from disentangle_jax import data

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
