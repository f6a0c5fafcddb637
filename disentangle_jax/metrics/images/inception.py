"""The Inception network that defines FID, and how its weights are read.

This is the graph of 2015-12-05 whose features Heusel et al. (2017) used. It differs
from the InceptionV3 of other model collections in its weights and in its pooling:
averages at the border leave out the padding, and the last block pools by maximum while
the block before it averages.
"""

import functools
import os
import pathlib
import zipfile
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax.metrics.images.torch_files import read_tensors

SIZE = 299  # height and width of the network's input
NAME = "inception-2015-12-05"
_EPSILON = 1e-3  # of the batch norms
_KERNEL_PARAMETERS = 21_751_136  # in the 94 kernels

WHERE = (
    "Fetch pt_inception-2015-12-05-6726825d.pth from "
    "https://github.com/mseitzer/pytorch-fid/releases/tag/fid_weights (91 MB), or "
    "inception-2015-12-05.pt from https://nvlabs-fi-cdn.nvidia.com/"
    "stylegan2-ada-pytorch/pretrained/metrics/inception-2015-12-05.pt, and give its "
    "path; PyTorch is not needed to read it"
)


def _paired(names: str, torch_names: str) -> dict[str, str]:
    """Returns ``{name in the graph of 2015: name in PyTorch's model}``."""
    return dict(zip(names.split(), torch_names.split(), strict=True))


_BLOCK_35 = _paired(
    "conv tower.conv tower.conv_1 tower_1.conv tower_1.conv_1 tower_1.conv_2 "
    "tower_2.conv",
    "branch1x1 branch5x5_1 branch5x5_2 branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3 "
    "branch_pool",
)
_BLOCK_17 = _paired(
    "conv tower.conv tower.conv_1 tower.conv_2 tower_1.conv tower_1.conv_1 "
    "tower_1.conv_2 tower_1.conv_3 tower_1.conv_4 tower_2.conv",
    "branch1x1 branch7x7_1 branch7x7_2 branch7x7_3 branch7x7dbl_1 branch7x7dbl_2 "
    "branch7x7dbl_3 branch7x7dbl_4 branch7x7dbl_5 branch_pool",
)
_BLOCK_8 = _paired(
    "conv tower_conv tower_mixed_conv tower_mixed_conv_1 tower_1_conv tower_1_conv_1 "
    "tower_1_mixed_conv tower_1_mixed_conv_1 tower_2_conv",
    "branch1x1 branch3x3_1 branch3x3_2a branch3x3_2b branch3x3dbl_1 branch3x3dbl_2 "
    "branch3x3dbl_3a branch3x3dbl_3b branch_pool",
)
_REDUCE_35 = _paired(
    "conv tower.conv tower.conv_1 tower.conv_2",
    "branch3x3 branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3",
)
_REDUCE_17 = _paired(
    "tower.conv tower.conv_1 tower_1.conv tower_1.conv_1 tower_1.conv_2 tower_1.conv_3",
    "branch3x3_1 branch3x3_2 branch7x7x3_1 branch7x7x3_2 branch7x7x3_3 branch7x7x3_4",
)
_STEM = _paired(
    "conv conv_1 conv_2 conv_3 conv_4",
    "Conv2d_1a_3x3 Conv2d_2a_3x3 Conv2d_2b_3x3 Conv2d_3b_1x1 Conv2d_4a_3x3",
)
# Blocks in order: name in PyTorch's model and convolutions; in the graph they are
# called mixed, mixed_1, …, mixed_10.
_BLOCKS = (
    *((f"Mixed_5{letter}", _BLOCK_35) for letter in "bcd"),
    ("Mixed_6a", _REDUCE_35),
    *((f"Mixed_6{letter}", _BLOCK_17) for letter in "bcde"),
    ("Mixed_7a", _REDUCE_17),
    *((f"Mixed_7{letter}", _BLOCK_8) for letter in "bc"),
)

# {convolution: (kernel [h, w, I, O], bias [O])}, batch norm folded in.
Parameters = dict[str, tuple[jax.Array, jax.Array]]


def _names() -> Iterator[tuple[str, str]]:
    """Yields each convolution's name in the graph, and in PyTorch's model."""
    yield from _STEM.items()
    for number, (torch_block, convolutions) in enumerate(_BLOCKS):
        block = f"mixed_{number}" if number else "mixed"
        for name, torch_name in convolutions.items():
            yield f"{block}.{name}", f"{torch_block}.{torch_name}"


