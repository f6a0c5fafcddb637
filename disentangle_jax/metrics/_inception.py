"""The Inception network that FID is defined by, and the reading of its weights.

This is the graph of 2015-12-05 that Heusel et al. (2017) took their features from. It
differs from the InceptionV3 of other model collections by its weights and by its
pooling: averages at the border leave out the padding, and the last block pools by
maximum where the one before it averages.
"""

import functools
import os
import pathlib
import zipfile
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.metrics._torch_files import read_tensors

SIZE = 299  # pixels of a side, which images are resized to
FEATURES = 2048
NAME = "inception-2015-12-05"
_EPSILON = 1e-3  # of the batch norms
_KERNEL_NUMBERS = 21_751_136  # in the 94 kernels

WHERE = (
    "Fetch pt_inception-2015-12-05-6726825d.pth from "
    "https://github.com/mseitzer/pytorch-fid/releases/tag/fid_weights (91 MB), or "
    "inception-2015-12-05.pt from https://nvlabs-fi-cdn.nvidia.com/"
    "stylegan2-ada-pytorch/pretrained/metrics/inception-2015-12-05.pt, and give its "
    "path; PyTorch is not needed to read it"
)

# The convolutions by their names in the graph of 2015, and the names that PyTorch's
# model gave them: (block, {convolution: convolution}).
_BLOCK_35 = {
    "conv": "branch1x1",
    "tower.conv": "branch5x5_1",
    "tower.conv_1": "branch5x5_2",
    "tower_1.conv": "branch3x3dbl_1",
    "tower_1.conv_1": "branch3x3dbl_2",
    "tower_1.conv_2": "branch3x3dbl_3",
    "tower_2.conv": "branch_pool",
}
_BLOCK_17 = {
    "conv": "branch1x1",
    "tower.conv": "branch7x7_1",
    "tower.conv_1": "branch7x7_2",
    "tower.conv_2": "branch7x7_3",
    "tower_1.conv": "branch7x7dbl_1",
    "tower_1.conv_1": "branch7x7dbl_2",
    "tower_1.conv_2": "branch7x7dbl_3",
    "tower_1.conv_3": "branch7x7dbl_4",
    "tower_1.conv_4": "branch7x7dbl_5",
    "tower_2.conv": "branch_pool",
}
_BLOCK_8 = {
    "conv": "branch1x1",
    "tower_conv": "branch3x3_1",
    "tower_mixed_conv": "branch3x3_2a",
    "tower_mixed_conv_1": "branch3x3_2b",
    "tower_1_conv": "branch3x3dbl_1",
    "tower_1_conv_1": "branch3x3dbl_2",
    "tower_1_mixed_conv": "branch3x3dbl_3a",
    "tower_1_mixed_conv_1": "branch3x3dbl_3b",
    "tower_2_conv": "branch_pool",
}
_BLOCKS = {
    ("mixed", "Mixed_5b"): _BLOCK_35,
    ("mixed_1", "Mixed_5c"): _BLOCK_35,
    ("mixed_2", "Mixed_5d"): _BLOCK_35,
    ("mixed_3", "Mixed_6a"): {
        "conv": "branch3x3",
        "tower.conv": "branch3x3dbl_1",
        "tower.conv_1": "branch3x3dbl_2",
        "tower.conv_2": "branch3x3dbl_3",
    },
    ("mixed_4", "Mixed_6b"): _BLOCK_17,
    ("mixed_5", "Mixed_6c"): _BLOCK_17,
    ("mixed_6", "Mixed_6d"): _BLOCK_17,
    ("mixed_7", "Mixed_6e"): _BLOCK_17,
    ("mixed_8", "Mixed_7a"): {
        "tower.conv": "branch3x3_1",
        "tower.conv_1": "branch3x3_2",
        "tower_1.conv": "branch7x7x3_1",
        "tower_1.conv_1": "branch7x7x3_2",
        "tower_1.conv_2": "branch7x7x3_3",
        "tower_1.conv_3": "branch7x7x3_4",
    },
    ("mixed_9", "Mixed_7b"): _BLOCK_8,
    ("mixed_10", "Mixed_7c"): _BLOCK_8,
}
_STEM = {
    "conv": "Conv2d_1a_3x3",
    "conv_1": "Conv2d_2a_3x3",
    "conv_2": "Conv2d_2b_3x3",
    "conv_3": "Conv2d_3b_1x1",
    "conv_4": "Conv2d_4a_3x3",
}

# {convolution: (kernel [h, w, I, O], bias [O])}, batch norm folded in.
Parameters = dict[str, tuple[jax.Array, jax.Array]]


def _names() -> Iterator[tuple[str, str]]:
    """Yields each convolution's name in the graph, and in PyTorch's model."""
    yield from _STEM.items()
    for (block, torch_block), convolutions in _BLOCKS.items():
        for name, torch_name in convolutions.items():
            yield f"{block}.{name}", f"{torch_block}.{torch_name}"


