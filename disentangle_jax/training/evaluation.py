"""What a trained run is worth: scores of its codes and pictures of its latents.

Writes two files into the run's folder: ``scores.json``, every number with its settings,
and ``pictures.npz``, the images that the report draws.
"""

import json
import math
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from disentangle_jax import data, metrics
from disentangle_jax.training.generation import (
    FidReference,
    fid_reference,
    fid_scores,
    training_codes,
)
from disentangle_jax.training.logging import Progress
from disentangle_jax.training.pictures import pictures
from disentangle_jax.training.provenance import recipe, write_json
from disentangle_jax.training.regions import evaluate_regions
from disentangle_jax.training.run import Run, start_workdir
from disentangle_jax.training.topics import Documents
from disentangle_jax.training.trained import Trained, load_trained

_RECONSTRUCTIONS = 10
# Latent variable × factor, or topic × topic, small enough to stand beside the scores.
_MATRICES = ("mi", "importance", "correlation", "planted", "found")


def evaluate(run: Run) -> dict[str, Any]:
    """Scores the last checkpoint of `run` on its test split.

    Codes are posterior means. The first ``eval.num_train`` random test images fit what
    a score has to fit, the next ``eval.num_test`` judge it (fewer of both, in the same
    ratio, where the split is smaller). The hybrid bank holds codes of training images.
    Where ``eval.fid_weights`` names a file, FID and KID of reconstructions, prior and
    hybrid samples are computed too. Documents have scores of their own
    (:class:`Documents`) and no pictures.

    Returns:
      The scores; those of each lane by its name where the run has lanes, whose files
      are in folders of their own.
    """
    scores = [scores for _, scores in evaluate_models(run)]
    if not run.laned:
        return scores[0]
    return {lane.name: found for lane, found in zip(run.lanes, scores)}


def evaluate_models(
    run: Run, *, again: bool = True
) -> Iterator[tuple[Trained, dict[str, Any]]]:
    """Yields each model of `run` with its scores, as soon as these are written.

    Args:
      run: a trained run.
      again: whether to compute scores that a model's folder holds already, of its
        config and its step.
    """
    reference = fid_reference(run)
    documents = Documents(run) if run.method.feed == "documents" else None
    for number, (lane, model) in enumerate(zip(run.lanes, load_trained(run))):
        if run.laned:
            print(f"lane {number + 1} of {len(run.lanes)}: {lane.name}")
            start_workdir(model.run)
        scores = None if again else _stored_scores(model)
        yield model, scores or _evaluate(model, reference, documents)


def _stored_scores(model: Trained) -> dict[str, Any] | None:
    """Returns the scores in a model's folder, None unless they are of this model."""
    path = model.run.workdir / "scores.json"
    if not path.exists():
        return None
    stored = json.loads(path.read_text())
    same = stored["config"] == json.loads(model.run.config.to_json())
    return stored if same and stored["settings"]["step"] == model.state.step else None


def evaluated_folders(run: Run) -> list[pathlib.Path]:
    """Returns the folders that :func:`evaluate` writes to: one per model."""
    if not run.laned:
        return [run.workdir]
    return [run.lane_run(lane).workdir for lane in run.lanes]


def _evaluate(
    model: Trained, reference: FidReference | None, documents: Documents | None
) -> dict[str, Any]:
    run, settings = model.run, model.run.config.eval
    rng = np.random.default_rng(settings.seed)
    indices = rng.permutation(run.test_set.indices)
    wanted = settings.num_train + settings.num_test
    num_train = settings.num_train
    if len(indices) < wanted:
        num_train = len(indices) * settings.num_train // wanted
    indices = indices[:wanted]
    scores: dict[str, Any] = {"reconstruction": {}, "metrics": {}, "errors": {}}
    computed: dict[str, metrics.Score] = {}
    if documents is not None:
        judged = documents.judge(model, indices)
        codes, scores["topics"] = judged.codes, judged.topics
        scores["reconstruction"] = judged.errors
        computed |= judged.scores
    else:
        codes, errors = encode_images(model, run.test_set, indices)
        bank = training_codes(model, rng)
        scores["reconstruction"] = {
            name: float(values.mean(dtype=np.float64))
            for name, values in errors.items()
        }
        mean_error = _mean_image_mse(run, indices, rng)
        scores["reconstruction"]["mse_of_mean_image"] = mean_error
    if run.test_set.factor_sizes and settings.scores:
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
        computed |= result
        scores["errors"] = result.errors
    if reference is not None:
        computed |= fid_scores(model, reference, bank)
    shown: dict[str, np.ndarray] = {}
    if run.method.regions is not None:
        images, factors = run.test_set.images(indices), run.test_set.factors(indices)
        scores["regions"], shown = evaluate_regions(model, images, codes, factors)
    scores["metrics"] = {
        name: {
            "values": _jsonable(score),
            "settings": _jsonable(score.settings),
            "matrices": {
                matrix: score.matrices[matrix].tolist()
                for matrix in _MATRICES
                if matrix in score.matrices
            },
        }
        for name, score in computed.items()
    }
    scores["settings"] = {
        "split": "test",
        "num_train": num_train,
        "num_test": len(indices) - num_train,
        "codes": "mean",
        "step": int(model.state.step),
        "seed": run.config.train.seed,
        "factors": list(run.test_set.factor_names),
        "latent_groups": list(run.method.latent_groups),
    }
    scores["config"] = json.loads(run.config.to_json())
    scores |= recipe()
    write_json(run.workdir / "scores.json", scores)
    if documents is not None:
        return scores
    originals = run.test_set.images(indices[:_RECONSTRUCTIONS])
    drawn = pictures(model, originals, codes, bank) | shown
    np.savez_compressed(run.workdir / "pictures.npz", **drawn)
    return scores


def _jsonable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `values` for a JSON file, which has no NaN and no tuples."""
    clean = {}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            value = None
        clean[name] = value
    return clean


def encode_images(
    model: Trained, dataset: data.Dataset, indices: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns the codes ``[N, D]`` of images and their reconstruction errors ``[N]``.

    Args:
      model: the trained model.
      dataset: where the images are.
      indices: ``[N]``, which of them.

    Returns:
      Codes (posterior means), and errors by name: ``mse`` (mean over pixels) and,
      for Bernoulli decoders, ``bce`` (nats, sum over pixels).
    """
    progress = Progress("encoding", len(indices), unit="images")
    size = model.run.config.eval.batch_size
    parts = []
    for start in range(0, len(indices), size):
        chunk = indices[start : start + size]
        # The last batch is filled up, so that one program serves all.
        images = dataset.images(np.resize(chunk, size))
        parts.append(jax.device_get(model.networks.encode(model.state, images)))
        progress.update(start + len(chunk))
    return jax.tree.map(lambda *a: np.concatenate(a)[: len(indices)], *parts)


def _mean_image_mse(run: Run, indices: np.ndarray, rng: np.random.Generator) -> float:
    """Returns the error of answering with the mean training image, the bar to beat."""
    seen = run.train_set.images(rng.choice(run.train_set.indices, 2000))
    asked = run.test_set.images(indices[:2000])
    mean = (seen / 255.0).mean(axis=0)
    return float(np.square(asked / 255.0 - mean).mean())
