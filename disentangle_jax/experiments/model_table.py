"""Scores of many models beside the published ones ("Structure by Architecture").

Tables 1 to 4 and Figs. 2, 3, 5, 9 and 10: disentanglement scores, distances of
reconstructions and samples to real images, and the position of each factor in the
order of the latents.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np
import scipy.stats

from disentangle_jax import (
    data,
    evaluation,
    losses,
    metrics,
    reports,
    sampling,
    training,
)
from disentangle_jax.batching import in_batches
from disentangle_jax.experiments import protocol, published, systems
from disentangle_jax.methods import as_unit_interval

# Column of the paper's tables: score and key of scores.json.
_COLUMNS = {
    "DCI-d": ("dci", "disentanglement"),
    "IRS": ("irs", "irs"),
    "MIG": ("mig", "mig"),
    "SAP": ("sap", "sap"),
    "ModExp": ("modularity", "modularity"),
    "DCI-c": ("dci", "completeness"),
}
_VALIDATION_IMAGES = 2000

Numbers = Mapping[str, list[dict[str, float]]]


def published_scores(dataset: str) -> dict[str, dict[str, float]]:
    """Returns the paper's scores ``{model: {column: value}}``; empty if it has none.

    A rendered dataset has those of the dataset that it renders.
    """
    rows = published.table(
        "structure_by_architecture_scores", dataset=published.original(dataset)
    )
    return {row["model"]: {c: float(row[c]) for c in _COLUMNS} for row in rows}


@protocol.define(
    question="How do the scores of structural decoders compare with those of others?",
    reference="Leeb et al., Structure by Architecture: Structured Representations "
    "without Regularization, Tables 1-4, Figs. 2, 3, 5, 9 and 10",
    options={
        "models": tuple(published_scores("shapes3d")),
        "betas": (2.0, 4.0, 6.0, 8.0, 16.0),
    },
)
class ModelTable(protocol.Protocol):
    """One stage per model; the beta-VAE has the beta with the best validation loss."""

    def stages(self, config, workdir):
        options = config.experiment
        protocol.check_given(config, "models")
        instead = "; sweep `lanes.seeds`, and `experiment.betas` for the beta-VAE"
        protocol.check_empty(config, "lanes.sweep", instead=instead)
        stages = []
        for name in options.models:
            rows = ()
            if name == "beta_vae":
                protocol.check_given(config, "betas")
                rows = [{"method.beta": float(beta)} for beta in options.betas]
            stages.append(protocol.Stage(name, systems.fields(name), rows))
        return stages

    def result(self, config, workdir, models):
        found, chosen = dict(models), None
        if "beta_vae" in found:
            chosen = choose_beta(found["beta_vae"])
            found["beta_vae"] = [
                model for model in found["beta_vae"] if model.hyper["beta"] == chosen
            ]
        values = {
            name: [_numbers(model) for model in group] for name, group in found.items()
        }
        weak = [
            name
            for name, group in found.items()
            if any(protocol.untrained(model.scores) for model in group)
        ]
        parts = [
            _score_table(config.data.name, values, weak, chosen),
            _error_table(values, weak),
            *_bars(values),
            *_orderings(found),
        ]
        written = {"scores": values, "untrained": weak, "beta": chosen}
        return protocol.Result(f"Models on {config.data.name}", written, parts)


def choose_beta(models: Sequence[protocol.Model]) -> float:
    """Returns the beta whose models have the smallest mean validation loss (A.2.2).

    The loss is the beta-VAE's own, so a larger beta weighs the KL term more.
    """
    config = models[0].run.config
    validation = training.load_split(config, "validation")
    rng = np.random.default_rng(config.eval.seed)
    indices = rng.permutation(validation.indices)[:_VALIDATION_IMAGES]
    means = {
        beta: np.mean(
            [_validation_loss(m.load(), validation, indices, beta) for m in group]
        )
        for beta, group in protocol.grouped(
            models, lambda model: model.hyper["beta"]
        ).items()
    }
    return min(means, key=means.__getitem__)


def _validation_loss(
    model: evaluation.Trained, dataset: data.Dataset, indices: np.ndarray, beta: float
) -> float:
    method = model.run.method

    @jax.jit
    def loss(key, images):
        x = as_unit_interval(images)
        mean, log_var, _ = method.encode(model.state, x)
        z = sampling.reparameterize(key, mean, log_var)
        logits = method.decode(model.state, z)
        kl = losses.gaussian_kl(mean, log_var)
        return method.likelihood.loss(x, logits) + beta * kl

    def of_batch(batch):
        key = jax.random.fold_in(jax.random.key(0), int(batch[0]))
        return loss(key, dataset.images(batch))

    size = model.run.config.eval.batch_size
    return float(in_batches(of_batch, indices, size).mean(dtype=np.float64))


def _numbers(model: protocol.Model) -> dict[str, float]:
    """Returns the columns of one model, by the paper's names, and its errors."""
    found = model.scores["metrics"]
    numbers = {
        column: protocol.value(model.scores, score, key)
        for column, (score, key) in _COLUMNS.items()
        if score in found
    }
    distances = found.get("fid", {"values": {}})["values"]
    numbers |= {f"FID {name}": distance for name, distance in distances.items()}
    return numbers | model.scores["reconstruction"]


