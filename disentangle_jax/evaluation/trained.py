"""A trained model: encoder, decoder and prior of a checkpoint."""

import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from disentangle_jax import data, losses, models, sampling, training
from disentangle_jax.batching import in_batches
from disentangle_jax.methods import Method, as_unit_interval
from disentangle_jax.training import Run
from disentangle_jax.types import Posterior, State, unknown_name


class Networks:
    """Encoder and decoder of a method, compiled once for all models of a run.

    Attributes:
      encode: ``(state, images [B, H, W, C] uint8) -> (Posterior, errors)``; errors
        ``[B]`` of reconstructing from the posterior mean, by name: ``mse`` (mean over
        pixels) for images, and the likelihood's own (``bce`` or ``nll``, in nats).
      decode: ``(state, codes [B, D]) -> images [B, H, W, C]`` uint8. For documents,
        ``[B, V]`` uint16 counts, it returns the probabilities of the words.
    """

    def __init__(self, method: Method):
        likelihood = method.likelihood
        images = method.inputs.observation == "image"

        def mean_image(logits: jax.Array) -> jax.Array:
            return jnp.clip(method.output(logits), 0.0, 1.0)

        def encode(
            state: State, observations: jax.Array
        ) -> tuple[Posterior, dict[str, jax.Array]]:
            x = as_unit_interval(observations)
            posterior = method.encode(state, x)
            logits = method.decode(state, posterior.mean)
            errors = {}
            if images:
                errors["mse"] = losses.mse(x, mean_image(logits))
            if likelihood.error is not None:
                errors[likelihood.error] = likelihood.loss(x, logits)
            return posterior, errors

        def decode(state: State, z: jax.Array) -> jax.Array:
            logits = method.decode(state, z)
            if not images:
                return method.output(logits)
            return (mean_image(logits) * 255.0 + 0.5).astype(jnp.uint8)

        options = models.compiler_options()
        self.encode = jax.jit(encode, compiler_options=options)
        self.decode = jax.jit(decode, compiler_options=options)


class Trained(NamedTuple):
    """One trained model.

    Attributes:
      run: the run of this model alone.
      state: its state at the newest checkpoint, with averaged parameters where kept.
      networks: compiled encoder and decoder.
      stored_card: the card of an exported model, with its scores.
    """

    run: Run
    state: State
    networks: Networks
    stored_card: str = ""

    @property
    def params(self) -> dict[str, Any]:
        """Parameters of the networks."""
        return self.state.params

    @property
    def shows_images(self) -> bool:
        """Whether the model decodes to images, not to words."""
        return self.run.method.inputs.observation == "image"

    def encode(self, images: np.ndarray) -> np.ndarray:
        """Returns the codes ``[B, D]`` of images ``[B, H, W, C]``.

        Args:
          images: uint8 images, or floats in [0, 1], which are rounded to them;
            documents are counts of words. Any number, in batches.
        """
        return np.asarray(self.posterior(images).mean)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Returns the uint8 images ``[B, H, W, C]`` of codes ``[B, D]``."""
        return np.asarray(self.networks.decode(self.state, codes))

    def prior(self, key: jax.Array, n: int) -> jax.Array:
        """Draws codes ``[n, D]`` from the prior."""
        return self.run.method.prior(key, self.state, n)

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        """Returns ``n`` uint8 images ``[n, H, W, C]`` decoded from the prior."""
        return self.decode_all(self.prior(jax.random.key(seed), n))

    def traverse(
        self, code: np.ndarray, codes: np.ndarray | None = None, *, steps: int = 9
    ) -> np.ndarray:
        """Returns images ``[D, steps, H, W, C]`` that vary one latent at a time.

        Args:
          code: ``[D]``, the code to start from.
          codes: ``[N, D]``; each latent runs from its minimum to its maximum over
            these. None for -2 … 2, two standard deviations of the prior.
          steps: number of values of a latent; a quantised one takes all of its values.
        """
        method = self.run.method
        values = method.latent_values(self.state, codes, steps)
        walks = sampling.traverse_values(
            jnp.asarray(code), values, discrete=method.discrete
        )
        return self.decode_all(walks)

    @property
    def card(self) -> str:
        """What the model is, as a Markdown list: method, network, data and training."""
        if self.stored_card:
            return self.stored_card
        config, known = self.run.config, self.run.train_set
        train = config.train
        hypers = ", ".join(f"{k} {v:g}" for k, v in self.run.lanes[0].hyper.items())
        count = sum(leaf.size for leaf in jax.tree.leaves(self.params))
        factors = ", ".join(known.factor_names) or "none"
        facts = {
            "method": config.method.name,
            "hyperparameters": hypers,
            "network": f"{config.model.name}, {count:,} parameters",
            "latents": f"{sum(self.run.method.latent_groups)}",
            "dataset": f"{known.name}, {len(known.indices):,} training images "
            f"{known.image_shape}, factors: {factors}",
            "training": f"{int(self.state.step):,} of {train.num_steps:,} steps, "
            f"batches of {train.batch_size}, seed {train.seed}",
        }
        return "\n".join(f"- {name}: {fact}" for name, fact in facts.items() if fact)

    def posterior(self, images: np.ndarray) -> Posterior:
        """Returns the posteriors of any number of images (as `encode` takes them)."""
        images, shape = np.asarray(images), self.run.train_set.image_shape
        if images.shape[1:] != shape:
            expected = ", ".join(map(str, shape))
            raise ValueError(
                f"encode: `images` must have shape [B, {expected}], got {images.shape}."
            )
        if self.shows_images:
            images = data.as_bytes("encode: `images`", images)
        return in_batches(
            lambda batch: self.networks.encode(self.state, batch)[0],
            images,
            min(self.run.config.eval.batch_size, len(images)),
        )

    def apply(
        self,
        function: Callable[[State, np.ndarray], Any],
        dataset: data.Dataset,
        indices: np.ndarray,
        *,
        label: str = "",
    ) -> Any:
        """Returns ``function(state, images)`` of a dataset's images, in batches.

        Args:
          function: maps the state and ``eval.batch_size`` uint8 images to a pytree of
            arrays with a row per image; compiled by the caller.
          dataset: where the images are.
          indices: ``[N]``, which of them.
          label: where given, progress is shown under it.

        Returns:
          A pytree of NumPy arrays ``[N, …]``.
        """
        shown = {}
        if label:
            shown["done"] = training.Progress(
                label, len(indices), unit="examples"
            ).update
        return in_batches(
            lambda batch: function(self.state, dataset.images(batch)),
            indices,
            self.run.config.eval.batch_size,
            **shown,
        )

    def codes(self, dataset: data.Dataset, indices: np.ndarray) -> np.ndarray:
        """Returns the codes ``[N, D]`` of a dataset's images."""
        return self.apply(self.networks.encode, dataset, indices)[0].mean

    def decoded(self, codes: jax.Array | np.ndarray) -> Iterator[np.ndarray]:
        """Yields the images of codes ``[N, D]`` in batches."""
        size = self.run.config.eval.batch_size
        codes = np.asarray(codes)
        for start in range(0, len(codes), size):
            yield in_batches(self.decode, codes[start : start + size], size)

    def decode_all(self, codes: jax.Array | np.ndarray) -> np.ndarray:
        """Returns the images ``[..., H, W, C]`` of any number of codes ``[..., D]``."""
        images = np.concatenate(list(self.decoded(codes.reshape(-1, codes.shape[-1]))))
        return images.reshape(*codes.shape[:-1], *images.shape[1:])


