"""Features of the FID network: ours and PyTorch, side by side on the same weights.

Run with ``python -m tests.benchmarks.bench_fid WEIGHTS`` (PyTorch: the extra
``bench``). Both run batches of 299×299 inputs through the network, with batch norms
folded into the convolutions and as many threads as cores. Their repeats are
interleaved, so that other load affects both. The results are images per second, from
the median of the repeats, for both memory layouts of PyTorch. The features are compared
too.
"""

import json
import os
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import models
from disentangle_jax.metrics.images import inception

WEIGHTS = (
    pathlib.Path(__file__).parents[3]
    / "shared/data/inception/inception_v3_2015-12-05_statedict.npz"
)


def torch_network(parameters: dict, channels_last: bool):
    """Returns PyTorch's forward, ``[B, 299, 299, 3] NumPy -> [B, 2048] NumPy``."""
    import torch
    from torch.nn import functional as tf

    torch.set_num_threads(os.cpu_count())
    layout = torch.channels_last if channels_last else torch.contiguous_format
    weights = {
        name: (
            torch.from_numpy(np.ascontiguousarray(kernel.transpose(3, 2, 0, 1))).to(
                memory_format=layout
            ),
            torch.from_numpy(bias),
        )
        for name, (kernel, bias) in parameters.items()
    }

    def conv(x, name, stride=1, valid=False):
        kernel, bias = weights[name]
        padding = (0, 0) if valid else tuple(n // 2 for n in kernel.shape[2:])
        return tf.relu_(tf.conv2d(x, kernel, bias, stride, padding))

    def chain(x, block, *names):
        for name in names:
            x = conv(x, f"{block}.{name}")
        return x

    def average(x):
        return tf.avg_pool2d(x, 3, 1, 1, count_include_pad=False)

    def block_35(x, b):
        return torch.cat(
            [
                chain(x, b, "conv"),
                chain(x, b, "tower.conv", "tower.conv_1"),
                chain(x, b, "tower_1.conv", "tower_1.conv_1", "tower_1.conv_2"),
                chain(average(x), b, "tower_2.conv"),
            ],
            dim=1,
        )

    def block_17(x, b):
        double = [f"tower_1.conv{end}" for end in ("", "_1", "_2", "_3", "_4")]
        return torch.cat(
            [
                chain(x, b, "conv"),
                chain(x, b, "tower.conv", "tower.conv_1", "tower.conv_2"),
                chain(x, b, *double),
                chain(average(x), b, "tower_2.conv"),
            ],
            dim=1,
        )

    def block_8(x, b, pooled):
        y = chain(x, b, "tower_conv")
        z = chain(x, b, "tower_1_conv", "tower_1_conv_1")
        return torch.cat(
            [
                chain(x, b, "conv"),
                chain(y, b, "tower_mixed_conv"),
                chain(y, b, "tower_mixed_conv_1"),
                chain(z, b, "tower_1_mixed_conv"),
                chain(z, b, "tower_1_mixed_conv_1"),
                chain(pooled, b, "tower_2_conv"),
            ],
            dim=1,
        )

    def forward(x):
        x = conv(conv(x, "conv", 2, True), "conv_1", valid=True)
        x = tf.max_pool2d(conv(x, "conv_2"), 3, 2)
        x = tf.max_pool2d(conv(conv(x, "conv_3"), "conv_4", valid=True), 3, 2)
        for block in ("mixed", "mixed_1", "mixed_2"):
            x = block_35(x, block)
        y = chain(x, "mixed_3", "tower.conv", "tower.conv_1")
        x = torch.cat(
            [
                conv(x, "mixed_3.conv", 2, True),
                conv(y, "mixed_3.tower.conv_2", 2, True),
                tf.max_pool2d(x, 3, 2),
            ],
            dim=1,
        )
        for block in ("mixed_4", "mixed_5", "mixed_6", "mixed_7"):
            x = block_17(x, block)
        y = chain(x, "mixed_8", "tower.conv")
        names = ("tower_1.conv", "tower_1.conv_1", "tower_1.conv_2")
        z = chain(x, "mixed_8", *names)
        x = torch.cat(
            [
                conv(y, "mixed_8.tower.conv_1", 2, True),
                conv(z, "mixed_8.tower_1.conv_3", 2, True),
                tf.max_pool2d(x, 3, 2),
            ],
            dim=1,
        )
        x = block_8(x, "mixed_9", average(x))
        x = block_8(x, "mixed_10", tf.max_pool2d(x, 3, 1, 1))
        return x.mean(dim=(2, 3))

    def run(images):
        with torch.inference_mode():
            x = torch.from_numpy(images.transpose(0, 3, 1, 2))
            return forward(x.contiguous(memory_format=layout)).numpy()

    return run


def run(
    weights: str | os.PathLike = WEIGHTS, *, batch: int = 16, repeats: int = 5
) -> dict[str, float]:
    """Returns images per second, and the ratio of ours to the best of PyTorch.

    PyTorch's rows are absent if it is not installed.
    """
    arrays = inception.read_weights(pathlib.Path(weights))
    parameters = inception.fold_batch_norms(arrays)
    on_device = jax.tree.map(jnp.asarray, parameters)
    options = models.compiler_options()
    network = jax.jit(inception.features, compiler_options=options)
    variants = {"ours": lambda x: np.asarray(network(on_device, x))}
    try:
        variants["pytorch"] = torch_network(parameters, False)
        variants["pytorch channels_last"] = torch_network(parameters, True)
    except ImportError:
        pass
    rng = np.random.default_rng(0)
    images = rng.uniform(-1, 1, (batch, 299, 299, 3)).astype(np.float32)
    results, features = {}, {}
    for name, variant in variants.items():
        start = time.perf_counter()
        features[name] = variant(images)
        results[f"{name}, first call (s)"] = time.perf_counter() - start
    times = {name: [] for name in variants}
    for _ in range(repeats):
        for name, variant in variants.items():
            start = time.perf_counter()
            variant(images)
            times[name].append(time.perf_counter() - start)
    for name in variants:
        results[f"{name} (images/s)"] = batch / float(np.median(times[name]))
    others = [f"{name} (images/s)" for name in variants if name != "ours"]
    if others:
        best = max(results[name] for name in others)
        results["ours / best pytorch"] = results["ours (images/s)"] / best
        gap = np.abs(features["ours"] - features["pytorch"]).max()
        results["largest difference of a feature"] = float(gap)
    return results


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores, jax {jax.__version__}")
    print(json.dumps(run(*sys.argv[1:2]), indent=2))