# --- weights --------------------------------------------------------------------------


def find(function: str, path: str | os.PathLike | None) -> pathlib.Path:
    """Returns the path of the weights, or raises an error with the download address.

    Args:
      function: the public function that was called, for the error.
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
    """Returns the arrays of a weight file by their names in the file."""
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
    r"""Returns kernels and biases that include the batch norms that follow them.

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
            f"torchvision, which gives other values. {WHERE}."
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
    size = sum(kernel.size for kernel, _ in folded.values())
    if size != _KERNEL_PARAMETERS:
        raise ValueError(
            f"inception: `weights` must hold {_KERNEL_PARAMETERS:,} kernel parameters, "
            f"got {size:,}: another network. {WHERE}."
        )
    return folded


# --- network --------------------------------------------------------------------------


def resize(images: jax.Array) -> jax.Array:
    """Returns the network's inputs ``[B, 299, 299, 3]`` in [-1, 1].

    As in pytorch-fid: divided by 255, resized (bilinear with half-pixel centres,
    without antialiasing), then ``2 x - 1``; grey images get three equal channels.

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

    def conv(
        x: jax.Array, name: str, *, stride: int = 1, padding: str = "SAME"
    ) -> jax.Array:
        kernel, bias = parameters[name]
        return jax.nn.relu(_conv(x, kernel, bias, stride, padding))

    def chain(x: jax.Array, block: str, names: Sequence[str]) -> jax.Array:
        for name in names:
            x = conv(x, f"{block}.{name}")
        return x

    def heads(x: jax.Array, block: str, names: Sequence[str]) -> list[jax.Array]:
        """Computes the 1×1 convolutions of one input as one."""
        kernels, biases = zip(*(parameters[f"{block}.{name}"] for name in names))
        y = _conv(x, jnp.concatenate(kernels, axis=3), jnp.concatenate(biases))
        ends = np.cumsum([bias.shape[0] for bias in biases])[:-1]
        return jnp.split(y, ends, axis=-1)

    def block_35_or_17(
        x: jax.Array, block: str, tower: Sequence[int], tower_1: Sequence[int]
    ) -> jax.Array:
        first = ("conv", "tower.conv", "tower_1.conv", "tower_2.conv")
        a, b, c, d = heads(x, block, first)
        # Averaging before or after a 1×1 convolution is the same; after has fewer
        # channels.
        a, b, c, d = map(jax.nn.relu, (a, b, c, _average(d)))
        b = chain(b, block, [f"tower.conv_{i}" for i in tower])
        c = chain(c, block, [f"tower_1.conv_{i}" for i in tower_1])
        return jnp.concatenate([a, b, c, d], axis=-1)

    def block_8(x: jax.Array, block: str, pool_by_maximum: bool) -> jax.Array:
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

    halved = functools.partial(conv, stride=2, padding="VALID")
    x = halved(x, "conv")
    x = conv(x, "conv_1", padding="VALID")
    x = _maximum(conv(x, "conv_2"), 2, "VALID")
    x = conv(conv(x, "conv_3"), "conv_4", padding="VALID")
    x = _maximum(x, 2, "VALID")
    for block in ("mixed", "mixed_1", "mixed_2"):
        x = block_35_or_17(x, block, (1,), (1, 2))
    tower = chain(x, "mixed_3", ("tower.conv", "tower.conv_1"))
    x = jnp.concatenate(
        [
            halved(x, "mixed_3.conv"),
            halved(tower, "mixed_3.tower.conv_2"),
            _maximum(x, 2, "VALID"),
        ],
        axis=-1,
    )
    for block in ("mixed_4", "mixed_5", "mixed_6", "mixed_7"):
        x = block_35_or_17(x, block, (1, 2), (1, 2, 3, 4))
    a, b = map(jax.nn.relu, heads(x, "mixed_8", ("tower.conv", "tower_1.conv")))
    b = chain(b, "mixed_8", ("tower_1.conv_1", "tower_1.conv_2"))
    x = jnp.concatenate(
        [
            halved(a, "mixed_8.tower.conv_1"),
            halved(b, "mixed_8.tower_1.conv_3"),
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
    """Averages 3×3 neighbours, at the border only those inside the image."""

    def total(y: jax.Array) -> jax.Array:
        return jax.lax.reduce_window(
            y, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"
        )

    return total(x) / total(jnp.ones((1, *x.shape[1:3], 1), x.dtype))
