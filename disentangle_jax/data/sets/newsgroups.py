"""20 Newsgroups as bags of words."""

import io
import pathlib
import pickle
import zlib
from collections.abc import Collection
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse

from disentangle_jax.data.catalogue import define
from disentangle_jax.data.publisher_files import Folder, find, reading
from disentangle_jax.data.scholar import words as scholar_words
from disentangle_jax.data.text import Corpus
from disentangle_jax.types import unknown_name

ETM_PARTS = {"train": "tr", "validation": "va", "test": "ts"}


# What scikit-learn's file names: its container of arrays, and how NumPy arrays and
# bytes are rebuilt. None of them runs code of the file.
_CONTAINERS = {
    *((f"numpy.{core}.multiarray", n) for core in ("core", "_core")
      for n in ("_reconstruct", "scalar")),
    *((module, "Bunch") for module in
      ("sklearn.utils", "sklearn.utils._bunch", "sklearn.datasets.base")),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
}  # fmt: skip


class _PlainUnpickler(pickle.Unpickler):
    """Reads pickled lists, texts and arrays; rejects what could run code.

    Args:
      file: the pickle.
      allowed: module and name of each class or function that it may use.
    """

    def __init__(self, file: BinaryIO, allowed: Collection[tuple[str, str]] = ()):
        super().__init__(file)
        self._allowed = allowed

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise ValueError(f"it must hold texts only, and it needs {module}.{name}")
        return super().find_class(module, name)


def _check_posts(path: pathlib.Path) -> None:
    """Raises where scikit-learn's file could run code: its own reader would run it."""
    with reading(path):
        content = zlib.decompress(path.read_bytes())
        posts = _PlainUnpickler(io.BytesIO(content), _CONTAINERS).load()
        if not isinstance(posts, dict) or not {"train", "test"} <= set(posts):
            raise ValueError("it must hold the parts 'train' and 'test'")


def _check_tokens(
    path: pathlib.Path, tokens: list[np.ndarray], counts: list[np.ndarray], words: int
) -> None:
    """Raises where token numbers do not fit the vocabulary or the counts."""
    if list(map(len, tokens)) != list(map(len, counts)):
        raise ValueError(
            f"data.load: {path} must have a token for each count of its counts file."
        )
    every = np.concatenate([np.zeros(0, np.int64), *tokens])
    if len(every) and not 0 <= every.min() <= every.max() < words:
        raise ValueError(
            f"data.load: {path} must hold token numbers in [0, {words}), the size of "
            f"the vocabulary, got {every.min()} to {every.max()}."
        )


def _read_etm(folder: pathlib.Path, split: str) -> Corpus:
    """Reads the files of the Embedded Topic Model's scripts."""
    import scipy.io

    path = folder / "vocab.pkl"
    with reading(path), path.open("rb") as file:
        vocabulary = _PlainUnpickler(file).load()
    known = [*ETM_PARTS, "all"]
    if split not in known:
        raise unknown_name("data.load", "split", split, known)
    rows = []
    for part in ETM_PARTS.values() if split == "all" else (ETM_PARTS[split],):
        lists = []
        for kind in ("tokens", "counts"):
            path = folder / f"bow_{part}_{kind}.mat"
            with reading(path):
                cells = scipy.io.loadmat(path)[kind].squeeze(0)
            lists.append([np.ravel(cell).astype(np.int64) for cell in cells])
        tokens, counts = lists
        _check_tokens(
            folder / f"bow_{part}_tokens.mat", tokens, counts, len(vocabulary)
        )
        ends = np.cumsum([0, *map(len, tokens)])
        content = np.concatenate(counts), np.concatenate(tokens), ends
        shape = len(tokens), len(vocabulary)
        with reading(path):
            rows.append(scipy.sparse.csr_array(content, shape))
    return Corpus(
        "newsgroups", scipy.sparse.csr_array(scipy.sparse.vstack(rows)), vocabulary
    )


