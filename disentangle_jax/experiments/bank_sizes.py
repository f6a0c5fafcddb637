"""Distances of samples to real images by the number of stored codes.

Hybrid sampling ("Structure by Architecture", Sec. 2.3) loses quality in two steps: N
stored codes are fewer than all images, and recombining their variables ignores how
these depend on each other. Four kinds of images tell the steps apart: reconstructions
of test images; images of stored codes drawn as a whole, with replacement; hybrids of
the same stored codes; and images of prior codes. The second and third depend on N.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from disentangle_jax import reports, rows, sampling, training
from disentangle_jax.evaluation import Trained, examples, generation
from disentangle_jax.experiments import protocol

KINDS = ("reconstruction", "rows", "hybrid", "prior")

# Distances by kind and number of stored codes; "0" where it has no effect.
Distances = Mapping[str, Mapping[str, Mapping[str, float]]]


def check(config: ml_collections.ConfigDict) -> None:
    """Raises a ValueError where numbers of codes or images are out of range."""
    options, name = config.experiment, config.experiment.name
    if any(size < 1 for size in (*options.banks, options.bank_images - 1)):
        raise ValueError(
            f"{name}: `experiment.banks` must be positive and `experiment.bank_images` "
            f"at least 2, got {tuple(options.banks)} and {options.bank_images}."
        )
    images = len(training.load_split(config, "train").indices)
    if max(options.banks, default=0) > images:
        raise ValueError(
            f"{name}: `experiment.banks` must be at most the {images} training images, "
            f"got {max(options.banks)}."
        )


def measure(config: ml_collections.ConfigDict, model: protocol.Model) -> Distances:
    """Returns ``{kind: {N: {"fid": …, "kid": …}}}`` of a model, computed once.

    Args:
      config: config of the protocol: ``eval.fid_weights``, ``experiment.banks`` (the
        numbers N) and ``experiment.bank_images`` (images of each kind).
      model: the model.
    """
    options = config.experiment
    settings = {
        "eval.fid_weights": config.eval.fid_weights,
        "eval.fid_images": options.bank_images,
    }
    banks = sorted(set(options.banks))
    recipe = {**settings, "banks": banks}
    return protocol.kept(
        model, "bank_sizes", recipe, lambda: _measure(model, settings, banks)
    )


def _measure(
    model: protocol.Model, settings: Mapping[str, Any], banks: list[int]
) -> dict[str, dict[str, dict[str, float]]]:
    trained, count = model.load(), settings["eval.fid_images"]
    config = rows.apply(model.run.config, settings)
    run = dataclasses.replace(model.run, config=config)
    trained = trained._replace(run=run)
    reference = generation.reference_images(run)
    found: dict[str, dict[str, dict[str, float]]] = {kind: {} for kind in KINDS}
    for kind, size, codes in _codes(trained, reference.indices, banks, count):
        scores = generation.distances(trained, reference, f"{kind} {size}", codes)
        found[kind][str(size)] = {name: float(score) for name, score in scores.items()}
    return found


def _codes(
    model: Trained, test: np.ndarray, banks: list[int], count: int
) -> Iterator[tuple[str, int, jax.Array]]:
    """Yields kind, number of stored codes and the codes whose images are compared.

    A smaller bank is the beginning of a larger one.
    """
    run = model.run
    keys = jax.random.split(jax.random.key(run.config.eval.seed), 3)
    yield "reconstruction", 0, model.codes(run.test_set, test)
    yield "prior", 0, model.prior(keys[0], count)
    rng = np.random.default_rng(run.config.eval.seed)
    chosen = rng.choice(run.train_set.indices, banks[-1], replace=False)
    stored = jnp.asarray(model.codes(run.train_set, chosen))
    for size in banks:
        bank = stored[:size]
        drawn = jax.random.randint(keys[1], (count,), 0, size)
        yield "rows", size, bank[drawn]
        groups = examples.hybrid_groups(run)
        yield "hybrid", size, sampling.hybrid(keys[2], bank, count, groups=groups)


def figures(banks: Mapping[str, Distances]) -> Iterator[reports.Figure]:
    """Yields a figure of each model: FID of each kind of images by N."""
    for name, found in banks.items():
        sizes = [int(size) for size in found["hybrid"]]
        curves = {
            kind: {
                size: [found[kind].get(str(size), found[kind].get("0"))["fid"]]
                for size in sizes
            }
            for kind in KINDS
        }
        yield reports.Figure(
            f"banks_{name}",
            f"FID by the number of stored codes, {name}",
            "`rows`: images of stored codes drawn as a whole; `hybrid`: their "
            "variables recombined. The distance of `rows` from `reconstruction` is the "
            "price of storing only N codes, that of `hybrid` from `rows` the price of "
            "ignoring dependences between variables. First seed. Ours; not in the "
            "paper, which has N = 128.",
            reports.plots.lines(curves, "stored codes N", "FID", logarithmic=True),
        )
