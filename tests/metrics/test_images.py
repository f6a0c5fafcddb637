"""FID and its kin: golden values, closed forms, loops; weights of every file form."""

import gzip
import json
import os
import pickle
import warnings
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from PIL import Image

from disentangle_jax import metrics
from disentangle_jax.metrics.images import inception
from disentangle_jax.metrics.images.torch_files import read_tensors

# --- the network ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def weights(real_data):
    return real_data / "inception" / "inception_v3_2015-12-05_statedict.npz"


def celeba(folder, first, last):
    files = (folder / "celeba_1k" / f"{i:06d}.jpg" for i in range(first, last + 1))
    return np.stack([np.asarray(Image.open(file)) for file in files])


def fashion(folder, count):
    file = folder / "fashion_mnist" / "t10k-images-idx3-ubyte.gz"
    with gzip.open(file) as stream:
        pixels = np.frombuffer(stream.read(16 + count * 784), np.uint8, offset=16)
    return pixels.reshape(count, 28, 28)


def test_golden_features(real_data, golden, weights):
    want = np.load(golden / "inception_features.npz")
    # Two sizes and both numbers of channels through one compiled network of batch 4.
    # A fifth image, the first again, makes a batch that is filled up.
    faces = celeba(real_data, 1, 4)[[0, 1, 2, 3, 0]]
    faces = metrics.inception_features(faces, weights=weights, batch_size=4)
    clothes = fashion(real_data, 4)
    clothes = metrics.inception_features(clothes, weights=weights, batch_size=4)
    assert faces.shape == (5, 2048) and faces.dtype == np.float32
    # Features near 0 are sums that cancel: rounding of float32 remains there.
    close = dict(rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(faces[:4], want["celeba_000001_to_000004"], **close)
    np.testing.assert_allclose(faces[4], want["celeba_000001_to_000004"][0], **close)
    np.testing.assert_allclose(clothes, want["fashion_t10k_0_to_3"], **close)


@pytest.mark.slow
def test_golden_distances(real_data, golden, weights):
    want = json.loads((golden / "fid.json").read_text())["fid"]
    sides = {
        "celeba_1_300": celeba(real_data, 1, 300),
        "celeba_301_600": celeba(real_data, 301, 600),
        "fashion_0_299": fashion(real_data, 300),
    }
    sides = {
        name: metrics.feature_statistics(images, weights=weights)
        for name, images in sides.items()
    }
    for pair, value in want.items():
        a, b = (sides[name] for name in pair.split(" vs "))
        assert float(metrics.fid(a, b)) == pytest.approx(value, rel=1e-3)


def test_resize_is_bilinear_without_antialiasing(rng):
    images = rng.integers(0, 256, (1, 400, 20, 1)).astype(np.uint8)
    got = np.asarray(inception.resize(jnp.asarray(images)))

    def taps(size):
        """Two source pixels and the weight of the second, half-pixel centres."""
        at = np.maximum((np.arange(299) + 0.5) * size / 299 - 0.5, 0.0)
        low = np.minimum(at.astype(int), size - 1)
        return low, np.minimum(low + 1, size - 1), at - low

    x = images[0, :, :, 0] / 255.0
    low, high, part = taps(400)  # antialiasing would average more rows
    x = x[low] * (1 - part)[:, None] + x[high] * part[:, None]
    low, high, part = taps(20)
    x = x[:, low] * (1 - part) + x[:, high] * part
    assert got.shape == (1, 299, 299, 3)
    for channel in range(3):  # places among 400 rows are float32
        np.testing.assert_allclose(got[0, :, :, channel], 2 * x - 1, atol=5e-5)


def test_averages_leave_out_the_padding(rng):
    x = rng.normal(size=(1, 4, 5, 2)).astype(np.float32)
    got = inception._average(jnp.asarray(x))
    for i in range(4):
        for j in range(5):
            part = x[0, max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2]
            np.testing.assert_allclose(got[0, i, j], part.mean((0, 1)), atol=1e-6)


# --- weights --------------------------------------------------------------------------


def test_batch_norms_are_folded_in_under_both_names(weights):
    arrays = dict(np.load(weights))
    folded = inception.fold_batch_norms(arrays)
    assert len(folded) == 94
    parts = [arrays[f"net.layers.mixed_4.tower.conv_1.{n}"] for n in
             ("weight", "beta", "mean", "var")]  # fmt: skip
    kernel, beta, mean, var = (part.astype(np.float64) for part in parts)
    rng = np.random.default_rng(0)
    x = rng.normal(size=kernel[0].shape)
    for o in (0, 7):
        want = ((x * kernel[o]).sum() - mean[o]) / np.sqrt(var[o] + 1e-3) + beta[o]
        k, b = folded["mixed_4.tower.conv_1"]
        got = (x.transpose(1, 2, 0) * k[..., o]).sum() + b[o]
        assert got == pytest.approx(want, rel=1e-5)
    # PyTorch's names, with a gamma that is not 1.
    renamed = {}
    ends = {"weight": "conv.weight", "beta": "bn.bias", "mean": "bn.running_mean",
            "var": "bn.running_var"}  # fmt: skip
    for name, torch_name in inception._names():
        for end, torch_end in ends.items():
            renamed[f"{torch_name}.{torch_end}"] = arrays[f"net.layers.{name}.{end}"]
        renamed[f"{torch_name}.bn.weight"] = np.full_like(
            renamed[f"{torch_name}.bn.bias"], 2.0
        )
    renamed["fc.weight"] = np.zeros((1008, 2048), np.float32)
    for name, (kernel, bias) in inception.fold_batch_norms(renamed).items():
        np.testing.assert_allclose(kernel, 2 * folded[name][0], rtol=1e-6)
        shift = arrays[f"net.layers.{name}.beta"]
        np.testing.assert_allclose(
            bias - shift, 2 * (folded[name][1] - shift), 1e-4, 1e-5
        )
    # What is not this network is refused.
    with pytest.raises(ValueError, match="InceptionV3 of torchvision"):
        inception.fold_batch_norms(renamed | {"AuxLogits.fc.weight": np.zeros(1)})
    with pytest.raises(ValueError, match="another network"):
        other = renamed["Conv2d_1a_3x3.conv.weight"][:, :1]
        inception.fold_batch_norms(renamed | {"Conv2d_1a_3x3.conv.weight": other})
    del renamed["Mixed_6e.branch7x7dbl_3.bn.bias"]
    with pytest.raises(ValueError, match="got no 'Mixed_6e.branch7x7dbl_3.bn.bias'"):
        inception.fold_batch_norms(renamed)
    with pytest.raises(ValueError, match="got a file with a, …. Fetch"):
        inception.fold_batch_norms({"a": np.zeros(1)})


@pytest.mark.parametrize(
    "function", [metrics.fid, metrics.kid, metrics.precision_recall]
)
def test_without_weights_says_where_to_get_them(function, tmp_path):
    images = np.zeros((4, 8, 8, 3), np.uint8)
    name = function.__name__
    with pytest.raises(
        ValueError, match=f"{name}: `weights` must .* got none. Fetch pt"
    ):
        function(images, images)
    with pytest.raises(FileNotFoundError, match="does not exist. Fetch pt_inception"):
        function(images, images, weights=tmp_path / "no.npz")


def pickled(size=(2, 3), stride=(3, 1), offset=1, function="_rebuild_tensor_v2"):
    """A state dict {"a.weight": tensor}, as the opcodes that torch.save writes."""

    def integers(values):
        return b"(" + b"".join(b"K" + bytes([value]) for value in values) + b"t"

    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
    storage += b"X\x03\x00\x00\x00cpuK\x08tQ"
    tensor = b"ctorch._utils\n" + function.encode() + b"\n(" + storage
    tensor += b"K" + bytes([offset]) + integers(size) + integers(stride)
    tensor += b"\x89ccollections\nOrderedDict\n)RtR"
    name = b"X\x08\x00\x00\x00a.weight"
    return b"\x80\x02ccollections\nOrderedDict\n)R" + name + tensor + b"s."


STORAGE = np.arange(8, dtype="<f4").tobytes()


def zipped(path, pickle_bytes, data=STORAGE):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("any/data.pkl", pickle_bytes)
        archive.writestr("any/data/0", data)
    return path


def streamed(path, pickle_bytes, data=STORAGE):
    head = (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})
    stream = b"".join(pickle.dumps(value, protocol=2) for value in head)
    stream += pickle_bytes + pickle.dumps(["0"], protocol=2)
    path.write_bytes(stream + (8).to_bytes(8, "little") + data)
    return path


