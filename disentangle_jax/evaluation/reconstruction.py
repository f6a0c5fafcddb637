"""Evaluator of reconstructions: mean errors, and test images beside their output."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from disentangle_jax.evaluation.examples import Seen
from disentangle_jax.evaluation.protocol import Evaluated, Number, define
from disentangle_jax.evaluation.sections import Section, Sheet
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.training import Run

_SHOWN, _COMPARED = 10, 2000


@define(
    name="reconstruction",
    scores={
        "mse": Number(
            "reconstruction: mean squared error per pixel (lower is better)", "lower"
        ),
        "bce": Number(
            "reconstruction: cross-entropy, nats per image (lower is better)", "lower"
        ),
        "mse_of_mean_image": Number(
            "the mse of predicting the mean training image, for reference",
            "lower",
            compared=False,
        ),
    },
    watched=("reconstructions",),
)
class Reconstruction:
    """Errors of reconstructing test images from their codes."""

    def __init__(self, run: Run):
        self._run = run
        self._reference: float | None = None

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        errors = {
            name: float(values.mean(dtype=np.float64))
            for name, values in seen.errors.items()
        }
        if self._reference is None:  # All models have the same images.
            self._reference = self._mean_image_mse(seen)
        errors["mse_of_mean_image"] = self._reference
        originals = seen.images(_SHOWN)
        return Evaluated(
            reconstruction=errors,
            arrays={
                "originals": originals,
                "reconstructions": model.decode_all(seen.codes[: len(originals)]),
            },
        )

    def _mean_image_mse(self, seen: Seen) -> float:
        """Returns the error of answering with the mean training image."""
        mean = (self._run.train_set.images(seen.examples.mean) / 255.0).mean(axis=0)
        return float(np.square(seen.images(_COMPARED) / 255.0 - mean).mean())

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[Section]:
        yield Sheet(
            "reconstructions",
            "Reconstructions",
            "Test images above, their reconstructions below.",
            np.stack([arrays["originals"], arrays["reconstructions"]]),
            ("image", "model"),
            shared_rows=1,
        )
