"""What goes wrong says what to do, and leaves nothing half-written behind."""

import numpy as np
import pytest

from disentangle_jax import data

NAME = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
NEEDS_FILES = [name for name in data.names() if data.describe(name).fetch]
OWN = {n for n in NEEDS_FILES if data.describe(n).fetch.startswith("your own")}


@pytest.mark.parametrize("name", NEEDS_FILES)
def test_missing_files_say_what_to_fetch(name, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        data.load(name, data_dir=tmp_path)
    assert str(tmp_path) in str(error.value)
    if name not in OWN:
        address = data.describe(name).fetch.split()[0]
        assert address.startswith("http") and "Fetch " in str(error.value)


def test_unknown_names():
    with pytest.raises(ValueError, match="Did you mean 'dsprites'"):
        data.load("dsprite")
    with pytest.raises(ValueError, match="Did you mean 'validation'"):
        data.load("xysquares", split="validatio")
    with pytest.raises(ValueError, match="Did you mean 'spacing'"):
        data.load("xysquares", spacin=2)
    with pytest.raises(ValueError, match=r"`spacing` must be an integer in \[1, 8\]"):
        data.load("xysquares", spacing=9)


def test_truncated_npz(tmp_path):
    path = tmp_path / NAME
    np.savez_compressed(
        path,
        imgs=np.random.default_rng(0).integers(0, 2, (200, 64, 64), dtype=np.uint8),
        latents_classes=np.zeros((200, 6), int),
    )
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="Delete it and fetch it again") as error:
        data.load("dsprites", data_dir=tmp_path)
    assert NAME in str(error.value)


def test_wrong_shape_inside(tmp_path):
    np.savez(
        tmp_path / NAME,
        imgs=np.zeros((4, 32, 32), np.uint8),
        latents_classes=np.zeros((4, 6), int),
    )
    with pytest.raises(ValueError, match=r"must have shape \[4, 64, 64\], got"):
        data.load("dsprites", data_dir=tmp_path)
    np.savez(tmp_path / "mpi3d_toy.npz", images=np.zeros((4, 64, 64, 3), np.uint8))
    with pytest.raises(ValueError, match=r"must have shape \[1036800, 64, 64, 3\]"):
        data.load("mpi3d_toy", data_dir=tmp_path)


def test_values_outside_the_published_sizes(tmp_path):
    classes = np.zeros((4, 6), int)
    classes[2, 1] = 7
    np.savez(
        tmp_path / NAME, imgs=np.zeros((4, 64, 64), np.uint8), latents_classes=classes
    )
    with pytest.raises(ValueError, match="must lie below"):
        data.load("dsprites", data_dir=tmp_path)


def test_truncated_idx_and_mat(real_data, tmp_path):
    for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"):
        whole = (real_data / "mnist" / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="fetch it again"):
        data.load("mnist", data_dir=tmp_path)
    for path in (real_data / "format_fixtures").glob("smallnorb*.mat"):
        (tmp_path / path.name).write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="fetch it again"):
        data.load("smallnorb", data_dir=tmp_path)


def test_vocabulary_that_would_run_code(real_data, tmp_path):
    import pathlib
    import pickle
    import shutil

    folder = tmp_path / "bow"
    shutil.copytree(real_data / "newsgroups" / "bow", folder)
    (folder / "vocab.pkl").chmod(0o600)
    (folder / "vocab.pkl").write_bytes(pickle.dumps([pathlib.PurePosixPath("word")]))
    with pytest.raises(ValueError, match="texts only, and it needs pathlib"):
        data.load("newsgroups", data_dir=folder)


def test_bad_indices_and_factors():
    squares = data.load("xysquares")
    with pytest.raises(ValueError, match=r"`indices` must lie in \[0, 262144\)"):
        squares.images([262_144])
    with pytest.raises(ValueError, match="`indices` must be integers, got float64"):
        squares.factors([0.5])
    with pytest.raises(ValueError, match="`factors` must be integers, got float64"):
        squares.index_of([[0.5, 0, 0, 0, 0, 0]])
    with pytest.raises(ValueError, match="must lie below the sizes"):
        squares.index_of([[8, 0, 0, 0, 0, 0]])
    with pytest.raises(ValueError, match=r"must have shape \[n, 6\]"):
        squares.index_of([0, 0, 0, 0, 0])
    with pytest.raises(ValueError, match="Did you mean 'x_red'"):
        squares.drop(x_rad=[0])
    with pytest.raises(ValueError, match="must not be empty"):
        squares.keep(x_red=[])


def test_datasets_of_your_own():
    with pytest.raises(ValueError, match="`length` must be given"):
        data.Dataset("mine", image_shape=(1, 1, 1), images=lambda i: i)
    with pytest.raises(ValueError, match="`factor_names` must name each"):
        data.Dataset(
            "mine", image_shape=(1, 1, 1), images=lambda i: i, factor_sizes=(3,)
        )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"batch_size": 0}, "`batch_size` must lie in"),
        ({"batch_size": 300_000}, "`batch_size` must lie in"),
        ({"process_count": 3}, "`process_count` must divide"),
        ({"process_index": 1}, "`process_index` must lie in"),
        ({"start_step": -1}, "`start_step` must be at least 0"),
        ({"seed": -1}, "`seed` and `start_step` must be at least 0"),
        ({"prefetch": 0}, "`prefetch` at least 1"),
        ({"indices": [-1]}, "`indices` must lie in"),
    ],
)
def test_bad_pipeline_arguments(arguments, message):
    squares = data.load("xysquares")
    with pytest.raises(ValueError, match=message):
        data.pipeline(squares, **{"batch_size": 8, "seed": 0, **arguments})
