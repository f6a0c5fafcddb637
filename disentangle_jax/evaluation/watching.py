"""Fast scores of a run while it trains, every ``eval.every`` steps.

The scores are those of ``eval.scores`` that describe themselves as fast, and what the
run's evaluators report that can be watched (``define(watched=…)``). They are computed
for a few images of the validation split, the same at every step, and are rough: more
images, and the slower scores, follow when the run is evaluated.
"""

import dataclasses
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax.typing import ArrayLike

from disentangle_jax import data, metrics, rows, training
from disentangle_jax.evaluation import protocol
from disentangle_jax.evaluation.examples import Examples, Seen
from disentangle_jax.evaluation.sections import latent_labels
from disentangle_jax.evaluation.trained import Networks, Trained
from disentangle_jax.training import Run
from disentangle_jax.types import State

# Validation images that fit scores, and further ones that test them.
_FITTED, _TESTED = 1000, 200


def watch(run: Run) -> training.Watch | None:
    """Returns what ``training.train(run, watch=…)`` logs; None if none is asked for.

    Its numbers are named ``eval/mig``, ``eval/kl``, ``eval/kl/z1`` and so on;
    ``eval/loss`` is the objective of one batch of validation images.
    """
    dataset = run.validation_set  # None unless something is to be watched.
    return None if dataset is None else _Watch(run, dataset)


class _Watch:
    def __init__(self, run: Run, dataset: data.Dataset):
        settings = run.config.eval
        fast = [n for n in settings.scores if metrics.describe(n).cost == "fast"]
        fields = {
            "eval.scores": tuple(fast),
            "eval.num_train": min(settings.num_train, _FITTED),
            "eval.num_test": min(settings.num_test, _TESTED),
            "eval.interventions": "codes",
        }
        small = dataclasses.replace(
            run,
            config=rows.apply(run.config, fields),
            test_set=dataset,
        )
        self._examples = Examples(small)
        kept = _in_memory(dataset, self._examples.indices)
        small = dataclasses.replace(small, test_set=kept)
        self._evaluators = {
            name: protocol.get(name)(small)
            for name in protocol.evaluators(run)
            if protocol.describe(name).watched is not None
        }
        self._models, self._networks = small.models(), Networks(run.method)
        self._loss = _validation_loss(run, dataset)

    def __call__(
        self, state: State, lane: int
    ) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        own, state = self._models[lane], training.take(state, lane)
        model = Trained(own, state, self._networks)
        seen = Seen(model, self._examples, label="")
        numbers = {"loss": float(self._loss(state, own.lanes[0].hyper))}
        images = {}
        for name, evaluator in self._evaluators.items():
            found = evaluator.evaluate(model, seen)
            numbers |= found.reconstruction
            for score, values in found.scores.items():
                numbers |= {
                    score if key == score else f"{score}.{key}": float(value)
                    for key, value in values.items()
                }
            for array in protocol.describe(name).watched or ():
                shown = found.arrays.get(array)
                if shown is None:
                    continue
                if shown.ndim == 1:
                    labels = latent_labels(own.method.latent_groups)
                    numbers |= {
                        f"{array}/{label}": float(value)
                        for label, value in zip(labels, shown)
                    }
                else:
                    images[array] = _tiled(shown)
        logged = {
            f"eval/{name}": value
            for name, value in numbers.items()
            if protocol.describe_number(name, evaluators=self._evaluators).compared
        }
        return logged, images


def _validation_loss(
    run: Run, dataset: data.Dataset
) -> Callable[[State, Mapping[str, float]], jax.Array]:
    """Returns ``(state, hyper) -> loss``, the objective of a fixed batch.

    The batch is that of a training step, but of validation images.
    """
    settings = dict(run.config.data)
    settings["num_labels"] = min(settings["num_labels"], len(dataset.indices))
    stream = run.method.inputs.stream(
        dataset,
        settings,
        batch_size=min(run.config.train.batch_size, len(dataset.indices)),
        seed=run.config.eval.seed,
        start_step=0,
        num_steps=1,
        prefetch=1,
        process_index=0,
        process_count=1,
    )
    batch = {**next(iter(stream)), **run.constants()}
    key = jax.random.key(run.config.eval.seed)

    @jax.jit
    def loss(state: State, hyper: Mapping[str, float]) -> jax.Array:
        now = training.scheduled(run.config.train.schedules, hyper, state.step)
        # The compiler leaves out the update, which nothing uses.
        return run.method.step(key, state, batch, now)[1]["loss"]

    return loss


def _in_memory(dataset: data.Dataset, indices: np.ndarray) -> data.Dataset:
    """Returns a dataset that holds the images of some indices, and has no others."""
    kept, ordered = dataset.narrow(indices), np.sort(indices)
    images = dataset.images(ordered)

    def held(wanted: ArrayLike) -> np.ndarray:
        return images[np.searchsorted(ordered, np.asarray(wanted))]

    # Of this object alone, whose other methods read the images by it.
    kept.images = held  # type: ignore[method-assign, assignment]
    return kept


def _tiled(images: np.ndarray) -> np.ndarray:
    """Returns images ``[…, columns, H, W, C]`` as one image, in rows of `columns`."""
    *_, columns, height, width, channels = images.shape
    rows = images.reshape(-1, columns, height, width, channels)
    return rows.swapaxes(1, 2).reshape(-1, columns * width, channels)
