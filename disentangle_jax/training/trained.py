"""A trained model as two functions: images to codes, and codes to images."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disentangle_jax import losses, models, sampling
from disentangle_jax.methods import Method, as_unit_interval
from disentangle_jax.training import lanes
from disentangle_jax.training import program as program_lib
from disentangle_jax.training.checkpoint import Checkpoints
from disentangle_jax.training.run import Run, has_checkpoint
from disentangle_jax.types import State


class Networks:
    """Encoder and decoder of a method, compiled once for all lanes.

    Attributes:
      encode: ``(state, images [B, H, W, C] uint8) -> (codes [B, D], errors)``, the
        posterior means and the reconstruction errors ``[B]`` by name.
      decode: ``(state, codes [B, D]) -> images [B, H, W, C]`` uint8. Of documents,
        ``[B, V]`` uint16 counts, it gives the probabilities of the words.
    """

    def __init__(self, method: Method):
        def image(logits):
            return jnp.clip(method.output(logits), 0.0, 1.0)

        def encode(state, images):
            x = as_unit_interval(images)
            mean = method.encode(state, x).mean
            logits = method.decode(state, mean)
            if method.feed == "documents":
                return mean, {"nll": losses.multinomial_reconstruction(x, logits)}
            errors = {"mse": losses.mse(x, image(logits))}
            if method.output is jax.nn.sigmoid:
                errors["bce"] = losses.bernoulli_reconstruction(x, logits)
            return mean, errors

        def decode(state, z):
            logits = method.decode(state, z)
            if method.feed == "documents":
                return method.output(logits)
            return (image(logits) * 255.0 + 0.5).astype(jnp.uint8)

        options = models.compiler_options()
        self.encode = jax.jit(encode, compiler_options=options)
        self.decode = jax.jit(decode, compiler_options=options)


class Trained(NamedTuple):
    """One trained model.

    Attributes:
      run: the run of this model alone (of its lane).
      state: its state at the newest checkpoint.
      networks: compiled encoder and decoder.
    """

    run: Run
    state: State
    networks: Networks

    def encode(self, images: np.ndarray) -> np.ndarray:
        """Returns the codes ``[B, D]`` of uint8 images ``[B, H, W, C]``."""
        return np.asarray(self.networks.encode(self.state, images)[0])

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Returns the uint8 images ``[B, H, W, C]`` of codes ``[B, D]``."""
        return np.asarray(self.networks.decode(self.state, codes))

    def prior(self, key: jax.Array, n: int) -> jax.Array:
        """Draws codes ``[n, D]`` from the prior of the method's variables."""
        method = self.run.method
        if method.prior is not None:
            return method.prior(key, self.state, n)
        continuous = sum(method.latent_groups) - sum(method.discrete)
        return sampling.prior(key, n, continuous, discrete=method.discrete)

    def decoded(self, codes: jax.Array | np.ndarray) -> Iterator[np.ndarray]:
        """Yields the images of codes ``[N, D]`` in batches.

        All of one size, the last filled up, so that one program serves.
        """
        size = self.run.config.eval.batch_size
        codes = np.asarray(codes)
        for start in range(0, len(codes), size):
            part = codes[start : start + size]
            yield self.decode(np.resize(part, (size, part.shape[1])))[: len(part)]

    def decode_all(self, codes: jax.Array | np.ndarray) -> np.ndarray:
        """Returns the images ``[..., H, W, C]`` of any number of codes ``[..., D]``."""
        images = np.concatenate(list(self.decoded(codes.reshape(-1, codes.shape[-1]))))
        return images.reshape(*codes.shape[:-1], *images.shape[1:])


def check_trained(run: Run) -> None:
    """Raises a ValueError where `run` has no checkpoint to evaluate."""
    if not has_checkpoint(run.workdir):
        raise ValueError(
            f"workdir: {run.workdir} holds no checkpoint yet; run --mode=train first."
        )


def restore_state(run: Run) -> State:
    """Returns the state that is scored, of the newest checkpoint of `run`."""
    check_trained(run)
    keep = run.config.train.keep_checkpoints
    like = program_lib.abstract_carry(run, program_lib.build(run))
    with Checkpoints(run.workdir / "checkpoints", keep=keep) as checkpoints:
        return program_lib.evaluated_state(run, checkpoints.restore(like))


def load_trained(run: Run) -> Iterator[Trained]:
    """Yields the trained model of a run, or those of its lanes in their order."""
    state, networks = restore_state(run), Networks(run.method)
    if not run.laned:
        yield Trained(run, state, networks)
        return
    for number, lane in enumerate(run.lanes):
        yield Trained(run.lane_run(lane), lanes.take(state, number), networks)
