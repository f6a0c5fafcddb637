"""Which factor is learned at which capacity?

The capacity of one model grows linearly from 0. Whenever it reaches one of some values,
the KL divergence of each latent, the reconstruction error and the information of the
code on each factor are measured (Burgess et al., "Understanding disentangling in
beta-VAE", Fig. 3; the AnnealedVAE of the large study).
"""

from collections.abc import Mapping
from typing import Any

import ml_collections
import numpy as np

from disentangle_jax import losses, metrics, reports
from disentangle_jax.experiments import protocol, published

_IMAGES = 2000  # Test images that divergences are averaged over.
_SHOWN = 8  # Test images whose reconstructions are shown.

# What was measured at each capacity, for each seed.
Found = Mapping[float, list[dict[str, Any]]]


@protocol.define(
    question="Which factor does a VAE learn first as its capacity grows?",
    reference="Burgess et al., Understanding disentangling in beta-VAE, Fig. 3",
    options={
        "capacities": (2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0, 22.5, 25.0),
        "known": 0.1,
        "pairs": 5000,
    },
    reads=("train.num_steps", "data.seed"),
)
class Capacity(protocol.Protocol):
    """One stage per capacity, each starting from the one before.

    ``train.num_steps`` is the length of all stages together, in each of which the
    capacity grows at the same rate.
    """

    def stages(self, config, workdir):
        capacities = list(config.experiment.capacities)
        if not capacities or sorted({0, *capacities}) != [0, *capacities]:
            raise ValueError(
                "capacity: `experiment.capacities` must be positive and increasing, "
                f"got {tuple(capacities)}."
            )
        if config.method.name != "annealed_vae":
            raise ValueError(
                "capacity: `method.name` must be 'annealed_vae', whose objective keeps "
                f"the KL divergence at a capacity, got {config.method.name!r}."
            )
        protocol.check_empty(config, "lanes.sweep", "train.start_from")
        if not config.lanes.same_batches:
            raise ValueError(
                "capacity: `lanes.same_batches` must be True; the seed of a lane gives "
                "every stage the same images."
            )
        if "mig" not in config.eval.scores:
            raise ValueError(
                "capacity: `eval.scores` must contain 'mig', whose mutual information "
                "shows which factors are known."
            )
        stages, train = [], config.train
        for number, (old, new) in enumerate(zip([0.0, *capacities], capacities)):
            share = train.num_steps * (new - old) / capacities[-1]
            dispatches = max(1, round(share / train.steps_per_dispatch))
            steps = dispatches * train.steps_per_dispatch
            fields = {
                "method.c_start": float(old),
                "method.c_max": float(new),
                "method.threshold": float(steps),
                "train.num_steps": steps,
                "data.seed": config.data.seed + number,  # Other images in each stage.
            }
            before = _name(old) if number else ""
            stages.append(protocol.Stage(_name(new), fields, after=before))
        return stages

    def result(self, config, workdir, models):
        options = config.experiment
        found = {c: _measure(models[_name(c)]) for c in map(float, options.capacities)}
        test_set = models[_name(options.capacities[0])][0].run.test_set
        importance = {}
        if test_set.is_grid:
            importance = metrics.factor_importance(test_set, pairs=options.pairs)
        factors = test_set.factor_names
        values = {
            "capacities": {f"{c:g}": seeds for c, seeds in found.items()},
            "factor_importance": dict(importance),
        }
        parts = [
            _table(found, factors, importance, options.known),
            *_figures(found, factors),
            _panel({c: models[_name(c)][0] for c in found}),
            _deviations(config),
        ]
        numbers = {
            protocol.folder(model, workdir): {
                f"known.{factor}": share for factor, share in zip(factors, one["known"])
            }
            for capacity, seeds in found.items()
            for model, one in zip(models[_name(capacity)], seeds)
        }
        title = f"Capacity on {config.data.name}"
        return protocol.Result(title, values, parts, numbers)


def _name(capacity: float) -> str:
    return f"capacity-{capacity:g}"


def _measure(models: list[protocol.Model]) -> list[dict[str, Any]]:
    """Returns divergences, error and information on each factor, for each seed."""
    run = models[0].run
    rng = np.random.default_rng(run.config.eval.seed)
    indices = rng.permutation(run.test_set.indices)[:_IMAGES]
    images = run.test_set.images(indices)
    entropy = np.log(run.test_set.factor_sizes)
    found = []
    for model in models:
        posterior = model.load().posterior(images)
        kl = losses.gaussian_kl_per_dim(posterior.mean, posterior.log_var)
        information = np.asarray(model.scores["metrics"]["mig"]["matrices"]["mi"])
        found.append(
            {
                "divergences": kl.mean(0).tolist(),
                "mse": model.scores["reconstruction"]["mse"],
                "known": (information.max(axis=0) / entropy).tolist(),
                "untrained": protocol.untrained(model.scores),
            }
        )
    return found