@pytest.mark.parametrize("write", [zipped, streamed])
def test_torch_files_by_hand(write, tmp_path):
    tensors = read_tensors(write(tmp_path / "a.pth", pickled()))
    np.testing.assert_array_equal(tensors["a.weight"], [[1, 2, 3], [4, 5, 6]])
    assert tensors["a.weight"].dtype == np.float32
    turned = pickled(size=(3, 2), stride=(1, 3))
    tensors = read_tensors(write(tmp_path / "b.pth", turned))
    np.testing.assert_array_equal(tensors["a.weight"], [[1, 4], [2, 5], [3, 6]])
    with pytest.raises(ValueError, match="beyond its storage"):
        read_tensors(write(tmp_path / "c.pth", pickled(offset=3)))
    with pytest.raises(ValueError, match="cut short"):
        read_tensors(write(tmp_path / "d.pth", pickled(), data=bytes(31)))
    with pytest.raises(ValueError, match="asks for torch._utils._rebuild_other"):
        read_tensors(write(tmp_path / "e.pth", pickled(function="_rebuild_other")))


@pytest.mark.parametrize("write", [zipped, streamed])
def test_torch_files_run_no_code(write, tmp_path):
    class Bad:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    path = write(tmp_path / "bad.pth", pickle.dumps(Bad(), protocol=2))
    with pytest.raises(ValueError, match="read_tensors: .*asks for posix.mkdir"):
        read_tensors(path)
    assert not (tmp_path / "made").exists()
    (tmp_path / "text.pth").write_text("hello")
    with pytest.raises(ValueError, match="must be a file of torch.save"):
        read_tensors(tmp_path / "text.pth")