# --- weights --------------------------------------------------------------------------


def find(function: str, path: str | os.PathLike | None) -> pathlib.Path:
    """Returns the path of the weights, or says where to get them.

    Args:
      function: the public function that was called, for its errors.
      path: ``.npz``, ``.pth`` or ``.pt``; see `WHERE`.
    """
    if path is None or not str(path):
        raise ValueError(
            f"{function}: `weights` must be the file of the Inception weights, got "
            f"none. {WHERE}."
        )
    path = pathlib.Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(
            f"{function}: `weights` must be the file of the Inception weights, got "
            f"{path}, which does not exist. {WHERE}."
        )
    return path


def load(function: str, path: str | os.PathLike | None) -> Parameters:
    """Returns the parameters of the network, read from the file once per process."""
    path = find(function, path)
    return _load(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _load(path: pathlib.Path, modified: int) -> Parameters:
    del modified  # a changed file is read again
    return jax.tree.map(jnp.asarray, fold_batch_norms(read_weights(path)))


def read_weights(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a weight file by the names that they have there."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            numpy_file = all(name.endswith(".npy") for name in archive.namelist())
        if numpy_file:
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
    return read_tensors(path)


def fold_batch_norms(
    arrays: dict[str, np.ndarray],
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    r"""Returns kernels and biases that include the batch norms behind them.

    .. math:: K' = K \gamma / \sqrt{v + 0.001}, \qquad
              b' = \beta - m \gamma / \sqrt{v + 0.001}

    Args:
      arrays: the weights under the names of the graph (``…layers.conv.weight, beta,
        mean, var``) or of PyTorch's model (``Conv2d_1a_3x3.conv.weight, bn.weight,
        bn.bias, bn.running_mean, bn.running_var``), with any prefix.
    """
    if any("AuxLogits" in name for name in arrays):
        raise ValueError(
            "inception: `weights` must be those of 2015-12-05, got the InceptionV3 of "
            f"torchvision, which gives other numbers. {WHERE}."
        )
    first = {"layers.conv.weight": False, "Conv2d_1a_3x3.conv.weight": True}
    found = [
        (name.removesuffix(end) + ("" if torch else "layers."), torch)
        for name in arrays
        for end, torch in first.items()
        if name.endswith(end)
    ]
    if len(found) != 1:
        raise ValueError(
            "inception: `weights` must hold the Inception network, got a file with "
            f"{', '.join(list(arrays)[:3]) or 'nothing'}, …. {WHERE}."
        )
    prefix, torch = found[0]
    folded = {}
    for name, torch_name in _names():
        at = prefix + (torch_name if torch else name)
        ends = ("conv.weight", "bn.bias", "bn.running_mean", "bn.running_var")
        if not torch:
            ends = ("weight", "beta", "mean", "var")
        try:
            kernel, beta, mean, var = (arrays[f"{at}.{end}"] for end in ends)
        except KeyError as missing:
            raise ValueError(
                f"inception: `weights` must hold the whole network, got no {missing}. "
                f"{WHERE}."
            ) from None
        gamma = arrays.get(f"{at}.bn.weight", 1.0) if torch else 1.0
        scale = gamma / np.sqrt(var.astype(np.float64) + _EPSILON)
        bias = (beta - mean * scale).astype(np.float32)
        kernel = kernel.transpose(2, 3, 1, 0).astype(np.float32)
        folded[name] = (kernel * scale.astype(np.float32), bias)
    numbers = sum(kernel.size for kernel, _ in folded.values())
    if numbers != _KERNEL_NUMBERS:
        raise ValueError(
            f"inception: `weights` must hold {_KERNEL_NUMBERS:,} numbers in kernels, "
            f"got {numbers:,}: another network. {WHERE}."
        )
    return folded


# --- network --------------------------------------------------------------------------


def resize(images: jax.Array) -> jax.Array:
    """Returns what the network sees of images, ``[B, 299, 299, 3]`` in [-1, 1].

    As in pytorch-fid: the values over 255, bilinear with half-pixel centres and without
    antialiasing, then ``2 x - 1``; grey images have three equal channels.

    Args:
      images: ``[B, H, W, C]`` uint8, C is 1 or 3.
    """
    rows = images.shape[0]
    x = images.astype(jnp.float32) / 255.0
    x = jax.image.resize(
        x, (rows, SIZE, SIZE, x.shape[-1]), "bilinear", antialias=False
    )
    return jnp.broadcast_to(2.0 * x - 1.0, (rows, SIZE, SIZE, 3))


def features(parameters: Parameters, x: jax.Array) -> jax.Array:
    """Returns the features ``[B, 2048]`` of inputs ``[B, 299, 299, 3]`` in [-1, 1]."""

    def conv(x, name, *, stride=1, padding="SAME"):
        kernel, bias = parameters[name]
        return jax.nn.relu(_conv(x, kernel, bias, stride, padding))

    def chain(x, block, names):
        for name in names:
            x = conv(x, f"{block}.{name}")
        return x

    def heads(x, block, names):
        """The 1×1 convolutions of one input, as one."""
        kernels, biases = zip(*(parameters[f"{block}.{name}"] for name in names))
        y = _conv(x, jnp.concatenate(kernels, axis=3), jnp.concatenate(biases))
        ends = np.cumsum([bias.shape[0] for bias in biases])[:-1]
        return jnp.split(y, ends, axis=-1)

    def block_35(x, block):
        first = ("conv", "tower.conv", "tower_1.conv", "tower_2.conv")
        a, b, c, d = heads(x, block, first)
        # The average of a 1×1 convolution is that of the average, with fewer channels.
        a, b, c, d = map(jax.nn.relu, (a, b, c, _average(d)))
        b = chain(b, block, ("tower.conv_1",))
        c = chain(c, block, ("tower_1.conv_1", "tower_1.conv_2"))
        return jnp.concatenate([a, b, c, d], axis=-1)

    def block_17(x, block):
        first = ("conv", "tower.conv", "tower_1.conv", "tower_2.conv")
        a, b, c, d = heads(x, block, first)
        a, b, c, d = map(jax.nn.relu, (a, b, c, _average(d)))
        b = chain(b, block, ("tower.conv_1", "tower.conv_2"))
        c = chain(c, block, [f"tower_1.conv_{i}" for i in (1, 2, 3, 4)])
        return jnp.concatenate([a, b, c, d], axis=-1)

    def block_8(x, block, pool_by_maximum):
        first = ("conv", "tower_conv", "tower_1_conv")
        if pool_by_maximum:
            a, b, c = heads(x, block, first)
            d = conv(_maximum(x, 1, "SAME"), f"{block}.tower_2_conv")
        else:
            a, b, c, d = heads(x, block, (*first, "tower_2_conv"))
            d = _average(d)
        a, b, c, d = map(jax.nn.relu, (a, b, c, d))
        c = chain(c, block, ("tower_1_conv_1",))
        fork = [
            conv(y, f"{block}.{tower}_mixed_conv{end}")
            for y, tower in ((b, "tower"), (c, "tower_1"))
            for end in ("", "_1")
        ]
        return jnp.concatenate([a, *fork, d], axis=-1)

    half = dict(stride=2, padding="VALID")
    x = conv(x, "conv", **half)
    x = conv(x, "conv_1", padding="VALID")
    x = _maximum(conv(x, "conv_2"), 2, "VALID")
    x = conv(conv(x, "conv_3"), "conv_4", padding="VALID")
    x = _maximum(x, 2, "VALID")
    for block in ("mixed", "mixed_1", "mixed_2"):
        x = block_35(x, block)
    tower = chain(x, "mixed_3", ("tower.conv", "tower.conv_1"))
    x = jnp.concatenate(
        [
            conv(x, "mixed_3.conv", **half),
            conv(tower, "mixed_3.tower.conv_2", **half),
            _maximum(x, 2, "VALID"),
        ],
        axis=-1,
    )
    for block in ("mixed_4", "mixed_5", "mixed_6", "mixed_7"):
        x = block_17(x, block)
    a, b = map(jax.nn.relu, heads(x, "mixed_8", ("tower.conv", "tower_1.conv")))
    b = chain(b, "mixed_8", ("tower_1.conv_1", "tower_1.conv_2"))
    x = jnp.concatenate(
        [
            conv(a, "mixed_8.tower.conv_1", **half),
            conv(b, "mixed_8.tower_1.conv_3", **half),
            _maximum(x, 2, "VALID"),
        ],
        axis=-1,
    )
    x = block_8(x, "mixed_9", pool_by_maximum=False)
    x = block_8(x, "mixed_10", pool_by_maximum=True)
    return x.mean(axis=(1, 2))


def _conv(
    x: jax.Array,
    kernel: jax.Array,
    bias: jax.Array,
    stride: int = 1,
    padding: str = "SAME",
) -> jax.Array:
    y = jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y + jnp.broadcast_to(bias, y.shape)


def _maximum(x: jax.Array, stride: int, padding: str) -> jax.Array:
    return jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, stride, stride, 1), padding
    )


def _average(x: jax.Array) -> jax.Array:
    """Averages 3×3 neighbours, at the border those that there are."""

    def total(y):
        return jax.lax.reduce_window(
            y, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"
        )

    return total(x) / total(jnp.ones((1, *x.shape[1:3], 1), x.dtype))
