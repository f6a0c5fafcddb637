"""Do autoencoders with quantised codes disentangle better than VAEs?

QLAE and Tripod beside the structural autoencoder SAE-12, beta-TCVAE and FactorVAE, on
the same images with the same number of latents and steps (Hsu et al., "Disentanglement
via Latent Quantization", 2023, and "Tripod", 2024, compare them with VAEs).
"""

from collections.abc import Mapping
from typing import Any

from disentangle_jax import evaluation, reports
from disentangle_jax.experiments import protocol
from disentangle_jax.types import unknown_name

# Fields of each system; its network is the config's unless it has one of its own.
SYSTEMS: dict[str, dict[str, Any]] = {
    "qlae": {
        "model.stochastic": False,
        "method": {"name": "qlae"},
        "optimizer.weight_decay": 0.1,
        "optimizer.clip": 1.0,
    },
    "tripod": {
        "model.stochastic": False,
        "method": {"name": "tripod", "perturbations": 4},
        "optimizer.clip": 1.0,
        # At first, second differences of its small codes are rounding errors.
        "train.schedules": {"lambda_hessian": ("linear", 0.0, 1.0, 500, 1000)},
    },
    "sae-12": {
        "model": {"name": "sae-12", "latent_dim": 12, "channels": 64},
        "method": {"name": "ae"},
    },
    "beta_tc_vae": {"method": {"name": "beta_tc_vae", "beta": 4.0}},
    "factor_vae": {"method": {"name": "factor_vae", "gamma": 10.0}},
}
# Columns of the table: score and key of scores.json.
_COLUMNS = {
    "InfoM": ("info_mec", "modularity"),
    "InfoE": ("info_mec", "explicitness"),
    "InfoC": ("info_mec", "compactness"),
    "latents": ("info_mec", "active_latents"),
    "DCI-d": ("dci", "disentanglement"),
    "DCI-c": ("dci", "completeness"),
    "DCI-i": ("dci", "informativeness"),
    "MIG": ("mig", "mig"),
}
_NEEDED = ("info_mec", "dci", "mig")

Numbers = Mapping[str, list[dict[str, float | None]]]


@protocol.define(
    question="Do autoencoders with quantised codes disentangle better than VAEs?",
    reference="Hsu et al., Disentanglement via Latent Quantization, and Tripod: Three "
    "Complementary Inductive Biases for Disentangled Representation Learning",
    options={"models": tuple(SYSTEMS)},
)
class Quantised(protocol.Protocol):
    """One stage per system."""

    def stages(self, config, workdir):
        protocol.check_given(config, "models")
        protocol.check_empty(
            config, "lanes.sweep", instead="; use `experiment.options`"
        )
        missing = [name for name in _NEEDED if name not in config.eval.scores]
        if missing:
            raise ValueError(
                "quantised: `eval.scores` must contain "
                f"{', '.join(map(repr, missing))}, which the table shows."
            )
        for name in config.experiment.models:
            if name not in SYSTEMS:
                raise unknown_name("quantised", "experiment.models", name, SYSTEMS)
        return [
            protocol.Stage(name, SYSTEMS[name]) for name in config.experiment.models
        ]

    def result(self, config, workdir, models):
        values = {name: [_numbers(m) for m in group] for name, group in models.items()}
        weak = [
            name
            for name, group in models.items()
            if any(protocol.untrained(model.scores) for model in group)
        ]
        parts = [
            _table(values, weak),
            *_bars(values),
            _pictures(models),
            _deviations(config),
        ]
        written = {"scores": values, "untrained": weak}
        title = f"Quantised codes on {config.data.name}"
        return protocol.Result(title, written, parts)


def _numbers(model: protocol.Model) -> dict[str, float | None]:
    found = {
        column: protocol.value(model.scores, score, key)
        for column, (score, key) in _COLUMNS.items()
    }
    return found | model.scores["reconstruction"]


def _table(values: Numbers, weak: list[str]) -> reports.Table:
    columns = (*_COLUMNS, "mse", "mse_of_mean_image")
    rows = []
    for name, models in values.items():
        row = [protocol.marked(name, name in weak)]
        for column in columns:
            found = [model.get(column) for model in models]
            row.append("–" if None in found else protocol.spread(found, ".3f"))
        rows.append(row)
    return reports.Table(
        "scores",
        "Scores",
        "Mean ± standard deviation over seeds. `latents` is the number of active ones. "
        "Higher is better, except for the errors per pixel, ours and that of the mean "
        "image. `untrained`: the error of a model is above half that of the mean "
        "image; not to be ranked.",
        ("model", *columns),
        rows,
    )


def _bars(values: Numbers) -> list[reports.Figure]:
    drawn = {}
    for column in ("InfoM", "InfoE", "InfoC", "DCI-d", "MIG"):
        bars = {name: [m[column] for m in models] for name, models in values.items()}
        if all(None not in found for found in bars.values()):
            drawn[column] = bars
    if not drawn:
        return []
    return [
        reports.Figure(
            "bars",
            "Scores over seeds",
            "Each cross is a seed, the bar their mean, the line one standard "
            "deviation. Higher is better.",
            reports.plots.score_bars(drawn, list(drawn)),
        )
    ]


def _pictures(models: protocol.Models) -> reports.Figure:
    sheets = []
    for name, group in models.items():
        arrays = evaluation.read_arrays(group[0].run.workdir)
        labels = reports.grids.latent_labels(
            group[0].scores["settings"]["latent_groups"]
        )
        sheets.append((name, reports.grids.sheet(arrays["traversals"][0], labels)))
    return reports.Figure(
        "traversals",
        "Latent traversals",
        "Each row varies one latent: a quantised one through its values, another from "
        "its minimum to its maximum over test images. First seed.",
        reports.grids.png(reports.grids.panels(sheets, 3)),
    )


def _deviations(config) -> reports.Text:
    lines = [
        "All systems but SAE-12 have the same convolutional network, "
        f"{config.model.name}; the authors' networks are larger and of other types.",
        f"{config.train.num_steps:,} steps of batch {config.train.batch_size}; the "
        "papers train for 200,000 (QLAE) and 250,000 (Tripod).",
        "Hyperparameters are not searched for each system as in the papers.",
    ]
    if config.data.name.startswith("rendered_"):
        lines.append(
            f"{config.data.name} is our rendering, not the publisher's dataset."
        )
    return protocol.deviations(*lines)