def encode_images(
    model: Trained, dataset: data.Dataset, indices: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns codes ``[N, D]`` and reconstruction errors ``[N]`` of a dataset's images.

    Args:
      model: the trained model.
      dataset: where the images are.
      indices: ``[N]``, which of them.

    Returns:
      Codes (posterior means), and errors by name; see :class:`Networks`.
    """
    encode = model.networks.encode
    posterior, errors = model.apply(encode, dataset, indices, label="encoding")
    return posterior.mean, errors


def check_trained(run: Run) -> None:
    """Raises a ValueError where `run` has no checkpoint to evaluate."""
    if not training.has_checkpoint(run.workdir):
        raise ValueError(
            f"workdir: {run.workdir} holds no checkpoint yet; train it first."
        )


def load_models(run: Run) -> Iterator[Trained]:
    """Yields the trained models of a run, one per lane in their order."""
    check_trained(run)
    state, networks = training.restore(run), Networks(run.method)
    for number, own in enumerate(run.models()):
        yield Trained(own, training.take(state, number), networks)


def fit(
    config: ml_collections.ConfigDict,
    workdir: str | os.PathLike,
    *,
    dataset: Any = None,
) -> Trained:
    """Trains a config and returns the model; a run found in `workdir` is continued.

    Args:
      config: a complete config of one model, e.g. ``config.load("sae:quick")``.
      workdir: folder of the run.
      dataset: as in :func:`training.prepare`.

    Raises:
      ValueError: the config asks for several models, which :func:`load_models` yields.
    """
    run = training.prepare(config, workdir, dataset=dataset)
    if run.laned:
        raise ValueError(
            f"fit: `config` must be that of one model, got {len(run.lanes)} lanes; use "
            "training.train and evaluation.load_models."
        )
    from disentangle_jax.evaluation.watching import watch  # which loads this module

    training.train(run, watch=watch(run))
    return next(load_models(run))


def load(workdir: str | os.PathLike, *, with_dataset: bool = False) -> Trained:
    """Returns the trained model of a run's folder, or of the folder of one lane.

    Args:
      workdir: the folder.
      with_dataset: whether to load the dataset too. Without, it need not be there; see
        :func:`training.open_run`.

    Raises:
      ValueError: the folder holds no trained run, or one with several models.
    """
    workdir = pathlib.Path(workdir)
    lane = ""
    if workdir.absolute().parent.name == "lanes" and not training.has_checkpoint(
        workdir
    ):
        lane, workdir = workdir.name, workdir.absolute().parents[1]
    if with_dataset:
        run = training.prepare(training.read_config(workdir), workdir)
    else:
        run = training.open_run(workdir)
    known = [own.name for own in run.lanes]
    if run.laned and not lane:
        raise ValueError(
            f"load: {workdir} holds {len(known)} models; name the folder of one, such "
            f"as {workdir / 'lanes' / known[0]}."
        )
    if lane not in known:
        raise unknown_name("load", "workdir", lane, known)
    return list(load_models(run))[known.index(lane)]
