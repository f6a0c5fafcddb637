"""Which factor is learned at which capacity (Burgess et al., "Understanding
disentangling in beta-VAE", Sec. 4; AnnealedVAE of the large study).

A model is trained at a capacity of C nats, then goes on at the next larger one, and so
on. The KL divergence of each latent, the reconstruction error and what the code knows
of each factor are measured at each capacity.
"""

import json
import pathlib
from collections.abc import Mapping

import jax
import ml_collections
import numpy as np

from disentangle_jax import losses, metrics, reports, training
from disentangle_jax.experiments import _systems
from disentangle_jax.experiments._protocol import (
    Protocol,
    Result,
    Stage,
    spread,
    without_experiment,
)
from disentangle_jax.methods import as_unit_interval

_IMAGES = 2000  # Test images that divergences are averaged over.


def _stages(config: ml_collections.ConfigDict, workdir: pathlib.Path) -> list[Stage]:
    options = config.experiment
    capacities = list(options.capacities)
    if not capacities or capacities != sorted(set(capacities)) or capacities[0] < 0:
        raise ValueError(
            "capacity: `experiment.capacities` must be increasing and not negative, "
            f"got {tuple(capacities)}."
        )
    if config.method.name != "annealed_vae":
        raise ValueError(
            "capacity: `method.name` must be 'annealed_vae', whose objective holds the "
            f"KL divergence at a capacity, got {config.method.name!r}."
        )
    if config.lanes.sweep or config.train.start_from:
        raise ValueError(
            "capacity: `lanes.sweep` and `train.start_from` must be empty: the "
            "protocol sets capacities and starts."
        )
    if "mig" not in config.eval.scores:
        raise ValueError(
            "capacity: `eval.scores` must contain 'mig', whose mutual information "
            "tells which factors are known."
        )
    stages, before = [], ""
    for capacity in capacities:
        run = without_experiment(config, train__start_from=before)
        # The capacity is reached at once: the stages are the schedule.
        run.method.c_max, run.method.threshold = float(capacity), 1.0
        stages.append(Stage(_name(capacity), run))
        before = str(workdir / _name(capacity))
    return stages


def _name(capacity: float) -> str:
    return f"capacity-{capacity:g}"


def _result(
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    runs: Mapping[str, training.Run],
) -> Result:
    options = config.experiment
    found = {c: _measure(runs[_name(c)]) for c in map(float, options.capacities)}
    factors = runs[_name(options.capacities[0])].test_set.factor_names
    test_set = runs[_name(options.capacities[0])].test_set
    importance = {}
    if test_set.is_grid:
        importance = metrics.factor_importance(test_set, pairs=options.pairs)
    parts = [
        _table(found, factors, importance, options.known),
        reports.Figure(
            "divergences",
            "KL divergence of each latent against the capacity",
            "First seed, nats; sorted by the last capacity. Latents switch on one "
            "after the other.",
            reports.plots.lines(_latent_curves(found), "capacity (nats)", "KL (nats)"),
        ),
        reports.Figure(
            "factors",
            "What the code knows of each factor",
            "Mutual information of the latent that knows most, as a share of the "
            "factor's entropy; mean and standard deviation over seeds.",
            reports.plots.lines(
                {
                    factor: {
                        c: [seed["known"][k] for seed in seeds]
                        for c, seeds in found.items()
                    }
                    for k, factor in enumerate(factors)
                },
                "capacity (nats)",
                "share known",
            ),
        ),
        reports.Figure(
            "errors",
            "Reconstruction against the capacity",
            "Mean squared error on test images.",
            reports.plots.lines(
                {"mse": {c: [s["mse"] for s in seeds] for c, seeds in found.items()}},
                "capacity (nats)",
                "mse",
            ),
        ),
    ]
    values = {
        "capacities": {f"{c:g}": seeds for c, seeds in found.items()},
        "factor_importance": dict(importance),
    }
    return Result(f"Capacity on {config.data.name}", values, parts)


def _measure(run: training.Run) -> list[dict]:
    """Returns divergences, error and what is known of each factor, for each seed."""
    rng = np.random.default_rng(run.config.eval.seed)
    indices = rng.permutation(run.test_set.indices)[:_IMAGES]
    size = run.config.eval.batch_size
    method = run.method

    @jax.jit
    def divergences(state, images):
        mean, log_var, _ = method.encode(state, as_unit_interval(images))
        return losses.gaussian_kl_per_dim(mean, log_var).mean(0)

    found = []
    folders = training.evaluated_folders(run)
    for folder, model in zip(folders, training.load_trained(run)):
        parts = [
            divergences(model.state, run.test_set.images(indices[start : start + size]))
            for start in range(0, len(indices) - size + 1, size)
        ]
        scores = json.loads((folder / "scores.json").read_text())
        information = np.asarray(scores["metrics"]["mig"]["matrices"]["mi"])
        entropy = np.log(run.test_set.factor_sizes)
        found.append(
            {
                "divergences": np.mean(parts, axis=0).tolist(),
                "mse": scores["reconstruction"]["mse"],
                "known": (information.max(axis=0) / entropy).tolist(),
                "untrained": _systems.untrained(scores),
            }
        )
    return found


def _latent_curves(found: Mapping[float, list[dict]]) -> dict:
    table = np.array([seeds[0]["divergences"] for seeds in found.values()])
    order = np.argsort(-table[-1])
    return {
        f"z{latent + 1}": {c: [row[latent]] for c, row in zip(found, table)}
        for latent in order
    }


def first_known(shares: Mapping[float, list[float]], threshold: float) -> float | None:
    """Returns the first capacity from which on a factor is known, or None.

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
    found: Mapping[float, list[dict]],
    factors: tuple[str, ...],
    importance: Mapping[str, float],
    threshold: float,
) -> reports.Table:
    rows = []
    for k, factor in enumerate(factors):
        shares = {c: [seed["known"][k] for seed in s] for c, s in found.items()}
        first = first_known(shares, threshold)
        rows.append(
            [
                factor,
                "never" if first is None else f"{first:g}",
                spread(list(shares.values())[-1]),
                f"{importance[factor]:.4f}" if factor in importance else "-",
            ]
        )
    rows.sort(key=lambda row: (row[1] == "never", float(row[1].replace("never", "0"))))
    return reports.Table(
        "factors",
        "The capacity from which on each factor is known",
        f"Known: a latent holds at least {threshold:.0%} of the factor's entropy, from "
        "there on. Beside it the mean distance along the factor, by which a "
        "reconstruction loss should order them.",
        ("factor", "known from (nats)", "share at the end", "distance"),
        rows,
    )


PROTOCOL = Protocol(
    options={
        "capacities": (0.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5, 20.0, 22.5, 25.0),
        "known": 0.1,
        "pairs": 5000,
    },
    stages=_stages,
    result=_result,
)
