"""Pictures of what each variable of a model with discrete variables does."""

import jax
import numpy as np

from disentangle_jax import metrics
from disentangle_jax.methods import as_unit_interval
from disentangle_jax.training.trained import Trained

_COLUMNS = 10
_MOVED = np.linspace(-3.0, 3.0, 9, dtype=np.float32)
_ASKED = 1000  # Test images that I(x; z_d) is measured on.


def variable_pictures(model: Trained, codes: np.ndarray) -> dict[str, np.ndarray]:
    """Returns what the report shows of discrete variables; nothing without them.

    Args:
      model: the trained model.
      codes: ``[N, D + M]`` codes of test images.

    Returns:
      ``classes`` ``[M, n, H, W, C]`` uint8: test images with each class in turn, the
      other variables staying; ``manipulations`` ``[D, steps, H, W, C]``: the first test
      image with each continuous latent at values from -3 to 3, latents with the most
      mutual information I(x; z_d) first; ``manipulated`` ``[D]`` which these are, and
      ``manipulated_information`` ``[D]`` their information in nats.
    """
    method = model.run.method
    if not method.discrete:
        return {}
    dims = codes.shape[1] - sum(method.discrete)
    shown = np.tile(codes[:_COLUMNS], (sum(method.discrete), 1, 1))
    start, row = dims, 0
    for size in method.discrete:
        for category in range(size):
            shown[row, :, start : start + size] = np.eye(size)[category]
            row += 1
        start += size
    information = _latent_information(model)
    order = np.argsort(-information, kind="stable")
    moved = np.tile(codes[0], (dims, len(_MOVED), 1))
    for row, latent in enumerate(order):
        moved[row, :, latent] = _MOVED
    return {
        "classes": model.decode_all(shown),
        "manipulations": model.decode_all(moved),
        "manipulated": order,
        "manipulated_information": information[order],
    }


def _latent_information(model: Trained) -> np.ndarray:
    """Returns I(x; z_d) ``[D]`` of the continuous latents, on test images."""
    run = model.run
    rng = np.random.default_rng(run.config.eval.seed)
    indices = rng.permutation(run.test_set.indices)[:_ASKED]
    size = run.config.eval.batch_size
    encode = jax.jit(
        lambda state, images: run.method.encode(state, as_unit_interval(images))[:2]
    )
    parts = []
    for start in range(0, len(indices), size):
        chunk = np.resize(indices[start : start + size], size)
        parts.append(jax.device_get(encode(model.state, run.test_set.images(chunk))))
    mean, log_var = (np.concatenate(part)[: len(indices)] for part in zip(*parts))
    return metrics.latent_information(
        mean[:, : log_var.shape[1]], log_var, seed=int(run.config.eval.seed)
    )