def test_torch_files_of_torch_itself(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3))
    want = {name: value.numpy() for name, value in model.state_dict().items()}
    want["half"] = np.arange(6, dtype=np.float16).reshape(2, 3).T
    extra = model.state_dict() | {"half": torch.from_numpy(want["half"])}
    torch.save(extra, tmp_path / "zip.pth")
    torch.save(extra, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    for name in ("zip.pth", "old.pth"):
        got = read_tensors(tmp_path / name)
        assert got.keys() == want.keys()
        for key, value in want.items():
            np.testing.assert_array_equal(got[key], value)
            assert got[key].dtype == value.dtype
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, its files are not
        scripted = torch.jit.trace(model.eval(), torch.zeros(1, 2, 4, 4))
        torch.jit.save(scripted, tmp_path / "jit.pt")
    got = read_tensors(tmp_path / "jit.pt")
    for key in model.state_dict():
        np.testing.assert_array_equal(got[key], want[key])


# --- distances ------------------------------------------------------------------------


def pixels(images):
    """An extractor: the first 12 pixels."""
    return images.reshape(len(images), -1)[:, :12].astype(np.float32) / 16.0


def draws(rng, n, *, shift=0, spread=40):
    values = 100 + shift + spread * rng.normal(size=(n, 12)) @ rng.normal(size=(12, 12))
    return np.clip(values, 0, 255).astype(np.uint8).reshape(n, 2, 2, 3)


def frechet(a, b):
    """The textbook formula with a matrix square root."""
    a, b = pixels(a).astype(np.float64), pixels(b).astype(np.float64)
    ca, cb = np.cov(a.T), np.cov(b.T)
    root = scipy.linalg.sqrtm(ca @ cb).real
    return np.sum((a.mean(0) - b.mean(0)) ** 2) + np.trace(ca + cb - 2 * root)


@pytest.mark.parametrize("count_a, count_b", [(50, 40), (8, 40), (50, 8), (8, 6)])
def test_fid_is_the_textbook_formula(rng, count_a, count_b):
    a, b = draws(rng, count_a), draws(rng, count_b, shift=20)
    score = metrics.fid(a, b, features=pixels)
    # The square root of a singular product is good to the root of the rounding.
    assert float(score) == pytest.approx(frechet(a, b), rel=1e-6, abs=1e-5)
    assert list(score) == ["frechet_distance"]  # not FID: other features
    assert score.settings == {
        "features": "pixels (not Inception)",
        "samples_a": count_a,
        "samples_b": count_b,
    }
    back = metrics.fid(b, a, features=pixels)
    assert float(back) == pytest.approx(float(score), rel=1e-9)


def test_fid_of_scaled_gaussians(rng):
    # Equal covariances up to a factor 4: trace C + 4 C - 2 (4 C²)^½ = trace C.
    a = 4 * rng.integers(0, 30, (100, 12))
    images_a, images_b = (
        v.astype(np.uint8).reshape(-1, 2, 2, 3) for v in (a, 2 * a + 1)
    )
    shift = np.sum((np.mean(2 * a + 1, axis=0) - a.mean(0)) ** 2) / 256
    want = shift + np.trace(np.cov(a.T)) / 256
    score = metrics.fid(images_a, images_b, features=pixels)
    assert float(score) == pytest.approx(want, rel=1e-9)
    same = metrics.fid(images_a, images_a[::-1], features=pixels)
    assert float(same) == pytest.approx(0.0, abs=1e-6)


def test_streams_of_batches_equal_the_whole(rng):
    a, b = draws(rng, 90), draws(rng, 33)
    want = float(metrics.fid(a, b, features=pixels))
    cuts = (a[start:end] for start, end in ((0, 5), (5, 5), (5, 64), (64, 90)))
    streamed = metrics.fid(cuts, jnp.asarray(b), features=pixels)
    assert float(streamed) == pytest.approx(want, rel=1e-9)
    moments = metrics.feature_statistics(a, features=pixels)
    assert moments.features is None and moments.count == 90
    np.testing.assert_allclose(moments.covariance, np.cov(pixels(a).T), rtol=1e-5)
    assert float(metrics.fid(moments, b, features=pixels)) == pytest.approx(want, 1e-9)
    kept = metrics.feature_statistics(a, features=pixels, keep_features=True)
    assert float(metrics.fid(kept, b, features=pixels)) == pytest.approx(want, 1e-9)
    with pytest.raises(ValueError, match="kid: `images_a` must be statistics with all"):
        metrics.kid(moments, b, features=pixels)
    with pytest.raises(ValueError, match="features of the same extractor, got 12 of"):
        metrics.fid(moments, b, features=lambda x: pixels(x)[:, :5])


def test_kid_is_the_unbiased_estimate(rng):
    a, b = draws(rng, 9), draws(rng, 7, shift=30)
    x, y = pixels(a).astype(np.float64), pixels(b).astype(np.float64)

    def kernel(u, v):
        return (u @ v / 12 + 1) ** 3

    want = -2 * np.mean([kernel(u, v) for u in x for v in y])
    for rows in (x, y):
        want += np.mean(
            [
                kernel(rows[i], rows[j])
                for i in range(len(rows))
                for j in range(len(rows))
                if i != j
            ]
        )
    score = metrics.kid(a, b, features=pixels)
    assert list(score) == ["kernel_distance", "standard_deviation"]
    assert float(score) == pytest.approx(want, rel=1e-9)
    assert score.settings["subsets"] == 1 and score["standard_deviation"] == 0
    # Subsets of five agree with it in the mean; the biased estimate would not.
    parts = metrics.kid(a, b, features=pixels, subset_size=5, subsets=4000, seed=1)
    spread = parts["standard_deviation"]
    assert spread > 0
    assert float(parts) == pytest.approx(want, abs=5 * spread / np.sqrt(4000))
    assert parts == metrics.kid(
        a, b, features=pixels, subset_size=5, subsets=4000, seed=1
    )


def test_precision_and_recall_are_those_of_the_loop(rng):
    real, generated = draws(rng, 40), draws(rng, 30, spread=15)

    def share(asked, members):
        asked, members = pixels(asked), pixels(members)
        radii = [
            sorted(np.linalg.norm(m - other) for other in members)[3] for m in members
        ]
        on = [
            any(np.linalg.norm(x - m) <= r for m, r in zip(members, radii))
            for x in asked
        ]
        return np.mean(on)

    score = metrics.precision_recall(real, generated, features=pixels)
    assert score["precision"] == pytest.approx(share(generated, real))
    assert score["recall"] == pytest.approx(share(real, generated))
    assert score["recall"] < score["precision"] <= 1  # narrow draws miss modes
    apart = metrics.precision_recall(
        real // 16, 240 + generated // 16, features=pixels, neighbours=1
    )
    assert apart == {"precision": 0.0, "recall": 0.0}
    with pytest.raises(ValueError, match="`neighbours` must be .* got 30 with 40 and"):
        metrics.precision_recall(real, generated, features=pixels, neighbours=30)


@pytest.mark.parametrize(
    "images, error, message",
    [
        (np.zeros((4, 8, 8, 3)), TypeError, "must be uint8, got float64; for values"),
        (np.zeros((8, 8, 3), np.uint8), ValueError, r"must be \[N, H, W, C\] with C 1"),
        (np.zeros((4, 3, 8, 8), np.uint8), ValueError, r"got \(4, 3, 8, 8\)"),
        ([np.zeros((8, 8, 3), np.uint8)], ValueError, r"got \(8, 8, 3\)"),
        ([], ValueError, "must hold images, got none"),
        (np.zeros((0, 8, 8, 3), np.uint8), ValueError, "must hold images, got none"),
        (np.zeros((1, 8, 8, 3), np.uint8), ValueError, "at least two images"),
    ],
)
def test_bad_images_are_refused(images, error, message):
    with pytest.raises(error, match=f"fid: `images_a` .*{message}|{message}"):
        metrics.fid(images, np.zeros((4, 8, 8, 3), np.uint8), features=pixels)


def test_bad_features_are_refused(rng):
    images = draws(rng, 5)
    with pytest.raises(ValueError, match=r"`features` must return \[n, D\] for n"):
        metrics.fid(images, images, features=lambda x: np.zeros(5))
    with pytest.raises(ValueError, match="`features` must be finite"):
        metrics.fid(images, images, features=lambda x: np.full((5, 2), np.nan))


def test_torch_images_and_jitted_extractors(rng):
    a, b = draws(rng, 20), draws(rng, 20)

    @jax.jit
    def pixels_by_jax(images):
        flat = images.reshape(len(images), -1)[:, :12]
        return flat.astype(jnp.float32) / 16.0

    want = float(metrics.fid(a, b, features=pixels))
    assert float(metrics.fid(a, b, features=pixels_by_jax)) == pytest.approx(want)
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(a.copy())
    assert float(metrics.fid(tensor, b, features=pixels)) == want
