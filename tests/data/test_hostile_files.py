"""Files that would run code, or write outside their arrays, are refused."""

import os
import pickle
import shutil
import zlib

import numpy as np
import pytest
import scipy.io

from disentangle_jax import data


class Command:
    """Unpickled by an ordinary reader, it creates a folder."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


@pytest.mark.parametrize("place", ["whole", "inside"])
def test_a_crafted_newsgroups_file_runs_nothing(tmp_path, place):
    target = tmp_path / "created"
    content = Command(target)
    if place == "inside":
        content = {"train": {"data": ["a"]}, "test": [content]}
    path = tmp_path / "20news-bydate_py3.pkz"
    path.write_bytes(zlib.compress(pickle.dumps(content)))
    with pytest.raises(ValueError, match="texts only, and it needs .*mkdir"):
        data.load("newsgroups", data_dir=tmp_path)
    assert not target.exists()
    # The same file does run its command in an ordinary reader.
    pickle.loads(zlib.decompress(path.read_bytes()))
    assert target.exists()


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "20news-bydate_py3.pkz"
    for content in (zlib.compress(pickle.dumps([1, 2])), b"not compressed"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="must be a complete file"):
            data.load("newsgroups", data_dir=tmp_path)


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
def test_token_numbers_beyond_the_vocabulary_are_refused(tmp_path, wrong):
    (tmp_path / "vocab.pkl").write_bytes(pickle.dumps(["a", "b", "c"]))
    cells = np.empty((1, 2), object)
    cells[0, 0], cells[0, 1] = np.array([[0, 2]]), np.array([[1, wrong]])
    counts = np.empty((1, 2), object)
    counts[0, 0], counts[0, 1] = np.array([[1, 1]]), np.array([[2, 1]])
    for part in ("tr", "va", "ts"):
        scipy.io.savemat(tmp_path / f"bow_{part}_tokens.mat", {"tokens": cells})
        scipy.io.savemat(tmp_path / f"bow_{part}_counts.mat", {"counts": counts})
    with pytest.raises(ValueError, match=r"token numbers in \[0, 3\)"):
        data.load("newsgroups", data_dir=tmp_path)
    counts[0, 1] = np.array([[2]])
    scipy.io.savemat(tmp_path / "bow_tr_counts.mat", {"counts": counts})
    with pytest.raises(ValueError, match="a token for each count"):
        data.load("newsgroups", data_dir=tmp_path)


def test_labels_and_pixels_outside_their_range_are_refused(tmp_path):
    images = b"\0\0\x08\x03" + np.array([2, 28, 28], ">i4").tobytes() + bytes(2 * 784)
    labels = b"\0\0\x08\x01" + np.array([2], ">i4").tobytes() + bytes([3, 10])
    (tmp_path / "train-images-idx3-ubyte").write_bytes(images)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(ValueError, match=r"labels-idx1-ubyte must hold .* got 10"):
        data.load("mnist", data_dir=tmp_path)
    name = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
    pixels = np.zeros((2, 64, 64), np.uint8)
    pixels[1, 3, 4] = 7
    classes = np.array([[0] * 6, [0, 1, 0, 0, 0, 0]])
    np.savez(tmp_path / name, imgs=pixels, latents_classes=classes)
    with pytest.raises(ValueError, match="pixels that are neither 0 nor 1"):
        data.load("dsprites", data_dir=tmp_path)


@pytest.mark.parametrize("wrong", [-1, 13, 2**40])
def test_labels_of_symbols_outside_their_range_are_refused(tmp_path, wrong):
    images = np.zeros((3, 45, 45), np.uint8)
    path = tmp_path / "symbols.npz"
    np.savez(path, images=images, labels=np.array([0, 12, 1]))
    assert len(data.load("hwf", data_dir=tmp_path, split="all")) == 3
    np.savez(path, images=images, labels=np.array([0, 12, wrong]))
    with pytest.raises(ValueError, match=r"symbol in hwf must lie in \[0, 13\), got"):
        data.load("hwf", data_dir=tmp_path, split="all")


@pytest.mark.parametrize("kind", ["pipe", "folder", "enormous", "large", "text"])
def test_pictures_that_are_none_are_refused(tmp_path, kind):
    path = tmp_path / "a" / "1.png"
    path.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("text")
    else:
        side = 20_000 if kind == "enormous" else 9_200

        def chunk(name, content):
            check = zlib.crc32(name + content).to_bytes(4, "big")
            return len(content).to_bytes(4, "big") + name + content + check

        size = side.to_bytes(4, "big")
        path.write_bytes(
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", size + size + bytes([8, 0, 0, 0, 0]))
            + chunk(b"IDAT", zlib.compress(bytes(1000)))
            + chunk(b"IEND", b"")
        )
    with pytest.raises(ValueError, match=r"1\.png (must be a|cannot be read)"):
        data.load("image_folder", data_dir=tmp_path, split="all").images([0])


def test_the_publishers_file_is_read_as_before(real_data, tmp_path):
    source = real_data / "newsgroups" / "20news-bydate_py3.pkz"
    shutil.copy(source, tmp_path)
    corpus = data.load("newsgroups", data_dir=tmp_path, vocabulary_size=50)
    assert len(corpus.vocabulary) == 50 and corpus.factor_sizes == (20,)
