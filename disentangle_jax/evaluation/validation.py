"""Evaluator of validation images, by which hyperparameters are chosen."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from disentangle_jax import training
from disentangle_jax.evaluation.examples import Examples, Seen
from disentangle_jax.evaluation.protocol import Evaluated, define
from disentangle_jax.evaluation.sections import Section
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.training import Run


@define(name="validation")
class Validation:
    """Scores of ``eval.scores`` of what the method reads out of validation images.

    The entry ``validation`` of the scores holds them. The validation images are divided
    as the test images are: a part fits the scores, the rest tests them.
    """

    def __init__(self, run: Run):
        # The run as if its test images were the validation images.
        images = training.load_split(run.config, "validation")
        self._examples = Examples(dataclasses.replace(run, test_set=images))
        self._images = images
        self._readout = jax.jit(run.method.readout)

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        del seen
        run = dataclasses.replace(model.run, test_set=self._images)
        model = model._replace(run=run)
        seen = Seen(model, self._examples)
        codes = self._readout(model.state, seen.codes)
        found = seen.scores(codes, run.config.eval.scores)
        return Evaluated(details={"validation": found})

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[Section]:
        yield from ()
