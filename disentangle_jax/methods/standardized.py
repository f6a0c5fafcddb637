"""Methods that train on standardised images."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from disentangle_jax.methods.method import Batch, Hyper, Method, Terms, as_unit_interval
from disentangle_jax.types import Posterior, State


@dataclasses.dataclass(frozen=True, eq=False)
class Standardized:
    """A method trained on images with mean 0 and standard deviation 1 per channel.

    Michlo et al., "Overlooked Implications of the Reconstruction Loss", App. C.1. The
    loss compares standardised images; ``encode`` takes and ``output`` returns images in
    [0, 1], as for every :class:`Method`. Everything else is that of the method.

    Attributes:
      method: the method; the logits of its decoder must be images (``mse``,
        ``gaussian``, …), not Bernoulli log-odds.
      mean: mean of each channel of images in [0, 1].
      deviation: standard deviation of each channel, positive.
    """

    method: Method
    mean: Sequence[float]
    deviation: Sequence[float]

    def __post_init__(self) -> None:
        likelihood = self.method.likelihood
        if not likelihood.standardizable:
            raise ValueError(
                f"Standardized: `method` must not have a {likelihood.name} decoder, "
                "since standardised images do not lie in [0, 1]; set "
                "`method.reconstruction` to 'mse'."
            )
        if type(self.method).constants is not Method.constants:
            raise ValueError(
                "Standardized: `method` must not have constants, such as AbsAE's "
                "labelled images, which lie in [0, 1]; set `data.standardize` to False."
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def step(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[State, Terms]:
        return self.method.step(key, state, self._standardized(batch), hyper)

    def gradients(
        self, key: jax.Array, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[Any, dict, Terms]:
        return self.method.gradients(key, state, self._standardized(batch), hyper)

    def encode(self, state: State, x: jax.Array) -> Posterior:
        return self.method.encode(state, self._standardize(x))

    def output(self, logits: jax.Array) -> jax.Array:
        mean, deviation = self._moments(logits.ndim)
        return self.method.output(logits) * deviation + mean

    def _standardized(self, batch: Batch) -> Batch:
        return {
            name: self._standardize(value) if "image" in name else value
            for name, value in batch.items()
        }

    def _standardize(self, image: jax.Array) -> jax.Array:
        mean, deviation = self._moments(image.ndim)
        return (as_unit_interval(image) - mean) / deviation

    def _moments(self, ndim: int) -> tuple[jax.Array, jax.Array]:
        """Returns mean and deviation with the channels as the last of `ndim` axes."""
        shape = (1,) * (ndim - 1) + (len(self.mean),)
        mean, deviation = jnp.asarray(self.mean), jnp.asarray(self.deviation)
        return mean.reshape(shape), deviation.reshape(shape)