@define(
    factors={"newsgroup": 20},
    size="11,314 + 7,532 documents",
    licence="public posts, no licence stated",
    fetch="http://qwone.com/~jason/20Newsgroups (sklearn.datasets.fetch_20newsgroups"
    "(data_home=DIR) does)",
    files="20news-bydate_py3.pkz (or the ETM files bow_*_tokens.mat, bow_*_counts.mat "
    "and vocab.pkl)",
    patterns=("20news-bydate_py3.pkz", "bow_tr_tokens.mat", "bow/bow_tr_tokens.mat"),
    documents=True,
)
def newsgroups(
    *,
    data_dir: Folder = None,
    split: str = "train",
    vocabulary_size: int = 2000,
    preprocessing: str = "sklearn",
    max_document_share: float | None = None,
    remove: tuple[str, ...] | None = None,
) -> Corpus:
    """20 Newsgroups by date as bags of words: 11,314 training and 7,532 test posts.

    The vocabulary follows the topic-model papers (NVDM, ProdLDA): the
    ``vocabulary_size`` words that occur in most training posts, out of the lower-case
    words of letters that are not English stop words and occur in at most
    ``max_document_share`` of the posts. ``preprocessing="scholar"`` follows the script
    that HFVAE's authors used: whole posts, the words of :mod:`data.scholar`, and a
    vocabulary of those that occur in most training and test posts. Posts without any of
    these words are not drawn: ``indices`` leaves them out (ProdLDA's code drops them
    too).

    Files in the layout of the Embedded Topic Model's scripts (``bow_tr_tokens.mat`` …,
    ``vocab.pkl``) are read with their own vocabulary and parts, without newsgroups.

    Args:
      data_dir: folder with scikit-learn's 20news-bydate_py3.pkz, or of ETM files.
      split: ``"train"`` and ``"validation"`` share the training posts 90/10, ``"test"``
        is the test posts, ``"all"`` both in that order.
      vocabulary_size: number of words (2000 in NVDM; 1995 in ProdLDA).
      preprocessing: ``"sklearn"`` or ``"scholar"``.
      max_document_share: words that occur in a larger share of the posts are dropped;
        None for 0.7, and for 1 with ``"scholar"``.
      remove: parts of a post to remove first, as in scikit-learn; None for headers,
        footers and quotes, and for none of them with ``"scholar"``.
    """
    from sklearn.datasets import fetch_20newsgroups
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.utils import Bunch

    found = find(newsgroups.description, data_dir)
    if preprocessing not in ("sklearn", "scholar"):
        known = ("sklearn", "scholar")
        raise unknown_name("data.load", "preprocessing", preprocessing, known)
    scholar = preprocessing == "scholar"
    if remove is None:
        remove = () if scholar else ("headers", "footers", "quotes")
    if max_document_share is None:
        max_document_share = 1.0 if scholar else 0.7
    if found.suffix == ".mat":
        if scholar:
            raise ValueError(
                "data.load: `preprocessing` must be 'sklearn' for ETM files, which "
                "hold counts; 'scholar' needs scikit-learn's 20news-bydate_py3.pkz."
            )
        return _read_etm(found.parent, split)

    _check_posts(found)

    def posts(subset: str) -> Bunch:
        with reading(found):
            return fetch_20newsgroups(
                data_home=found.parent,
                subset=subset,
                remove=remove,
                download_if_missing=False,
            )

    rules: dict[str, Any] = {"analyzer": scholar_words}
    if not scholar:
        rules = {"stop_words": "english", "token_pattern": r"(?u)\b[a-z][a-z]+\b"}
    counter = CountVectorizer(max_df=max_document_share, **rules)
    train = posts("train")
    test = posts("test") if scholar or split in ("test", "all") else Bunch(data=[])
    counts = counter.fit_transform(train.data + (test.data if scholar else []))
    spread = np.asarray((counts > 0).sum(0)).ravel()
    # Ties are broken alphabetically, so that the posts determine the vocabulary.
    chosen = np.sort(np.argsort(-spread, kind="stable")[:vocabulary_size])
    vocabulary = counter.get_feature_names_out()[chosen].tolist()
    labels = [train.target]
    parts = [counts[: len(train.data), chosen]]
    if split in ("test", "all"):
        parts.append(counter.transform(test.data)[:, chosen])
        labels.append(test.target)
    keep = slice(1, 2) if split == "test" else slice(0, 2)
    corpus = Corpus(
        "newsgroups",
        scipy.sparse.csr_array(scipy.sparse.vstack(parts[keep])),
        vocabulary,
        labels=np.concatenate(labels[keep]),
        classes=list(train.target_names),
        label=newsgroups.description.factor_names[0],
    )
    return corpus.split_train(split).without_empty()
