"""What a batch carries: the arrays that a method trains on.

A method declares one input, training asks it for the batches. Yours is a subclass of
:class:`Input`.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict, Unpack

import jax
import numpy as np

from disentangle_jax.data.dataset import Dataset
from disentangle_jax.data.device import Draw, device_sampler
from disentangle_jax.data.pairing import pair_factors
from disentangle_jax.data.streaming import pipeline
from disentangle_jax.data.text import Corpus

Batch = dict[str, np.ndarray]
Shapes = dict[str, jax.ShapeDtypeStruct]


class StreamOptions(TypedDict):
    """The arguments of `Input.stream` that `data.pipeline` takes, too."""

    batch_size: int
    seed: int
    start_step: int
    num_steps: int | None
    prefetch: int
    process_index: int
    process_count: int


class Input:
    """The arrays of a training batch and where they come from.

    ``settings`` is the config section ``data``: a mapping with the fields ``name``,
    ``changed_factors`` and ``num_labels``.

    Attributes:
      observation: name of the array that the networks see.
      can_be_on_device: whether :meth:`on_device` can make the batches.
    """

    observation: str = "image"
    can_be_on_device: bool = False

    def check(self, dataset: Dataset, settings: Mapping[str, Any]) -> None:
        """Raises ValueError where the dataset cannot supply the batches."""
        if isinstance(dataset, Corpus):
            raise _wrong_kind(settings, "images", "documents")

    def shapes(self, dataset: Dataset, batch_size: int) -> Shapes:
        """Returns the shape and type of each array of a batch."""
        raise NotImplementedError

    def stream(
        self,
        dataset: Dataset,
        settings: Mapping[str, Any],
        *,
        batch_size: int,
        seed: int,
        start_step: int,
        num_steps: int | None,
        prefetch: int,
        process_index: int,
        process_count: int,
    ) -> Iterator[Batch]:
        """Yields batches; batch ``t`` is a function of the seed and ``t`` alone.

        Args:
          dataset: the training split.
          settings: the config section ``data``.
          batch_size: size of the *global* batch, over all processes.
          seed: seed of the order.
          start_step: step of the first batch.
          num_steps: number of batches; None for an endless stream.
          prefetch: number of batches prepared in advance.
          process_index: which shard of each batch to yield.
          process_count: number of shards; in order, they concatenate to the batch.
        """
        raise NotImplementedError

    def on_device(
        self, dataset: Dataset, settings: Mapping[str, Any]
    ) -> tuple[Draw, dict]:
        """Returns ``(draw, arrays)`` as :func:`device_sampler` does.

        Raises:
          ValueError: such batches must be streamed.
        """
        raise ValueError(
            "config: `train.input` must be 'stream' for methods that see labels or "
            "documents."
        )


@dataclasses.dataclass(frozen=True)
class Images(Input):
    """``image``, uint8 ``[B, H, W, C]``."""

    can_be_on_device = True

    def shapes(self, dataset: Dataset, batch_size: int) -> Shapes:
        shape = (batch_size, *dataset.image_shape)
        return {"image": jax.ShapeDtypeStruct(shape, "uint8")}

    def stream(
        self,
        dataset: Dataset,
        settings: Mapping[str, Any],
        **stream: Unpack[StreamOptions],
    ) -> Iterator[Batch]:
        batches = pipeline(dataset, **stream)
        return ({"image": batch["image"]} for batch in batches)

    def on_device(
        self, dataset: Dataset, settings: Mapping[str, Any]
    ) -> tuple[Draw, dict]:
        return device_sampler(dataset)


@dataclasses.dataclass(frozen=True)
class ImagePairs(Input):
    """``image`` and ``image2``, which differs in ``changed_factors`` factors."""

    can_be_on_device = True

    def check(self, dataset: Dataset, settings: Mapping[str, Any]) -> None:
        super().check(dataset, settings)
        _check_factors(dataset, settings)
        factors = np.zeros((1, len(dataset.factor_sizes)), np.int32)
        sizes, changed = dataset.factor_sizes, _changed(settings)
        try:
            jax.eval_shape(
                lambda key: pair_factors(key, factors, sizes, k=changed),
                jax.random.key(0),
            )
        except ValueError as error:
            raise ValueError(f"needs another `data.changed_factors`: {error}") from None
        if not dataset.is_grid:  # Some images of a table may have no partner.
            first = dataset.indices[:256]
            dataset.partners(jax.random.key(0), first, _changed(settings))

    def shapes(self, dataset: Dataset, batch_size: int) -> Shapes:
        image = Images().shapes(dataset, batch_size)["image"]
        return {"image": image, "image2": image}

    def stream(
        self,
        dataset: Dataset,
        settings: Mapping[str, Any],
        **stream: Unpack[StreamOptions],
    ) -> Iterator[Batch]:
        batches = pipeline(dataset, pairs=_changed(settings), **stream)
        return (
            {name: batch[name] for name in ("image", "image2")} for batch in batches
        )

    def on_device(
        self, dataset: Dataset, settings: Mapping[str, Any]
    ) -> tuple[Draw, dict]:
        return device_sampler(dataset, pairs=_changed(settings))


def _changed(settings: Mapping[str, Any]) -> int | str:
    """Returns the config's number of factors that differ, or the name of a rule."""
    changed = settings["changed_factors"]
    return int(changed) if changed.isdigit() else changed