def _score_columns(values: Numbers) -> list[str]:
    return [c for c in _COLUMNS if all(c in group[0] for group in values.values())]


def _score_table(
    dataset: str, values: Numbers, weak: list[str], beta: float | None
) -> reports.Table:
    paper = published_scores(dataset)
    columns = _score_columns(values)
    rows = []
    for name, models in values.items():
        label = name + (f" (beta {beta:g})" if name == "beta_vae" else "")
        row = [protocol.marked(label, name in weak)]
        for column in columns:
            ours = protocol.spread([model[column] for model in models])
            theirs = paper.get(name, {}).get(column)
            row.append(ours if theirs is None else f"{ours} [{theirs:.3f}]")
        rows.append(row)
    return reports.Table(
        "scores",
        "Disentanglement scores",
        "Mean ± standard deviation over seeds; in brackets the paper's values, after "
        "100,000 steps with 64 channels."
        + (published.note(dataset) if paper else "")
        + " `ModExp` is the modularity score, as in the paper's code. `untrained`: the "
        "error of a model is above half that of the mean image; not to be ranked.",
        ("model", *columns),
        rows,
    )


def _error_table(values: Numbers, weak: list[str]) -> reports.Table:
    columns = [
        name
        for name in next(iter(values.values()))[0]
        if name.startswith("FID") or name in ("mse", "mse_of_mean_image")
    ]
    return reports.Table(
        "errors",
        "Reconstruction and samples",
        "Mean squared error per pixel on test images, beside that of the mean image; "
        "Inception distances where weights were given.",
        ("model", *columns),
        [
            [
                protocol.marked(name, name in weak),
                *(protocol.spread([m[c] for m in models], ".4f") for c in columns),
            ]
            for name, models in values.items()
        ],
    )


def _bars(values: Numbers) -> Iterator[reports.Figure]:
    columns = _score_columns(values)
    if columns:
        drawn = {
            column: {name: [m[column] for m in v] for name, v in values.items()}
            for column in columns
        }
        yield reports.Figure(
            "bars",
            "Scores over seeds",
            "Each cross is a seed, the bar their mean, the line one standard "
            "deviation. Higher is better.",
            reports.plots.score_bars(drawn, columns),
        )


def _orderings(found: Mapping[str, list[protocol.Model]]) -> Iterator[reports.Table]:
    """Yields the positions of the factors in the order of the latents."""
    rows, factors = [], ()
    for name, models in found.items():
        positions = []
        for scores in (model.scores for model in models):
            matrices = scores["metrics"].get("mig", {"matrices": {}})["matrices"]
            if "mi" in matrices:
                factors = scores["settings"]["factors"]
                positions.append(list(metrics.ordering(matrices["mi"]).values()))
        if positions:
            rows.append([name, *map(interval, np.asarray(positions).T)])
    if rows:
        yield reports.Table(
            "ordering",
            "Position of each factor in the order of the latents",
            "Position weighted by mutual information: 0 is the first variable, 1 the "
            "last; a model without order has 0.5 on average. `spread` is the largest "
            "difference between two factors. Means with 95 % intervals over seeds "
            "(Student's t).",
            ("model", "spread", *factors),
            rows,
        )


def interval(values: np.ndarray) -> str:
    """Returns ``mean [low, high]``, the 95 % interval of a mean over seeds."""
    values = np.asarray(values, float)
    mean = values.mean()
    if len(values) < 2:
        return f"{mean:.2f}"
    half = scipy.stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1)
    half /= math.sqrt(len(values))
    return f"{mean:.2f} [{mean - half:.2f}, {mean + half:.2f}]"
