"""What a trained model generates: samples, and how near they are to real images."""

import pathlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import metrics, sampling
from disentangle_jax.training.logging import Progress
from disentangle_jax.training.run import Run
from disentangle_jax.training.trained import Trained, load_trained

_CHUNKS, _PER_CHUNK = 4, 8


class FidReference:
    """Test images that FID compares with: one set for all lanes of a run.

    Attributes:
      indices: of the test images.
      statistics: their features.
    """

    def __init__(self, run: Run):
        settings = run.config.eval
        rng = np.random.default_rng(settings.seed)
        self.indices = rng.permutation(run.test_set.indices)[: settings.fid_images]
        size = settings.batch_size
        batches = (
            run.test_set.images(self.indices[start : start + size])
            for start in range(0, len(self.indices), size)
        )
        self.statistics = _statistics(run, "test", batches, len(self.indices))


def fid_reference(run: Run) -> FidReference | None:
    """Returns what FID is measured against; None where `run` asks for no FID."""
    return FidReference(run) if run.config.eval.fid_weights else None


def fid_scores(
    model: Trained, reference: FidReference, bank: np.ndarray
) -> dict[str, metrics.Score]:
    """Returns FID and KID of a model's reconstructions and samples.

    ``reconstruction``: of the reference images themselves. ``prior``: codes from a
    standard normal, which only models that are trained towards it can be expected to
    decode. ``hybrid``: recombined codes of training images. As many of each as there
    are reference images ("Structure by Architecture", Figs. 2 and 3, takes 50,000).

    Args:
      model: the trained model.
      reference: of :func:`fid_reference`.
      bank: ``[N, D]`` stored codes of training images.
    """
    run, count = model.run, len(reference.indices)
    size = run.config.eval.batch_size
    key = jax.random.key(run.config.eval.seed)
    groups = run.method.latent_groups

    def reconstructions() -> Iterator[np.ndarray]:
        for start in range(0, count, size):
            chunk = reference.indices[start : start + size]
            images = run.test_set.images(np.resize(chunk, size))
            yield model.decode(model.encode(images))[: len(chunk)]

    prior = model.prior(jax.random.fold_in(key, 0), count)
    hybrid = sampling.hybrid(
        jax.random.fold_in(key, 1), jnp.asarray(bank), count, groups=groups
    )
    generated = {
        "reconstruction": reconstructions(),
        "prior": model.decoded(prior),
        "hybrid": model.decoded(hybrid),
    }
    distances: dict[str, dict[str, float]] = {"fid": {}, "kid": {}}
    settings = {}
    for name, batches in generated.items():
        statistics = _statistics(run, name, batches, count)
        for score in (metrics.fid, metrics.kid):
            result = score(reference.statistics, statistics)
            distances[score.__name__][name] = float(result)
            settings[score.__name__] = result.settings | {
                "split": "test",
                "hybrid_bank": len(bank),
                "prior": "standard normal" + ", uniform" * bool(run.method.discrete),
            }
    return {
        name: metrics.Score(values, settings[name])
        for name, values in distances.items()
    }


def sample(run: Run) -> list[pathlib.Path]:
    """Draws samples of the last checkpoint of `run` and writes ``samples.npz``.

    ``prior`` and ``hybrid`` ``[n, H, W, C]`` uint8 images with ``prior_codes`` and
    ``hybrid_codes`` ``[n, D]``, n being ``eval.num_samples``; ``chunk_hybrids``
    ``[chunks, s, H, W, C]`` with ``chunk_hybrid_codes``: a stored code of which one
    chunk of variables at a time is hybridised, and ``base``, that code's image, with
    ``base_code``; ``bank`` ``[N, D]``, the stored codes of training images;
    ``latent_groups``.

    Returns:
      The folders that were written to: one per model.
    """
    folders = []
    for model in load_trained(run):
        settings = model.run.config.eval
        rng = np.random.default_rng(settings.seed)
        bank = jnp.asarray(training_codes(model, rng))
        groups = model.run.method.latent_groups
        prior_key, hybrid_key, chunk_key = jax.random.split(
            jax.random.key(settings.seed), 3
        )
        count = settings.num_samples
        codes = {
            "prior": model.prior(prior_key, count),
            "hybrid": sampling.hybrid(hybrid_key, bank, count, groups=groups),
        }
        arrays = {f"{name}_codes": np.asarray(z) for name, z in codes.items()}
        arrays |= {name: model.decode_all(z) for name, z in codes.items()}
        chunks = min(_CHUNKS, len(groups))
        mixed = sampling.chunk_hybrids(
            chunk_key, bank[0], bank, _PER_CHUNK, groups=groups, chunks=chunks
        )
        arrays["chunk_hybrid_codes"] = np.asarray(mixed)
        arrays["chunk_hybrids"] = model.decode_all(mixed)
        arrays["base_code"] = np.asarray(bank[0])
        arrays["base"] = model.decode_all(bank[0])
        arrays["bank"] = np.asarray(bank)
        arrays["latent_groups"] = np.asarray(groups)
        model.run.workdir.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(model.run.workdir / "samples.npz", **arrays)
        folders.append(model.run.workdir)
    return folders


def training_codes(model: Trained, rng: np.random.Generator) -> np.ndarray:
    """Returns the codes ``[N, D]`` of ``eval.hybrid_bank`` random training images.

    Of all training images, where there are no more.
    """
    settings, dataset = model.run.config.eval, model.run.train_set
    count = min(settings.hybrid_bank, len(dataset.indices))
    indices = rng.choice(dataset.indices, count, replace=False)
    size = settings.batch_size
    parts = []
    for start in range(0, len(indices), size):
        chunk = indices[start : start + size]
        images = dataset.images(np.resize(chunk, size))
        parts.append(model.encode(images)[: len(chunk)])
    return np.concatenate(parts)


def _statistics(
    run: Run, name: str, batches: Iterator[np.ndarray], count: int
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
