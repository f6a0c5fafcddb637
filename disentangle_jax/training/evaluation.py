"""What a trained run is worth: scores of its codes and pictures of its latents.

Writes two files into the run's folder: ``scores.json``, every number with its settings,
and ``pictures.npz``, the images that the report draws.
"""

import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import data, losses, metrics, sampling
from disentangle_jax.methods import Method, as_unit_interval
from disentangle_jax.training import lanes
from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from disentangle_jax.training.logging import Progress
from disentangle_jax.training.provenance import recipe, write_json
from disentangle_jax.training.run import Run, start_workdir
from disentangle_jax.types import State

_RECONSTRUCTIONS, _HYBRIDS, _TRAVERSED, _TRAVERSAL_STEPS = 10, 40, 2, 9


def evaluate(run: Run) -> dict[str, Any]:
    """Scores the last checkpoint of `run` on its test split.

    Codes are posterior means. The first ``eval.num_train`` random test images fit what
    a score has to fit, the next ``eval.num_test`` judge it (fewer of both, in the same
    ratio, where the split is smaller). The hybrid bank holds codes of training images.

    Returns:
      The scores; those of each lane by its name where the run has lanes, whose files
      are in folders of their own.
    """
    carry = _restore(run)
    state = program_lib.evaluated_state(run, carry)
    compiled = _Compiled(run.method)
    if not run.laned:
        return _evaluate(run, state, compiled)
    scores = {}
    for number, lane in enumerate(run.lanes):
        print(f"lane {number + 1} of {len(run.lanes)}: {lane.name}")
        lane_run = run.lane_run(lane)
        start_workdir(lane_run)
        lane_state = lanes.take(state, number)
        scores[lane.name] = _evaluate(lane_run, lane_state, compiled)
    return scores


def evaluated_folders(run: Run) -> list[pathlib.Path]:
    """Returns the folders that :func:`evaluate` writes to: one per model."""
    if not run.laned:
        return [run.workdir]
    return [run.lane_run(lane).workdir for lane in run.lanes]


class _Compiled:
    """Encoder and decoder, compiled once for all lanes."""

    def __init__(self, method: Method):
        def image(logits):
            return jnp.clip(method.output(logits), 0.0, 1.0)

        def encode(state, images):
            x = as_unit_interval(images)
            mean = method.encode(state, x).mean
            logits = method.decode(state, mean)
            errors = {"mse": losses.mse(x, image(logits))}
            if method.output is jax.nn.sigmoid:
                errors["bce"] = losses.bernoulli_reconstruction(x, logits)
            return mean, errors

        def decode(state, z):
            return (image(method.decode(state, z)) * 255.0 + 0.5).astype(jnp.uint8)

        self.encode, self.decode = jax.jit(encode), jax.jit(decode)


def _evaluate(run: Run, state: State, compiled: _Compiled) -> dict[str, Any]:
    settings = run.config.eval
    rng = np.random.default_rng(settings.seed)
    indices = rng.permutation(run.test_set.indices)
    wanted = settings.num_train + settings.num_test
    num_train = settings.num_train
    if len(indices) < wanted:
        num_train = len(indices) * settings.num_train // wanted
    indices = indices[:wanted]
    size = settings.batch_size
    codes, errors = _encode(compiled, state, run.test_set, indices, size)
    bank_indices = rng.choice(run.train_set.indices, settings.hybrid_bank)
    bank, _ = _encode(compiled, state, run.train_set, bank_indices, size)

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
    pictures = _pictures(run, state, compiled, indices, codes, bank)
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


def _restore(run: Run) -> program_lib.Carry:
    """Returns the carry of the newest checkpoint of `run`."""
    check_trained(run)
    keep = run.config.train.keep_checkpoints
    like = program_lib.abstract_carry(run, program_lib.build(run))
    with Checkpoints(run.workdir / "checkpoints", keep=keep) as checkpoints:
        return checkpoints.restore(like)


def _encode(
    compiled: _Compiled,
    state: State,
    dataset: data.Dataset,
    indices: np.ndarray,
    size: int,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns the codes of images, and their reconstruction errors per image."""
    progress = Progress("encoding", len(indices), unit="images")
    parts = []
    for start in range(0, len(indices), size):
        chunk = indices[start : start + size]
        # The last batch is filled up, so that one program serves all.
        images = dataset.images(np.resize(chunk, size))
        parts.append(jax.device_get(compiled.encode(state, images)))
        progress.update(start + len(chunk))
    return jax.tree.map(lambda *a: np.concatenate(a)[: len(indices)], *parts)


def _mean_image_mse(run: Run, indices: np.ndarray, rng: np.random.Generator) -> float:
    """Returns the error of answering with the mean training image, the bar to beat."""
    seen = run.train_set.images(rng.choice(run.train_set.indices, 2000))
    asked = run.test_set.images(indices[:2000])
    mean = (seen / 255.0).mean(axis=0)
    return float(np.square(asked / 255.0 - mean).mean())


def _pictures(
    run: Run,
    state: State,
    compiled: _Compiled,
    indices: np.ndarray,
    codes: np.ndarray,
    bank: np.ndarray,
) -> dict[str, np.ndarray]:
    """Returns uint8 images for the report.

    ``originals``, ``reconstructions`` ``[n, H, W, C]``; ``hybrids`` ``[m, H, W, C]``;
    ``traversals`` ``[t, D, steps, H, W, C]``, each latent from its smallest to its
    largest test code, in order.
    """

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
        np.stack([np.asarray(compiled.decode(state, row)) for row in walk])
        for walk in walks
    ]
    return {
        "originals": run.test_set.images(indices[:_RECONSTRUCTIONS]),
        "reconstructions": np.asarray(compiled.decode(state, codes[:_RECONSTRUCTIONS])),
        "traversals": np.stack(traversals),
        "hybrids": np.asarray(compiled.decode(state, drawn)),
        "latent_groups": np.asarray(run.method.latent_groups),
    }
