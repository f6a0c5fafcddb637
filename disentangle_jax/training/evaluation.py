"""What a trained run is worth: scores of its codes and pictures of its latents.

Writes two files into the run's folder: ``scores.json``, every number with its settings,
and ``pictures.npz``, the images that the report draws.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import data, losses, metrics, sampling
from disentangle_jax.methods import as_unit_interval
from disentangle_jax.training.checkpoint import Checkpoints
from disentangle_jax.training.logging import Progress
from disentangle_jax.training.provenance import recipe, write_json
from disentangle_jax.training.run import Run
from disentangle_jax.types import State

_RECONSTRUCTIONS, _HYBRIDS, _TRAVERSED, _TRAVERSAL_STEPS = 10, 40, 2, 9


def evaluate(run: Run) -> dict[str, Any]:
    """Scores the last checkpoint of `run` on its test split; returns the scores.

    Codes are posterior means. The first ``eval.num_train`` random test images fit what
    a score has to fit, the next ``eval.num_test`` judge it (fewer of both, in the same
    ratio, where the split is smaller). The hybrid bank holds codes of training images.
    """
    state = _restore(run)
    settings = run.config.eval
    rng = np.random.default_rng(settings.seed)
    indices = rng.permutation(run.test_set.indices)
    wanted = settings.num_train + settings.num_test
    num_train = settings.num_train
    if len(indices) < wanted:
        num_train = len(indices) * settings.num_train // wanted
    indices = indices[:wanted]
    codes, errors = _encode(run, state, run.test_set, indices)
    bank_indices = rng.choice(run.train_set.indices, settings.hybrid_bank)
    bank, _ = _encode(run, state, run.train_set, bank_indices)

    scores = {
        "reconstruction": {
            name: float(values.mean(dtype=np.float64))
            for name, values in errors.items()
        },
        "metrics": {},
        "errors": {},
    }
    scores["reconstruction"]["mse_of_mean_image"] = _mean_image_mse(run, indices, rng)
    if run.test_set.factor_sizes:
        factors = run.test_set.factors(indices)
        result = metrics.evaluate(
            codes[:num_train],
            factors[:num_train],
            scores=tuple(settings.scores),
            codes_test=codes[num_train:],
            factors_test=factors[num_train:],
            groups=run.method.latent_groups,
            seed=settings.seed,
        )
        scores["metrics"] = {
            name: {"values": _jsonable(score), "settings": _jsonable(score.settings)}
            for name, score in result.items()
        }
        scores["errors"] = result.errors
    scores["settings"] = {
        "split": "test",
        "num_train": num_train,
        "num_test": len(indices) - num_train,
        "codes": "mean",
        "step": int(state.step),
        "seed": run.config.train.seed,
    }
    scores["config"] = json.loads(run.config.to_json())
    scores |= recipe()
    write_json(run.workdir / "scores.json", scores)
    pictures = _pictures(run, state, indices, codes, bank)
    np.savez_compressed(run.workdir / "pictures.npz", **pictures)
    return scores


def _jsonable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `values` for a JSON file, which has no NaN and no tuples."""
    clean = {}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            value = None
        clean[name] = value
    return clean


def check_trained(run: Run) -> None:
    """Raises a ValueError where `run` has no checkpoint to evaluate."""
    folder = run.workdir / "checkpoints"
    if not folder.is_dir() or not any(p.name.isdigit() for p in folder.iterdir()):
        raise ValueError(
            f"workdir: {run.workdir} holds no checkpoint yet; run --mode=train first."
        )


def _restore(run: Run) -> State:
    """Returns the state of the newest checkpoint of `run`."""
    check_trained(run)
    keep = run.config.train.keep_checkpoints
    with Checkpoints(run.workdir / "checkpoints", keep=keep) as checkpoints:
        return checkpoints.restore(run.abstract_state())


def _encode(
    run: Run, state: State, dataset: data.Dataset, indices: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns the codes of images, and their reconstruction errors per image."""

    @jax.jit
    def encode(state, images):
        x = as_unit_interval(images)
        mean = run.method.encode(state, x).mean
        logits = run.method.decode(state, mean)
        errors = {
            "bce": losses.bernoulli_reconstruction(x, logits),
            "mse": losses.mse(x, jax.nn.sigmoid(logits)),
        }
        return mean, errors

    size = run.config.eval.batch_size
    progress = Progress("encoding", len(indices), unit="images")
    parts = []
    for start in range(0, len(indices), size):
        chunk = indices[start : start + size]
        # The last batch is filled up, so that one program serves all.
        images = dataset.images(np.resize(chunk, size))
        parts.append(jax.device_get(encode(state, images)))
        progress.update(start + len(chunk))
    return jax.tree.map(lambda *a: np.concatenate(a)[: len(indices)], *parts)


def _mean_image_mse(run: Run, indices: np.ndarray, rng: np.random.Generator) -> float:
    """Returns the error of answering with the mean training image, the bar to beat."""
    seen = run.train_set.images(rng.choice(run.train_set.indices, 2000))
    asked = run.test_set.images(indices[:2000])
    mean = (seen / 255.0).mean(axis=0)
    return float(np.square(asked / 255.0 - mean).mean())


def _pictures(
    run: Run, state: State, indices: np.ndarray, codes: np.ndarray, bank: np.ndarray
) -> dict[str, np.ndarray]:
    """Returns uint8 images for the report.

    ``originals``, ``reconstructions`` ``[n, H, W, C]``; ``hybrids`` ``[m, H, W, C]``;
    ``traversals`` ``[t, D, steps, H, W, C]``, each latent from its smallest to its
    largest test code, in order.
    """

    @jax.jit
    def decode(state, z):
        logits = run.method.decode(state, z)
        return (jax.nn.sigmoid(logits) * 255.0 + 0.5).astype(jnp.uint8)

    low, high = jnp.asarray(codes.min(axis=0)), jnp.asarray(codes.max(axis=0))
    walks = [
        sampling.traverse(jnp.asarray(code), low, high, steps=_TRAVERSAL_STEPS)
        for code in codes[:_TRAVERSED]
    ]
    key = jax.random.key(run.config.eval.seed)
    drawn = sampling.hybrid(
        key, jnp.asarray(bank), _HYBRIDS, groups=run.method.latent_groups
    )
    traversals = [
        np.stack([np.asarray(decode(state, row)) for row in walk]) for walk in walks
    ]
    return {
        "originals": run.test_set.images(indices[:_RECONSTRUCTIONS]),
        "reconstructions": np.asarray(decode(state, codes[:_RECONSTRUCTIONS])),
        "traversals": np.stack(traversals),
        "hybrids": np.asarray(decode(state, drawn)),
        "latent_groups": np.asarray(run.method.latent_groups),
    }
