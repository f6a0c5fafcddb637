"""Documents as bags of words."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from disentangle_jax.data.dataset import Dataset
from disentangle_jax.types import unknown_name


class Corpus(Dataset):
    """Documents as word counts: ``images(indices)`` returns ``[n, V]`` uint16 counts.

    Args:
      name: name of the corpus.
      counts: sparse ``[N, V]`` counts.
      vocabulary: the V words, in the order of the counts.
      labels: ``[N]`` class of each document; None where there are none.
      classes: names of the classes.
      label: name of the factor that the labels are.
      topics: ``[K, V]`` true word distributions of the topics, if known.
      proportions: ``[N, K]`` true share of each topic in each document, if known.

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
        label: str = "label",
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
        names: tuple[str, ...] = ()
        sizes: tuple[int, ...] = ()
        table = None
        if labels is not None:
            if classes is None:
                raise ValueError("Corpus: `classes` must name the classes of `labels`.")
            names, sizes, table = (label,), (len(classes),), labels[:, None]
        super().__init__(
            name,
            image_shape=(len(self.vocabulary),),
            images=lambda indices: counts[indices].toarray().astype(np.uint16),
            factor_names=names,
            factor_sizes=sizes,
            factor_table=table,
            length=counts.shape[0],
        )

    def without_empty(self) -> "Corpus":
        """Returns the corpus that draws only from documents with at least one word."""
        return self.narrow(self.indices[self.lengths[self.indices] > 0])


def count_words(
    documents: Sequence[Sequence[str]],
    vocabulary: Sequence[str],
    *,
    unknown: str = "error",
) -> scipy.sparse.csr_array:
    """Returns the word counts of documents, ``[N, V]``.

    ``Corpus(name, counts, vocabulary)`` is a dataset for training; a trained model
    encodes ``counts.toarray().astype("uint16")``.

    Args:
      documents: the words of each document, e.g. ``text.lower().split()``.
      vocabulary: the V words, in the order of the columns.
      unknown: for words that are not in the vocabulary, ``"error"`` raises and
        ``"drop"`` leaves them out.

    Raises:
      ValueError: a word is not in the vocabulary, or a document has no word of it.
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
