"""Evaluator of generated images: hybrid and prior samples, and their FID and KID."""

import functools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import files, metrics, sampling
from disentangle_jax.evaluation.examples import Seen, hybrid_groups, training_codes
from disentangle_jax.evaluation.protocol import (
    Evaluated,
    Number,
    Pair,
    define,
    evaluators,
)
from disentangle_jax.evaluation.sections import Section, Sheet, in_rows
from disentangle_jax.evaluation.trained import Trained, check_trained, load_models
from disentangle_jax.training import Progress, Run

_SAMPLES, _ROW = 40, 10
_CHUNKS, _CHUNK_SAMPLES = 4, 9
_SAVED_CHUNK_SAMPLES, _SAVED_ROW = 8, 8
_HYBRID = (
    "New images: each latent variable comes from a different stored code of a training "
    "image."
)
_PRIOR = (
    "New images from codes drawn from the prior, a standard normal distribution unless "
    "the method defines another. Models without a prior (AE, SAE, AdaAE) never saw "
    "such codes in training."
)


def _distances(score: str, distance: str) -> dict[str, Number]:
    images = {
        "reconstruction": "reconstructions",
        "prior": "images from prior codes",
        "hybrid": "images from hybrid codes",
    }
    return {
        f"{score}.{key}": Number(
            f"{distance} between {text} and test images (0 is best)", "lower"
        )
        for key, text in images.items()
    }


@define(
    name="generation",
    scores={
        **_distances("fid", "Fréchet Inception distance"),
        **_distances("kid", "kernel Inception distance"),
    },
    pairs=(
        Pair(
            "loss_and_fid",
            "Reconstruction: loss and FID",
            "Each cross is a seed, each circle the mean of a model; lower is better on "
            "both axes.",
            "bce",
            "fid.reconstruction",
            "reconstruction loss (nats)",
            "reconstruction FID",
            "no run here has both a Bernoulli reconstruction loss and an FID. To "
            "compute FID, evaluate with --config.eval.fid_weights=FILE.",
        ),
    ),
)
class Generation:
    """Images generated from hybrid and prior codes.

    Where ``eval.fid_weights`` names a file, FID and KID are computed for
    reconstructions and samples.
    """

    def __init__(self, run: Run):
        self._run = run

    @functools.cached_property
    def _reference(self) -> "Reference":
        return reference_images(self._run)

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        """Returns images and, where asked for, FID and KID.

        ``hybrids`` and ``priors`` ``[n, H, W, C]`` uint8. ``chunk_hybrids``
        ``[chunks, 1 + s, H, W, C]``: the first test image as reconstructed, then with
        one chunk of its variables replaced ("Structure by Architecture", Fig. 6a).
        ``chunks`` ``[chunks]``: number of variables in each.
        """
        groups = self._run.method.latent_groups
        keys = jax.random.split(jax.random.key(self._run.config.eval.seed), 3)
        bank, first = jnp.asarray(seen.bank), jnp.asarray(seen.codes[0])
        hybrids = sampling.hybrid(
            keys[0], bank, _SAMPLES, groups=hybrid_groups(self._run)
        )
        changed = chunk_codes(keys[1], first, bank, _CHUNK_SAMPLES, groups)
        chunks = len(changed)
        unchanged = jnp.broadcast_to(first, (chunks, 1, len(first)))
        parts = np.array_split(np.arange(len(groups)), chunks)
        arrays = {
            "hybrids": model.decode_all(hybrids),
            "priors": model.decode_all(model.prior(keys[2], _SAMPLES)),
            "chunk_hybrids": model.decode_all(
                jnp.concatenate([unchanged, changed], axis=1)
            ),
            "chunks": np.array([len(part) for part in parts]),
        }
        scores = {}
        if self._run.config.eval.fid_weights:
            scores = fid_scores(model, self._reference, seen.bank)
        return Evaluated(scores, arrays=arrays)

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[Section]:
        hybrids = in_rows(arrays["hybrids"], _ROW)
        yield Sheet("hybrids", "Hybrid samples", _HYBRID, hybrids)
        yield Sheet("priors", "Prior samples", _PRIOR, in_rows(arrays["priors"], _ROW))
        yield Sheet(
            "chunk_hybrids",
            "One part of the code replaced at a time",
            "The first column is the reconstruction of one test image. Each row "
            "replaces only the named variables by values from stored codes: what "
            "changes along the row is what these variables represent.",
            arrays["chunk_hybrids"],
            chunk_labels(arrays["chunks"]),
        )


