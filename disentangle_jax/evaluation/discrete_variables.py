"""Evaluator of discrete variables: images of each class, and of continuous latents."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import jax
import numpy as np

from disentangle_jax import metrics
from disentangle_jax.evaluation.examples import Seen
from disentangle_jax.evaluation.protocol import Evaluated, define
from disentangle_jax.evaluation.sections import Section, Sheet
from disentangle_jax.evaluation.trained import Trained
from disentangle_jax.training import Run

_COLUMNS = 10
_VALUES = np.linspace(-3.0, 3.0, 9, dtype=np.float32)
_INFORMED = 1000  # Test images over which I(x; z_d) is computed.


@define(name="discrete_variables")
class DiscreteVariables:
    """Images of models with continuous and discrete latent variables."""

    def __init__(self, run: Run):
        self._run = run

    def evaluate(self, model: Trained, seen: Seen) -> Evaluated:
        """Returns images.

        ``classes`` ``[M, n, H, W, C]`` uint8: test images with each class in turn, the
        other variables unchanged. ``manipulations`` ``[D, steps, H, W, C]``: the first
        test image with each continuous latent at values from -3 to 3, latents with the
        largest mutual information I(x; z_d) first. ``manipulated`` ``[D]``: which
        latents these are, and ``manipulated_information`` ``[D]`` in nats.
        """
        codes, discrete = seen.codes, self._run.method.discrete
        dims = codes.shape[1] - sum(discrete)
        mean, log_var, _ = seen.posterior
        information = metrics.latent_information(
            mean[:_INFORMED, :dims],
            cast(jax.Array, log_var)[:_INFORMED],
            seed=int(self._run.config.eval.seed),
        )
        order = np.argsort(-information, kind="stable")
        moved = np.tile(codes[0], (dims, len(_VALUES), 1))
        for row, latent in enumerate(order):
            moved[row, :, latent] = _VALUES
        return Evaluated(
            arrays={
                "classes": model.decode_all(_each_class(codes[:_COLUMNS], discrete)),
                "manipulations": model.decode_all(moved),
                "manipulated": order,
                "manipulated_information": information[order],
            }
        )

    @staticmethod
    def sections(
        scores: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[Section]:
        discrete = scores["settings"]["latent_groups"][len(arrays["manipulated"]) :]
        name = "c{0}={1}" if len(discrete) > 1 else "class {1}"
        yield Sheet(
            "classes",
            "Classes of the discrete variables",
            "Each column is a test image whose continuous latents stay fixed; each row "
            "sets one class. Where class and style are disentangled, a row shows one "
            "class and a column one style.",
            arrays["classes"],
            [
                name.format(variable, category)
                for variable, size in enumerate(discrete, start=1)
                for category in range(1, size + 1)
            ],
            discrete,
        )
        found = zip(arrays["manipulated"], arrays["manipulated_information"])
        yield Sheet(
            "manipulations",
            "Continuous latents by mutual information",
            "Each row varies one latent of a test image from -3 to 3; class and other "
            "latents stay fixed. The label gives the latent's mutual information "
            "with the image in nats, largest first; latents near 0 are unused.",
            arrays["manipulations"],
            [f"z{latent + 1}  {nats:.2f}" for latent, nats in found],
        )


def _each_class(codes: np.ndarray, discrete: tuple[int, ...]) -> np.ndarray:
    """Returns codes ``[M, n, D]``: `codes` with each class of each variable in turn."""
    changed = np.tile(codes, (sum(discrete), 1, 1))
    start, row = codes.shape[1] - sum(discrete), 0
    for size in discrete:
        for category in range(size):
            changed[row, :, start : start + size] = np.eye(size)[category]
            row += 1
        start += size
    return changed