@dataclasses.dataclass(frozen=True)
class LabelledImages(Input):
    """``image``, and ``labelled_image`` with ``labels``, int32 ``[B, K]``.

    The labelled images are ``num_labels`` images that the seed chooses, which are
    repeated in a fixed order.
    """

    def check(self, dataset: Dataset, settings: Mapping[str, Any]) -> None:
        count = len(dataset.indices)
        if settings["num_labels"] > count:
            raise ValueError(
                f"`data.num_labels` must be at most the {count} training "
                f"images of {settings['name']}, got {settings['num_labels']}."
            )
        super().check(dataset, settings)
        _check_factors(dataset, settings)

    def shapes(self, dataset: Dataset, batch_size: int) -> Shapes:
        image = Images().shapes(dataset, batch_size)["image"]
        labels = jax.ShapeDtypeStruct((batch_size, len(dataset.factor_sizes)), "int32")
        return {"image": image, "labelled_image": image, "labels": labels}

    def stream(
        self,
        dataset: Dataset,
        settings: Mapping[str, Any],
        **stream: Unpack[StreamOptions],
    ) -> Iterator[Batch]:
        batch_size, shard_index = stream["batch_size"], stream["process_index"]
        rng = np.random.default_rng([stream["seed"], settings["num_labels"]])
        known = rng.choice(dataset.indices, settings["num_labels"], replace=False)
        shard = batch_size // stream["process_count"]
        rows = np.arange(shard_index * shard, (shard_index + 1) * shard)
        batches = pipeline(dataset, **stream)
        for step, batch in enumerate(batches, stream["start_step"]):
            chosen = known[(step * batch_size + rows) % len(known)]
            yield {
                "image": batch["image"],
                "labelled_image": dataset.images(chosen),
                "labels": dataset.factors(chosen).astype(np.int32),
            }


@dataclasses.dataclass(frozen=True)
class WordCounts(Input):
    """``counts``, uint16 ``[B, V]``, of a :class:`Corpus`."""

    observation = "counts"

    def check(self, dataset: Dataset, settings: Mapping[str, Any]) -> None:
        if not isinstance(dataset, Corpus):
            raise _wrong_kind(settings, "documents", "images")
        empty = int((dataset.lengths[dataset.indices] == 0).sum())
        if empty:
            raise ValueError(
                f"`data.name`: {empty} training documents of "
                f"{settings['name']} have no words; leave them out with "
                "Corpus.without_empty()."
            )

    def shapes(self, dataset: Dataset, batch_size: int) -> Shapes:
        shape = (batch_size, *dataset.image_shape)
        return {"counts": jax.ShapeDtypeStruct(shape, "uint16")}

    def stream(
        self,
        dataset: Dataset,
        settings: Mapping[str, Any],
        **stream: Unpack[StreamOptions],
    ) -> Iterator[Batch]:
        batches = pipeline(dataset, **stream)
        return ({"counts": batch["image"]} for batch in batches)


def _wrong_kind(settings: Mapping[str, Any], needed: str, held: str) -> ValueError:
    return ValueError(f"needs {needed}, and {settings['name']} holds {held}.")


def _check_factors(dataset: Dataset, settings: Mapping[str, Any]) -> None:
    if not dataset.factor_sizes:
        raise ValueError(
            f"needs a dataset with factors, and {settings['name']} has none."
        )
    if dataset.continuous:
        raise ValueError(
            f"needs factors with labels, and {settings['name']} has continuous ones. "
            "Bin them first."
        )