def chunk_labels(chunks: Sequence[int] | np.ndarray) -> list[str]:
    """Returns ``z1-z3`` for a chunk of the first three variables, and so on."""
    ends = np.cumsum(chunks)
    return [
        f"z{end}" if size == 1 else f"z{end - size + 1}-z{end}"
        for size, end in zip(chunks, ends)
    ]


def chunk_codes(
    key: jax.Array, base: jax.Array, bank: jax.Array, count: int, groups: Sequence[int]
) -> jax.Array:
    """Returns codes ``[chunks, count, D]``: `base` with one chunk hybridised."""
    chunks = min(_CHUNKS, len(groups))
    return sampling.chunk_hybrids(key, base, bank, count, groups=groups, chunks=chunks)


class Reference(NamedTuple):
    """Test images that FID compares with, shared by all models of a run.

    Attributes:
      indices: indices of the test images.
      statistics: their features.
    """

    indices: np.ndarray
    statistics: metrics.FeatureStatistics


def reference_images(run: Run) -> Reference:
    """Returns ``eval.fid_images`` random test images, or all, and their features."""
    settings = run.config.eval
    rng = np.random.default_rng(settings.seed)
    indices = rng.permutation(run.test_set.indices)[: settings.fid_images]
    ends = range(settings.batch_size, len(indices), settings.batch_size)
    batches = (run.test_set.images(part) for part in np.split(indices, ends))
    return Reference(indices, _statistics(run, "test", batches, len(indices)))


def fid_scores(
    model: Trained, reference: Reference, bank: np.ndarray
) -> dict[str, metrics.Score]:
    """Returns FID and KID of a model's reconstructions and samples.

    ``reconstruction``: of the reference images. ``prior``: of images from prior codes,
    which only models that are trained towards the prior can be expected to decode.
    ``hybrid``: of images from recombined codes of training images. Each kind has
    ``eval.fid_images`` images ("Structure by Architecture", Figs. 2 and 3: 50,000), and
    reconstructions as many as the reference, at most the test split.

    Args:
      model: the trained model.
      reference: test images and their features.
      bank: ``[N, D]`` stored codes of training images.
    """
    run = model.run
    count = run.config.eval.fid_images
    key = jax.random.key(run.config.eval.seed)
    groups = hybrid_groups(run)
    codes: dict[str, jax.Array | np.ndarray] = {
        "reconstruction": model.codes(run.test_set, reference.indices),
        "prior": model.prior(jax.random.fold_in(key, 0), count),
        "hybrid": sampling.hybrid(
            jax.random.fold_in(key, 1), jnp.asarray(bank), count, groups=groups
        ),
    }
    found = {name: distances(model, reference, name, z) for name, z in codes.items()}
    settings = {
        "split": "test",
        "images": {name: len(z) for name, z in codes.items()},
        "hybrid_bank": len(bank),
        "hybrid_groups": list(groups),
        "prior": "standard normal" + ", uniform" * bool(run.method.discrete),
    }
    return {
        score: metrics.Score(
            {name: float(both[score]) for name, both in found.items()},
            found["reconstruction"][score].settings | settings,
        )
        for score in ("fid", "kid")
    }