def _figures(found: Found, factors: tuple[str, ...]) -> list[reports.Figure]:
    axis = "capacity (nats)"
    divergences = np.array([seeds[0]["divergences"] for seeds in found.values()])
    latents = {
        f"z{latent + 1}": {c: [row[latent]] for c, row in zip(found, divergences)}
        for latent in np.argsort(-divergences[-1])
    }
    errors = {"mse": {c: [s["mse"] for s in seeds] for c, seeds in found.items()}}
    by_error = {
        name: {seeds[0]["mse"]: kl for seeds, kl in zip(found.values(), line.values())}
        for name, line in latents.items()
    }
    return [
        reports.Figure(
            "divergences",
            "KL divergence of each latent against the capacity",
            "First seed, in nats; sorted by the last capacity. Latents become active "
            "one after the other.",
            reports.plots.lines(latents, axis, "KL (nats)"),
        ),
        reports.Figure(
            "divergences_by_error",
            "KL divergence of each latent against the reconstruction error",
            "First seed, in nats; each point is a capacity.",
            reports.plots.lines(by_error, "mse", "KL (nats)"),
        ),
        reports.Figure(
            "factors",
            "Information of the code on each factor",
            "Mutual information of the most informative latent, as a share of the "
            "factor's entropy; mean and standard deviation over seeds.",
            reports.plots.lines(
                {factor: _shares(found, k) for k, factor in enumerate(factors)},
                axis,
                "share known",
            ),
        ),
        reports.Figure(
            "errors",
            "Reconstruction error against the capacity",
            "Mean squared error on test images.",
            reports.plots.lines(errors, axis, "mse"),
        ),
    ]


def _panel(models: Mapping[float, protocol.Model]) -> reports.Figure:
    """Returns images and their reconstructions at each capacity, of the first seed."""
    run = next(iter(models.values())).run
    rng = np.random.default_rng(run.config.eval.seed)
    images = run.test_set.images(rng.permutation(run.test_set.indices)[:_SHOWN])
    rows = [images]
    for model in models.values():
        trained = model.load()
        rows.append(trained.decode_all(trained.posterior(images).mean))
    labels = ["image", *(f"{capacity:g} nats" for capacity in models)]
    return reports.Figure(
        "reconstructions",
        "Reconstructions as the capacity grows",
        "Images above, below them reconstructions (from mean codes) at each capacity. "
        "In the paper the position appears at 3.1 nats, the scale at 7.3, the shape at "
        "15.4 and the rotation at 23.8.",
        reports.grids.png(reports.grids.sheet(np.stack(rows), labels)),
    )


def _deviations(config: ml_collections.ConfigDict) -> reports.Text:
    lines = [
        "The paper's Fig. 3 restricts the information on the known factors, which its "
        "decoder sees; here the encoder sees images, as in the paper's other figures, "
        "so that the KL divergences are those of latents. The table says which factor "
        "a code knows.",
        "The paper does not give the batch size; that of the 12,600-model study is "
        f"used: {config.train.batch_size}.",
        "Training stops at each capacity, and continues with the same noise and other "
        "images.",
    ]
    if published.original(config.data.name) != config.data.name:
        lines.append(f"Images are those of {config.data.name}, not the published file.")
    return protocol.deviations(*lines)


def _shares(found: Found, factor: int) -> dict[float, list[float]]:
    return {c: [seed["known"][factor] for seed in s] for c, s in found.items()}


def first_known(shares: Mapping[float, list[float]], threshold: float) -> float | None:
    """Returns the capacity from which on a factor is known, or None.

    Args:
      shares: for each capacity, in increasing order, the share over seeds.
      threshold: the mean share from which on a factor counts as known.
    """
    answer = None
    for capacity, values in shares.items():
        if np.mean(values) < threshold:
            answer = None
        elif answer is None:
            answer = capacity
    return answer


def _table(
    found: Found,
    factors: tuple[str, ...],
    importance: Mapping[str, float],
    threshold: float,
) -> reports.Table:
    rows = []
    for k, factor in enumerate(factors):
        shares = _shares(found, k)
        first = first_known(shares, threshold)
        rows.append(
            [
                factor,
                "never" if first is None else f"{first:g}",
                protocol.spread(list(shares.values())[-1]),
                f"{importance[factor]:.4f}" if factor in importance else "-",
            ]
        )
    rows.sort(key=lambda row: (row[1] == "never", float(row[1].replace("never", "0"))))
    return reports.Table(
        "factors",
        "The capacity from which on each factor is known",
        f"Known: from this capacity on, a latent has at least {threshold:.0%} of the "
        "factor's entropy. The mean distance of images along the factor predicts the "
        "order in which a reconstruction loss learns them.",
        ("factor", "known from (nats)", "share at the end", "distance"),
        rows,
    )