def distances(
    model: Trained, reference: Reference, name: str, codes: jax.Array | np.ndarray
) -> dict[str, metrics.Score]:
    """Returns ``fid`` and ``kid`` between the images of codes and the reference."""
    found = _statistics(model.run, name, model.decoded(codes), len(codes))
    return {
        score.__name__: score(reference.statistics, found)
        for score in (metrics.fid, metrics.kid)
    }


def _statistics(
    run: Run, name: str, batches: Iterable[np.ndarray], count: int
) -> metrics.FeatureStatistics:
    progress = Progress(f"FID features, {name}", count, unit="images")

    def shown() -> Iterator[np.ndarray]:
        done = 0
        for batch in batches:
            yield batch
            done += len(batch)
            progress.update(done)

    return metrics.feature_statistics(
        shown(), weights=run.config.eval.fid_weights, keep_features=True
    )


def check_generates(run: Run, command: str) -> None:
    """Raises a ValueError where a command needs images and a run generates none."""
    if "generation" not in evaluators(run):
        raise ValueError(
            f"{command}: needs images, and {run.config.method.name} generates none "
            f"from {run.config.data.name}; its report shows what it learned."
        )
    check_trained(run)


def sample(run: Run) -> list[pathlib.Path]:
    """Draws samples of the last checkpoint of `run` and writes ``samples.npz``.

    ``prior`` and ``hybrid`` ``[n, H, W, C]`` uint8 images with ``prior_codes`` and
    ``hybrid_codes`` ``[n, D]``, n being ``eval.num_samples``; ``chunk_hybrids``
    ``[chunks, s, H, W, C]`` with ``chunk_hybrid_codes``: a stored code with one chunk
    of its variables hybridised at a time, and ``base``, that code's image, with
    ``base_code``; ``bank`` ``[N, D]``, the stored codes of training images;
    ``latent_groups``.

    Returns:
      The folders that were written to: one per model.
    """
    folders = []
    for model in load_models(run):
        settings = model.run.config.eval
        bank = jnp.asarray(training_codes(model, np.random.default_rng(settings.seed)))
        groups = model.run.method.latent_groups
        keys = jax.random.split(jax.random.key(settings.seed), 3)
        count = settings.num_samples
        codes = {
            "prior": model.prior(keys[0], count),
            "hybrid": sampling.hybrid(
                keys[1], bank, count, groups=hybrid_groups(model.run)
            ),
            "chunk_hybrid": chunk_codes(
                keys[2], bank[0], bank, _SAVED_CHUNK_SAMPLES, groups
            ),
        }
        arrays = {f"{name}_codes": np.asarray(z) for name, z in codes.items()}
        arrays |= {
            "prior": model.decode_all(codes["prior"]),
            "hybrid": model.decode_all(codes["hybrid"]),
            "chunk_hybrids": model.decode_all(codes["chunk_hybrid"]),
            "base": model.decode_all(bank[0]),
            "base_code": np.asarray(bank[0]),
            "bank": np.asarray(bank),
            "latent_groups": np.asarray(groups),
        }
        folder = model.run.workdir
        folder.mkdir(parents=True, exist_ok=True)
        files.write_arrays(folder / "samples.npz", arrays)
        folders.append(folder)
    return folders


def sample_sections(folder: pathlib.Path) -> Iterator[Sheet]:
    """Yields the sheets of a ``samples.npz``."""
    samples = files.read_arrays(folder / "samples.npz")
    yield Sheet("prior", "Prior samples", _PRIOR, in_rows(samples["prior"], _SAVED_ROW))
    hybrid = in_rows(samples["hybrid"], _SAVED_ROW)
    yield Sheet("hybrid", "Hybrid samples", _HYBRID, hybrid)
    chunks = samples["chunk_hybrids"]
    base = np.broadcast_to(samples["base"], (len(chunks), 1, *chunks.shape[2:]))
    yield Sheet(
        "chunk_hybrids",
        "One part of the code replaced at a time",
        "The first column is the unchanged code.",
        np.concatenate([base, chunks], axis=1),
        [f"part {number}" for number in range(1, len(chunks) + 1)],
    )
